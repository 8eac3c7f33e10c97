"""The claims of book/claims.toml, and the rule for their verdicts."""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

# lsalib imports JAX, which takes longer than to look for changed pages.
if TYPE_CHECKING:
    from lsalib.book.claims import Record

NOT_RUN = "not run here yet"
PROVED = "proved here"
# The one rule for verdicts, which the ledger and the front page show. It judges a
# statement in its source's own setting, not its proof; a single run or case of that
# setting that contradicts the statement is enough for "corrected".
STATUSES = {
    "reproduced": "True as its source states it. We add nothing.",
    "sharpened": (
        "True as its source states it, and we add an exact number, a wider setting or "
        "a proof."
    ),
    "corrected": (
        "False as its source states it, in one run or case at least. True after a "
        "change, which we name."
    ),
    "refuted as stated": (
        "False as its source states it, and no change that we know saves it."
    ),
    PROVED: "New in this book, or a conjecture of the paper. We prove it.",
    "measured here": "New in this book. We measured it and did not prove it.",
    "not supported here": (
        "We did not see it in another setting than its source’s. This does not refute "
        "it there."
    ),
    NOT_RUN: "We have not run it.",
}


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

    def records(self, by_page: dict[str, list["Record"]]) -> list["Record"]:
        """The claim's checks and controls, all of which stand on its page."""
        return [record for record in by_page.get(self.page, []) if record.id == self.id]


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
