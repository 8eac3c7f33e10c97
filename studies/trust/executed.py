"""Execute a page without Jupyter: python -m studies.trust.executed STEM [FILE]

The page stops at the first cell that fails. FILE lists the functions of the checkout that the page called, by source
file and qualified name.
"""

import argparse
import inspect
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tools.notebooks import pages
from tools.notebooks.pages import Page


def execute(page: Page) -> None:
    """Run the page's own cells one after the other in this process, without showing figures."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.show = lambda *args, **kwargs: None
    space: dict[str, Any] = {"__name__": "__main__"}
    for name, source in pages.own_code(page):
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


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.trust.executed", description="Execute a page.")
    parser.add_argument("stem", metavar="STEM", help="the page")
    parser.add_argument("file", metavar="FILE", type=Path, nargs="?", help="where to list the functions")
    args = parser.parse_args(argv)
    page = Page(pages.ROOT, args.stem)
    if args.file is None:
        execute(page)
    else:
        args.file.write_text("".join(f"{file}\t{name}\n" for file, name in sorted(watched(page))), encoding="utf-8")


if __name__ == "__main__":
    main()
