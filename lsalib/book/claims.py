"""The executable claims: each check raises when it fails, shows a verdict, and leaves a record.

The record travels inside the notebook, as display data of its own type, so the ledger is made from
the very outputs that the book shows.
"""

import html
import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lsalib.book.notebook import show

__all__ = ["MIME", "ClaimError", "Record", "check", "control", "seeds_text"]

MIME = "application/vnd.lsalib.claim+json"

# How often a claim was checked in this session: the anchors of a page are unique.
_seen: Counter[str] = Counter()


class ClaimError(AssertionError):
    """A claim's check failed, or its negative control passed."""


class Record(NamedTuple):
    """One check as the ledger keeps it; numbers are text, rounded to what the tolerance can tell."""

    id: str
    label: str
    measured: str
    expected: str
    tolerance: str
    kind: str
    seeds: list[int]
    passed: bool
    anchor: str

    def _ipython_display_(self) -> None:
        """Nothing more: the verdict has been shown when a cell ends in a check."""


def check(
    claim_id: str,
    measured,
    expected,
    *,
    atol=0.0,
    rtol: float = 0.0,
    relation: str = "=",
    label: str = "",
    seeds: Sequence[int] = (),
) -> Record:
    """Assert that ``measured`` stands in ``relation`` to ``expected``, show it, and record it.

    "=" asks for ``|measured - expected| <= atol + rtol |expected|`` in every entry, "<" for
    ``measured < expected - atol - rtol |expected|``, and ">" the other way round: the tolerance
    always makes the check stricter for an inequality, looser for an equation.

    Args:
        claim_id: the claim's id in the ledger.
        measured: a number or an array.
        expected: a number, or an array of the same shape.
        atol, rtol: tolerances, from sampling error or float precision; "=" needs one of them.
            ``atol`` may be an array, one tolerance an entry.
        relation: "=", "<" or ">".
        label: what is measured, in a few words.
        seeds: the seeds behind the measurement, if it is a sample.

    Returns:
        The ``Record``.

    Raises:
        ClaimError: if the claim does not hold, with the worst entry.
        ValueError: if the shapes differ, the relation is unknown, a tolerance is negative or
            missing, or a value is not finite.

    Example:
        >>> check("exact-gd-risk", 5.2381, 110 / 21, atol=1e-4, label="one-step GD").measured
        '5.2381'
    """
    record = _compare(claim_id, measured, expected, atol, rtol, relation, label, seeds, "check")
    if not record.passed:
        comparison = f"{record.measured} {relation} {record.expected} fails (tolerance {record.tolerance})"
        raise ClaimError(f"{claim_id}: {label or 'check'}: {comparison}")
    return _publish(record)


def control(
    claim_id: str,
    measured,
    expected,
    *,
    atol=0.0,
    rtol: float = 0.0,
    relation: str = "=",
    label: str = "",
    seeds: Sequence[int] = (),
) -> Record:
    """Negative control: assert that the same comparison *fails*, in every entry, once one thing is broken.

    Args, relation and errors as in ``check``; the label says what was broken.

    Returns:
        The ``Record``.

    Raises:
        ClaimError: if the comparison holds in some entry although it should not.

    Example:
        >>> control("exact-gd-risk", 6.1, 110 / 21, atol=1e-4, label="a step twice too long").kind
        'control'
    """
    record = _compare(claim_id, measured, expected, atol, rtol, relation, label, seeds, "control")
    if not record.passed:
        raise ClaimError(f"{claim_id}: the control «{label}» passes: {record.measured} {relation} {record.expected}")
    return _publish(record)


