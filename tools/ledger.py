"""The ledger: the claims of book/claims.toml with their evidence, compared: python -m
tools ledger.
"""

import argparse
import ast
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lsalib.book.claims import METADATA, Record, tally
from tools.notebooks import markdown, pages

# The book's main figure, as a file for the README.
FIGURE = Path("book/_static/answer.svg")
NOT_RUN = "not run here yet"
PROVED = "proved here"
THEOREMS = ("Theorem", "Proposition", "Lemma", "Corollary")
# The one rule for verdicts, which the ledger and the front page show. It judges a
# statement in its source's own setting, not its proof; a single run or case of that
# setting that contradicts the statement is enough for "corrected".
STATUSES = {
    "reproduced": "True as its source states it. We add nothing.",
    "sharpened": "True as its source states it, and we add an exact number, a wider setting or a proof.",
    "corrected": "False as its source states it, in one run or case at least. True after a change, which we name.",
    "refuted as stated": "False as its source states it, and no change that we know saves it.",
    PROVED: "New in this book, or a conjecture of the paper. We prove it.",
    "measured here": "New in this book. We measured it and did not prove it.",
    "not supported here": "We did not see it in another setting than its source’s. This does not refute it there.",
    NOT_RUN: "We have not run it.",
}
# The kinds of marked tests; a certificate derives a formula for all d and C.
KINDS = ("test", "brute force", "certificate")


class Entry(NamedTuple):
    """One entry of book/claims.toml."""

    id: str
    place: str
    page: str
    paper: str
    finding: str
    status: str
    # the label of its theorem on that page
    proof: str = ""

    @property
    def source(self) -> str:
        """Whose claim it is: "P" the paper, "S" the summary of another, "A" a paper
        before ours, "new" this book.
        """
        return self.place.split()[0]

    @property
    def where(self) -> str:
        """The place in the paper, or the other paper's name; "" for a new claim."""
        return self.place.partition(" ")[2]

    def records(self, by_page: dict[str, list[Record]]) -> list[Record]:
        """The claim's checks and controls, all of which stand on its page."""
        return [record for record in by_page.get(self.page, []) if record.id == self.id]


class Marked(NamedTuple):
    """A test function with a mark: what it shows, in one sentence."""

    file: str
    function: str
    words: str
    kind: str = KINDS[0]


# The marked tests of each claim.
Marks = dict[str, list[Marked]]
# For each label of the book, its page and its name: "Theorem 2.1".
Labels = Mapping[str, tuple[str, str]]


