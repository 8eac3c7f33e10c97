"""Execute the pages, and hold their notebooks against them.

python -m tools.notebooks.execute --all | --changed | --check | --validate [STEM…] | STEM…
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import date
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from tools.notebooks import budget, meter, pages, programs
from tools.notebooks.pages import Page
from tools.notebooks.parallel import Done, side_by_side

TIMEOUT = 1800  # seconds for one cell

# Its own settings, not pyproject's: there a warning of any third party is an error.
NBVAL = (
    *f"-c {os.devnull} --noconftest -p no:cacheprovider -q --nbval --nbval-current-env".split(),
    f"--nbval-cell-timeout={TIMEOUT}",
    f"--nbval-sanitize-with={Path(__file__).with_name('sanitize.cfg')}",
)


def execute(page: Page, env: Mapping[str, str] = MappingProxyType({})) -> NotebookNode:
    """Run the page in a new kernel, in an empty folder: in a hosted notebook it stands alone, too."""
    notebook = pages.build(page)
    with TemporaryDirectory() as empty:
        kernel = {"kernel_name": "python3", "shutdown_kernel": "immediate", "extra_arguments": ["--log-level=ERROR"]}
        form = {"timeout": TIMEOUT, "record_timing": False, "coalesce_streams": True}
        try:
            client = NotebookClient(notebook, resources={"metadata": {"path": empty}}, **kernel, **form)
            client.execute(env=os.environ | env)
        except Exception as error:  # nbclient's own, or, on Ctrl-C, whatever its clean-up stumbles over
            raise SystemExit(
                f"\n{_failed_cell(page, notebook)}\n{str(error) or 'The kernel was stopped.'}\n"
                f"{page.ipynb.name} is left as it was."
            ) from None
    notebook.metadata[pages.RUN] = circumstances()
    return pages.with_outputs(page, notebook)


def circumstances() -> dict[str, str]:
    """When, with what and on what a page is executed, as its notebook keeps it."""
    versions = {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy", "optax")}
    machine = f"{os.cpu_count()} cores, {platform.system()} on {platform.machine()}"
    return {"date": f"{date.today()}", "python": platform.python_version(), **versions, "machine": machine}


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
    if len(todo) == 1:
        run_one(todo[0])
        return
    seconds = {}
    with closing(apart(todo)) as finished:
        for done in finished:
            if done.status:
                raise SystemExit(f"\n{done.output.strip()}")
            seconds[done.name] = done.seconds
            print(f"[{len(seconds)}/{len(todo)}] {done.name} {done.seconds:.1f} s", flush=True)
    table(seconds)


def run_one(page: Page) -> None:
    print(f"{page.stem} …", end=" ", flush=True)
    start = time.perf_counter()
    with programs.borrowed() as kept:
        notebook = execute(page, programs.environment(kept))
    defects = pages.pair_defects(page, notebook)
    if defects:
        raise SystemExit("\n" + "\n".join([*defects, f"{page.ipynb.name} is left as it was."]))
    save(page, notebook)
    print(f"{time.perf_counter() - start:.1f} s", flush=True)


def apart(todo: list[Page], *flags: str) -> Iterator[Done]:
    """Each page in a process of its own."""
    command = [sys.executable, "-m", "tools.notebooks.execute", *flags]
    return side_by_side({page.stem: [*command, f"--root={page.root}", page.stem] for page in longest_first(todo)})


def longest_first(todo: list[Page]) -> list[Page]:
    """By the size of the text: where several run at once, a long one must not come last."""
    return sorted(todo, key=lambda page: -page.md.stat().st_size)


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


def validate(todo: list[Page]) -> None:
    """Run the notebooks again, in this environment: what comes out against them, their programs against the budget."""
    seconds, failed = {}, []
    with closing(apart(todo, "--reproduce")) as finished:
        for done in finished:
            print(done.output.rstrip(), flush=True)
            seconds[done.name] = done.seconds
            failed += [done.name] if done.status else []
    table(seconds)
    if failed:
        raise SystemExit(f"Other outputs than the notebooks hold, or too many programs: {', '.join(sorted(failed))}")


def reproduces(page: Page, env: Mapping[str, str] = MappingProxyType({})) -> bool:
    """Whether the notebook's cells, executed again, show what it holds."""
    command = [sys.executable, "-m", "pytest", *NBVAL, f"--rootdir={page.root}", str(page.ipynb)]
    return subprocess.run(command, cwd=page.root, env=os.environ | env).returncode == 0


def reproduce(page: Page) -> None:
    """Execute the notebook again, for its outputs and for its budget of programs."""
    with programs.borrowed() as kept, meter.watched() as (env, records):
        same = reproduces(page, env | programs.environment(kept))
        compiled = sum(cell["programs"] + cell["cached"] for cell in meter.read(records))
    other = "" if budget.binding(page) else f", which holds for jax {budget.meant_for(page.root)} only"
    print(f"{page.stem}: {compiled} programs of {budget.allowed(page)}{other}", flush=True)
    over = budget.defects(page, compiled)
    if over or not same:
        raise SystemExit("\n".join(over) or 1)


def table(seconds: Mapping[str, float]) -> None:
    """Print what each page costs."""
    if seconds:
        width = max(map(len, [*seconds, "total"]))
        for stem, spent in [*sorted(seconds.items()), ("total", sum(seconds.values()))]:
            print(f"{stem:<{width}} {spent:8.1f} s", flush=True)


def named(root: Path, stems: list[str]) -> list[Page]:
    known = {page.stem: page for page in pages.code_pages(root)}
    unknown = [stem for stem in stems if stem not in known]
    if unknown:
        raise SystemExit(f"No page with code is called {', '.join(unknown)}; there are: {', '.join(known) or 'none'}")
    return [known[stem] for stem in stems]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks.execute", description=__doc__.splitlines()[0])
    parser.add_argument("stems", nargs="*", metavar="STEM", help="execute these pages")
    modes = parser.add_mutually_exclusive_group()
    for mode, text in {
        "all": "execute every page",
        "changed": "execute the pages that their notebooks do not match",
        "check": "compare pages and notebooks, executing nothing",
        "validate": "check, then execute the notebooks again, all or those named, and compare their outputs",
        "reproduce": argparse.SUPPRESS,
    }.items():
        modes.add_argument(f"--{mode}", dest="mode", action="store_const", const=mode, help=text)
    parser.add_argument("--root", type=Path, default=pages.ROOT, help="the checkout (default: this one)")
    args = parser.parse_args(argv)
    wrong = ("all", "changed", "check") if args.stems else (None, "reproduce")
    if args.mode in wrong:
        parser.error("name pages, or give one of --all, --changed, --check, --validate")
    root = args.root.resolve()
    todo = named(root, args.stems) if args.stems else pages.code_pages(root)
    try:
        match args.mode:
            case "changed":
                run_changed(root)
            case "check":
                check(root)
            case "validate":
                check(root)
                validate(todo)
            case "reproduce":
                reproduce(todo[0])
            case _:
                run(todo)
    except KeyboardInterrupt:
        raise SystemExit("\nInterrupted; the notebooks are whole.") from None


if __name__ == "__main__":
    main()
