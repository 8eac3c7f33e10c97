"""Sphinx extension of the claims: a domain whose objects are the rows of the ledger, the
role that refers to them, the box at a page's head, and the tables of claims.
"""

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from docutils.nodes import Element, Node
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains import Domain, ObjType
from sphinx.util.docutils import ReferenceRole, SphinxDirective
from sphinx.util.nodes import make_refnode

from lsalib.book.claims import HEAD, Record, tally, texts
from tools import ledger
from tools.ledger import STATUSES, Entry, Marked
from tools.notebooks import install_cell
from tools.notebooks.markdown import chapters
from tools.notebooks.pages import ROOT

SOURCES = {
    "P": "the paper on linear attention",
    "S": "a summary of the paper on softmax attention",
    "A": "other papers",
    "new": "this book",
}
COLUMNS = ("The paper says", "We find", "Verdict")
COLUMNS_OF = {
    "P": COLUMNS,
    "S": ("The summary says", *COLUMNS[1:]),
    "A": COLUMNS,
    "new": ("This book finds", "Verdict"),
}
CELL = "its cell"
FORM = (
    '<form class="ledger-tools pst-js-only" role="search" aria-label="The claims">'
    '<label>Search <input type="search"></label> '
    '<button type="button">Show all</button> <output></output></form>'
)
FOR_ALL = "Checked symbolically for all d and C, not only at the sizes that we ran."


class Book(NamedTuple):
    """What the tables show: claims by id, the tests of each, the records of each page."""

    claims: dict[str, Entry]
    marks: ledger.Marks
    records: dict[str, list[Record]]


@cache
def book() -> Book:
    """The claims and the evidence of this checkout."""
    claims = {claim.id: claim for claim in ledger.read_claims(ROOT)}
    return Book(claims, ledger.read_marks(ROOT), ledger.read_records(ROOT))


def inline(words: str, *classes: str) -> nodes.inline:
    return nodes.inline("", words, classes=list(classes))


def badge(status: str, words: str = "") -> nodes.inline:
    """A verdict as a pill."""
    name = status.replace(" ", "-")
    return inline(words or status, "claim-status", f"claim-{name}")


def for_all() -> nodes.inline:
    """The sign of a certificate."""
    letters = [nodes.emphasis("", "d"), nodes.Text(", "), nodes.emphasis("", "C")]
    return nodes.inline("", "∀ ", *letters, classes=["claim-certified"])


def verdict(claim: Entry) -> list[Node]:
    """The claim's verdict, with the sign of a certificate; for who hears the page, also
    of what.
    """
    shown: list[Node] = [badge(claim.status)]
    if any(test.kind == "certificate" for test in book().marks.get(claim.id, [])):
        shown += [nodes.Text(" "), for_all()]
    return [*shown, inline(f": {claim.where or claim.id}", "unseen")]


def reference(kind: str, target: str, words: str = "", of: str = "") -> pending_xref:
    """A link to a claim's row or to the cell of a check, for who hears the page also of
    what; a claim without words shows its verdict.
    """
    shown = nodes.inline("", words)
    if of:
        shown += inline(of, "unseen")
    about = {"refdomain": "claim", "reftype": kind, "reftarget": target}
    return pending_xref("", shown, refexplicit=bool(words), refwarn=True, **about)


class ClaimRole(ReferenceRole):
    """{claim}`sharp-head-count`: the verdict, as a link to the ledger;
    {claim}`words <id>`: words instead of it.
    """

    def run(self) -> tuple[list[Node], list[nodes.system_message]]:
        if not self.has_explicit_title:
            return [reference("claim", self.target)], []
        return [reference("claim", self.target, self.title, f" for {self.target}")], []


