"""A book of one page that needs only Python, for tests of the notebooks."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

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
about = {"scrapbook": {"name": "square", "mime_prefix": mime}}
display({mime + "text/plain": str(5.5**2 + 0.001)}, raw=True, metadata=about)
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
    shutil.copy(ROOT / "_config.yml", root)
    write_address(root, "")
    (root / "_toc.yml").write_text("format: jb-book\nroot: book/tiny.ipynb\n")
    md = root / "book/tiny.md"
    md.write_text(HEADER + page)
    return md


def write_address(root: Path, url: str) -> None:
    """Write the repository's address into the book's _config.yml, whichever stands
    there.
    """
    config = root / "_config.yml"
    config.write_text(re.sub(r"(?m)^  url: .*", f'  url: "{url}"', config.read_text()))


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text, f"{path.name} holds no {old!r}"
    path.write_text(text.replace(old, new))


def edit(path: Path, change: Callable[[list[NotebookNode]], object]) -> None:
    """Change a notebook's cells in place."""
    notebook = nbformat.read(path, as_version=4)
    change(notebook.cells)
    path.write_text(nbformat.writes(notebook) + "\n")
