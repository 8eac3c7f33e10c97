"""A check as the notebook and the ledger keep it, and how both show it."""

import html
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lsalib.book._conversion import written

__all__ = ["HEAD", "METADATA", "Record", "cells", "margin_text", "number", "rows", "seeds_text", "tally"]

# Where in an output's metadata its records are.
METADATA = "lsalib_checks"


class Record(NamedTuple):
    """One check as the ledger keeps it: of an array, the entry that is closest to its bound.

    ``name`` is the name that the page gave, or the running number of this record among those of its claim.
    """

    id: str
    label: str
    measured: float
    relation: str
    expected: float
    tolerance: float
    entries: int
    kind: str
    seeds: list[int]
    passed: bool
    anchor: str
    name: str = "1"

    @property
    def key(self) -> str:
        """What identifies the check in stored results: it stays the same when the label changes.

        Example:
            >>> Record("a", "b", 5.0, "=", 5.1, 0.5, 1, "check", [], True, "claim-a", "ten-heads").key
            'a/ten-heads'
        """
        return f"{self.id}/{self.name}"

    @property
    def margin(self) -> float:
        """How far the other verdict is, in tolerances: 1 is the edge, inf is equal or without a tolerance.

        For a check of an equation the tolerance over the deviation. Else one and the distance, in tolerances, from
        where the verdict would change: for a check of an inequality and for a control of an equation that is the
        deviation over the tolerance.

        Example:
            >>> Record("a", "b", 5.0, "=", 5.1, 0.5, 1, "check", [], True, "claim-a").margin
            5.0
            >>> Record("a", "no larger", 5.1, ">", 5.1, 0.5, 1, "control", [], True, "claim-a").margin
            2.0
        """
        deviation = abs(self.measured - self.expected)
        if self.relation == "=" and self.kind == "check":
            return round(self.tolerance / deviation, 6) if deviation else math.inf
        if self.tolerance == 0:
            return math.inf
        if self.relation == "=":
            return round(deviation / self.tolerance, 6)
        beyond = (self.measured - self.expected) * (1 if self.relation == ">" else -1) / self.tolerance
        return round(beyond if self.kind == "check" else 2 - beyond, 6)

    def _ipython_display_(self) -> None:
        """Nothing more: the cell shows its row when it ends in a check."""


def seeds_text(seeds: Sequence[int]) -> str:
    """«0–7», or the list where a seed is left out; "" where nothing was sampled.

    Example:
        >>> seeds_text(range(8)), seeds_text([0, 5, 9]), seeds_text([3]), seeds_text([])
        ('0–7', '0, 5, 9', '3', '')
    """
    numbers = list(seeds)
    run = len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]}–{numbers[-1]}" if run else ", ".join(map(str, numbers))


def number(value: float, tolerance: float) -> str:
    """A number with as many digits as the tolerance tells apart and two more; rounding noise with three.

    Example:
        >>> number(110 / 21, 1e-6), number(-3.14159e-16, 1e-12), number(8.0, 0.5), number(0.0, 0.0)
        ('5.23809524', '−3.14e−16', '8', '0')
    """
    if abs(value) <= tolerance or not (value and tolerance):
        return written(value, ".3g" if tolerance else ".8g")
    digits = math.floor(math.log10(abs(value))) - math.floor(math.log10(tolerance)) + 3
    return written(value, f".{min(max(digits, 3), 16)}g")


def unrounded(value: float, _tolerance: float) -> str:
    """A number with as many digits as it takes to read the same float again.

    Example:
        >>> unrounded(110 / 21, 1e-6)
        '5.238095238095238'
    """
    return written(value, "")


def margin_text(record: Record) -> str:
    """The margin in a reader's words: «12 ×», or what there is in its place.

    Example:
        >>> margin_text(Record("a", "b", 5.0, "=", 5.1, 0.5, 1, "check", [], True, "claim-a"))
        '5 ×'
        >>> margin_text(Record("a", "b", 5.0, "=", 5.0000001, 0.5, 1, "check", [], True, "claim-a"))
        '5e+06 ×'
    """
    if math.isfinite(margin := record.margin):
        return f"{written(margin, ',.0f' if 10 <= margin < 1e6 else '.2g')} ×"
    return "equal" if record.relation == "=" else "no tolerance"


def tally(records: Sequence[Record]) -> str:
    """«5 checks and 2 controls hold».

    Example:
        >>> tally([Record("a", "b", 5.0, "=", 5.1, 0.5, 1, "check", [], True, "claim-a")])
        '1 check holds'
    """
    counts = Counter(record.kind for record in records)
    parts = [f"{n} {kind}{'s' * (n > 1)}" for kind in ("check", "control") if (n := counts[kind])]
    return f"{' and '.join(parts)} hold{'s' * (len(records) == 1)}"


HEAD = ("what", "measured", "expected", "tolerance", "margin", "seeds")


def cells(record: Record, digits: Callable[[float, float], str] = number) -> tuple[str, ...]:
    """The record's entries under ``HEAD``, as HTML; ``digits`` writes a number, given its tolerance."""
    what = html.escape(record.label) + (f", closest of {record.entries}" if record.entries > 1 else "")
    expected = digits(record.expected, record.tolerance)
    numbers = (
        digits(record.measured, record.tolerance),
        expected if record.relation == "=" else f"{html.escape(record.relation)} {expected}",
        written(record.tolerance, ".2g"),
        margin_text(record),
    )
    mark = {"check": "✓", "control": "✗"}[record.kind]
    first = f'<td><span class="claim-mark">{mark}</span> {"control: " if record.kind == "control" else ""}{what}</td>'
    return (first, *(f'<td class="claim-number">{n}</td>' for n in numbers), f"<td>{seeds_text(record.seeds)}</td>")


def rows(records: Sequence[Record], link: Callable[[Record], str] | None = None) -> str:
    """A table of records: what, measured, expected, tolerance, margin, seeds.

    With a link, as the ledger has it: numbers not rounded, and the way to each cell.
    """
    head = "".join(f'<th scope="col">{name}</th>' for name in (*HEAD, *["cell"] * bool(link)))
    lines = ""
    for record in records:
        place = "" if link else f' id="{record.anchor}"'
        way = (
            f'<td><a href="{link(record)}">its cell<span class="unseen"> of {record.anchor}</span></a></td>'
            if link
            else ""
        )
        kind = "pass" if record.kind == "check" else "control"
        lines += f'<tr class="claim-{kind}"{place}>{"".join(cells(record, unrounded if link else number))}{way}</tr>'
    return f'<div class="claims-table"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