class ClaimDomain(Domain):
    """The rows of the ledger, and by their place the cells of checks."""

    name = "claim"
    label = "Claim"
    # Domain declares them as these are, without ClassVar
    object_types = {"claim": ObjType("claim", "claim")}  # noqa: RUF012
    initial_data: dict = {"rows": {}}  # noqa: RUF012
    dangling_warnings = {  # noqa: RUF012
        "claim": "no claim of the ledger is called %(target)s"
    }

    def clear_doc(self, docname):
        rows = self.data["rows"]
        self.data["rows"] = {name: at for name, at in rows.items() if at != docname}

    def resolve_xref(self, env, fromdocname, builder, typ, target, node, contnode):
        if typ == "check":
            page, _, anchor = target.partition("#")
            return make_refnode(builder, fromdocname, f"book/{page}", anchor, contnode)
        if target not in self.data["rows"]:
            return None
        docname = self.data["rows"][target]
        if node["refexplicit"]:
            return make_refnode(builder, fromdocname, docname, target, contnode)
        shown = verdict(book().claims[target])
        link = make_refnode(builder, fromdocname, docname, target, shown)
        link["classes"].append("claim-badge")
        return link

    def get_objects(self):
        # a negative priority: the book's search finds the ledger itself
        for name, docname in self.data["rows"].items():
            yield name, name, "claim", docname, name, -1


def paragraph(*parts: str | Node, classes: Sequence[str] = ()) -> nodes.paragraph:
    content = [nodes.Text(part) if isinstance(part, str) else part for part in parts]
    return nodes.paragraph("", "", *content, classes=list(classes))


def bullets(items: Sequence[Node], *classes: str) -> nodes.bullet_list:
    listed = [nodes.list_item("", item) for item in items]
    return nodes.bullet_list("", *listed, classes=list(classes))


def fold(summary: str, *content: Node) -> list[Node]:
    """Docutils has no node for what a reader opens."""
    begin = f'<details class="claims"><summary>{summary}</summary>'
    raw = lambda html: nodes.raw("", html, format="html")
    return [raw(begin), *content, raw("</details>")]


def cell(*content: Node, span: int = 1, classes: Sequence[str] = ()) -> nodes.entry:
    made = nodes.entry("", *content, classes=list(classes))
    if span > 1:
        made["morecols"] = span - 1
    return made


def table(
    name: str, head: Sequence[str], rows: Sequence[nodes.row], columns: int = 0
) -> nodes.table:
    """With more columns than names, the first name stands over several."""
    columns = columns or len(head)
    first, *others = (paragraph(words) for words in head)
    top = nodes.row("", cell(first, span=columns - len(others)), *map(cell, others))
    widths = [nodes.colspec(colwidth=1) for _ in range(columns)]
    parts = [*widths, nodes.thead("", top), nodes.tbody("", *rows)]
    group = nodes.tgroup("", *parts, cols=columns)
    return nodes.table("", group, classes=[name, "colwidths-auto"])


def definitions() -> nodes.definition_list:
    """What the verdicts mean, and the sign beside those with a certificate."""
    terms = [*((badge(status), meaning) for status, meaning in STATUSES.items())]
    items = [
        nodes.definition_list_item(
            "", nodes.term("", "", sign), nodes.definition("", paragraph(meaning))
        )
        for sign, meaning in [*terms, (for_all(), FOR_ALL)]
    ]
    return nodes.definition_list("", *items, classes=["verdict-definitions"])


class Brief(SphinxDirective):
    """The box at a page's head: a paragraph with the question, others with the answer,
    and others' claims.
    """

    has_content = True

    def run(self) -> list[Node]:
        box = nodes.container(classes=["brief"])
        self.state.nested_parse(self.content, self.content_offset, box)
        if len(box) < 2:
            raise self.error(
                "a brief has a paragraph with the question and one with the answer"
            )
        question, *answers = box.children
        described = " ".join(f"{question.astext()} {answers[0].astext()}".split())
        question["classes"].append("brief-question")
        for answer in answers:
            answer["classes"].append("brief-answer")
        stem = self.env.docname.rpartition("/")[2]
        # The front page explains the verdicts first, in its table.
        if stem != "intro":
            box += self.claims_of_papers(stem)
        return [nodes.meta("", name="description", content=described), box]

    def claims_of_papers(self, stem: str) -> list[Node]:
        parts: list[Node] = []
        for source in ("P", "S", "A"):
            items = [
                paragraph(f"{claim.where}: ", reference("claim", claim.id))
                for claim in book().claims.values()
                if (claim.page, claim.source) == (stem, source)
            ]
            if items:
                said = f"Claims of {SOURCES[source]}:"
                parts.append(paragraph(said, classes=["brief-source"]))
                parts.append(bullets(items, "brief-claims"))
        return parts


