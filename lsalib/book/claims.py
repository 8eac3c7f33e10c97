"""The checks of the claims: one that fails stops the page, and each leaves a record; a
cell shows its records as a row.

The records travel in the notebook, in the metadata of that row. The ledger is made from
them, so it rests on the outputs that the book shows.
"""

import html
import math
import operator
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lsalib import _check
from lsalib.book.notebook import Numbers, broadcast, shell, show, written

# Where in an output's metadata its records are.
METADATA = "lsalib_checks"
ONLY_WARNED = (
    "This is a warning only, because the parameters are not the published ones."
)
HEAD = ("what", "measured", "expected", "tolerance", "margin", "seeds")
# How far a relation holds, from measured less expected; for an equation, how far not.
RELATIONS: dict[str, Any] = {"=": np.abs, "<": np.negative, ">": np.positive}
# How many records each claim has in this session, so that no two have the same anchor.
_seen: Counter[str] = Counter()
# The records of the running cell.
_pending: list["Record"] = []


class ClaimError(AssertionError):
    """A claim's check failed, or its negative control passed."""


class Record(NamedTuple):
    """One check as the ledger keeps it: of an array, the entry that is closest to its
    bound.
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

    @property
    def margin(self) -> float:
        """How far the other verdict is, in tolerances: 1 is the edge, inf is equal or
        without a tolerance.

        For a check of an equation it is the tolerance over the deviation. Otherwise it
        is one and the distance, in tolerances, from where the verdict would change.
        """
        apart = float(RELATIONS[self.relation](self.measured - self.expected))
        equation, control = self.relation == "=", self.kind == "control"
        if equation and not control:
            return round(self.tolerance / apart, 6) if apart else math.inf
        if not self.tolerance:
            return math.inf
        beyond = apart / self.tolerance
        # A control of an inequality fails up to the bound that makes it stricter: one
        # tolerance on this side of what is expected.
        return round(2 - beyond if control and not equation else beyond, 6)

    def _ipython_display_(self) -> None:
        """Nothing more when a cell ends in a check: the cell shows its row."""


@dataclass
class Claim:
    """One claim of the ledger, with the checks that show it and the controls that have
    to fail.

    Args:
        id: the claim's id in the ledger.
        seeds: the seeds behind its measurements, for every check that does not name its
            own.

    Example:
        >>> claim = Claim("exact-gd-risk")
        >>> risks = [5.2381, 5.2380]
        >>> claim.holds("one gradient step", risks, 110 / 21, atol=2e-4).measured
        5.238
        >>> claim.fails("a step twice too long", 6.1, 110 / 21, atol=2e-4).kind
        'control'
    """

    id: str
    seeds: Sequence[int] = ()

    def holds(
        self,
        label: str,
        measured: Numbers,
        expected: Numbers,
        *,
        atol: Numbers = 0.0,
        rtol: Numbers = 0.0,
        relation: str = "=",
        seeds: Sequence[int] | None = None,
        paper_setting: bool = True,
        kind: str = "check",
    ) -> Record | None:
        """Assert that ``measured`` stands in ``relation`` to ``expected``, and record
        it; the cell shows it.

        "=" asks for ``|measured - expected| <= atol + rtol |expected|`` in every entry,
        "<" for ``measured < expected - atol - rtol |expected|``, and ">" the other way
        round: the tolerance makes the check stricter for an inequality, looser for an
        equation.

        Args:
            label: what is measured, in a few words.
            measured: a real number or an array; it is compared in float64.
            expected: a number or an array that broadcasts to the shape of ``measured``.
            atol: the absolute tolerance, from sampling error or float precision; it
                broadcasts, too.
            rtol: the relative tolerance. With it alone, an expected 0 must be met
                exactly.
            relation: "=", "<" or ">".
            seeds: the seeds behind the measurement; None means those of the claim.
            paper_setting: whether the page has the parameters that the check was
                published with. If not, a check that fails is a warning and leaves no
                record: a reader who changes parameters can run all cells.
            kind: "check", or "control" as in ``fails``.

        Returns:
            The ``Record``; None after a warning. If the claim does not hold, a
            ``ClaimError`` names the worst entry.
        """
        try:
            record = Record(
                **_compare(kind, measured, expected, atol, rtol, relation),
                id=self.id,
                label=label,
                relation=relation,
                kind=kind,
                seeds=[*map(operator.index, self.seeds if seeds is None else seeds)],
                anchor=_anchor(self.id),
            )
        except ValueError as error:
            if paper_setting:
                raise
            problem = f"{label}: {error}"  # such as a training that diverged
        else:
            if record.passed:
                _pending.append(record)
                if shell():  # which keeps one of several equal functions
                    shell().events.register("post_run_cell", _show_pending)
                return record
            # The added zero takes the sign of a negative one.
            found, right = record.measured + 0.0, record.expected + 0.0
            comparison = (
                f"{found:.6g} {relation} {right:.6g} "
                f"(difference {found - right:.2g}, tolerance {record.tolerance:.2g})"
            ).replace("-", "−")
            problem = f"{label}: {comparison} fails"
            if kind == "control":
                problem = f"the control “{label}” holds: {comparison}"
        if paper_setting:
            raise ClaimError(f"{self.id}: {problem}")
        warnings.warn(f"{self.id}: {problem}. {ONLY_WARNED}", stacklevel=2)
        return None

    def fails(
        self, label: str, measured: Numbers, expected: Numbers, **how
    ) -> Record | None:
        """Negative control: assert that the same comparison *fails*, in every entry,
        once one thing is broken.

        Args, result and errors as in ``holds``; the label says what is broken.
        """
        return self.holds(label, measured, expected, **how, kind="control")


def _anchor(claim_id: str) -> str:
    """An anchor that no other record of this session has; the first has no number."""
    _seen[claim_id] += 1
    return f"claim-{claim_id}-{_seen[claim_id]}".removesuffix("-1")


def _compare(kind, measured, expected, atol, rtol, relation) -> dict[str, Any]:
    """What a record says of the comparison, judged on the unrounded numbers; the entry
    closest to the other verdict speaks for the array.
    """
    _check.choice("relation", relation, RELATIONS)
    values, rtol = _real("measured", measured), _real("rtol", rtol, ())
    targets = _real("expected", expected, values.shape)
    atol = _real("atol", atol, values.shape)
    if rtol < 0 or atol.min() < 0:
        raise ValueError(f"atol and rtol must not be negative, got {atol} and {rtol}")
    allowed = atol + rtol * np.abs(targets)
    # With rtol alone, an expected 0 must be met exactly, as zeros that follow from a
    # structure are.
    if relation == "=" and not rtol and not atol.all():
        raise ValueError(
            "atol or rtol must be given, a positive tolerance for each entry: "
            "floats differ by rounding"
        )
    # How far each entry is on the right side of its bound, in tolerances where there is
    # one.
    beyond = RELATIONS[relation](values - targets) - allowed
    slack, holds = beyond, beyond > 0
    if relation == "=":
        slack, holds = -beyond, beyond <= 0
    slack = slack / np.where(allowed > 0, allowed, 1)
    # Among entries that only rounding tells apart the first speaks: on another machine
    # it must be the same one.
    distance = slack - slack.min() if kind == "check" else slack.max() - slack
    closest = np.argmax(distance <= 1e-9 * (np.abs(slack).min() + 1))
    return {
        "measured": float(values.flat[closest]),
        "expected": float(targets.flat[closest]),
        "tolerance": float(allowed.flat[closest]),
        "entries": values.size,
        "passed": bool(holds.all() if kind == "check" else not holds.any()),
    }


def _real(name: str, value, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Numbers as a finite, nonempty float64 array, of this shape if one is given.

    Booleans and strings would convert, too, but are mistakes.
    """
    array = np.asarray(value)
    if array.dtype.kind not in "iufV":  # V: bfloat16 and similar types
        raise ValueError(
            f"{name} must be a real number or an array of real numbers, got {value!r}"
        )
    array = array.astype(np.float64)
    if not (array.size and np.isfinite(array).all()):
        raise ValueError(f"{name} must be finite and not empty, got {value!r}")
    return array if shape is None else broadcast(name, array, shape)