def read_claims(root: Path) -> list[Entry]:
    text = (root / "book/claims.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text).get("claim", [])
    required = set(Entry._fields) - Entry._field_defaults.keys()
    wrong = []
    for number, entry in enumerate(entries, start=1):
        name = f"book/claims.toml, {entry.get('id', f'claim {number}')}"
        wrong += [f"{name}: no key “{key}”" for key in sorted(required - entry.keys())]
        for key, value in entry.items():
            if key not in Entry._fields:
                wrong.append(f"{name}: unknown key “{key}”")
            elif not isinstance(value, str):
                wrong.append(f"{name}: “{key}” must be a text, got {value!r}")
    if wrong or not entries:
        raise SystemExit("\n".join(wrong or ["book/claims.toml has no [[claim]]"]))
    return [Entry(**entry) for entry in entries]


def read_marks(root: Path) -> Marks:
    """Tests with the mark ``claim("id", ..., kind="...")``, found in the syntax of the
    files: nothing is imported.
    """
    found: Marks = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        file, text = path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")
        # Most files have no mark, and parsing takes time.
        nodes = ast.walk(ast.parse(text)) if "pytest.mark.claim" in text else ()
        for test in (node for node in nodes if isinstance(node, ast.FunctionDef)):
            for mark in test.decorator_list:
                if ast.unparse(mark).partition("(")[0] != "pytest.mark.claim":
                    continue
                names = [
                    ast.literal_eval(argument) for argument in getattr(mark, "args", [])
                ]
                given = {
                    each.arg: ast.literal_eval(each.value)
                    for each in getattr(mark, "keywords", [])
                }
                if not names or given.get("kind", KINDS[0]) not in KINDS:
                    raise SystemExit(
                        f'{file}::{test.name}: expected @pytest.mark.claim("id", …, kind=one of {KINDS})'
                    )
                words = test.name.removeprefix("test_").replace("_", " ")
                doc = (ast.get_docstring(test) or words).partition("\n\n")[0]
                for name in names:
                    found.setdefault(name, []).append(
                        Marked(file, test.name, " ".join(doc.split()), **given)
                    )
    return found


def read_records(root: Path) -> dict[str, list[Record]]:
    """For each page with code, what its notebook checked, in order."""
    return {
        page.stem: [
            Record(*(record[field] for field in Record._fields))
            for output in pages.outputs(pages.load(page))
            for record in output.get("metadata", {}).get(METADATA, [])
        ]
        for page in pages.code_pages(root)
    }


def unproved(claim: Entry, marks: Marks, labels: Labels) -> list[str]:
    """What a claim that is proved lacks: a theorem on its page, and a test of it that
    is no mere sample.
    """
    page, name = labels.get(claim.proof, ("", ""))
    found = []
    if page != claim.page or name.partition(" ")[0] not in THEOREMS:
        found.append(
            f"{claim.id}: “{claim.status}”, but proof = “{claim.proof}” is no label of "
            f"a theorem, proposition, lemma or corollary on the page {claim.page}"
        )
    if not any(test.kind in KINDS[1:] for test in marks.get(claim.id, [])):
        found.append(
            f"{claim.id}: “{claim.status}”, but no test with its mark is one of "
            f"{', '.join(KINDS[1:])}"
        )
    return found


def problems(
    claims: list[Entry],
    by_page: dict[str, list[Record]],
    marks: Marks,
    labels: Labels,
) -> list[str]:
    """Where the ledger and the evidence disagree; empty if they agree."""
    by_id = {claim.id: claim for claim in claims}
    checked = {
        record.id
        for records in by_page.values()
        for record in records
        if record.kind == "check"
    }
    evident = checked.union(marks)
    counted = Counter(claim.id for claim in claims).items()
    found = [
        f"{name}: {count} entries, expected one" for name, count in counted if count > 1
    ]
    for claim in claims:
        if claim.status not in STATUSES:
            found.append(
                f"{claim.id}: status “{claim.status}”, expected one of: {', '.join(STATUSES)}"
            )
        elif (claim.status == NOT_RUN) == (claim.id in evident):
            what = (
                "there is evidence"
                if claim.id in evident
                else "there is no check and no marked test"
            )
            found.append(f"{claim.id}: “{claim.status}”, but {what}")
        if claim.status == PROVED or claim.proof:
            found += unproved(claim, marks, labels)
        if (claim.source == "new") == bool(claim.paper) or not claim.finding:
            found.append(
                f"{claim.id}: expected a finding, and what the paper says unless the place is “new”"
            )
    for page, record in (
        (page, record) for page, records in by_page.items() for record in records
    ):
        where = f"{record.id}, {record.kind} “{record.label}” in {page}"
        if record.id not in by_id:
            found.append(f"{where}: no such claim in book/claims.toml")
        elif page != by_id[record.id].page:
            found.append(f"{where}: the ledger names the page {by_id[record.id].page}")
        if not record.passed:
            found.append(f"{where}: did not pass")
    for name in (name for name in marks if name not in by_id):
        where = ", ".join(f"{test.file}::{test.function}" for test in marks[name])
        found.append(f"{name}, mark in {where}: no such claim in book/claims.toml")
    return found


def headline(root: Path) -> str:
    """The first figure that the executed front page shows; the README shows it too."""
    shown = [
        output.get("data", {})
        for output in pages.outputs(pages.load(pages.Page(root, "intro")))
    ]
    return next(data["image/svg+xml"] for data in shown if "image/svg+xml" in data)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools ledger", description="Compare claims and evidence."
    )
    parser.add_argument(
        "--root", type=Path, default=pages.ROOT, help="the checkout (default: this one)"
    )
    root = parser.parse_args(argv).root.resolve()
    claims, by_page, marks = read_claims(root), read_records(root), read_marks(root)
    if found := problems(claims, by_page, marks, markdown.labels(root)):
        raise SystemExit("\n".join(found))
    if (root / FIGURE).is_file():
        (root / FIGURE).write_text(headline(root), encoding="utf-8")
    records = [record for records in by_page.values() for record in records]
    tests = [test for listed in marks.values() for test in listed]
    certificates = sum(test.kind == "certificate" for test in tests)
    checks = tally(records) if records else "no checks"
    print(
        f"{len(claims)} claims: {checks}; {len(tests)} marked tests, {certificates} of them certificates"
    )
