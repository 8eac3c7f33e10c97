"""The claims of book/claims.toml against what the notebooks checked: python -m tools.ledger.claims"""

import argparse
import json
import re
import tomllib
from collections import Counter, namedtuple
from pathlib import Path
from typing import NamedTuple

from lsalib.book.records import METADATA, tally
from lsalib.book.records import Record as Check
from tools.notebooks import pages

NOT_RUN = "not run here yet"
STATUSES = ("reproduced", "sharpened", "corrected", "refuted as stated", "proved here", "measured here", NOT_RUN)
# What can stand behind a claim, in the order in which it is named.
ROADS = ("closed form", "dense algebra", "samples", "stored runs", "certificate", "others' numbers")
# Of every check, whether it changed with the seeds; written by studies/trust/shifts.py.
SHIFTS = Path("studies/results/trust/shifts.json")


class Claim(NamedTuple):
    """One entry of book/claims.toml."""

    id: str
    place: str
    page: str
    statement: str
    status: str
    roads: tuple[str, ...] = ()


# One check or control, as a notebook's output carries it, and the page it stands on.
Record = namedtuple("Record", ("page", *Check._fields), defaults=Check._field_defaults.values())


def check_of(record: Record) -> Check:
    """The record without its page."""
    return Check(*record[1:])


def ledger(root: Path) -> dict:
    return tomllib.loads((root / "book/claims.toml").read_text(encoding="utf-8"))


def read_claims(root: Path) -> list[Claim]:
    entries = ledger(root).get("claim", [])
    for entry in entries:
        if set(entry) | set(Claim._field_defaults) != set(Claim._fields):
            name, keys = entry.get("id", "a claim without id"), ", ".join(Claim._fields)
            raise SystemExit(f"book/claims.toml, {name}: expected the keys {keys}, got {', '.join(entry)}")
    return [Claim(**entry | {"roads": tuple(entry.get("roads", ()))}) for entry in entries]


def read_certificates(root: Path) -> dict[str, tuple[str, str]]:
    """By claim, what a test derives for symbolic d and C, and the test's file."""
    path = root / "tests/library/certified.toml"
    listed = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {name: (what, f"tests/library/{file}.py") for file, found in listed.items() for name, what in found.items()}


def read_records(root: Path) -> list[Record]:
    """What the executed notebooks checked, in their order."""
    return [
        Record(page.stem, **record)
        for page in pages.code_pages(root)
        for output in pages.outputs(pages.load(page))
        for record in output.get("metadata", {}).get(METADATA, [])
    ]


def problems(claims: list[Claim], records: list[Record]) -> list[str]:
    """Where the ledger and the checks disagree; empty if they do not."""
    by_id = {claim.id: claim for claim in claims}
    checked = {record.id for record in records if record.kind == "check"}
    counted = Counter(claim.id for claim in claims).items()
    found = [f"{name}: {count} entries, expected one" for name, count in counted if count > 1]
    for claim in claims:
        if claim.status not in STATUSES:
            found.append(f"{claim.id}: status «{claim.status}», expected one of: {', '.join(STATUSES)}")
        elif claim.status == NOT_RUN and claim.id in checked:
            found.append(f"{claim.id}: «{NOT_RUN}», but a check runs")
        elif claim.status != NOT_RUN and claim.id not in checked:
            found.append(f"{claim.id}: «{claim.status}», but no check runs")
    for record in records:
        where = f"{record.id}, {record.kind} «{record.label}» in {record.page}"
        if record.id not in by_id:
            found.append(f"{where}: no such claim in book/claims.toml")
        elif record.page != by_id[record.id].page:
            found.append(f"{where}: the ledger names the page {by_id[record.id].page}")
        if not record.passed:
            found.append(f"{where}: did not pass")
    return found


def road_problems(root: Path, claims: list[Claim]) -> list[str]:
    """Where what is said to stand behind a claim is not what the tests derive, or what the shifts of seeds found."""
    certified, drawn = read_certificates(root), read_drawn(root)
    found = []
    for claim in claims:
        asked = claim.status != NOT_RUN
        if list(claim.roads) != [road for road in ROADS if road in claim.roads] or (asked and not claim.roads):
            listed = ", ".join(claim.roads) or "none"
            found.append(f"{claim.id}: roads {listed}; expected some of these, in this order: {', '.join(ROADS)}")
        sampled = drawn.get(claim.page, {}).get(claim.id)
        for road, known in (("certificate", claim.id in certified), ("samples", sampled)):
            if asked and known is not None and known != (road in claim.roads):
                found.append(f"{claim.id}: the road «{road}» is {'missing' if known else 'not there'}")
    return found


def read_drawn(root: Path) -> dict[str, dict[str, bool]]:
    """By page and claim, whether a check of it changed with the seeds.

    Nothing for a page whose seeds were not shifted, or whose code has changed since.
    """
    path = root / SHIFTS
    shifted = json.loads(path.read_text(encoding="utf-8"))["pages"] if path.is_file() else {}
    present = {page.stem: page for page in pages.code_pages(root)}
    found: dict[str, dict[str, bool]] = {}
    for stem, kept in shifted.items():
        if stem in present and kept["code"] == pages.digest(present[stem]):
            drawn = found.setdefault(stem, {})
            for check in kept["checks"]:
                drawn[check["id"]] = drawn.get(check["id"], False) or check["drawn"]
    return found


def title(root: Path, stem: str) -> str:
    """The page's first heading; while it is not written, what the ledger calls it."""
    md = root / "book" / f"{stem}.md"
    heading = re.search(r"^# (.+)$", md.read_text(encoding="utf-8"), re.MULTILINE) if md.is_file() else None
    return heading[1] if heading else ledger(root).get("coming", {}).get(stem, stem)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.ledger.claims", description="Compare claims and checks.")
    parser.add_argument("--root", type=Path, default=pages.ROOT, help="the checkout (default: this one)")
    root = parser.parse_args(argv).root.resolve()
    claims, records = read_claims(root), read_records(root)
    if found := problems(claims, records) + road_problems(root, claims):
        raise SystemExit("\n".join(found))
    print(
        f"{len(claims)} claims: {tally(list(map(check_of, records)))}"
        if records
        else f"{len(claims)} claims, none checked yet"
    )


if __name__ == "__main__":
    main()
