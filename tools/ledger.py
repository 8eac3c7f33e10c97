"""The ledger: the claims of book/claims.toml with their evidence, compared."""

import argparse
import ast
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lsalib.book.claims import METADATA, Record, tally
from tools.claims import NOT_RUN, PROVED, STATUSES, Entry, read_claims
from tools.notebooks import pages
from tools.notebooks.pages import Book

# The book's main figure, as a file for the README.
FIGURE = Path("book/_static/answer.svg")
THEOREMS = ("Theorem", "Proposition", "Lemma", "Corollary")
# The kinds of marked tests; a certificate derives a formula for all d and C.
KINDS = ("test", "brute force", "certificate")
UNKNOWN = "no such claim in book/claims.toml"


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


def read_marks(root: Path) -> Marks:
    """Tests with the mark ``claim("id", ..., kind="...")``, found in the syntax of the
    files: nothing is imported.
    """
    marks: Marks = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "pytest.mark.claim" not in text:  # parsing takes time
            continue
        for node in ast.walk(ast.parse(text)):
            for mark in getattr(node, "decorator_list", []):
                if ast.unparse(mark).partition("(")[0] == "pytest.mark.claim":
                    names, marked = read_mark(path.relative_to(root), node, mark)
                    for name in names:
                        marks.setdefault(name, []).append(marked)
    return marks


def read_mark(file: Path, test: Any, mark: Any) -> tuple[list[str], Marked]:
    """The claims that a mark names, and what it says of the test."""
    names = [ast.literal_eval(each) for each in getattr(mark, "args", [])]
    words = getattr(mark, "keywords", [])
    named = {each.arg: ast.literal_eval(each.value) for each in words}
    if not names or named.get("kind", KINDS[0]) not in KINDS:
        raise SystemExit(
            f'{file.as_posix()}::{test.name}: expected @pytest.mark.claim("id", …, '
            f"kind=one of {KINDS})"
        )
    said = ast.get_docstring(test) or test.name.removeprefix("test_").replace("_", " ")
    said = " ".join(said.partition("\n\n")[0].split())
    return names, Marked(file.as_posix(), test.name, said, **named)


def read_records(book: Book) -> dict[str, list[Record]]:
    """For each page with code, what its notebook checked, in order."""
    records: dict[str, list[Record]] = {}
    for page in book.code_pages:
        records[page.stem] = []
        for output in pages.outputs(page.stored):
            for record in output.get("metadata", {}).get(METADATA, []):
                fields = (record[field] for field in Record._fields)
                records[page.stem].append(Record(*fields))
    return records


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
    pages_of = {claim.id: claim.page for claim in claims}
    found, evident = [], set(marks)
    for page, records in by_page.items():
        for record in records:
            where = f"{record.id}, {record.kind} “{record.label}” in {page}"
            found += [f"{where}: {each}" for each in misplaced(record, page, pages_of)]
            if record.kind == "check":
                evident.add(record.id)
    for name in marks.keys() - pages_of.keys():
        where = ", ".join(f"{test.file}::{test.function}" for test in marks[name])
        found.append(f"{name}, mark in {where}: {UNKNOWN}")
    for name, count in Counter(claim.id for claim in claims).items():
        if count > 1:
            found.append(f"{name}: {count} entries, expected one")
    for claim in claims:
        found += contradictions(claim, claim.id in evident)
        if claim.status == PROVED or claim.proof:
            found += unproved(claim, marks, labels)
    return found


def misplaced(record: Record, page: str, pages_of: dict[str, str]) -> list[str]:
    """What is wrong with a record of this page."""
    found = []
    if record.id not in pages_of:
        found.append(UNKNOWN)
    elif page != pages_of[record.id]:
        found.append(f"the ledger names the page {pages_of[record.id]}")
    if not record.passed:
        found.append("did not pass")
    return found


def contradictions(claim: Entry, evident: bool) -> list[str]:
    """What is wrong with one entry, given whether it has a check or a marked test."""
    found = []
    if claim.status not in STATUSES:
        listed = ", ".join(STATUSES)
        found.append(f"{claim.id}: status “{claim.status}”, expected one of: {listed}")
    elif (claim.status == NOT_RUN) == evident:
        what = "is evidence" if evident else "is no check and no marked test"
        found.append(f"{claim.id}: “{claim.status}”, but there {what}")
    if (claim.source == "new") == bool(claim.paper) or not claim.finding:
        found.append(
            f"{claim.id}: expected a finding, and what the paper says unless the place "
            "is “new”"
        )
    return found


def headline(book: Book) -> str:
    """The first figure that the executed front page shows; the README shows it too."""
    shown = [out.get("data", {}) for out in pages.outputs(book.pages["intro"].stored)]
    return next(data["image/svg+xml"] for data in shown if "image/svg+xml" in data)


def check(book: Book) -> None:
    """Stop where claims and evidence disagree; draw the README's figure."""
    claims, by_page = read_claims(book.root), read_records(book)
    marks = read_marks(book.root)
    if found := problems(claims, by_page, marks, book.labels):
        raise SystemExit("\n".join(found))
    if (book.root / FIGURE).is_file():
        (book.root / FIGURE).write_text(headline(book), encoding="utf-8")
    records = [record for records in by_page.values() for record in records]
    tests = [test for listed in marks.values() for test in listed]
    certificates = sum(test.kind == "certificate" for test in tests)
    checks = tally(records) if records else "no checks"
    print(
        f"{len(claims)} claims: {checks}; {len(tests)} marked tests, {certificates} of "
        "them certificates"
    )


def main(args: argparse.Namespace) -> None:
    check(Book(args.root.resolve()))
