"""Sphinx extension of the book: buttons only for what is there, an address that exists, folds on the page."""

import os

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

THEME_HOSTS = ("github", "gitlab", "bitbucket")
# The label would hide the title, which says what is inside.
UNNAMED = '<summary aria-label="Toggle hidden content">'
FOLDS = """<div class="folds pst-js-only">
<button type="button" data-folds="open">Open everything</button>
<button type="button" data-folds="closed">Close everything</button>
</div>"""


def add_buttons(app: Sphinx, config: Config) -> None:
    """Offer the repository, and Colab where it can open one; the theme fails on an address it does not know.

    BOOK_COLAB=no in the environment leaves Colab out: the repository's own notebooks do not hold the address.
    """
    options = config.html_theme_options
    address = options.pop("repository_url", "")
    if any(host in address for host in THEME_HOSTS):
        options |= {"repository_url": address, "use_repository_button": True}
    elif address.startswith("http"):
        options["icon_links"] = [{"name": "Repository", "url": address, "icon": "fa-solid fa-code-branch"}]
    if address.startswith("https://github.com/") and os.environ.get("BOOK_COLAB") != "no":
        options["launch_buttons"] = {"colab_url": "https://colab.research.google.com"}


def add_fold_buttons(app: Sphinx, pagename: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Below the title of a page with folds; what the buttons do is in book.js, without which they are not shown."""
    if "<details" in context.get("body", ""):
        named = context["body"].replace(UNNAMED, "<summary>")
        context["body"] = named.replace("</h1>", f"</h1>\n{FOLDS}", 1)


def drop_shared_ids(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """The contents of all theorems have one id, which no link needs and a page may have once only."""
    for section in doctree.findall(nodes.section):
        if section["ids"] == ["proof-content"]:
            section["ids"] = []


def setup(app: Sphinx) -> None:
    app.connect("config-inited", add_buttons)
    app.connect("doctree-resolved", drop_shared_ids)
    app.connect("html-page-context", add_fold_buttons)