def _show_pending(result: object = None) -> None:
    """One row for all that the cell has checked."""
    records = tuple(_pending)
    _pending.clear()
    if not records:
        return
    ids = list(dict.fromkeys(record.id for record in records))
    # No link in the summary: what opens and closes by a key cannot lead elsewhere by
    # the same key.
    names = "".join(f' · <span class="claim-id">{each}</span>' for each in ids)
    links = " · ".join(
        f'<a class="claim-id" href="claims.html#{each}">{each}</a>' for each in ids
    )
    page = (
        '<details class="claims"><summary><span class="claim-mark">✓</span> '
        f"{tally(records)}{names}</summary>"
        f"{rows(records)}<p>In the ledger: {links}</p></details>"
    )
    lines = [
        f"✓ {tally(records)} · {' · '.join(ids)}",
        *(f"  {record.kind}: {record.label}" for record in records),
    ]
    show(
        {"text/html": page, "text/plain": "\n".join(lines)},
        {METADATA: [record._asdict() for record in records]},
    )


def seeds_text(seeds: Sequence[int]) -> str:
    """The seeds as text: a range, or a list if a seed is left out; "" if nothing was
    sampled.
    """
    numbers = list(seeds)
    run = len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]}–{numbers[-1]}" if run else ", ".join(map(str, numbers))


