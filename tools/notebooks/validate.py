"""Compare the pages with their notebooks, then run these again and compare outputs."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.notebooks import execute
from tools.notebooks.pages import Book, Page


def command(todo: Sequence[Page]) -> list[str]:
    """Run these notebooks again with nbval, each in one process."""
    # Not with the settings of pyproject.toml, which turn a warning of any package into
    # an error.
    alone = f"-c {os.devnull} --noconftest -p no:cacheprovider -q --durations=12"
    nbval = "--nbval --nbval-current-env --dist=loadfile"
    return [
        *f"{sys.executable} -m pytest {alone} {nbval}".split(),
        f"--nbval-cell-timeout={execute.TIMEOUT}",
        f"--nbval-sanitize-with={Path(__file__).with_name('sanitize.cfg')}",
        f"-n{'auto' if len(todo) > 1 else 0}",
        f"--rootdir={todo[0].book.root}",
        *(str(page.ipynb) for page in todo),
    ]


def main(args: argparse.Namespace) -> None:
    book = Book(args.root.resolve())
    todo = execute.named(book, args.names)
    # nbval passes a notebook that was never executed, so we look for missing outputs
    # first.
    if args.names:
        for page in todo:
            execute.refresh(page)
    execute.check(todo if args.names else book.pages.values())
    if subprocess.run(command(todo), cwd=book.root).returncode:
        raise SystemExit("Some outputs differ from those in the notebooks.")
