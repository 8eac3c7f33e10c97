"""The ledger as data: what the book's table shows, and what can be downloaded as claims.json and claims.csv."""

import csv
import io
import json
import math
import subprocess
from pathlib import Path

from tools.ledger.claims import ROADS, STATUSES, Claim, Record, check_of, read_claims, read_records
from tools.notebooks import pages

KINDS = ("check", "control")
COLUMNS = ("claim", "place", "page", "status", "kind", "label", "measured", "relation", "expected", "tolerance")
COLUMNS += ("margin", "entries", "seeds", "anchor")


def worst_margin(records: list[Record]) -> float:
    """The smallest margin of a claim's checks and controls; inf where none has a tolerance."""
    return min((check_of(record).margin for record in records), default=math.inf)


def paper(claim: Claim) -> str:
    """«P» and «S» are the two papers, «new» is this book."""
    return claim.place.split()[0]


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def commit(root: Path) -> str:
    """The checkout's commit; "" where there is none to be known."""
    asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True)
    return asked.stdout.strip() if asked.returncode == 0 else ""


def runs(root: Path) -> dict[str, dict[str, str]]:
    """When, with what and on what each page was executed."""
    notebooks = {page.stem: pages.load(page) for page in pages.code_pages(root)}
    return {stem: dict(notebook.metadata.get(pages.RUN, {})) for stem, notebook in notebooks.items() if notebook}


def as_json(root: Path) -> dict:
    """All claims with all that was checked, unrounded; null stands for a margin where there is no tolerance."""
    records = read_records(root)
    claims = []
    for claim in read_claims(root):
        own = [record for record in records if record.id == claim.id]
        checks = [
            {"kind": r.kind, "label": r.label, "measured": r.measured, "relation": r.relation, "expected": r.expected}
            | {"tolerance": r.tolerance, "margin": finite(check_of(r).margin), "entries": r.entries}
            | {"seeds": r.seeds, "anchor": f"{r.page}.html#{r.anchor}"}
            for r in own
        ]
        claims.append(claim._asdict() | {"worst_margin": finite(worst_margin(own)), "checks": checks})
    return {"commit": commit(root), "runs": runs(root), "claims": claims}


def as_csv(data: dict) -> str:
    """A line for each check and control."""
    lines = io.StringIO()
    writer = csv.DictWriter(lines, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for claim in data["claims"]:
        shared = {"claim": claim["id"]} | {name: claim[name] for name in ("place", "page", "status")}
        for check in claim["checks"]:
            writer.writerow(shared | check | {"seeds": " ".join(map(str, check["seeds"]))})
    return lines.getvalue()


def schema() -> dict:
    """What claims.json holds, as JSON Schema."""
    text, number, optional = {"type": "string"}, {"type": "number"}, {"type": ["number", "null"]}
    check = {
        **{"kind": {"enum": list(KINDS)}, "label": text, "measured": number, "relation": {"enum": ["=", "<", ">"]}},
        **{"expected": number, "tolerance": number, "margin": optional, "entries": {"type": "integer", "minimum": 1}},
        **{"seeds": {"type": "array", "items": {"type": "integer"}}, "anchor": text},
    }
    roads = {"type": "array", "items": {"enum": list(ROADS)}}
    claim = dict.fromkeys(Claim._fields, text) | {"status": {"enum": list(STATUSES)}, "worst_margin": optional}
    claim |= {"roads": roads}
    claim["checks"] = {"type": "array", "items": whole(check)}
    book = {"commit": text, "runs": {"type": "object"}, "claims": {"type": "array", "items": whole(claim)}}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "The claims of the book"} | whole(book)


def whole(properties: dict) -> dict:
    """An object with these entries, all of them and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def write(root: Path, folder: Path) -> None:
    """claims.json, claims.csv and claims.schema.json into this folder."""
    data = as_json(root)
    for name, text in {
        "claims.json": json.dumps(data, indent=1, ensure_ascii=False) + "\n",
        "claims.csv": as_csv(data),
        "claims.schema.json": json.dumps(schema(), indent=1) + "\n",
    }.items():
        (folder / name).write_text(text, encoding="utf-8")
