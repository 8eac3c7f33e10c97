"""Sphinx extension of the book's frame: how it reads a notebook, its buttons, its
folds, its list of sources.
"""

import os
import re

import nbformat
from docutils import nodes
from nbformat import NotebookNode
from sphinx.application import Sphinx
from sphinx.config import Config

from tools.notebooks import pages

# A cell's checks are folded with its code: their result needs no second fold.
RESULT = re.compile(
    r'<details class="claims"><summary>.*?</summary>(.*)</details>', re.DOTALL
)
# The label would hide the title, which says what is inside.
UNNAMED = '<summary aria-label="Toggle hidden content">'
FOLDS = """<div class="folds pst-js-only">
<button type="button" data-folds="open">Open everything</button>
<button type="button" data-folds="closed">Close everything</button>
</div>"""


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
    cell.metadata["mystnb"] |= {
        key: f"✓ {words}" for key, words in cell.metadata["mystnb"].items()
    }
    for data in (
        output.data
        for output in cell.outputs
        if "data" in output and "text/html" in output.data
    ):
        data["text/html"] = RESULT.sub(r"\1", data["text/html"])


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


def add_fold_buttons(
    app: Sphinx,
    pagename: str,
    template: str,
    context: dict,
    doctree: nodes.document | None,
) -> None:
    """Below the title of a page with folds; what the buttons do is in book.js, without
    which they are not shown.
    """
    if "<details" in context.get("body", ""):
        named = context["body"].replace(UNNAMED, "<summary>")
        context["body"] = named.replace("</h1>", f"</h1>\n{FOLDS}", 1)


def drop_shared_ids(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """The contents of all theorems have one id, which no link needs and a page may have
    once only.
    """
    for section in doctree.findall(nodes.section):
        if section["ids"] == ["proof-content"]:
            section["ids"] = []


def visit_citation(translator, node: nodes.citation) -> None:
    """A plain box: docutils makes list items of roles that no list may have."""
    translator.body.append(translator.starttag(node, "div", CLASS="citation"))


def depart_citation(translator, node: nodes.citation) -> None:
    translator.body.append("</div>\n")


def visit_label(translator, node: nodes.label) -> None:
    """The text cites by author and year; the list needs no second, shorter name."""
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.connect("config-inited", add_buttons)
    app.connect("doctree-resolved", drop_shared_ids)
    app.connect("html-page-context", add_fold_buttons)
    app.add_node(nodes.citation, override=True, html=(visit_citation, depart_citation))
    app.add_node(nodes.label, override=True, html=(visit_label, None))
