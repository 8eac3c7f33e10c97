"""Sphinx extension of the ledger: the table of all claims, a short one for the front page, files to download."""

import re
from collections import Counter
from collections.abc import Mapping
from html import escape
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from lsalib.book.claims import Record, rows, tally
from tools.ledger import export
from tools.ledger.claims import STATUSES, Claim, Marked, read_claims, read_records
from tools.notebooks import install_cell
from tools.notebooks.labels import chapters
from tools.notebooks.pages import ROOT, Page
from tools.site.claims import SOURCES, badge, definitions, linked_badge, marked

HEAD = {"The paper says": 1, "We find": 1, "Verdict": 1}  # how many columns each has
OWN_HEAD = {"This book finds": 2, "Verdict": 1}
HEADS = {"P": HEAD, "S": {"The summary says": 1} | dict(list(HEAD.items())[1:]), "A": HEAD, "new": OWN_HEAD}
FORM = (
    '<form class="ledger-tools pst-js-only" role="search" aria-label="The claims"><label>Search '
    '<input type="search"></label> <button type="button">Show all</button> <output></output></form>'
)


def raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


def head(columns: Mapping[str, int]) -> str:
    cells = (f'<th scope="col" colspan="{span}">{escape(name)}</th>' for name, span in columns.items())
    return f"<thead><tr>{''.join(cells)}</tr></thead>"


def chapter(stem: str) -> str:
    """Where to read on: the page's number and title; its name, without a link, while the page is not written."""
    md, number = Page(ROOT, stem).md, chapters(ROOT).get(stem)
    heading = re.search(r"^# (.+)$", md.read_text(encoding="utf-8"), re.MULTILINE) if md.is_file() else None
    name = escape(f"{number}. " * bool(number) + (heading[1] if heading else stem))
    link = f'<a href="{stem}.html">{name}</a>' if heading else name
    return f'<span class="ledger-note">{link}</span>'


class Table(Directive):
    """What the tables of claims share: a row with what the paper says, what we find, and the verdict."""

    def row(self, claim: Claim, paper: str, finding: str, verdict: str) -> list[nodes.Node]:
        parts: list[nodes.Node] = [raw("<tr>")]
        for name, words, note in (("paper", paper, ""), ("finding", finding, chapter(claim.page))):
            if words:
                text, problems = self.state.inline_text(words, self.lineno)
                cell = f'<td class="ledger-{name}"' + ("" if paper else ' colspan="2"') + ">"
                parts += [raw(cell), nodes.paragraph("", "", *text), *problems, raw(f"{note}</td>")]
        return [*parts, raw(f"<td>{verdict}</td></tr>")]


def tests(listed: list[Marked]) -> str:
    """Marked tests: what each shows, and its file and function, with a link if the repository has an address."""
    repository, lines = install_cell.address(ROOT), ""
    for test in listed:
        place = f"{test.file}, {test.function}"
        if install_cell.GITHUB.fullmatch(repository):
            place = f'<a href="{repository}/blob/{install_cell.BRANCH}/{test.file}">{place}</a>'
        kind = f"{test.kind.capitalize()}: "
        lines += f'<li>{kind}{escape(test.words)} <span class="ledger-note">{place}</span></li>'
    return f"<ul>{lines}</ul>" if listed else ""


def evidence(claim: Claim, records: list[Record]) -> str:
    """What stands behind a claim, folded: its checks with links to their cells, and its tests."""
    listed = marked().get(claim.id, [])
    counts = [tally(records)] if records else []
    counts += [f"{len(listed)} test{'s' * (len(listed) > 1)}"] if listed else []
    about = f'<a href="#{claim.id}">{claim.id}</a>'
    of = "" if claim.source == "A" else f" of {SOURCES[claim.source]}"
    about += f"; {claim.where}{of}" if claim.where else ""
    checks = rows(records, link=lambda record: f"{claim.page}.html#{record.anchor}") if records else ""
    summary = f"<summary>Evidence: {', '.join(counts) or 'none'}</summary>"
    return f'<details class="claims">{summary}<p>{about}</p>{checks}{tests(listed)}</details>'


def summary(claims: list[Claim]) -> str:
    """For each source, how many claims have each verdict, which are refuted, and links that ledger.js filters by."""
    lines = ""
    for source, name in SOURCES.items():
        own = [claim for claim in claims if claim.source == source]
        counts = Counter(claim.status for claim in own)
        said = f"{len(own)} claims"
        refuted = [f'<a href="#{each.id}">{each.where}</a>' for each in own if each.status == "refuted as stated"]
        said += f"; refuted: {', '.join(refuted)}" if refuted else ""
        to_table = f'<a href="#ledger" data-source="{source}"'
        links = [
            f'{to_table} class="claim-badge" data-verdict="{status}">{badge(status, f"{count} {status}")}</a>'
            for status in STATUSES
            if (count := counts[status])
        ]
        lines += f"<li>{to_table}>{name[0].upper()}{name[1:]}</a>: {said}. {' '.join(links)}</li>"
    legend = f"<summary>What the verdicts mean</summary>{definitions(STATUSES)}"
    return f'<ul class="ledger-tally">{lines}</ul><details class="claims">{legend}</details>{FORM}'


class Ledger(Table):
    """The tally, and for each source a table of its claims, by chapter, each with its evidence, folded."""

    def run(self) -> list[nodes.Node]:
        by_page, numbers = read_records(ROOT), {"intro": 0} | chapters(ROOT)
        claims = sorted(read_claims(ROOT), key=lambda claim: numbers.get(claim.page, len(numbers)))
        parts = [raw(f'{summary(claims)}<div id="ledger">')]
        for source, name in SOURCES.items():
            caption = f"<caption>Claims of {escape(name)}</caption>"
            parts.append(raw(f'<table class="ledger">{caption}{head(HEADS[source])}'))
            for claim in (claim for claim in claims if claim.source == source):
                parts.append(raw(f'<tbody id="{claim.id}" data-source="{source}" data-verdict="{claim.status}">'))
                parts += self.row(claim, claim.paper, claim.finding, badge(claim.status))
                folded = evidence(claim, claim.records(by_page))
                parts.append(raw(f'<tr><td colspan="3">{folded}</td></tr></tbody>'))
            parts.append(raw("</table>"))
        return [*parts, raw('</div><script src="../_static/ledger.js" defer></script>')]


class Verdicts(Table):
    """A few claims, a line each, “id: what the paper says | what we find”, and what their verdicts mean."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        claims, occur = {claim.id: claim for claim in read_claims(ROOT)}, []
        parts = [raw(f'<table class="verdicts">{head(HEAD)}<tbody>')]
        for line in filter(str.strip, self.content):
            name, _, words = line.partition(": ")
            paper, _, finding = words.partition(" | ")
            if name not in claims or not finding:
                raise self.error(f"expected “id: what the paper says | what we find” with a claim’s id, got {line!r}")
            parts += self.row(claims[name], paper, finding, linked_badge(claims[name]))
            occur.append(claims[name].status)
        return [*parts, raw(f"</tbody></table>{definitions(occur)}")]


def write_files(app: Sphinx, error: Exception | None) -> None:
    folder = Path(app.outdir) / "book"
    if error is None and (folder / "claims.html").is_file():
        export.write(ROOT, folder)


def setup(app: Sphinx) -> None:
    app.add_directive("ledger", Ledger)
    app.add_directive("verdicts", Verdicts)
    app.connect("build-finished", write_files)
