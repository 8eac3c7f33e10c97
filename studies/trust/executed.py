"""Execute pages without Jupyter: python -m studies.trust.executed [STEM [FILE]]

A page ends with the first cell that fails. FILE gets a line for each function of the checkout that ran: its source, and
the line where it begins. Without STEM it is all pages, each in a process of its own, and how many of them passed.
"""

import argparse
import inspect
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import CodeType, FrameType

from tools.notebooks import pages
from tools.notebooks.pages import Page


def execute(page: Page) -> None:
    """The page's own cells, one after the other, in this process."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.show = lambda *args, **kwargs: None
    space = {"__name__": "__main__"}
    for name, source in pages.own_code(page):
        exec(compile(source, name, "exec", dont_inherit=True), space)
        plt.close("all")


def watched(page: Page) -> set[tuple[str, int]]:
    """The functions of the checkout that the page's cells call."""
    seen: set[CodeType] = set()

    def called(frame: FrameType, event: str, argument: object) -> None:
        seen.add(frame.f_code)

    threading.settrace(called)
    sys.settrace(called)
    try:
        execute(page)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    root = f"{page.root}/"
    ours = (code for code in seen if code.co_filename.startswith(root) and code.co_flags & inspect.CO_OPTIMIZED)
    return {(code.co_filename.removeprefix(root), code.co_firstlineno) for code in ours}


def around(source: str, line: int) -> int:
    """Where the innermost function begins that holds this line; 1 outside of all, for what runs on import."""

    def inside(code: CodeType) -> Iterable[tuple[int, int]]:
        lines = [number for *_, number in code.co_lines() if number]
        if code.co_flags & inspect.CO_OPTIMIZED and min(lines) <= line <= max(lines):
            yield max(lines) - min(lines), code.co_firstlineno
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from inside(constant)

    return min(inside(compile(source, "source", "exec")), default=(0, 1))[1]


def all_pages(root: Path) -> int:
    """How many pages failed; told in a line like that of a test run."""
    start, failed, todo = time.perf_counter(), 0, pages.code_pages(root)
    for page in todo:
        done = subprocess.run([sys.executable, "-m", "studies.trust.executed", page.stem], cwd=root)
        print(f"{page.stem}: {'failed' if done.returncode else 'passed'}", flush=True)
        failed += bool(done.returncode)
    counts = f"{len(todo) - failed} passed" + (f", {failed} failed" if failed else "")
    print(f"{counts} in {time.perf_counter() - start:.1f}s")
    return failed


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.trust.executed", description=__doc__.partition(":")[0])
    parser.add_argument("stem", metavar="STEM", nargs="?", help="the page (default: all)")
    parser.add_argument("file", metavar="FILE", type=Path, nargs="?", help="where to list the functions")
    args = parser.parse_args(argv)
    if args.stem is None:
        sys.exit(all_pages(pages.ROOT))
    page = Page(pages.ROOT, args.stem)
    if args.file is None:
        execute(page)
    else:
        args.file.write_text("".join(f"{name}\t{line}\n" for name, line in sorted(watched(page))), encoding="utf-8")


if __name__ == "__main__":
    main()
