"""Sphinx extension of the claims: the box at a page's head, verdicts beside statements,
and the ledger.
"""

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from html import escape
from math import isfinite
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from sphinx.util.nodes import split_explicit_title

from lsalib.book.claims import Record, rows, tally
from tools import ledger
from tools.ledger import STATUSES, Claim, Marked
from tools.notebooks import install_cell
from tools.notebooks.markdown import chapters, title
from tools.notebooks.pages import ROOT

SOURCES = {
    "P": "the paper on linear attention",
    "S": "a summary of the paper on softmax attention",
    "A": "other papers",
    "new": "this book",
}
HEAD = ("The paper says", "We find", "Verdict")
HEADS = {
    "P": HEAD,
    "S": ("The summary says", *HEAD[1:]),
    "A": HEAD,
    "new": ("This book finds", "Verdict"),
}
FORM = (
    '<form class="ledger-tools pst-js-only" role="search" aria-label="The claims"><label>Search '
    '<input type="search"></label> <button type="button">Show all</button> <output></output></form>'
)
CERTIFIED = "algebra checked for all d and C"
FOR_ALL = '<span class="claim-certified">∀ <i>d</i>, <i>C</i></span>'


@cache
def claims() -> dict[str, Claim]:
    """The claims of this checkout, by id."""
    return {claim.id: claim for claim in ledger.read_claims(ROOT)}


@cache
def marked() -> dict[str, list[Marked]]:
    """The marked tests of this checkout, by claim."""
    return ledger.read_marks(ROOT)


def raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


def badge(status: str, words: str = "") -> str:
    return f'<span class="claim-status claim-{status.replace(" ", "-")}">{words or status}</span>'


def linked_badge(claim: Claim) -> str:
    """The verdict as a link to the ledger; with a certificate, that the algebra holds
    for all d and C.
    """
    certified = any(test.kind == "certificate" for test in marked().get(claim.id, []))
    name = f"{claim.where or claim.id}: {claim.status}" + f", {CERTIFIED}" * certified
    shown = badge(claim.status) + f" {FOR_ALL}" * certified
    return f'<a class="claim-badge" href="claims.html#{claim.id}" aria-label="{escape(name)}">{shown}</a>'


def claim_role(name, rawtext, text, lineno, inliner, options=None, content=None):
    """{claim}`sharp-head-count`: the verdict with a link to the ledger; {claim}`words
    <id>`: words instead of it.
    """
    has_words, words, name = split_explicit_title(text)
    if name not in claims():
        message = inliner.reporter.error(
            f"no claim in book/claims.toml is called {name!r}", line=lineno
        )
        return [inliner.problematic(rawtext, rawtext, message)], [message]
    link = f'<a href="claims.html#{name}" aria-label="{escape(words)} for {name}">{escape(words)}</a>'
    return [raw(link if has_words else linked_badge(claims()[name]))], []


def definitions() -> str:
    """What the verdicts mean, and the sign beside those with a certificate."""
    lines = "".join(
        f"<dt>{badge(name)}</dt><dd>{meaning}</dd>"
        for name, meaning in STATUSES.items()
    )
    certified = f"<dt>{FOR_ALL}</dt><dd>Checked symbolically for all d and C, not only at the sizes that we ran.</dd>"
    return f'<dl class="verdict-definitions">{lines}{certified}</dl>'


