"""Test one page: its notebook again, the tests of what it imports, and the ledger: python -m tools check NAME"""

import argparse
import subprocess
import sys
import time

from tools.ledger import claims
from tools.notebooks import execute, pages, validate
from tools.notebooks.imports import parts_imported
from tools.notebooks.pages import Page

# Every page imports these.
EVERYWHERE = {"book", "_validate"}
# These take minutes, and do not depend on a page.
SLOW = ("test_certificates", "test_examples")


def tests_of(page: Page) -> list[str]:
    """The library's test files that import only parts of lsalib that the page imports too."""
    parts = parts_imported("\n".join(cell.source for cell in pages.code_cells(pages.build(page))))
    files = []
    for path in sorted((page.root / "tests/library").glob("test_*.py")):
        needs = parts_imported(path.read_text(encoding="utf-8")) - EVERYWHERE
        if needs and needs <= parts and not path.name.startswith(SLOW):
            files.append(str(path.relative_to(page.root)))
    return files


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools check", description="Test one page.")
    parser.add_argument("stem", metavar="NAME", help="the page")
    (page,) = execute.named(pages.ROOT, [parser.parse_args(argv).stem])
    start = time.perf_counter()
    if defects := pages.text_defects(page):
        raise SystemExit("\n".join(defects))
    if not execute.refresh(page):
        raise SystemExit(f"book/{page.stem}.md has changed code; run: make notebook NAME={page.stem}")
    commands = [validate.command([page])]
    if tests := tests_of(page):
        commands.append([sys.executable, "-m", "pytest", "-q", "-nauto", "--dist=loadfile", "--durations=5", *tests])
    failed = [subprocess.run(command, cwd=page.root).returncode for command in commands]
    claims.main([])
    print(f"{page.stem}: {time.perf_counter() - start:.1f} s in all")
    if any(failed):
        raise SystemExit(f"{page.stem}: tests failed")


if __name__ == "__main__":
    main()
