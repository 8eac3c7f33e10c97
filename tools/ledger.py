"""The ledger: the claims of book/claims.toml with their evidence, compared: python -m
tools ledger.
"""

import argparse
import ast
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lsalib.book.claims import METADATA, Record, tally
from tools.claims import NOT_RUN, PROVED, STATUSES, Entry, read_claims
from tools.notebooks import pages
from tools.notebooks.pages import Book

# The book's main figure, as a file for the README.
FIGURE = Path("book/_static/answer.svg")
THEOREMS = ("Theorem", "Proposition", "Lemma", "Corollary")
# The kinds of marked tests; a certificate derives a formula for all d and C.
KINDS = ("test", "brute force", "certificate")


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


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools ledger", description="Compare claims and evidence."
    )
    parser.add_argument(
        "--root", type=Path, default=pages.ROOT, help="the checkout (default: this one)"
    )
    check(Book(parser.parse_args(argv).root.resolve()))
