"""Sphinx extension of the ledger: the table of all claims, a short one for the front page, files to download."""

import math
import re
from html import escape
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from lsalib.book.records import Record, margin_text, rows, tally
from tools.ledger import export
from tools.ledger.claims import ROADS, Claim, read_certificates, read_claims, read_records
from tools.notebooks import install_cell
from tools.notebooks.address import BRANCH, GITHUB
from tools.notebooks.labels import chapters
from tools.notebooks.pages import ROOT, Page
from tools.site.claims import CERTIFIED, badge, linked_badge

HEAD = ("claim", "statement", "verdict", "worst margin", "chapter")


def raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


def head(*names: str) -> str:
    return "<thead><tr>" + "".join(f'<th scope="col">{escape(name)}</th>' for name in names) + "</tr></thead>"


def title(stem: str) -> str:
    """The page's first heading; its name while the page is not written."""
    md = Page(ROOT, stem).md
    heading = re.search(r"^# (.+)$", md.read_text(encoding="utf-8"), re.MULTILINE) if md.is_file() else None
    return heading[1] if heading else stem


def chapter(stem: str) -> str:
    """The page's number and title, with a link to it if it is written."""
    number = chapters(ROOT).get(stem)
    name = escape(f"{number}. {title(stem)}" if number else title(stem))
    return f'<a href="{stem}.html">{name}</a>' if Page(ROOT, stem).md.is_file() else name


def evidence(claim: Claim, records: list[Record]) -> str:
    """The checks of a claim, folded, each with a link to its cell."""
    table = rows(records, link=lambda record: f"{claim.page}.html#{record.anchor}")
    return f'<details class="claims"><summary>{tally(records)}</summary>{table}</details>'


def note(words: str, **attributes: str) -> str:
    said = "".join(f' {name}="{escape(value)}"' for name, value in attributes.items())
    return f'<span class="ledger-place"{said}>{words}</span>'


def opening(claim: Claim, records: list[Record]) -> str:
    """A claim's row up to its statement: name, place, and what it rests on."""
    margin = export.worst_margin(records)
    # "P" and "S" are the two papers, "new" is this book.
    data = {"verdict": claim.status, "chapter": title(claim.page), "paper": claim.place.split()[0]}
    data |= {"margin": str(margin if math.isfinite(margin) else 1e300), "checks": str(len(records))}
    attributes = " ".join(f'data-{name}="{escape(value)}"' for name, value in data.items())
    behind = note(f"by {escape(', '.join(claim.roads))}") if claim.roads else ""
    return (
        f'<tbody id="{claim.id}" {attributes}><tr><th scope="row"><a href="#{claim.id}">{claim.id}</a>'
        f"{note(escape(claim.place))}{behind}</th><td>"
    )


def certificate(claim: Claim) -> str:
    """For a claim whose formula a test derives for symbolic d and C: the words, with a link to the test."""
    if claim.id not in (certified := read_certificates(ROOT)):
        return ""
    (what, file), repository = certified[claim.id], install_cell.address(ROOT)
    link = f'<a href="{repository}/blob/{BRANCH}/{file}">{CERTIFIED}</a>'
    return note(link if GITHUB.fullmatch(repository) else CERTIFIED, title=f"{what} ({file})")


def closing(claim: Claim, records: list[Record]) -> str:
    """The rest of a claim's row, and a row of its own for the checks, as wide as the table."""
    worst = margin_text(min(records, key=lambda record: record.margin)) if records else "–"
    cells = (badge(claim.status) + certificate(claim), worst, chapter(claim.page))
    checked = f'<tr><td colspan="{len(HEAD)}">{evidence(claim, records)}</td></tr>' if records else ""
    return "</td>" + "".join(f"<td>{cell}</td>" for cell in cells) + f"</tr>{checked}</tbody>"


class Ledger(Directive):
    """All claims, a group of rows each: the claim, and its checks, folded."""

    def run(self) -> list[nodes.Node]:
        by_page = read_records(ROOT)
        parts = [raw(f'<table class="ledger" id="ledger">{head(*HEAD)}')]
        for claim in read_claims(ROOT):
            records = claim.records(by_page)
            text, problems = self.state.inline_text(claim.statement, self.lineno)
            statement = nodes.paragraph("", "", *text, claim=claim.id)
            parts += [raw(opening(claim, records)), statement, *problems, raw(closing(claim, records))]
        script = '<script src="../_static/ledger.js" defer></script>'
        return [*parts, raw("</table>"), raw(provenance() + script)]


def provenance() -> str:
    """The commit, and for each way in which pages were executed, which pages these are."""
    groups: dict[str, list[str]] = {}
    for stem, run in export.runs(ROOT).items():
        said = ", ".join(f"{name} {value}" for name, value in run.items() if name not in ("date", "machine"))
        words = f"{run['date']}, {said}, {run['machine']}" if run else "not recorded"
        groups.setdefault(words, []).append(stem)
    commit = export.commit(ROOT)
    lines = [f"<li>{escape(', '.join(stems))}: {escape(words)}</li>" for words, stems in groups.items()]
    built = f"<p>Built from commit <code>{commit}</code>.</p>" if commit else ""
    return f'<div class="provenance">{built}<p>The pages were executed:</p><ul>{"".join(lines)}</ul></div>'


class Verdicts(Directive):
    """A few claims in plain words, «id: words» each: what is claimed, the verdict, the page."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        claims = {claim.id: claim for claim in read_claims(ROOT)}
        parts = [raw(f'<table class="verdicts">{head("The paper’s claim", "Verdict", "Page")}<tbody>')]
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
    """What stands behind the claims: a row for those with the same roads, those with most roads first."""

    def run(self) -> list[nodes.Node]:
        groups: dict[tuple[str, ...], list[str]] = {}
        for claim in read_claims(ROOT):
            if claim.roads:
                groups.setdefault(claim.roads, []).append(f'<a href="claims.html#{claim.id}">{claim.id}</a>')
        body = ""
        for roads, names in sorted(groups.items(), key=lambda row: (-len(row[0]), -len(row[1]))):
            marks = "".join(f"<td>{'✓' if road in roads else ''}</td>" for road in ROADS)
            body += f"<tr><td><strong>{len(names)}</strong>: {', '.join(names)}</td>{marks}</tr>"
        table = f'<table class="roads">{head("claims", *ROADS)}<tbody>{body}</tbody></table>'
        return [raw(f'<div class="results claims-table">{table}</div>')]


def write_files(app: Sphinx, error: Exception | None) -> None:
    folder = Path(app.outdir) / "book"
    if error is None and (folder / "claims.html").is_file():
        export.write(ROOT, folder)


def setup(app: Sphinx) -> None:
    app.add_directive("ledger", Ledger)
    app.add_directive("verdicts", Verdicts)
    app.add_directive("roads", Roads)
    app.connect("build-finished", write_files)
