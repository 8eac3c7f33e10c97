"""Execute pages and keep their notebooks up to date: python -m tools execute NAME… |
--all | --changed
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from tools.notebooks import install_cell, pages
from tools.notebooks.pages import Page

TIMEOUT = 1800  # seconds for one cell


def run_cells(
    page: Page, parameters: Mapping[str, object] | None = None
) -> NotebookNode:
    """The page's cells, run in a new kernel in an empty folder, since a hosted notebook
    stands alone too.

    Other parameters take effect right after the page's own, as papermill does it.
    """
    notebook = pages.build(page)
    if parameters:
        assignments = "\n".join(
            f"{name} = {value!r}" for name, value in parameters.items()
        )
        notebook.cells.insert(
            install_cell.parameters_place(notebook.cells) + 1,
            new_code_cell(assignments),
        )
    with TemporaryDirectory() as empty:
        client = NotebookClient(
            notebook, timeout=TIMEOUT, kernel_name="python3", shutdown_kernel="immediate", record_timing=False,
            coalesce_streams=True, resources={"metadata": {"path": empty}}, extra_arguments=["--log-level=ERROR"],
        )  # fmt: skip
        try:
            client.execute()
        except (
            Exception
        ) as error:  # nbclient's own or, after Ctrl-C, any error of its cleanup
            started = [
                cell.id
                for cell in pages.code_cells(notebook)
                if cell.execution_count or cell.outputs
            ]
            raise SystemExit(
                f"\nbook/{page.stem}.md stopped in cell {started[-1] if started else notebook.cells[0].id}:\n"
                f"{str(error) or 'The kernel was stopped.'}\n{page.ipynb.name} is unchanged."
            ) from None
    return notebook


def run_page(page: Page) -> None:
    """Execute the page; save it with date, versions and machine, unless something is
    wrong with it.
    """
    # an unknown claim or source stops here already
    pages.with_outputs(page, pages.build(page))
    start, ran = time.perf_counter(), run_cells(page)
    versions = {
        name: metadata.version(name) for name in ("jax", "jaxlib", "numpy", "optax")
    }
    run = {"date": f"{date.today()}", "python": platform.python_version(), **versions}
    ran.metadata[pages.RUN] = run | {
        "machine": f"{os.cpu_count()} cores, {platform.system()} on {platform.machine()}"
    }
    notebook = pages.with_outputs(page, ran)
    if defects := pages.pair_defects(page, notebook):
        raise SystemExit(
            "\n" + "\n".join([*defects, f"{page.ipynb.name} is unchanged."])
        )
    save(page, notebook)
    print(f"{page.stem}: executed in {time.perf_counter() - start:.1f} s", flush=True)


def save(page: Page, notebook: NotebookNode) -> None:
    """Write the notebook, with lines that end as on Unix."""
    page.ipynb.write_bytes(pages.written(notebook))


def refresh(page: Page) -> str:
    """Update the notebook without running anything: "up to date", "prose updated", or
    "" if it must be executed.
    """
    notebook = pages.load(page)
    if notebook is None:
        return ""
    defects = pages.pair_defects(page, notebook)
    # an equal notebook may be written in another way, such as with other line ends
    if not defects and page.ipynb.read_bytes() == pages.written(notebook):
        return "up to date"
    if pages.own_code(page, notebook) == pages.own_code(page):
        updated = pages.with_outputs(page, notebook)
        if not pages.pair_defects(page, updated):
            save(page, updated)
            return "prose updated"
    return ""


def run(todo: list[Page]) -> None:
    """Execute the pages, each in its own process if there are several, as many at a
    time as there are cores.
    """
    if len(todo) == 1:
        return run_page(todo[0])
    # The longest text comes first, so that no long page runs alone at the end.
    todo = sorted(todo, key=lambda page: -page.md.stat().st_size)
    commands = [
        [sys.executable, "-m", "tools", "execute", f"--root={page.root}", page.stem]
        for page in todo
    ]
    # After Ctrl-C, which reaches the processes too, the commands that wait in this pool
    # never start.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        done = pool.map(
            lambda command: subprocess.run(command, cwd=pages.ROOT), commands
        )
        failed = [
            page.stem
            for page, process in zip(todo, done, strict=True)
            if process.returncode
        ]
    if failed:
        raise SystemExit(f"Failed: {', '.join(failed)}")


def run_changed(root: Path) -> None:
    """Execute the pages whose code has changed since their notebooks were made."""
    states = {page: refresh(page) for page in pages.code_pages(root)}
    for page, state in states.items():
        print(f"{page.stem}: {state or 'to be executed'}", flush=True)
    run([page for page, state in states.items() if not state])


def check(root: Path) -> None:
    """Compare every page with its notebook, and look for results typed by hand."""
    defects = []
    for page in pages.written_pages(root):
        defects += pages.typed_numbers(page)
        defects += pages.pair_defects(page, pages.load(page)) if page.has_code else []
    if defects:
        raise SystemExit("\n".join([*defects, f"Defects in book/: {len(defects)}"]))
    print(f"{len(pages.code_pages(root))} notebooks match their pages", flush=True)


def named(root: Path, stems: list[str]) -> list[Page]:
    """The pages with these names."""
    known = {page.stem: page for page in pages.code_pages(root)}
    if unknown := [stem for stem in stems if stem not in known]:
        raise SystemExit(
            f"No page with code is called {', '.join(unknown)}; there are: {', '.join(known) or 'none'}"
        )
    return [known[stem] for stem in stems]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools execute", description="Execute pages."
    )
    parser.add_argument("stems", nargs="*", metavar="NAME", help="execute these pages")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--all", action="store_true", help="execute every page")
    modes.add_argument(
        "--changed",
        action="store_true",
        help="execute the pages that do not match their notebooks",
    )
    parser.add_argument(
        "--root", type=Path, default=pages.ROOT, help="the checkout (default: this one)"
    )
    args = parser.parse_args(argv)
    root = args.root.resolve()
    if bool(args.stems) == (args.all or args.changed):
        parser.error("name pages, or give --all or --changed")
    if args.changed:
        run_changed(root)
    else:
        run(named(root, args.stems) if args.stems else pages.code_pages(root))
