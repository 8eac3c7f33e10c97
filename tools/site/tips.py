"""Sphinx extension of the hovers: what a link to a theorem, an equation, a source or a claim leads to, beside the link.

The texts lie in one script, which a page loads when a reader first rests on such a link: so they are there offline,
and cost nothing before.
"""

import json
import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

from tools.ledger.claims import read_claims
from tools.notebooks import labels as numbering
from tools.notebooks.pages import ROOT
from tools.site.claims import badge

DATA = "_static/tips-data.js"


def element(html: str, name: str) -> str:
    """The element of this id, as the page has it; "" where there is none."""
    start = re.search(rf'<(\w+)[^>]* id="{re.escape(name)}"[^>]*>', html)
    if not start:
        return ""
    depth = 0
    for tag in re.finditer(rf"<(/?){start[1]}\b[^>]*>", html[start.start() :]):
        depth += -1 if tag[1] else 1
        if depth == 0:
            return html[start.start() : start.start() + tag.end()]
    return ""


def without_ids(html: str) -> str:
    """Without ids, which are the page's own, and without the way to itself."""
    return re.sub(r'<a class="headerlink".*?</a>| id="[^"]*"', "", html, flags=re.DOTALL)


def names(doctree: nodes.document) -> list[str]:
    """The ids of theorems, numbered equations and sources."""
    labels = numbering.labels(ROOT)
    found = []
    for node in doctree.findall(lambda node: isinstance(node, nodes.Element) and bool(node.get("ids"))):
        theorem = node.get("title") and node["ids"][0] in labels
        if theorem or isinstance(node, (nodes.citation, nodes.math_block)):
            found.append(node["ids"][0])
    return found


def claim_tips(html: str) -> dict[str, str]:
    """Each claim of the ledger, with its verdict: the first paragraph of its row."""
    rows = {claim: element(html, claim.id) for claim in read_claims(ROOT)}
    return {claim.id: f"{badge(claim.status)} {re.search('<p>(.*?)</p>', row, re.S)[1]}" for claim, row in rows.items()}


def collect(app: Sphinx, pagename: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    if doctree is None:
        return
    body = context["body"]
    found = {name: without_ids(element(body, name)) for name in names(doctree)}
    found |= claim_tips(body) if pagename.endswith("/claims") else {}
    tips = app.env.__dict__.setdefault("book_tips", {})
    tips |= {f"{pagename}.html#{name}": html for name, html in found.items() if html}


def write(app: Sphinx, error: Exception | None) -> None:
    if error is None:
        data = json.dumps(getattr(app.env, "book_tips", {}), ensure_ascii=False, sort_keys=True)
        (Path(app.outdir) / DATA).write_text(f"window.bookTips = {data};\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", collect)
    app.connect("build-finished", write)
    app.add_js_file("tips.js", loading_method="defer")
    # Pages are written in one process: what they show is collected there.
    return {"parallel_read_safe": True, "parallel_write_safe": False}
