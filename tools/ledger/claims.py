"""Compare the claims of book/claims.toml with what the notebooks checked: python -m tools.ledger.claims."""

import argparse
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from lsalib.book.records import METADATA, Record, tally
from tools.notebooks import pages

NOT_RUN = "not run here yet"
STATUSES = ("reproduced", "sharpened", "corrected", "refuted as stated", "proved here", "measured here", NOT_RUN)
# The kinds of evidence for a claim, in the order in which the book names them.
ROADS = ("closed form", "dense algebra", "samples", "stored runs", "certificate", "others' numbers")
# Random draws are made on the page or were made by a stored run.
DRAWN = {"samples", "stored runs"}


class Claim(NamedTuple):
    """One entry of book/claims.toml."""

    id: str
    place: str
    page: str
    statement: str
    status: str
    roads: tuple[str, ...] = ()

    def records(self, by_page: dict[str, list[Record]]) -> list[Record]:
        """The claim's checks and controls, all of which stand on its page."""
        return [record for record in by_page.get(self.page, []) if record.id == self.id]


def read_claims(root: Path) -> list[Claim]:
    entries = tomllib.loads((root / "book/claims.toml").read_text(encoding="utf-8")).get("claim", [])
    for entry in entries:
        if set(entry) | set(Claim._field_defaults) != set(Claim._fields):
            name, keys = entry.get("id", "a claim without id"), ", ".join(Claim._fields)
            raise SystemExit(f"book/claims.toml, {name}: expected the keys {keys}, got {', '.join(entry)}")
    return [Claim(**entry | {"roads": tuple(entry.get("roads", ()))}) for entry in entries]


def read_certificates(root: Path) -> dict[str, tuple[str, str]]:
    """For each certified claim, what a test derives for symbolic d and C, and the test's file."""
    path = root / "tests/library/certified.toml"
    listed = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {name: (what, f"tests/library/{file}.py") for file, found in listed.items() for name, what in found.items()}


def read_records(root: Path) -> dict[str, list[Record]]:
    """For each page with code, what its notebook checked, in order."""
    return {
        page.stem: [
            Record(**record)
            for output in pages.outputs(pages.load(page))
            for record in output.get("metadata", {}).get(METADATA, [])
        ]
        for page in pages.code_pages(root)
    }


def problems(claims: list[Claim], by_page: dict[str, list[Record]]) -> list[str]:
    """Where the ledger and the checks disagree; empty if they agree."""
    by_id = {claim.id: claim for claim in claims}
    checked = {record.id for records in by_page.values() for record in records if record.kind == "check"}
    counted = Counter(claim.id for claim in claims).items()
    found = [f"{name}: {count} entries, expected one" for name, count in counted if count > 1]
    for claim in claims:
        if claim.status not in STATUSES:
            found.append(f"{claim.id}: status «{claim.status}», expected one of: {', '.join(STATUSES)}")
        elif claim.status == NOT_RUN and claim.id in checked:
            found.append(f"{claim.id}: «{NOT_RUN}», but a check runs")
        elif claim.status != NOT_RUN and claim.id not in checked:
            found.append(f"{claim.id}: «{claim.status}», but no check runs")
    for page, record in ((page, record) for page, records in by_page.items() for record in records):
        where = f"{record.id}, {record.kind} «{record.label}» in {page}"
        if record.id not in by_id:
            found.append(f"{where}: no such claim in book/claims.toml")
        elif page != by_id[record.id].page:
            found.append(f"{where}: the ledger names the page {by_id[record.id].page}")
        if not record.passed:
            found.append(f"{where}: did not pass")
    return found


def road_problems(claims: list[Claim], by_page: dict[str, list[Record]], certified: set[str]) -> list[str]:
    """Where a claim's roads disagree with the certificates, or with the seeds of its checks."""
    found = []
    for claim in (claim for claim in claims if claim.status != NOT_RUN):
        if not claim.roads or list(claim.roads) != [road for road in ROADS if road in claim.roads]:
            listed = ", ".join(claim.roads) or "none"
            found.append(f"{claim.id}: roads {listed}; expected some of these, in this order: {', '.join(ROADS)}")
        if (claim.id in certified) != ("certificate" in claim.roads):
            found.append(f"{claim.id}: the road «certificate» is {'missing' if claim.id in certified else 'not there'}")
        seeds = any(record.seeds for record in claim.records(by_page))
        if "samples" in claim.roads and not seeds:
            found.append(f"{claim.id}: the road «samples», but no check names its seeds")
        if seeds and not DRAWN & set(claim.roads):
            found.append(f"{claim.id}: a check has seeds, but the roads name neither samples nor stored runs")
    return found


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.ledger.claims", description="Compare claims and checks.")
    parser.add_argument("--root", type=Path, default=pages.ROOT, help="the checkout (default: this one)")
    root = parser.parse_args(argv).root.resolve()
    claims, by_page = read_claims(root), read_records(root)
    if found := problems(claims, by_page) + road_problems(claims, by_page, set(read_certificates(root))):
        raise SystemExit("\n".join(found))
    records = [record for records in by_page.values() for record in records]
    print(f"{len(claims)} claims: {tally(records) if records else 'none checked yet'}")


if __name__ == "__main__":
    main()
