"""Sphinx extension of the claims: a domain whose objects are the rows of the ledger,
roles that refer to them, the box at a page's head, and the tables of claims.

What is shown is written in the pages' own Markdown and parsed by their parser.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from math import isfinite
from pathlib import Path
from textwrap import indent

from docutils import nodes
from docutils.nodes import Node
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains import Domain, ObjType
from sphinx.util.docutils import ReferenceRole, SphinxDirective
from sphinx.util.nodes import make_refnode

from lsalib.book.claims import HEAD, Record, tally, texts
from tools import ledger
from tools.claims import STATUSES, Entry, read_claims
from tools.ledger import Marked
from tools.notebooks import install_cell
from tools.notebooks.pages import ROOT, current

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
FORM = """<form class="ledger-tools pst-js-only" role="search" aria-label="The claims">
<label>Search <input type="search"></label> <button type="button">Show all</button>
<output></output></form>"""
FOR_ALL = "[∀ *d*, *C*]{.claim-certified}"
CERTIFIED = "Checked symbolically for all d and C, not only at the sizes that we ran."

claims = cache(lambda: {claim.id: claim for claim in read_claims(ROOT)})
marks = cache(lambda: ledger.read_marks(ROOT))
records = cache(lambda: ledger.read_records(current()))


def plain(text: str) -> str:
    """The text without what Markdown would read as markup."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


def pill(status: str, words: str = "") -> str:
    return f"[{words or status}]{{.claim-status .claim-{status.replace(' ', '-')}}}"


def verdict(claim: Entry) -> str:
    """The claim's verdict, with the sign of a certificate; for who hears the page, also
    of what.
    """
    certified = any(test.kind == "certificate" for test in marks().get(claim.id, []))
    sign = f" {FOR_ALL}" if certified else ""
    return f"{pill(claim.status)}{sign}[: {plain(claim.where or claim.id)}]{{.unseen}}"


