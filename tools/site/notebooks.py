"""How the book reads a notebook: its outputs, with the page's own text in place of the notebook's plain form."""

import nbformat
from nbformat import NotebookNode

from tools.notebooks import fold, pages


def read(text: str) -> NotebookNode:
    """The notebook as the book builds it: its cells' ids say which page it belongs to."""
    notebook = nbformat.reads(text, as_version=4)
    stem = notebook.cells[0].id.rpartition("-")[0]
    shown = pages.with_outputs(pages.Page(pages.ROOT, stem), notebook, plainly=False)
    for cell in pages.code_cells(shown):
        cell.source = fold.without_title(cell.source)
    return shown