class Table(SphinxDirective):
    """What the tables of claims share: what the paper says, what we find, the verdict."""

    def text(self, words: str) -> list[Node]:
        content, messages = self.state.inline_text(words, self.lineno)
        return [*content, *messages]

    def row(
        self, claim: Entry, paper: str, finding: str, verdict: list[Node]
    ) -> nodes.row:
        number = chapters(ROOT).get(claim.page)
        place = f"{number}. " if number else ""
        link = self.text(f"[]({claim.page}.md)")
        note = paragraph(place, *link, classes=["ledger-note"])
        found = paragraph(*self.text(finding))
        cells = [cell(found, note, classes=["ledger-finding"], span=1 if paper else 2)]
        if paper:
            said = paragraph(*self.text(paper))
            cells.insert(0, cell(said, classes=["ledger-paper"]))
        return nodes.row("", *cells, cell(paragraph(*verdict)))


class Ledger(Table):
    """The tally, and for each source a table of its claims, by chapter, each with its
    evidence, folded.
    """

    def run(self) -> list[Node]:
        numbers = {"intro": 0} | chapters(ROOT)
        place = lambda claim: numbers.get(claim.page, len(numbers))
        listed = sorted(book().claims.values(), key=place)
        rows = self.env.get_domain("claim").data["rows"]
        rows.update({claim.id: self.env.docname for claim in listed})
        box = nodes.container(ids=["ledger"])
        for source, name in SOURCES.items():
            own = [claim for claim in listed if claim.source == source]
            pairs = [row for claim in own for row in self.rows(claim)]
            made = table("ledger", COLUMNS_OF[source], pairs, columns=3)
            # Sphinx would number a table with a caption.
            box += nodes.container("", nodes.rubric("", f"Claims of {name}"), made)
        legend = fold("What the verdicts mean", definitions())
        form = nodes.raw("", FORM, format="html")
        return [tallies(listed), *legend, form, box]

    def rows(self, claim: Entry) -> list[nodes.row]:
        """The claim, and below it what opens to its evidence."""
        shown = self.row(claim, claim.paper, claim.finding, [badge(claim.status)])
        shown["ids"] = [claim.id]
        shown["classes"] = filters(claim.source, claim.status)
        below = nodes.row("", cell(*self.evidence(claim), span=3))
        return [shown, below]

    def evidence(self, claim: Entry) -> list[Node]:
        """The claim's name and theorem, its checks with links to their cells, its tests."""
        records = claim.records(book().records)
        marked = book().marks.get(claim.id, [])
        about: list[str | Node] = [reference("claim", claim.id, claim.id)]
        if claim.where:
            of = "" if claim.source == "A" else f" of {SOURCES[claim.source]}"
            about.append(f"; {claim.where}{of}")
        if claim.proof:
            about += ["; proof: ", *self.text(f"{{prf:ref}}`{claim.proof}`")]
        parts: list[Node] = [paragraph(*about)]
        counts = []
        if records:
            counts.append(tally(records))
            rows = [check(claim.page, record) for record in records]
            parts.append(table("evidence", [*HEAD, "cell"], rows))
        if marked:
            counts.append("1 test" if len(marked) == 1 else f"{len(marked)} tests")
            parts.append(bullets([*map(described, marked)]))
        return fold(f"Evidence: {', '.join(counts) or 'none'}", *parts)


