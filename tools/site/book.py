"""Sphinx extension of the book's frame: how it reads a notebook, its buttons, its
folds, its list of sources.
"""

import os
import re

import nbformat
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.config import Config

from tools.notebooks import pages

# A cell's checks are folded with its code: their result needs no second fold.
RESULT = re.compile(
    r'<details class="claims"><summary>.*?</summary>(.*)</details>', re.DOTALL
)


def read(text: str) -> NotebookNode:
    """A notebook with the page's own text in place of its plain form."""
    notebook = nbformat.reads(text, as_version=4)
    page = pages.current().pages[notebook.metadata[pages.PAGE]]
    shown = page.with_outputs(notebook, plainly=False)
    for cell in pages.code_cells(shown):
        if pages.title(cell).startswith("Checks"):
            fold_checks(cell)
        cell.source = pages.TITLE.sub("", cell.source, count=1)
    return shown


def fold_checks(cell: NotebookNode) -> None:
    """One line for code and result.

    A check that fails stops its page, so what is shown has passed.
    """
    cell.metadata["tags"] = ["hide-cell", *cell.metadata["tags"]]
    for key, words in cell.metadata["mystnb"].items():
        cell.metadata["mystnb"][key] = f"✓ {words}"
    for output in cell.outputs:
        if "text/html" in output.get("data", {}):
            output.data["text/html"] = RESULT.sub(r"\1", output.data["text/html"])


def add_buttons(app: Sphinx, config: Config) -> None:
    """Buttons to the repository and to Colab, once there is an address on GitHub.

    BOOK_COLAB=no in the environment leaves Colab out: the repository's own notebooks do
    not hold the address.
    """
    options = config.html_theme_options
    address = options.pop("repository_url", "")
    if address.startswith("https://github.com/"):
        options |= {"repository_url": address, "use_repository_button": True}
        if os.environ.get("BOOK_COLAB") != "no":
            options["launch_buttons"] = {
                "colab_url": "https://colab.research.google.com"
            }


def setup(app: Sphinx) -> None:
    app.connect("config-inited", add_buttons)