def number(value: float, tolerance: float) -> str:
    """A number with two digits more than the tolerance tells apart; rounding noise with
    three digits.
    """
    if abs(value) <= tolerance or not (value and tolerance):
        return written(value, ".3g" if tolerance else ".8g")
    digits = math.floor(math.log10(abs(value))) - math.floor(math.log10(tolerance)) + 3
    return written(value, f".{min(max(digits, 3), 16)}g")


def margin_text(record: Record) -> str:
    """The margin in a reader's words: “12 ×”, or what there is in its place."""
    if math.isfinite(margin := record.margin):
        return f"{written(margin, ',.0f' if 10 <= margin < 1e6 else '.2g')} ×"
    return "equal" if record.relation == "=" else "no tolerance"


def tally(records: Sequence[Record]) -> str:
    """How many checks and controls there are: “5 checks and 2 controls hold”."""
    counts = sorted(Counter(record.kind for record in records).items())
    parts = [f"{count} {kind}" + "s" * (count > 1) for kind, count in counts]
    return " and ".join(parts) + (" hold" if len(records) > 1 else " holds")


def texts(record: Record, *, rounded: bool = True) -> list[str]:
    """The record in a reader's words, in the order of ``HEAD``."""
    digits = number if rounded else lambda value, _: written(value, "")
    what = f"control: {record.label}" if record.kind == "control" else record.label
    if record.entries > 1:
        what += f", closest of {record.entries}"
    sign = "" if record.relation == "=" else f"{record.relation} "
    return [
        what,
        digits(record.measured, record.tolerance),
        sign + digits(record.expected, record.tolerance),
        written(record.tolerance, ".2g"),
        margin_text(record),
        seeds_text(record.seeds),
    ]


def rows(records: Sequence[Record]) -> str:
    """A table of records, with numbers rounded to what their tolerances tell apart."""
    head = "".join(f'<th scope="col">{name}</th>' for name in HEAD)
    lines = ""
    for record in records:
        mark, kind = ("✗", "control") if record.kind == "control" else ("✓", "pass")
        what, *numbers, seeds = map(html.escape, texts(record))
        cells = "".join(f'<td class="claim-number">{each}</td>' for each in numbers)
        lines += (
            f'<tr class="claim-{kind}" id="{record.anchor}"><td>'
            f'<span class="claim-mark">{mark}</span> {what}</td>'
            f"{cells}<td>{seeds}</td></tr>"
        )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
    return f'<div class="claims-table">{table}</div>'