class Brief(Directive):
    """The box at a page's head: a paragraph with the question, others with the answer,
    and others' claims.
    """

    has_content = True

    def run(self) -> list[nodes.Node]:
        box = nodes.container(classes=["brief"])
        self.state.nested_parse(self.content, self.content_offset, box)
        if len(box) < 2:
            raise self.error(
                "a brief has a paragraph with the question and one with the answer"
            )
        for part, name in (
            (box[0], "question"),
            *((part, "answer") for part in box[1:]),
        ):
            part["classes"].append(f"brief-{name}")
        described = " ".join(f"{box[0].astext()} {box[1].astext()}".split())
        stem = self.state.document.settings.env.docname.rpartition("/")[2]
        # The front page explains the verdicts first, in its table.
        for source in ("P", "S", "A") if stem != "intro" else ():
            own = [
                claim
                for claim in claims().values()
                if (claim.page, claim.source) == (stem, source)
            ]
            items = "".join(
                f"<li>{escape(claim.where)}: {linked_badge(claim)}</li>"
                for claim in own
            )
            said = f'<p class="brief-source">Claims of {SOURCES[source]}:</p><ul class="brief-claims">{items}</ul>'
            box += [raw(said)] * bool(own)
        return [nodes.meta("", name="description", content=described), box]


class Table(Directive):
    """What the tables of claims share: a row with what the paper says, what we find,
    and the verdict.
    """

    def row(
        self, claim: Claim, paper: str, finding: str, verdict: str
    ) -> list[nodes.Node]:
        number = chapters(ROOT).get(claim.page)
        chapter = f"{number}. " * bool(number) + title(ROOT / f"book/{claim.page}.md")
        note = f'<span class="ledger-note"><a href="{claim.page}.html">{escape(chapter)}</a></span>'
        parts: list[nodes.Node] = [raw("<tr>")]
        for name, words, end in (("paper", paper, ""), ("finding", finding, note)):
            if words:
                text, problems = self.state.inline_text(words, self.lineno)
                cell = (
                    f'<td class="ledger-{name}"'
                    + ("" if paper else ' colspan="2"')
                    + ">"
                )
                parts += [
                    raw(cell),
                    nodes.paragraph("", "", *text),
                    *problems,
                    raw(f"{end}</td>"),
                ]
        return [*parts, raw(f"<td>{verdict}</td></tr>")]


def head(columns: Sequence[str]) -> str:
    """Three columns wide: the first of two names stands over two of them."""
    spans = (4 - len(columns), *[1] * (len(columns) - 1))
    cells = (
        f'<th scope="col" colspan="{span}">{name}</th>'
        for name, span in zip(columns, spans, strict=True)
    )
    return f"<thead><tr>{''.join(cells)}</tr></thead>"


def tests(listed: list[Marked]) -> str:
    """Marked tests: what each shows, and its file and function, with a link if the
    repository has an address.
    """
    repository, lines = install_cell.address(ROOT), ""
    for test in listed:
        place = f"{test.file}, {test.function}"
        if install_cell.GITHUB.fullmatch(repository):
            place = f'<a href="{repository}/blob/{install_cell.BRANCH}/{test.file}">{place}</a>'
        said = f"{test.kind.capitalize()}: {escape(test.words)}"
        lines += f'<li>{said} <span class="ledger-note">{place}</span></li>'
    return f"<ul>{lines}</ul>" if listed else ""


def evidence(claim: Claim, records: list[Record]) -> str:
    """What stands behind a claim, folded: its checks with links to their cells, and its
    tests.
    """
    listed = marked().get(claim.id, [])
    counts = [tally(records)] if records else []
    counts += [f"{len(listed)} test{'s' * (len(listed) > 1)}"] if listed else []
    about = f'<a href="#{claim.id}">{claim.id}</a>'
    of = "" if claim.source == "A" else f" of {SOURCES[claim.source]}"
    about += f"; {claim.where}{of}" if claim.where else ""
    checks = (
        rows(records, link=lambda record: f"{claim.page}.html#{record.anchor}")
        if records
        else ""
    )
    summary = f"<summary>Evidence: {', '.join(counts) or 'none'}</summary>"
    return f'<details class="claims">{summary}<p>{about}</p>{checks}{tests(listed)}</details>'