class Verdicts(Table):
    """A few claims, a line each, “id: what the paper says | what we find”, and what
    their verdicts mean.
    """

    has_content = True

    def run(self) -> list[Node]:
        rows = []
        for line in filter(str.strip, self.content):
            name, _, words = line.partition(": ")
            paper, _, finding = words.partition(" | ")
            if name not in book().claims or not finding:
                raise self.error(
                    "expected “id: what the paper says | what we find” with a claim’s "
                    f"id, got {line!r}"
                )
            link = reference("claim", name)
            rows.append(self.row(book().claims[name], paper, finding, [link]))
        return [table("verdicts", COLUMNS, rows), definitions()]


def filters(source: str, status: str = "") -> list[str]:
    """The classes by which the ledger's script filters: of a row, and of a link that
    chooses rows.
    """
    chosen = [f"source-{source}"]
    if status:
        chosen.append(f"verdict-{status.replace(' ', '-')}")
    return chosen


def tallies(listed: list[Entry]) -> nodes.bullet_list:
    """For each source, how many claims have each verdict and which are refuted."""

    def choose(shown: Node, *classes: str) -> nodes.reference:
        return nodes.reference("", "", shown, refid="ledger", classes=list(classes))

    lines = []
    for source, name in SOURCES.items():
        own = [claim for claim in listed if claim.source == source]
        whose = nodes.Text(name[0].upper() + name[1:])
        line = [choose(whose, *filters(source)), f": {len(own)} claims"]
        refuted = [claim for claim in own if claim.status == "refuted as stated"]
        for number, claim in enumerate(refuted):
            line.append(", " if number else "; refuted: ")
            line.append(reference("claim", claim.id, claim.where))
        line.append(".")
        counts = Counter(claim.status for claim in own)
        for status in filter(counts.get, STATUSES):
            pill = badge(status, f"{counts[status]} {status}")
            link = choose(pill, "claim-badge", *filters(source, status))
            line += [" ", link]
        lines.append(paragraph(*line))
    return bullets(lines, "ledger-tally")


def check(page: str, record: Record) -> nodes.row:
    """A check or a control, with its numbers as they are and a link to its cell."""
    mark, kind = ("✗", "control") if record.kind == "control" else ("✓", "pass")
    what, *numbers, seeds = texts(record, rounded=False)
    link = reference("check", f"{page}#{record.anchor}", CELL, f" of {record.anchor}")
    return nodes.row(
        "",
        cell(paragraph(inline(mark, "claim-mark"), f" {what}")),
        *(cell(paragraph(each), classes=["claim-number"]) for each in numbers),
        cell(paragraph(seeds)),
        cell(paragraph(link)),
        classes=[f"claim-{kind}"],
    )


def described(marked: Marked) -> nodes.paragraph:
    """What a marked test shows, with its file, as a link where the repository has an
    address.
    """
    place: Element = inline(f"{marked.file}, {marked.function}", "ledger-note")
    repository = install_cell.address(ROOT)
    if install_cell.GITHUB.fullmatch(repository):
        address = f"{repository}/blob/{install_cell.BRANCH}/{marked.file}"
        place = nodes.reference("", "", place, refuri=address)
    return paragraph(f"{marked.kind.capitalize()}: {marked.words} ", place)


def write_data(app: Sphinx, error: Exception | None) -> None:
    """Beside the page, all claims with their checks as numbers; a margin is null where
    a check has no tolerance.
    """
    page = Path(app.outdir) / "book/claims.html"
    if error or not page.is_file():
        return
    data = []
    for claim in book().claims.values():
        checks = []
        for record in claim.records(book().records):
            margin = record.margin if isfinite(record.margin) else None
            checks.append(record._asdict() | {"margin": margin})
        data.append(claim._asdict() | {"checks": checks})
    text = json.dumps(data, indent=1, ensure_ascii=False)
    page.with_suffix(".json").write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.add_domain(ClaimDomain)
    app.add_role("claim", ClaimRole())
    app.add_directive("brief", Brief)
    app.add_directive("ledger", Ledger)
    app.add_directive("verdicts", Verdicts)
    app.connect("build-finished", write_data)
