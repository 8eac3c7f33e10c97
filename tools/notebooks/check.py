"""One page, its claims, and the tests of what it imports: python -m tools.notebooks.check STEM"""

import sys
import time
from contextlib import closing

from tools.notebooks import execute as notebooks
from tools.notebooks import pages
from tools.notebooks.imports import parts_imported
from tools.notebooks.pages import Page
from tools.notebooks.parallel import cores, side_by_side

# The claims: what checks them, and the ledger.
ALWAYS = ("test_claims.py", "test_ledger.py")
# Every page imports these, whatever it is about.
EVERYWHERE = {"book", "_validate"}


def tests_of(page: Page) -> list[str]:
    """The doctests of what the page imports, and the test files that need nothing else of lsalib."""
    parts = parts_imported("\n".join(cell.source for cell in pages.code_cells(pages.build(page))))
    modules = [
        path
        for part in sorted(parts)
        for path in (page.root / "lsalib" / part, page.root / f"lsalib/{part}.py")
        if path.exists()
    ]
    files = []
    for path in sorted((page.root / "tests").glob("*/test_*.py")):
        needs = parts_imported(path.read_text(encoding="utf-8")) - EVERYWHERE
        if path.name in ALWAYS or (needs and needs <= parts):
            files.append(path)
    return [str(path.relative_to(page.root)) for path in (*modules, *files)]


def commands(page: Page) -> dict[str, list[str]]:
    """Execute the page again if it still matches its notebook, and the tests beside it."""
    python = [sys.executable, "-m"]
    return {
        page.stem: [*python, "tools.notebooks.execute", f"--root={page.root}", "--reproduce", page.stem],
        "tests": [
            *python,
            "pytest",
            "-q",
            f"-n{max(1, cores() - 1)}",
            "--dist=loadfile",
            "--durations=5",
            *tests_of(page),
        ],
    }


def main(argv: list[str] | None = None) -> None:
    (stem,) = sys.argv[1:] if argv is None else argv
    (page,) = notebooks.named(pages.ROOT, [stem])
    start = time.perf_counter()
    if pages.pair_defects(page, pages.load(page)) and not notebooks.refresh(page):
        raise SystemExit(f"book/{stem}.md has other code than its notebook ran; run: make notebook NAME={stem}")
    failed = []
    with closing(side_by_side(commands(page))) as finished:
        for done in finished:
            print(f"{done.output.rstrip()}\n{done.name}: {done.seconds:.1f} s", flush=True)
            failed += [done.name] if done.status else []
    print(f"in all {time.perf_counter() - start:.1f} s")
    if failed:
        raise SystemExit(f"Failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
