"""Sphinx extension of the claims: a domain whose objects are the rows of the ledger,
roles that refer to them, the box at a page's head, and the tables of claims.

What is shown is written in the pages' own Markdown, by the template claims.md.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.nodes import Node
from jinja2 import Environment, FileSystemLoader
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains import Domain, ObjType
from sphinx.util.docutils import ReferenceRole, SphinxDirective
from sphinx.util.nodes import make_refnode

from lsalib.book.claims import HEAD, tally, texts
from tools import ledger
from tools.claims import STATUSES, read_claims
from tools.notebooks import install_cell
from tools.notebooks.pages import ROOT, current

claims = cache(lambda: {claim.id: claim for claim in read_claims(ROOT)})
marks = cache(lambda: ledger.read_marks(ROOT))
records = cache(lambda: ledger.read_records(current()))


def plain(text: str) -> str:
    """The text without what Markdown would read as markup."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)


@cache
def template() -> Any:
    """The macros that write Markdown."""
    env = Environment(loader=FileSystemLoader(Path(__file__).with_name("templates")))
    env.filters |= {"plain": plain, "slug": lambda status: status.replace(" ", "-")}
    github, address = install_cell.GITHUB.fullmatch(current().address), ""
    if github:
        address = f"{github[0]}/blob/{install_cell.BRANCH}/"
    env.globals |= {
        "chapters": current().chapters,
        "heads": [*HEAD],
        "marks": lambda claim: marks().get(claim.id, []),
        "records_of": lambda claim: claim.records(records()),
        "repository": address,
        "statuses": STATUSES,
        "tally": tally,
        "texts": lambda record: texts(record, rounded=False),
    }
    return env.get_template("claims.md").module


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
            words, classes = template().verdict(claims()[self.target]), ["claim-badge"]
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
    """The box at a page's head: a paragraph with the question, then the answer."""

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
        tables = self.parse_text_to_nodes(template().ledger(listed))
        box = nodes.container("", *tables, ids=["ledger"])
        for part in box:
            rows = part.next_node(nodes.tbody).children
            for shown, below in zip(rows[::2], rows[1::2], strict=True):
                self.join(shown, below)
        return [*self.parse_text_to_nodes(template().above(listed)), box]

    def join(self, shown: nodes.row, below: nodes.row) -> None:
        """Markdown has no cells over several columns, and no names of rows."""
        claim = claims()[below.next_node(pending_xref)["reftarget"]]
        verdict = claim.status.replace(" ", "-")
        shown["ids"] = [claim.id]
        shown["classes"] = [f"source-{claim.source}", f"verdict-{verdict}"]
        below[0]["morecols"] = len(below) - 1
        del below[1:]


class Verdicts(SphinxDirective):
    """A few claims, a line each, “id: what the paper says | what we find”, and what
    their verdicts mean.
    """

    has_content = True

    def run(self) -> list[Node]:
        rows = []
        for line in filter(str.strip, self.content):
            name, _, words = line.partition(": ")
            paper, _, finding = words.partition(" | ")
            if name not in claims() or not finding:
                raise self.error(
                    "expected “id: what the paper says | what we find” with a claim’s "
                    f"id, got {line!r}"
                )
            rows.append((claims()[name], paper, finding))
        return self.parse_text_to_nodes(template().verdicts(rows))


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
