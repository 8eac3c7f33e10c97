"""Sphinx extension of the claims: the box at a page's head, and verdicts that stand beside statements."""

import math
from collections.abc import Collection
from functools import cache
from html import escape

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

from tools.ledger.claims import STATUSES, Claim, Marked, read_claims, read_marks
from tools.notebooks.pages import ROOT

# Estimates for mathematical prose, at half the speed of plain prose. Nobody has timed readers.
WORDS_A_MINUTE, SECONDS_A_FORMULA, SECONDS_A_LINE_OF_CODE = 100, 12, 3
# What a reader opens only if he wants to.
FOLDED = ("dropdown", "cell_input", "claims", "toggle")
NOT_OPEN_CODE = ("dropdown", "toggle", "cell_output", "tag_hide-input", "tag_hide-cell")
SOURCES = {
    "P": "the paper on linear attention",
    "S": "a summary of the paper on softmax attention",
    "A": "other papers",
    "new": "this book",
}
CERTIFIED = "algebra checked for all d and C"
FOR_ALL = '<span class="claim-certified">∀ <i>d</i>, <i>C</i></span>'


@cache
def marked() -> dict[str, list[Marked]]:
    """The marked tests of this checkout, by claim."""
    return read_marks(ROOT)


class facts(nodes.General, nodes.Element):
    """What the box of a page says that is counted: verdicts and minutes."""


class Brief(Directive):
    """The box at a page's head: a paragraph with the question, others with the answer, and what is counted."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        box = nodes.container(classes=["brief"])
        self.state.nested_parse(self.content, self.content_offset, box)
        if len(box) < 2:
            raise self.error("a brief has a paragraph with the question and one with the answer")
        for part, name in ((box[0], "question"), *((part, "answer") for part in box[1:])):
            part["classes"].append(f"brief-{name}")
        box += facts()
        return [box]


def claim_role(name, rawtext, text, lineno, inliner, options=None, content=None):
    """{claim}`sharp-head-count`: the claim's verdict, with a link to the ledger."""
    found = {claim.id: claim for claim in read_claims(ROOT)}.get(text)
    if found is None:
        message = inliner.reporter.error(f"no claim in book/claims.toml is called {text!r}", line=lineno)
        return [inliner.problematic(rawtext, rawtext, message)], [message]
    return [nodes.raw("", linked_badge(found), format="html")], []


def badge(status: str, words: str = "") -> str:
    return f'<span class="claim-status claim-{status.replace(" ", "-")}">{words or status}</span>'


def linked_badge(claim: Claim) -> str:
    """The verdict as a link to the ledger; with a certificate, that the algebra holds for all d and C."""
    certified = any(test.kind == "certificate" for test in marked().get(claim.id, []))
    name = f"{claim.where or claim.id}: {claim.status}" + f", {CERTIFIED}" * certified
    shown = badge(claim.status) + f" {FOR_ALL}" * certified
    return f'<a class="claim-badge" href="claims.html#{claim.id}" aria-label="{escape(name)}">{shown}</a>'


def definitions(statuses: Collection[str]) -> str:
    """What these verdicts mean, and the sign beside those with a certificate."""
    lines = "".join(f"<dt>{badge(name)}</dt><dd>{STATUSES[name]}</dd>" for name in STATUSES if name in statuses)
    certified = f"<dt>{FOR_ALL}</dt><dd>A test derives the formula with symbols for d and C.</dd>"
    return f'<dl class="verdict-definitions">{lines}{certified}</dl>'


def is_folded(node: nodes.Node, classes: Collection[str] = FOLDED) -> bool:
    """Whether a node is in a fold, or in the bibliography."""
    while node is not None:
        if isinstance(node, nodes.citation) or set(getattr(node, "attributes", {}).get("classes", ())) & set(classes):
            return True
        node = node.parent
    return False


def minutes(doctree: nodes.document) -> int:
    """How long the open text and code take to read."""
    open_text = [text for text in doctree.findall(nodes.Text) if not is_folded(text)]
    kinds = (nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)
    words = sum(len(text.split()) for text in open_text if not isinstance(text.parent, kinds))
    formulas = sum(not is_folded(block) for block in doctree.findall(nodes.math_block))
    code = [block for block in doctree.findall(nodes.literal_block) if not is_folded(block, NOT_OPEN_CODE)]
    lines = sum(bool(line.strip()) for block in code for line in block.astext().splitlines())
    return math.ceil(words / WORDS_A_MINUTE + (formulas * SECONDS_A_FORMULA + lines * SECONDS_A_LINE_OF_CODE) / 60)


def facts_html(claims: list[Claim], minutes: int) -> str:
    """Others' claims on a page, each with its place and its verdict, and the reading time."""
    html = ""
    for source in ("P", "S", "A"):
        own = [f"<li>{escape(claim.where)}: {linked_badge(claim)}</li>" for claim in claims if claim.source == source]
        if own:
            html += (
                f'<p class="brief-source">Claims of {SOURCES[source]}:</p><ul class="brief-claims">{"".join(own)}</ul>'
            )
    return f'{html}<p class="brief-cost">about {minutes} min to read</p>'


class Facts(SphinxPostTransform):
    """Fill the boxes, once the page is whole."""

    default_priority = 20
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        for node in list(self.document.findall(facts)):
            stem = self.env.docname.rpartition("/")[2]
            claims = [claim for claim in read_claims(ROOT) if claim.page == stem]
            node.replace_self(nodes.raw("", facts_html(claims, minutes(self.document)), format="html"))


def setup(app: Sphinx) -> None:
    app.add_node(facts)
    app.add_directive("brief", Brief)
    app.add_role("claim", claim_role)
    app.add_post_transform(Facts)
