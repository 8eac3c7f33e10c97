"""Execute the pages, and hold their notebooks against them: python -m tools.notebooks --all | --changed | --check | --validate | STEM…"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from tools import pages
from tools.pages import Page

TIMEOUT = 1800  # seconds for one cell

# Its own settings, not pyproject's: there a warning of any third party is an error.
NBVAL = ("-c", os.devnull, "-p", "no:cacheprovider", "-q", "--nbval", "--nbval-current-env", f"--nbval-cell-timeout={TIMEOUT}")


def execute(page: Page) -> NotebookNode:
    """Run the page in a new kernel, in an empty folder: in a hosted notebook it stands alone, too."""
    notebook = pages.build(page)
    with TemporaryDirectory() as empty:
        client = NotebookClient(
            notebook,
            kernel_name="python3",
            shutdown_kernel="immediate",
            timeout=TIMEOUT,
            record_timing=False,
            coalesce_streams=True,
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": empty}},
        )
        try:
            client.execute()
        except Exception as error:  # nbclient's own, or, on Ctrl-C, whatever its clean-up stumbles over
            raise SystemExit(f"\n{_failed_cell(page, notebook)}\n{str(error) or 'The kernel was stopped.'}\n{page.ipynb.name} is left as it was.") from None
    return pages.with_outputs(page, notebook)


def _failed_cell(page: Page, notebook: NotebookNode) -> str:
    started = [cell.id for cell in pages.code_cells(notebook) if cell.execution_count or cell.outputs]
    return f"book/{page.stem}.md stopped in cell {started[-1] if started else notebook.cells[0].id}:"


def save(page: Page, notebook: NotebookNode) -> None:
    """Replace the pair in one step, so that it is always whole."""
    part = page.ipynb.with_name(f".{page.ipynb.name}.part")
    try:
        part.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
        os.replace(part, page.ipynb)
    finally:
        part.unlink(missing_ok=True)


def refresh(page: Page) -> str:
    """Bring the pair up to date without running anything: "up to date", "prose renewed", or "" if that cannot do it."""
    notebook = pages.load(page)
    if not pages.pair_defects(page, notebook):
        return "up to date"
    if notebook is None or not pages.same_code(page, notebook):
        return ""
    renewed = pages.with_outputs(page, notebook)
    if pages.pair_defects(page, renewed):
        return ""
    save(page, renewed)
    return "prose renewed"


def run(todo: list[Page]) -> None:
    """Execute the pages and write the pair of each that turned out clean; stop at the first that did not."""
    seconds = {}
    for number, page in enumerate(todo, start=1):
        print(f"[{number}/{len(todo)}] {page.stem} …", end=" ", flush=True)
        start = time.perf_counter()
        notebook = execute(page)
        defects = pages.pair_defects(page, notebook)
        if defects:
            raise SystemExit("\n" + "\n".join([*defects, f"{page.ipynb.name} is left as it was."]))
        save(page, notebook)
        seconds[page.stem] = time.perf_counter() - start
        print(f"{seconds[page.stem]:.1f} s", flush=True)
    budget(seconds)


def run_changed(root: Path) -> None:
    todo = []
    for page in pages.code_pages(root):
        state = refresh(page)
        todo += [] if state else [page]
        print(f"{page.stem}: {state or 'to be executed'}")
    run(todo)


def check(root: Path) -> None:
    """Compare every page with its pair, and look for results that were typed by hand."""
    defects = pages.orphans(root)
    for page in pages.written_pages(root):
        defects += pages.text_defects(page)
        defects += pages.pair_defects(page, pages.load(page)) if page.has_code else []
    if defects:
        raise SystemExit("\n".join([*defects, f"Defects in book/: {len(defects)}"]))
    print(f"{len(pages.code_pages(root))} notebooks are what their pages say")


def reproduces(page: Page) -> bool:
    """Whether the notebook's cells, executed again, show what it holds."""
    command = [sys.executable, "-m", "pytest", *NBVAL, f"--rootdir={page.root}", str(page.ipynb)]
    return subprocess.run(command, cwd=page.root).returncode == 0


def validate(root: Path) -> None:
    """Run every notebook again, in this environment, and compare what comes out with what it holds."""
    check(root)
    seconds, failed = {}, []
    for page in pages.code_pages(root):
        start = time.perf_counter()
        if not reproduces(page):
            failed.append(page.stem)
        seconds[page.stem] = time.perf_counter() - start
    budget(seconds)
    if failed:
        raise SystemExit(f"Other outputs than the notebooks hold: {', '.join(failed)}")


def budget(seconds: dict[str, float]) -> None:
    """Print what each page costs."""
    if seconds:
        width = max(map(len, [*seconds, "total"]))
        for stem, spent in [*seconds.items(), ("total", sum(seconds.values()))]:
            print(f"{stem:<{width}} {spent:8.1f} s", flush=True)


def named(root: Path, stems: list[str]) -> list[Page]:
    known = {page.stem: page for page in pages.code_pages(root)}
    unknown = [stem for stem in stems if stem not in known]
    if unknown:
        raise SystemExit(f"No page with code is called {', '.join(unknown)}; there are: {', '.join(known) or 'none'}")
    return [known[stem] for stem in stems]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks", description="Execute the pages, and hold their notebooks against them.")
    parser.add_argument("stems", nargs="*", metavar="STEM", help="execute these pages")
    modes = parser.add_mutually_exclusive_group()
    for mode, text in {
        "all": "execute every page",
        "changed": "execute the pages that their notebooks do not match",
        "check": "compare pages and notebooks, executing nothing",
        "validate": "check, then execute the notebooks again and compare their outputs",
    }.items():
        modes.add_argument(f"--{mode}", dest="mode", action="store_const", const=mode, help=text)
    parser.add_argument("--root", type=Path, default=pages.ROOT, help="the checkout (default: this one)")
    args = parser.parse_args(argv)
    if bool(args.stems) == bool(args.mode):
        parser.error("name pages, or give one of --all, --changed, --check, --validate")
    root = args.root.resolve()
    try:
        match args.mode:
            case "changed":
                run_changed(root)
            case "check":
                check(root)
            case "validate":
                validate(root)
            case _:
                run(pages.code_pages(root) if args.mode else named(root, args.stems))
    except KeyboardInterrupt:
        raise SystemExit("\nInterrupted; the notebooks are whole.") from None


if __name__ == "__main__":
    main()
