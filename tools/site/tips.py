"""Sphinx extension of the hovers: what a link to a theorem, an equation, a source or a
claim leads to, beside the link.

The texts lie in one script, which a page loads when a reader first rests on such a
link: so they are there offline, and cost nothing before.
"""

import json
from copy import copy
from pathlib import Path

from bs4 import BeautifulSoup, Tag
from docutils import nodes
from sphinx.application import Sphinx

DATA = "_static/tips-data.js"


def bare(tag: Tag) -> str:
    """The element as a tip: without ids, which belong to its page, and without the link
    to itself.
    """
    for link in tag.select("a.headerlink"):
        link.decompose()
    for part in [tag, *tag.find_all(id=True)]:
        del part["id"]
    return str(tag)


def collect(
    app: Sphinx,
    pagename: str,
    template: str,
    context: dict,
    doctree: nodes.document | None,
) -> None:
    """Theorems, numbered equations, sources; of a claim's row, its verdict and what we
    find.
    """
    if not pagename.startswith("book/"):
        return
    soup, tips = (
        BeautifulSoup(context["body"], "html.parser"),
        app.env.__dict__.setdefault("book_tips", {}),
    )
    for found in soup.select(".proof[id], div.math[id], .citation[id]"):
        tips[f"{pagename}.html#{found['id']}"] = bare(copy(found))
    for row in soup.select("table.ledger tr[id]"):
        (badge,) = row.select(".claim-status")
        (found,) = row.select("td:nth-last-child(2) > p:first-child")
        tips[f"{pagename}.html#{row['id']}"] = f"{badge} {found.decode_contents()}"


def write(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        data = json.dumps(
            getattr(app.env, "book_tips", {}), ensure_ascii=False, sort_keys=True
        )
        (Path(app.outdir) / DATA).write_text(
            f"window.bookTips = {data};\n", encoding="utf-8"
        )


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", collect)
    app.connect("build-finished", write)
    app.add_js_file("tips.js", loading_method="defer")
