"""Sphinx extension: the book shows a notebook's outputs with the text of its page, of which it has a plain form."""

import nbformat
from nbformat import NotebookNode
from sphinx.application import Sphinx

from tools.notebooks import fold, pages


def read(text: str) -> NotebookNode:
    """The notebook as the book builds it: its cells' ids say which page it belongs to."""
    notebook = nbformat.reads(text, as_version=4)
    stem = notebook.cells[0].id.rpartition("-")[0]
    shown = pages.with_outputs(pages.Page(pages.ROOT, stem), notebook, plainly=False)
    for cell in pages.code_cells(shown):
        cell.source = fold.without_title(cell.source)
    return shown


def setup(app: Sphinx) -> dict[str, bool]:
    return {"parallel_read_safe": True, "parallel_write_safe": True}
