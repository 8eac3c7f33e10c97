"""A book of one page that needs nothing but Python, for the tests of the notebook chain."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.notebooks import address

ROOT = Path(__file__).resolve().parent.parent

HEADER = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
    format_version: 0.13
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---
"""

PAGE = """
# A tiny page

The square is {glue:text}`square`.

```{code-cell} ipython3
from IPython.display import display

mime = "application/papermill.record/"
scrapbook = {"name": "square", "mime_prefix": mime}
display({mime + "text/plain": str(5.5**2 + 0.001)}, raw=True, metadata={"scrapbook": scrapbook})
```

The next cell shows the sum.

```{code-cell} ipython3
:tags: [sum]

2 + 2
```
"""


def make(root: Path, page: str = PAGE) -> Path:
    """Write the book, without its notebook; returns the page."""
    (root / "book").mkdir(parents=True)
    # Without an address, whichever the checkout has.
    (root / "_config.yml").write_text(address.config((ROOT / "_config.yml").read_text(), ""))
    (root / "_toc.yml").write_text("format: jb-book\nroot: book/tiny.ipynb\n")
    (root / "book/programs.toml").write_text("tiny = 0\n")
    md = root / "book/tiny.md"
    md.write_text(HEADER + page)
    return md


def dry_run(*args: str, **options) -> str:
    """What make would run in this checkout."""
    command = ["make", "--no-print-directory", "--dry-run", "PACKAGES=locked", *args]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, **options).stdout


def commit(root: Path) -> None:
    """Make a repository of the folder, with all that is in it."""
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost"]
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message=state"]):
        subprocess.run([*git, *command], cwd=root, check=True)


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"{path.name} holds no {old!r}"
    path.write_text(text.replace(old, new))


def edit(path: Path, change: Callable[[list[NotebookNode]], object]) -> None:
    """Change a notebook's cells in place, written as the tool writes them."""
    notebook = nbformat.read(path, as_version=4)
    change(notebook.cells)
    path.write_text(nbformat.writes(notebook) + "\n")
