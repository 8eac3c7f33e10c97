"""Sphinx extension of the hovers: what a link to a theorem, an equation, a source or a claim leads to, beside the link.

The texts lie in one script, which a page loads when a reader first rests on such a link: so they are there offline,
and cost nothing before.
"""

import json
from copy import copy
from pathlib import Path

from bs4 import BeautifulSoup, Tag
from docutils import nodes
from sphinx.application import Sphinx

from tools.ledger.claims import read_claims
from tools.notebooks import labels as numbering
from tools.notebooks.pages import ROOT
from tools.site.claims import badge

DATA = "_static/tips-data.js"


def names(doctree: nodes.document) -> list[str]:
    """The ids of theorems, numbered equations and sources."""
    labels = numbering.labels(ROOT)
    found = []
    for node in doctree.findall(lambda node: isinstance(node, nodes.Element) and bool(node.get("ids"))):
        theorem = node.get("title") and node["ids"][0] in labels
        if theorem or isinstance(node, (nodes.citation, nodes.math_block)):
            found.append(node["ids"][0])
    return found


def bare(tag: Tag) -> str:
    """The element as a tip: without ids, which belong to its page, and without the link to itself."""
    for link in tag.select("a.headerlink"):
        link.decompose()
    for part in [tag, *tag.find_all(id=True)]:
        del part["id"]
    return str(tag)


def collect(app: Sphinx, pagename: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    claims = {claim.id: claim for claim in read_claims(ROOT)} if pagename.endswith("/claims") else {}
    wanted = [*names(doctree), *claims] if doctree else []
    soup = BeautifulSoup(context["body"] if wanted else "", "html.parser")
    tips = app.env.__dict__.setdefault("book_tips", {})
    for name in wanted:
        for found in soup.find_all(id=name):
            # Of a claim's row, its verdict and what we find.
            row = (
                name in claims
                and f"{badge(claims[name].status)} {found.select('.ledger-finding p')[0].decode_contents()}"
            )
            tips[f"{pagename}.html#{name}"] = row or bare(copy(found))


def write(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        data = json.dumps(getattr(app.env, "book_tips", {}), ensure_ascii=False, sort_keys=True)
        (Path(app.outdir) / DATA).write_text(f"window.bookTips = {data};\n", encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", collect)
    app.connect("build-finished", write)
    app.add_js_file("tips.js", loading_method="defer")
