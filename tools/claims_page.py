"""Make the ledger from what the notebooks checked: python -m tools.claims_page [--check]."""

import argparse
import re
import tomllib
from collections import Counter, namedtuple
from pathlib import Path
from typing import NamedTuple

from lsalib.book.records import METADATA, number, seeds_text
from lsalib.book.records import Record as Check
from tools import pages

NOT_RUN = "not run here yet"
STATUSES = ("reproduced", "sharpened", "corrected", "refuted as stated", "proved here", NOT_RUN)

INTRO = """\
# The claims

What the paper claims, what this book adds, and how each fared. The numbers are those that the notebooks
checked when they were executed: a check that fails stops its page, and so the book. Beside a check may stand
a *control*: the same comparison with one thing broken, which has to fail. P is the paper {cite:p}`xie2025`, S
another one, on softmax attention {cite:p}`he2025`; a claim called new is this book's own.
"""


class Claim(NamedTuple):
    """One entry of book/claims.toml."""

    id: str
    place: str
    page: str
    statement: str
    status: str


# One check or control, as a notebook's output carries it, and the page it stands on.
Record = namedtuple("Record", ("page", *Check._fields))


def ledger(root: Path) -> dict:
    return tomllib.loads((root / "book/claims.toml").read_text(encoding="utf-8"))


def read_claims(root: Path) -> list[Claim]:
    entries = ledger(root).get("claim", [])
    for entry in entries:
        if set(entry) != set(Claim._fields):
            name, keys = entry.get("id", "a claim without id"), ", ".join(Claim._fields)
            raise SystemExit(f"book/claims.toml, {name}: expected the keys {keys}, got {', '.join(entry)}")
    return [Claim(**entry) for entry in entries]


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


def slug(status: str) -> str:
    return status.replace(" ", "-")


def badge(status: str) -> str:
    return f'<span class="claim-status claim-{slug(status)}">{status}</span>'


def line(record: Record) -> str:
    """One list entry: what was measured against what, and the way to its cell."""
    control = "control: " if record.kind == "control" else ""
    relation = "" if record.relation == "=" else f"{record.relation} "
    measured, expected = (number(value, record.tolerance) for value in (record.measured, record.expected))
    seeds = f", seeds {seeds_text(record.seeds)}" if record.seeds else ""
    numbers = f"`{measured}` against `{relation}{expected}`, tolerance `{record.tolerance:.2g}`{seeds}"
    cell = f'<a href="{record.page}.html#{record.anchor}">cell</a>'
    return f"- {control}{record.label}: {numbers} ({cell})\n"


def card(claim: Claim, records: list[Record]) -> str:
    """A claim as a narrow card: it wraps on a phone, which a table of these columns cannot."""
    lines = "".join(line(record) for record in records if record.id == claim.id)
    head = f":::{{container}} claim claim-{slug(claim.status)}\n:name: {claim.id}\n\n"
    return f"{head}{badge(claim.status)} **{claim.place}** · `{claim.id}`\n\n{claim.statement}\n\n{lines}:::\n"


def title(root: Path, stem: str) -> str:
    """The page's first heading; while it is not written, what the ledger calls it."""
    md = root / "book" / f"{stem}.md"
    heading = re.search(r"^# (.+)$", md.read_text(encoding="utf-8"), re.MULTILINE) if md.is_file() else None
    return heading[1] if heading else ledger(root).get("coming", {}).get(stem, stem)


def counts(claims: list[Claim]) -> dict[str, list[Claim]]:
    """The claims of each status that has any."""
    grouped = {status: [claim for claim in claims if claim.status == status] for status in STATUSES}
    return {status: group for status, group in grouped.items() if group}


def summary_markdown(claims: list[Claim]) -> str:
    """A small table: each status, how many claims have it, and which; those that wait are only counted."""
    rows = []
    for status, group in counts(claims).items():
        links = ", ".join(f'<a href="claims.html#{claim.id}">{claim.id}</a>' for claim in group)
        which = "listed in the ledger" if status == NOT_RUN else links
        rows.append(f"| {badge(status)} | {len(group)} | {which} |\n")
    return "| Verdict | Claims | Which |\n|---|---|---|\n" + "".join(rows)


def page_markdown(root: Path, claims: list[Claim], records: list[Record]) -> str:
    """The whole ledger, page by page in the order of book/claims.toml."""
    tally = " · ".join(f"{badge(status)} {len(group)}" for status, group in counts(claims).items())
    parts = [INTRO, f"{tally}\n"]
    for stem in dict.fromkeys(claim.page for claim in claims):
        parts += [f"## {title(root, stem)}\n", *(card(claim, records) for claim in claims if claim.page == stem)]
    return "\n".join(parts)


def rendered(root: Path) -> dict[Path, str]:
    """The two generated files and what belongs in them."""
    claims, records = read_claims(root), read_records(root)
    note = "% Made by tools.claims_page from claims.toml and the notebooks.\n\n"
    return {
        root / "book/claims.md": note + page_markdown(root, claims, records),
        root / "book/_claims_summary.md": note + summary_markdown(claims),
    }


def check(root: Path) -> None:
    found = problems(read_claims(root), read_records(root))
    found += [
        f"book/{path.name}: not what the notebooks say now; run: python -m tools.claims_page"
        for path, text in rendered(root).items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    if found:
        raise SystemExit("\n".join(found))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.claims_page", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; fail where ledger and checks disagree")
    parser.add_argument("--root", type=Path, default=pages.ROOT, help="the checkout (default: this one)")
    args = parser.parse_args(argv)
    if args.check:
        check(args.root.resolve())
    else:
        for path, text in rendered(args.root.resolve()).items():
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
