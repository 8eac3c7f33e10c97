"""Execute pages and keep their notebooks up to date."""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from datetime import date
from importlib import metadata
from tempfile import TemporaryDirectory

from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from tools.notebooks import install_cell, pages
from tools.notebooks.pages import Book, Page

TIMEOUT = 1800  # seconds for one cell


def run_cells(
    page: Page, parameters: Mapping[str, object] | None = None
) -> NotebookNode:
    """The page's cells, run in a new kernel in an empty folder, since a hosted notebook
    stands alone too.

    Other parameters take effect right after the page's own, as papermill does it.
    """
    notebook = deepcopy(page.built)
    if parameters:
        lines = [f"{name} = {value!r}" for name, value in parameters.items()]
        place = notebook.cells.index(install_cell.parameters(notebook.cells))
        notebook.cells.insert(place + 1, new_code_cell("\n".join(lines)))
    with TemporaryDirectory() as empty:
        client = NotebookClient(
            notebook,
            timeout=TIMEOUT,
            kernel_name="python3",
            shutdown_kernel="immediate",
            record_timing=False,
            coalesce_streams=True,
            resources={"metadata": {"path": empty}},
            extra_arguments=["--log-level=ERROR"],
        )
        try:
            client.execute()
        # nbclient's own or, after Ctrl-C, any error of its cleanup
        except Exception as error:
            place = notebook.cells[0].id
            for cell in pages.code_cells(notebook):
                if cell.execution_count or cell.outputs:
                    place = cell.id
            raise SystemExit(
                f"\nbook/{page.stem}.md stopped in cell {place}:\n"
                f"{str(error) or 'The kernel was stopped.'}\n"
                f"{page.ipynb.name} is unchanged."
            ) from None
    return notebook


def run_page(page: Page) -> None:
    """Execute the page; save it with date, versions and machine, unless something is
    wrong with it.
    """
    # an unknown claim or source stops here already
    page.with_outputs(page.built)
    start, ran = time.perf_counter(), run_cells(page)
    packages = ("jax", "jaxlib", "numpy", "optax")
    run = {"date": f"{date.today()}", "python": platform.python_version()}
    run |= {name: metadata.version(name) for name in packages}
    run["machine"] = (
        f"{os.cpu_count()} cores, {platform.system()} on {platform.machine()}"
    )
    ran.metadata[pages.RUN] = run
    notebook = page.with_outputs(ran)
    if defects := page.output_defects(notebook):
        said = "\n".join([*defects, f"{page.ipynb.name} is unchanged."])
        raise SystemExit(f"\n{said}")
    page.save(notebook)
    print(f"{page.stem}: executed in {time.perf_counter() - start:.1f} s", flush=True)


def refresh(page: Page) -> str:
    """Update the notebook without running anything: "up to date", "prose updated", or
    "" if it must be executed.
    """
    if page.stored is None or page.code(page.stored) != page.code(page.built):
        return ""
    notebook = page.with_outputs(page.stored)
    if page.output_defects(notebook):
        return ""
    if pages.written(notebook) == page.ipynb.read_bytes():
        return "up to date"
    page.save(notebook)
    return "prose updated"


def run(todo: list[Page]) -> None:
    """Execute the pages, each in its own process if there are several, as many at a
    time as there are cores.
    """
    if len(todo) == 1:
        return run_page(todo[0])
    command = [sys.executable, "-m", "tools", "execute"]

    def run_alone(page: Page) -> int:
        arguments = [f"--root={page.book.root}", page.stem]
        return subprocess.run([*command, *arguments], cwd=pages.ROOT).returncode

    # The longest text comes first, so that no long page runs alone at the end.
    todo = sorted(todo, key=lambda page: -len(page.text))
    # After Ctrl-C, which reaches the processes too, the pages that wait in this pool
    # never start.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        codes = [*pool.map(run_alone, todo)]
    failed = [page.stem for page, code in zip(todo, codes, strict=True) if code]
    if failed:
        raise SystemExit(f"Failed: {', '.join(failed)}")


def check(todo: Iterable[Page]) -> None:
    """Compare the pages with their notebooks, and look for results typed by hand."""
    defects, notebooks = [], 0
    for page in todo:
        defects += page.typed_numbers()
        if page.has_code:
            notebooks += 1
            defects += page.defects()
    if defects:
        raise SystemExit("\n".join([*defects, f"Defects in book/: {len(defects)}"]))
    print(f"{notebooks} notebooks match their pages", flush=True)


def named(book: Book, names: list[str]) -> list[Page]:
    """The pages with these names, or all that have code."""
    known = {page.stem: page for page in book.code_pages}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(
            f"No page with code is called {', '.join(unknown)}; there are: "
            f"{', '.join(known) or 'none'}"
        )
    return [known[name] for name in names or known]


def main(args: argparse.Namespace) -> None:
    todo = named(Book(args.root.resolve()), args.names)
    if args.changed:
        states = {page: refresh(page) for page in todo}
        for page, state in states.items():
            print(f"{page.stem}: {state or 'to be executed'}", flush=True)
        todo = [page for page, state in states.items() if not state]
    run(todo)