def _compare(claim_id, measured, expected, atol, rtol, relation, label, seeds, kind) -> Record:
    """The record, judged on the unrounded numbers; the entry nearest to the other verdict speaks for the array."""
    if relation not in ("=", "<", ">"):
        raise ValueError(f"relation must be '=', '<' or '>', got {relation!r}")
    if not (np.min(atol) >= 0 and rtol >= 0):
        raise ValueError(f"atol and rtol must not be negative, got {atol!r} and {rtol!r}")
    if relation == "=" and not (np.min(atol) or rtol):
        raise ValueError("atol or rtol must be given: floats are equal only up to something")
    got, want = np.asarray(measured, np.float64), np.asarray(expected, np.float64)
    for name, shape in {"expected": want.shape, "atol": np.shape(atol)}.items():
        if shape not in ((), got.shape):
            raise ValueError(f"{name} must be one number or have the shape of measured, {got.shape}, got {shape}")
    if not (got.size and np.isfinite(got).all() and np.isfinite(want).all()):
        raise ValueError(f"measured and expected must be finite and not empty, got {measured!r} and {expected!r}")
    allowed = np.asarray(atol + rtol * np.abs(want))
    # How far each entry is on the right side of its bound.
    slack = {"=": allowed - np.abs(got - want), "<": want - allowed - got, ">": got - want - allowed}[relation]
    holds = slack >= 0 if relation == "=" else slack > 0
    passed = bool(holds.all() if kind == "check" else not holds.any())
    # Among entries that only rounding tells apart the first speaks: on another machine it must be the same one.
    distance = slack - slack.min() if kind == "check" else slack.max() - slack
    critical = np.unravel_index(np.argmax(distance <= 1e-9 * (np.abs(want).max() + allowed.max())), slack.shape)
    shown, wanted, tolerance = (float(np.broadcast_to(a, slack.shape)[critical]) for a in (got, want, allowed))
    _seen[claim_id] += 1
    record = Record(
        id=claim_id,
        label=label + (f" (closest of {got.size})" if got.size > 1 else ""),
        measured=_rounded(shown, tolerance),
        expected=("" if relation == "=" else f"{relation} ") + _rounded(wanted, tolerance),
        tolerance=f"{tolerance:.1g}",
        kind=kind,
        seeds=list(map(int, seeds)),
        passed=passed,
        anchor=f"claim-{claim_id}" + (f"-{_seen[claim_id]}" if _seen[claim_id] > 1 else ""),
    )
    return record


def seeds_text(seeds: Sequence[int]) -> str:
    """«, seeds 0–7», or the list where a seed is left out; "" where nothing was sampled.

    Example:
        >>> seeds_text(range(8)), seeds_text([0, 5, 9]), seeds_text([3]), seeds_text([])
        (', seeds 0–7', ', seeds 0, 5, 9', ', seed 3', '')
    """
    numbers = list(seeds)
    run = len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1))
    shown = f"{numbers[0]}–{numbers[-1]}" if run else ", ".join(map(str, numbers))
    return f", seed{'s' * (len(numbers) > 1)} {shown}" if numbers else ""


def _rounded(value: float, tolerance: float) -> str:
    """At most six digits, and none that the tolerance cannot tell: rounding noise must not show."""
    if tolerance > 0:
        value = round(value, -math.floor(math.log10(tolerance))) + 0.0
    return f"{value:.6g}"


def _publish(record: Record) -> Record:
    mark, words = ("✓", "holds") if record.kind == "check" else ("✗", "fails, as it must")
    label = html.escape(record.label or "check")
    expected = html.escape(record.expected)
    seeds = seeds_text(record.seeds)
    css = "claim-pass" if record.kind == "check" else "claim-control"
    tolerance = f"tolerance {record.tolerance}{seeds}"
    text = f"{mark} {record.id}: {record.label}: {record.measured} against {record.expected} ({tolerance}): {words}"
    page = (
        f'<div class="claim {css}" id="{record.anchor}"><span class="claim-mark">{mark}</span> '
        f'<span class="claim-label">{label}</span> '
        f'<span class="claim-numbers">{record.measured} against {expected}, {tolerance}: {words}</span> '
        f'<a class="claim-id" href="claims.html#{html.escape(record.id)}">{html.escape(record.id)}</a></div>'
    )
    show({MIME: record._asdict(), "text/html": page, "text/plain": text})
    return record
