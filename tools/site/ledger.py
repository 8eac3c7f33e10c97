"""Sphinx extension of the ledger: the table of all claims, a short one for the front page, files to download."""

import math
from html import escape
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from lsalib.book.records import margin_text, rows, tally
from tools.ledger import export as ledger
from tools.ledger.claims import ROADS, Claim, Record, check_of, read_certificates, read_claims, read_records, title
from tools.notebooks import install_cell
from tools.notebooks.address import BRANCH, GITHUB
from tools.notebooks.labels import chapters
from tools.notebooks.pages import ROOT, Page
from tools.site.claims import CERTIFIED, badge, linked_badge

HEAD = ("claim", "statement", "verdict", "worst margin", "chapter")


def raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


def chapter(stem: str) -> str:
    """The page's number and title, with a link to it; while it is not written, its title."""
    number = chapters(ROOT).get(stem)
    name = escape(f"{number}. {title(ROOT, stem)}" if number else title(ROOT, stem))
    return f'<a href="{stem}.html">{name}</a>' if Page(ROOT, stem).md.is_file() else name


def worst(records: list[Record]) -> str:
    """The margin that is nearest to the other verdict, in words."""
    margins = [check_of(record) for record in records]
    return margin_text(min(margins, key=lambda record: record.margin)) if margins else "–"


def evidence(records: list[Record]) -> str:
    """The checks of a claim, folded, each with the way to its cell."""
    checks = [check_of(record) for record in records]
    page = records[0].page
    table = rows(checks, link=lambda record: f"{page}.html#{record.anchor}")
    return f'<details class="claims"><summary>{tally(checks)}</summary>{table}</details>'


def opening(claim: Claim, records: list[Record]) -> str:
    margin = ledger.worst_margin(records)
    data = {"verdict": claim.status, "chapter": title(ROOT, claim.page), "paper": ledger.paper(claim)}
    data |= {"margin": margin if math.isfinite(margin) else 1e300, "checks": len(records)}
    attributes = " ".join(f'data-{name}="{escape(str(value))}"' for name, value in data.items())
    return (
        f'<tbody id="{claim.id}" {attributes}><tr><th scope="row"><a href="#{claim.id}">{claim.id}</a>'
        f'<span class="ledger-place">{escape(claim.place)}</span>{behind(claim)}</th><td>'
    )


def behind(claim: Claim) -> str:
    """What the claim rests on, in words."""
    return f'<span class="ledger-place">by {escape(", ".join(claim.roads))}</span>' if claim.roads else ""


def certificate(claim: Claim) -> str:
    """Where the tests derive a claim's formula for symbolic d and C, that they do, with the way to the test."""
    if claim.id not in (certified := read_certificates(ROOT)):
        return ""
    (what, file), repository = certified[claim.id], install_cell.address(ROOT)
    words = (
        f'<a href="{repository}/blob/{BRANCH}/{file}">{CERTIFIED}</a>' if GITHUB.fullmatch(repository) else CERTIFIED
    )
    return f'<span class="ledger-place" title="{escape(what)} ({file})">{words}</span>'


def closing(claim: Claim, records: list[Record]) -> str:
    """The rest of a claim's row, and a row of its own for what was checked, as wide as the table."""
    cells = (badge(claim.status) + certificate(claim), worst(records), chapter(claim.page))
    checked = f'<tr><td colspan="{len(HEAD)}">{evidence(records)}</td></tr>' if records else ""
    return "</td>" + "".join(f"<td>{cell}</td>" for cell in cells) + f"</tr>{checked}</tbody>"


class Ledger(Directive):
    """All claims, a group of rows each: the claim, and what was checked, folded."""

    def run(self) -> list[nodes.Node]:
        records = read_records(ROOT)
        head = "".join(f'<th scope="col">{name}</th>' for name in HEAD)
        parts = [raw(f'<table class="ledger" id="ledger"><thead><tr>{head}</tr></thead>')]
        for claim in read_claims(ROOT):
            own = [record for record in records if record.id == claim.id]
            text, problems = self.state.inline_text(claim.statement, self.lineno)
            parts += [
                raw(opening(claim, own)),
                nodes.paragraph("", "", *text, claim=claim.id),
                *problems,
                raw(closing(claim, own)),
            ]
        script = '<script src="../_static/ledger.js" defer></script>'
        return [*parts, raw("</table>"), raw(provenance() + script)]


def provenance() -> str:
    """The commit, and for each way in which pages were executed, which pages these are."""
    groups: dict[str, list[str]] = {}
    for stem, run in ledger.runs(ROOT).items():
        said = ", ".join(f"{name} {value}" for name, value in run.items() if name not in ("date", "machine"))
        words = f"{run['date']}, {said}, {run['machine']}" if run else "not recorded"
        groups.setdefault(words, []).append(stem)
    commit = ledger.commit(ROOT)
    lines = [f"<li>{escape(', '.join(stems))}: {escape(words)}</li>" for words, stems in groups.items()]
    built = f"<p>Built from commit <code>{commit}</code>.</p>" if commit else ""
    return f'<div class="provenance">{built}<p>The pages were executed:</p><ul>{"".join(lines)}</ul></div>'


class Verdicts(Directive):
    """A few claims in plain words, «id: words» each: what is claimed, the verdict, the page."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        claims = {claim.id: claim for claim in read_claims(ROOT)}
        head = "".join(f'<th scope="col">{name}</th>' for name in ("The paper’s claim", "Verdict", "Page"))
        parts = [raw(f'<table class="verdicts"><thead><tr>{head}</tr></thead><tbody>')]
        for line in filter(str.strip, self.content):
            name, _, words = line.partition(": ")
            if name not in claims:
                raise self.error(f"no claim in book/claims.toml is called {name!r}")
            claim = claims[name]
            text, problems = self.state.inline_text(words, self.lineno)
            cells = f"</td><td>{linked_badge(claim)}</td><td>{chapter(claim.page)}</td></tr>"
            parts += [raw("<tr><td>"), nodes.paragraph("", "", *text), *problems, raw(cells)]
        return [*parts, raw("</tbody></table>")]


class Roads(Directive):
    """What stands behind the claims: a row for those that rest on the same, those with most of it first."""

    def run(self) -> list[nodes.Node]:
        groups: dict[tuple[str, ...], list[str]] = {}
        for claim in read_claims(ROOT):
            groups.setdefault(claim.roads, []).append(f'<a href="claims.html#{claim.id}">{claim.id}</a>')
        rows = sorted(groups.items(), key=lambda row: (-len(row[0]), -len(row[1])))
        return [raw(roads_html([(roads, names) for roads, names in rows if roads]))]


def roads_html(rows: list[tuple[tuple[str, ...], list[str]]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("claims", *ROADS))
    body = ""
    for roads, names in rows:
        marks = "".join(f"<td>{'✓' if road in roads else ''}</td>" for road in ROADS)
        body += f"<tr><td><strong>{len(names)}</strong>: {', '.join(names)}</td>{marks}</tr>"
    table = f'<table class="roads"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="results claims-table">{table}</div>'


def write_files(app: Sphinx, error: Exception | None) -> None:
    folder = Path(app.outdir) / "book"
    if error is None and (folder / "claims.html").is_file():
        ledger.write(ROOT, folder)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("ledger", Ledger)
    app.add_directive("verdicts", Verdicts)
    app.add_directive("roads", Roads)
    app.connect("build-finished", write_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
