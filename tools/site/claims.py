"""Sphinx extension of the claims: the box at a page's head, and verdicts that stand beside statements."""

import math
from collections.abc import Iterable
from html import escape

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from tools.ledger.claims import Claim, read_certificates, read_claims
from tools.notebooks.pages import ROOT

WORDS_A_MINUTE, SECONDS_A_FORMULA = 200, 6
# What a reader opens only if he wants to.
FOLDED = ("dropdown", "cell_input", "claims", "toggle")
SOURCES = {"P": "The paper’s ", "S": "The summary’s claims"}

CERTIFIED = "algebra checked for all d and C"

log = logging.getLogger(__name__)


class facts(nodes.General, nodes.Element):
    """What the box of a page says that is counted: verdicts, minutes, seconds."""


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
    return [nodes.raw("", linked_badge(found, *read_certificates(ROOT).get(text, ())[:1]), format="html")], []


def badge(status: str) -> str:
    return f'<span class="claim-status claim-{status.replace(" ", "-")}">{status}</span>'


def linked_badge(claim: Claim, certified: str = "") -> str:
    """The verdict as a link to the ledger; with a certificate, that the algebra holds for all d and C."""
    title, name = f"{claim.id}: {claim.place}", f"{claim.status}: {claim.id}"
    mark = ""
    if certified:
        title, name = f"{title}; {CERTIFIED}: {certified}", f"{name}, {CERTIFIED}"
        mark = ' <span class="claim-certified" aria-hidden="true">∀ <i>d</i>, <i>C</i></span>'
    said = f'title="{escape(title)}" aria-label="{name}"'
    return f'<a class="claim-badge" href="claims.html#{claim.id}" {said}>{badge(claim.status)}{mark}</a>'


def is_folded(node: nodes.Node) -> bool:
    while node is not None:
        if set(getattr(node, "attributes", {}).get("classes", ())) & set(FOLDED):
            return True
        node = node.parent
    return False


def minutes(doctree: nodes.document) -> int:
    """How long the open text takes to read."""
    open_text = [text for text in doctree.findall(nodes.Text) if not is_folded(text)]
    kinds = (nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)
    words = sum(len(text.split()) for text in open_text if not isinstance(text.parent, kinds))
    formulas = sum(not is_folded(block) for block in doctree.findall(nodes.math_block))
    return max(1, math.ceil(words / WORDS_A_MINUTE + formulas * SECONDS_A_FORMULA / 60))


def spelt(places: Iterable[str]) -> list[str]:
    """Places in words, where the ledger has P for the paper and S for the summary; whose they are is said once."""
    parts = [place.partition(" ") for place in places]
    first = {source: where for source, _, where in reversed(parts)}
    return [SOURCES.get(source, "") * (first[source] == where) + where for source, _, where in parts]


def facts_html(stem: str, minutes: int) -> str:
    places: dict[str, list[str]] = {}
    for claim in read_claims(ROOT):
        if claim.page == stem and claim.place != "new":
            places.setdefault(claim.place, []).append(linked_badge(claim))
    named = zip(spelt(places), places.values(), strict=True)
    items = "".join(f"<li>{escape(place)} {' '.join(badges)}</li>" for place, badges in named)
    verdicts = f'<ul class="brief-claims" aria-label="The claims of this page and their verdicts">{items}</ul>'
    return f'{verdicts if places else ""}<p class="brief-cost">{minutes} min to read</p>'


class Facts(SphinxPostTransform):
    """Fill the boxes, once the page is whole."""

    default_priority = 20
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        for node in list(self.document.findall(facts)):
            stem = self.env.docname.rpartition("/")[2]
            node.replace_self(nodes.raw("", facts_html(stem, minutes(self.document)), format="html"))


def setup(app: Sphinx) -> None:
    app.add_node(facts)
    app.add_directive("brief", Brief)
    app.add_role("claim", claim_role)
    app.add_post_transform(Facts)
