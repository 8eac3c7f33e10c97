"""Execute pages without Jupyter: python -m studies.trust.executed [STEM [FILE]]

A page stops at the first cell that fails. FILE lists the functions of the checkout that the page called, by source file
and qualified name. Without STEM, all pages run, each in its own process, and the last line counts how many passed.
"""

import argparse
import inspect
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tools.notebooks import pages
from tools.notebooks.pages import Page

# Wraps the execution of a cell, given its name and source.
Around = Callable[[str, str], AbstractContextManager[None]]


def execute(page: Page, around: Around = lambda name, source: nullcontext()) -> None:
    """Run the page's own cells one after the other in this process, without showing figures."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.show = lambda *args, **kwargs: None
    space: dict[str, Any] = {"__name__": "__main__"}
    for name, source in pages.own_code(page):
        with around(name, source):
            exec(compile(source, name, "exec", dont_inherit=True), space)
        plt.close("all")


def watched(page: Page) -> set[tuple[str, str]]:
    """The functions of the checkout that the page's cells call: file and qualified name."""
    seen: set[CodeType] = set()

    def called(frame: FrameType, event: str, argument: object) -> None:
        seen.add(frame.f_code)

    threading.settrace(called)
    sys.settrace(called)
    try:
        execute(page)
    finally:
        sys.settrace(None)
        threading.settrace(None)
    root = f"{page.root}/"
    ours = (code for code in seen if code.co_filename.startswith(root) and code.co_flags & inspect.CO_OPTIMIZED)
    return {(code.co_filename.removeprefix(root), code.co_qualname.replace(".<locals>", "")) for code in ours}


def all_pages(root: Path) -> int:
    """Run every page; print a last line like that of pytest, and return how many failed."""
    start, failed, todo = time.perf_counter(), 0, pages.code_pages(root)
    for page in todo:
        done = subprocess.run([sys.executable, "-m", "studies.trust.executed", page.stem], cwd=root)
        print(f"{page.stem}: {'failed' if done.returncode else 'passed'}", flush=True)
        failed += bool(done.returncode)
    counts = f"{len(todo) - failed} passed" + (f", {failed} failed" if failed else "")
    print(f"{counts} in {time.perf_counter() - start:.1f}s")
    return failed


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.trust.executed", description="Execute pages.")
    parser.add_argument("stem", metavar="STEM", nargs="?", help="the page (default: all)")
    parser.add_argument("file", metavar="FILE", type=Path, nargs="?", help="where to list the functions")
    args = parser.parse_args(argv)
    if args.stem is None:
        sys.exit(all_pages(pages.ROOT))
    page = Page(pages.ROOT, args.stem)
    if args.file is None:
        execute(page)
    else:
        args.file.write_text("".join(f"{file}\t{name}\n" for file, name in sorted(watched(page))), encoding="utf-8")


if __name__ == "__main__":
    main()
