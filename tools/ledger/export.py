"""The ledger as data: the book's table of claims as claims.json and claims.csv."""

import csv
import io
import json
import math
import subprocess
from pathlib import Path
from typing import Any

from lsalib.book.claims import Record
from tools.ledger.claims import KINDS, STATUSES, Claim, Marked, read_claims, read_marks, read_records
from tools.notebooks import pages

TEXT, NUMBER, OPTIONAL = {"type": "string"}, {"type": "number"}, {"type": ["number", "null"]}
# What both files say of a check: fields of its record.
FIELDS: dict[str, dict[str, Any]] = {
    "kind": {"enum": ["check", "control"]},
    "label": TEXT,
    "measured": NUMBER,
    "relation": {"enum": ["=", "<", ">"]},
    "expected": NUMBER,
    "tolerance": NUMBER,
    "entries": {"type": "integer", "minimum": 1},
    "seeds": {"type": "array", "items": {"type": "integer"}},
}
SHARED = ("place", "page", "paper", "finding", "status")


def worst_margin(records: list[Record]) -> float:
    """The smallest margin of a claim's checks and controls; inf where none has a tolerance."""
    return min((record.margin for record in records), default=math.inf)


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def commit(root: Path) -> str:
    """The checkout's commit; "" outside a repository."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True)
    return asked.stdout.strip() if asked.returncode == 0 else ""


def runs(root: Path) -> dict[str, dict[str, str]]:
    """When, with what and on what each page was executed."""
    notebooks = {page.stem: pages.load(page) for page in pages.code_pages(root)}
    return {stem: dict(notebook.metadata.get(pages.RUN, {})) for stem, notebook in notebooks.items() if notebook}


def as_json(root: Path) -> dict[str, Any]:
    """All claims with their evidence, unrounded; a margin is null where there is no tolerance."""
    by_page, marks = read_records(root), read_marks(root)

    def entry(claim: Claim, record: Record) -> dict[str, Any]:
        own = {name: getattr(record, name) for name in FIELDS}
        return own | {"margin": finite(record.margin), "anchor": f"{claim.page}.html#{record.anchor}"}

    claims = []
    for claim in read_claims(root):
        records = claim.records(by_page)
        evidence: dict[str, Any] = {"checks": [entry(claim, record) for record in records]}
        evidence["tests"] = [test._asdict() for test in marks.get(claim.id, [])]
        claims.append(claim._asdict() | {"worst_margin": finite(worst_margin(records))} | evidence)
    return {"commit": commit(root), "runs": runs(root), "claims": claims}


def as_csv(data: dict[str, Any]) -> str:
    """A line for each check, control and marked test, and one for a claim without evidence."""
    lines = io.StringIO()
    writer = csv.DictWriter(lines, ["claim", *SHARED, *FIELDS, "margin", "anchor"], lineterminator="\n")
    writer.writeheader()
    for claim in data["claims"]:
        shared = {"claim": claim["id"]} | {name: claim[name] for name in SHARED}
        evidence = [check | {"seeds": " ".join(map(str, check["seeds"]))} for check in claim["checks"]]
        for test in claim["tests"]:
            anchor = f"{test['file']}::{test['function']}"
            evidence.append({"kind": test["kind"], "label": test["words"], "anchor": anchor})
        for one in evidence or [{}]:
            writer.writerow(shared | one)
    return lines.getvalue()


def schema() -> dict[str, Any]:
    """The JSON Schema of claims.json."""
    claim: dict[str, Any] = dict.fromkeys(Claim._fields, TEXT) | {"status": {"enum": list(STATUSES)}}
    claim["worst_margin"] = OPTIONAL
    claim["checks"] = {"type": "array", "items": whole(FIELDS | {"margin": OPTIONAL, "anchor": TEXT})}
    test = dict.fromkeys(Marked._fields, TEXT) | {"kind": {"enum": list(KINDS)}}
    claim["tests"] = {"type": "array", "items": whole(test)}
    book = {"commit": TEXT, "runs": {"type": "object"}, "claims": {"type": "array", "items": whole(claim)}}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "The claims of the book"} | whole(book)


def whole(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these entries."""
    named = {"properties": properties, "required": list(properties)}
    return {"type": "object", **named, "additionalProperties": False}


def write(root: Path, folder: Path) -> None:
    """Write claims.json, claims.csv and claims.schema.json into this folder."""
    data = as_json(root)
    for name, text in {
        "claims.json": json.dumps(data, indent=1, ensure_ascii=False) + "\n",
        "claims.csv": as_csv(data),
        "claims.schema.json": json.dumps(schema(), indent=1) + "\n",
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