def table(name: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A cell may hold another table, if the fence around this one is longer."""
    fence = "::::" if name == "evidence" else ":::::"
    lines = [f"{fence}{{list-table}}", ":header-rows: 1", ":widths: auto"]
    lines += [f":class: {name}", ""]
    for row in (head, *rows):
        cells = [indent(f"- {cell}", "    ").strip() for cell in row]
        lines.append(indent("\n".join(cells), "  ").replace("  ", "* ", 1))
    return "\n".join([*lines, fence])


class ClaimRole(ReferenceRole):
    """{claim}`sharp-head-count` shows the verdict as a link to the ledger, and
    {claim}`words <id>` words instead of it.

    {check}`words <page#anchor>` leads to a cell, and {claims}`words <classes>` to the
    ledger, which then shows the rows of these classes.
    """

    def run(self) -> tuple[list[Node], list[nodes.system_message]]:
        words, classes = self.title, []
        if self.name == "claims":
            classes = self.target.split()
        elif self.has_explicit_title:
            words += f"[ for {plain(self.target)}]{{.unseen}}"
        elif self.target in claims():
            words, classes = verdict(claims()[self.target]), ["claim-badge"]
        parent = self.inliner.parent
        shown, messages = self.inliner.parse(words, self.lineno, self.inliner, parent)
        about = {"reftype": self.name, "reftarget": self.target, "classes": classes}
        inside = nodes.inline("", "", *shown)
        return [pending_xref("", inside, refdomain="claim", **about)], messages


class ClaimDomain(Domain):
    """The rows of the ledger."""

    name = "claim"
    label = "Claim"
    # as Domain declares them
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
            page, _, target = target.partition("#")
            docname = f"book/{page}"
        else:
            target = "ledger" if typ == "claims" else target
            docname = self.data["rows"].get(target)
        if docname is None:
            return None
        link = make_refnode(builder, fromdocname, docname, target, contnode)
        link["classes"] += node["classes"]
        return link

    def get_objects(self):
        # a negative priority: the book's search finds the ledger itself
        for name, docname in self.data["rows"].items():
            yield name, name, "claim", docname, name, -1


class Brief(SphinxDirective):
    """The box at a page's head: a paragraph with the question, others with the answer."""

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
        return [nodes.meta("", name="description", content=described), box]


def row(claim: Entry, paper: str, finding: str, verdict: str) -> list[str]:
    """What the paper says, if it does, what we find, and the verdict."""
    number = current().chapters.get(claim.page)
    chapter = (
        f"{number}. [](/book/{claim.page}.md)"
        if number
        else f"[](/book/{claim.page}.md)"
    )
    found = f"{finding}\n\n[{chapter}]{{.ledger-note}}"
    return [paper, found, verdict] if paper else [found, verdict]


def definitions() -> str:
    """What the verdicts mean, and the sign beside those with a certificate."""
    meanings = {pill(name): meaning for name, meaning in STATUSES.items()}
    meanings[FOR_ALL] = CERTIFIED
    lines = "\n\n".join(f"{term}\n: {meaning}" for term, meaning in meanings.items())
    return f":::{{container}} verdict-definitions\n{lines}\n:::"


def fold(summary: str, content: str) -> str:
    begin = f'<details class="claims"><summary>{summary}</summary>'
    return f"{begin}\n\n{content}\n\n</details>"


def evidence(claim: Entry) -> str:
    """Behind a claim, folded: its name and theorem, its checks with links to their
    cells, its tests.
    """
    checks, listed = claim.records(records()), marks().get(claim.id, [])
    about = f"{{claim}}`{claim.id} <{claim.id}>`"
    if claim.where:
        of = "" if claim.source == "A" else f" of {SOURCES[claim.source]}"
        about += f"; {plain(claim.where)}{of}"
    if claim.proof:
        about += f"; proof: {{prf:ref}}`{claim.proof}`"
    parts, counts = [about], []
    if checks:
        counts.append(tally(checks))
        lines = [check(claim.page, record) for record in checks]
        parts.append(table("evidence", [*HEAD, "cell"], lines))
    if listed:
        counts.append("1 test" if len(listed) == 1 else f"{len(listed)} tests")
        parts.append("\n".join(map(tested, listed)))
    return fold(f"Evidence: {', '.join(counts) or 'none'}", "\n\n".join(parts))


def check(page: str, record: Record) -> list[str]:
    """A check or a control, with its numbers as they are and a link to its cell."""
    mark, kind = ("✗", "control") if record.kind == "control" else ("✓", "pass")
    what, *others = map(plain, texts(record, rounded=False))
    link = f"{{check}}`its cell <{page}#{record.anchor}>`"
    return [f"[{mark}]{{.claim-mark .claim-{kind}}} {what}", *others, link]


def tested(marked: Marked) -> str:
    """What a marked test shows, with its file, as a link where the repository has an
    address.
    """
    place = plain(f"{marked.file}, {marked.function}")
    repository = current().address
    if install_cell.GITHUB.fullmatch(repository):
        place = f"[{place}]({repository}/blob/{install_cell.BRANCH}/{marked.file})"
    return (
        f"- {marked.kind.capitalize()}: {plain(marked.words)} [{place}]{{.ledger-note}}"
    )


def filters(source: str, status: str = "") -> str:
    """The classes of a row, and of a link that chooses rows."""
    verdict = f" verdict-{status.replace(' ', '-')}" if status else ""
    return f"source-{source}{verdict}"


def tallies(listed: list[Entry]) -> str:
    """For each source, how many claims have each verdict and which are refuted."""
    lines = []
    for source, name in SOURCES.items():
        own = [claim for claim in listed if claim.source == source]
        counts = Counter(claim.status for claim in own)
        refuted = ", ".join(
            f"{{claim}}`{claim.where} <{claim.id}>`"
            for claim in own
            if claim.status == "refuted as stated"
        )
        said = (
            f"{len(own)} claims; refuted: {refuted}"
            if refuted
            else f"{len(own)} claims"
        )
        line = f"- {{claims}}`{name[0].upper()}{name[1:]} <{filters(source)}>`: {said}."
        for status in filter(counts.get, STATUSES):
            shown = pill(status, f"{counts[status]} {status}")
            line += f" {{claims}}`{shown} <claim-badge {filters(source, status)}>`"
        lines.append(line)
    return "\n".join([":::{container} ledger-tally", *lines, ":::"])


class Ledger(SphinxDirective):
    """The tally, and for each source a table of its claims, by chapter, each with its
    evidence, folded.
    """

    def run(self) -> list[Node]:
        numbers = {"intro": 0} | current().chapters
        place = lambda claim: numbers.get(claim.page, len(numbers))
        listed = sorted(claims().values(), key=place)
        objects = self.env.get_domain("claim").data["rows"]
        objects |= dict.fromkeys(["ledger", *claims()], self.env.docname)
        box = nodes.container(ids=["ledger"])
        for source, name in SOURCES.items():
            own = [claim for claim in listed if claim.source == source]
            head = nodes.rubric("", f"Claims of {name}")
            box += nodes.container("", head, self.table(COLUMNS_OF[source], own))
        legend = fold("What the verdicts mean", definitions())
        text = f"{tallies(listed)}\n\n{legend}\n\n{FORM}"
        return [*self.parse_text_to_nodes(text), box]

    def table(self, columns: Sequence[str], own: list[Entry]) -> Node:
        """Below each claim, over all columns, what opens to its evidence."""
        lines = []
        for claim in own:
            lines.append(row(claim, claim.paper, claim.finding, pill(claim.status)))
            lines.append([evidence(claim), *[""] * (len(columns) - 1)])
        (made,) = self.parse_text_to_nodes(table("ledger", columns, lines))
        rows = made.next_node(nodes.tbody).children
        for claim, shown, below in zip(own, rows[::2], rows[1::2], strict=True):
            shown["ids"] = [claim.id]
            shown["classes"] = filters(claim.source, claim.status).split()
            del below[1:]
            below[0]["morecols"] = len(columns) - 1
        return made


class Verdicts(SphinxDirective):
    """A few claims, a line each, “id: what the paper says | what we find”, and what
    their verdicts mean.
    """

    has_content = True

    def run(self) -> list[Node]:
        lines = []
        for line in filter(str.strip, self.content):
            name, _, words = line.partition(": ")
            paper, _, finding = words.partition(" | ")
            if name not in claims() or not finding:
                raise self.error(
                    "expected “id: what the paper says | what we find” with a claim’s "
                    f"id, got {line!r}"
                )
            lines.append(row(claims()[name], paper, finding, f"{{claim}}`{name}`"))
        text = f"{table('verdicts', COLUMNS, lines)}\n\n{definitions()}"
        return self.parse_text_to_nodes(text)


def write_data(app: Sphinx, error: Exception | None) -> None:
    """Beside the page, all claims with their checks as numbers; a margin is null where
    a check has no tolerance.
    """
    page = Path(app.outdir) / "book/claims.html"
    if error or not page.is_file():
        return
    data = []
    for claim in claims().values():
        checks = []
        for record in claim.records(records()):
            margin = record.margin if isfinite(record.margin) else None
            checks.append(record._asdict() | {"margin": margin})
        data.append(claim._asdict() | {"checks": checks})
    text = json.dumps(data, indent=1, ensure_ascii=False)
    page.with_suffix(".json").write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> None:
    app.add_domain(ClaimDomain)
    for role in ("claim", "check", "claims"):
        app.add_role(role, ClaimRole())
    for name, directive in (
        ("brief", Brief),
        ("ledger", Ledger),
        ("verdicts", Verdicts),
    ):
        app.add_directive(name, directive)
    app.connect("build-finished", write_data)