def summary(listed: list[Claim]) -> str:
    """For each source, how many claims have each verdict, which are refuted, and links
    that ledger.js filters by.
    """
    lines = ""
    for source, name in SOURCES.items():
        own = [claim for claim in listed if claim.source == source]
        counts = Counter(claim.status for claim in own)
        refuted = [
            f'<a href="#{each.id}">{each.where}</a>'
            for each in own
            if each.status == "refuted as stated"
        ]
        said = f"{len(own)} claims" + f"; refuted: {', '.join(refuted)}" * bool(refuted)
        to_table = f'<a href="#ledger" data-source="{source}"'
        links = [
            f'{to_table} class="claim-badge" data-verdict="{status}">{badge(status, f"{counts[status]} {status}")}</a>'
            for status in STATUSES
            if counts[status]
        ]
        lines += f"<li>{to_table}>{name[0].upper()}{name[1:]}</a>: {said}. {' '.join(links)}</li>"
    legend = f"<summary>What the verdicts mean</summary>{definitions()}"
    return f'<ul class="ledger-tally">{lines}</ul><details class="claims">{legend}</details>{FORM}'


class Ledger(Table):
    """The tally, and for each source a table of its claims, by chapter, each with its
    evidence, folded.
    """

    def run(self) -> list[nodes.Node]:
        by_page, numbers = ledger.read_records(ROOT), {"intro": 0} | chapters(ROOT)
        listed = sorted(
            claims().values(), key=lambda claim: numbers.get(claim.page, len(numbers))
        )
        parts = [raw(f'{summary(listed)}<div id="ledger">')]
        for source, name in SOURCES.items():
            caption = f"<caption>Claims of {escape(name)}</caption>"
            parts.append(raw(f'<table class="ledger">{caption}{head(HEADS[source])}'))
            for claim in (claim for claim in listed if claim.source == source):
                parts.append(
                    raw(
                        f'<tbody id="{claim.id}" data-source="{source}" data-verdict="{claim.status}">'
                    )
                )
                parts += self.row(
                    claim, claim.paper, claim.finding, badge(claim.status)
                )
                folded = evidence(claim, claim.records(by_page))
                parts.append(raw(f'<tr><td colspan="3">{folded}</td></tr></tbody>'))
            parts.append(raw("</table>"))
        return [*parts, raw('</div><script src="../_static/ledger.js" defer></script>')]


class Verdicts(Table):
    """A few claims, a line each, “id: what the paper says | what we find”, and what
    their verdicts mean.
    """

    has_content = True

    def run(self) -> list[nodes.Node]:
        parts = [raw(f'<table class="verdicts">{head(HEAD)}<tbody>')]
        for line in filter(str.strip, self.content):
            name, _, words = line.partition(": ")
            paper, _, finding = words.partition(" | ")
            if name not in claims() or not finding:
                raise self.error(
                    f"expected “id: what the paper says | what we find” with a claim’s id, got {line!r}"
                )
            parts += self.row(
                claims()[name], paper, finding, linked_badge(claims()[name])
            )
        return [*parts, raw(f"</tbody></table>{definitions()}")]


def write_data(app: Sphinx, error: Exception | None) -> None:
    """Beside the page, all claims with their checks as numbers; a margin is null where
    a check has no tolerance.
    """
    page = Path(app.outdir) / "book/claims.html"
    if error is None and page.is_file():
        by_page = ledger.read_records(ROOT)
        entry = lambda record: (
            record._asdict()
            | {"margin": record.margin if isfinite(record.margin) else None}
        )
        found = {
            claim: [entry(record) for record in claim.records(by_page)]
            for claim in claims().values()
        }
        data = [claim._asdict() | {"checks": checks} for claim, checks in found.items()]
        page.with_suffix(".json").write_text(
            json.dumps(data, indent=1, ensure_ascii=False), encoding="utf-8"
        )


def setup(app: Sphinx) -> None:
    for name, directive in (
        ("brief", Brief),
        ("ledger", Ledger),
        ("verdicts", Verdicts),
    ):
        app.add_directive(name, directive)
    app.add_role("claim", claim_role)
    app.connect("build-finished", write_data)
