"""Compare the pages with their notebooks, then run these again and compare outputs:
python -m tools validate [NAME…]
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.notebooks import execute, pages
from tools.notebooks.pages import Book, Page


def command(todo: Sequence[Page]) -> list[str]:
    """Run these notebooks again with nbval, each in one process."""
    # Not with the settings of pyproject.toml, which turn a warning of any package into
    # an error.
    alone = f"-c {os.devnull} --noconftest -p no:cacheprovider -q --durations=12"
    nbval = f"--nbval --nbval-current-env --nbval-cell-timeout={execute.TIMEOUT} --dist=loadfile"
    return [
        *f"{sys.executable} -m pytest {alone} {nbval}".split(),
        f"--nbval-sanitize-with={Path(__file__).with_name('sanitize.cfg')}",
        f"-n{'auto' if len(todo) > 1 else 0}",
        f"--rootdir={todo[0].book.root}",
        *(str(page.ipynb) for page in todo),
    ]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools validate", description="Run notebooks again."
    )
    parser.add_argument(
        "stems", nargs="*", metavar="NAME", help="these pages (default: all)"
    )
    parser.add_argument(
        "--root", type=Path, default=pages.ROOT, help="the checkout (default: this one)"
    )
    args = parser.parse_args(argv)
    book = Book(args.root.resolve())
    # nbval passes a notebook that was never executed, so we look for missing outputs
    # first.
    if not args.stems:
        execute.check(book)
    todo = execute.named(book, args.stems) if args.stems else book.code_pages
    for page in todo if args.stems else ():
        if defects := page.typed_numbers():
            raise SystemExit("\n".join(defects))
        if not execute.refresh(page):
            raise SystemExit(
                f"book/{page.stem}.md has changed code; run: make notebook "
                f"NAME={page.stem}"
            )
    if subprocess.run(command(todo), cwd=book.root).returncode:
        raise SystemExit("Some outputs differ from those in the notebooks.")
