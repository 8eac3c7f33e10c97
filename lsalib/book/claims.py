"""The executable claims: each check raises when it fails, and leaves a record; a cell shows its records as one row.

The records travel inside the notebook, in the metadata of that row, so the ledger is made from the very
outputs that the book shows.
"""

import html
from collections import Counter
from collections.abc import Sequence

import numpy as np

from lsalib.book._conversion import real, whole, written
from lsalib.book.notebook import after_cell, show
from lsalib.book.records import METADATA, Record, rows, tally

__all__ = ["ClaimError", "Record", "check", "control"]

# How often a claim was checked in this session: the anchors of a page are unique.
_seen: Counter[str] = Counter()
# What the running cell has checked so far.
_pending: list[Record] = []


class ClaimError(AssertionError):
    """A claim's check failed, or its negative control passed."""


def check(
    claim_id: str,
    measured,
    expected,
    *,
    atol=0.0,
    rtol=0.0,
    relation: str = "=",
    label: str = "",
    seeds: Sequence[int] = (),
) -> Record:
    """Assert that ``measured`` stands in ``relation`` to ``expected``, and record it; the cell shows it.

    "=" asks for ``|measured - expected| <= atol + rtol |expected|`` in every entry, "<" for
    ``measured < expected - atol - rtol |expected|``, and ">" the other way round: the tolerance
    always makes the check stricter for an inequality, looser for an equation.

    Args:
        claim_id: the claim's id in the ledger.
        measured: a real number or an array, of any type; it is compared in float64.
        expected: a number, or an array of the same shape.
        atol: the absolute tolerance, from sampling error or float precision: a number, or one for each entry.
        rtol: the relative tolerance, a number. With it alone, an expected 0 must be met exactly.
        relation: "=", "<" or ">".
        label: what is measured, in a few words.
        seeds: the seeds behind the measurement, if it is a sample.

    Returns:
        The ``Record``.

    Raises:
        ClaimError: if the claim does not hold, with the worst entry.
        ValueError: if the shapes differ, the relation is unknown, a number or a tolerance is not real and finite,
            a tolerance is negative or missing, the label is no text, or the seeds are not whole numbers.

    Example:
        >>> check("exact-gd-risk", 5.2381, 110 / 21, atol=1e-4, label="one-step GD").measured
        5.2381
    """
    record = _compare(claim_id, measured, expected, atol, rtol, relation, label, seeds, "check")
    if not record.passed:
        raise ClaimError(f"{claim_id}: {label or 'check'}: {_comparison(record)} fails")
    return _publish(record)


def control(
    claim_id: str,
    measured,
    expected,
    *,
    atol=0.0,
    rtol=0.0,
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
        raise ClaimError(f"{claim_id}: the control «{label}» passes: {_comparison(record)}")
    return _publish(record)


def _compare(claim_id, measured, expected, atol, rtol, relation, label, seeds, kind) -> Record:
    """The record, judged on the unrounded numbers; the entry closest to the other verdict speaks for the array."""
    if relation not in ("=", "<", ">"):
        raise ValueError(f"relation must be '=', '<' or '>', got {relation!r}")
    for name, text in {"claim_id": claim_id, "label": label}.items():
        if not isinstance(text, str):
            raise ValueError(f"{name} must be a text, got {text!r}")
    got, want = real("measured", measured), real("expected", expected)
    tolerances = {"atol": real("atol", atol), "rtol": real("rtol", rtol)}
    for name, array in tolerances.items():
        if array.min() < 0:
            raise ValueError(f"{name} must not be negative, got {array}")
    if tolerances["rtol"].shape:
        raise ValueError(f"rtol must be one number, got shape {tolerances['rtol'].shape}")
    for name, shape in {"expected": want.shape, "atol": tolerances["atol"].shape}.items():
        if shape not in ((), got.shape):
            raise ValueError(f"{name} must be one number or have the shape of measured, {got.shape}, got {shape}")
    allowed = np.broadcast_to(tolerances["atol"] + tolerances["rtol"] * np.abs(want), got.shape)
    # With rtol alone, an expected 0 must be met exactly, as zeros that follow from a structure are.
    if relation == "=" and not tolerances["rtol"] and not tolerances["atol"].all():
        raise ValueError("atol or rtol must be given, a positive tolerance for each entry: floats differ by rounding")
    # How far each entry is on the right side of its bound, in tolerances where there is one.
    slack = {"=": allowed - np.abs(got - want), "<": want - allowed - got, ">": got - want - allowed}[relation]
    holds = slack >= 0 if relation == "=" else slack > 0
    passed = bool(holds.all() if kind == "check" else not holds.any())
    slack = np.divide(slack, allowed, out=np.array(slack), where=allowed > 0)
    # Among entries that only rounding tells apart the first speaks: on another machine it must be the same one.
    distance = slack - slack.min() if kind == "check" else slack.max() - slack
    closest = np.unravel_index(np.argmax(distance <= 1e-9 * (np.abs(slack).min() + 1)), slack.shape)
    _seen[claim_id] += 1
    return Record(
        id=claim_id,
        label=label or "check",
        measured=float(got[closest]),
        relation=relation,
        expected=float(np.broadcast_to(want, got.shape)[closest]),
        tolerance=float(allowed[closest]),
        entries=got.size,
        kind=kind,
        seeds=whole("seeds", seeds),
        passed=passed,
        anchor=f"claim-{claim_id}" + (f"-{_seen[claim_id]}" if _seen[claim_id] > 1 else ""),
    )


def _comparison(record: Record) -> str:
    measured, expected = (written(value, ".6g") for value in (record.measured, record.expected))
    return f"{measured} {record.relation} {expected} (tolerance {written(record.tolerance, '.2g')})"


def _publish(record: Record) -> Record:
    _pending.append(record)
    after_cell(_show_pending)
    return record


def _show_pending() -> None:
    """One row for all that the cell has checked."""
    records = tuple(_pending)
    _pending.clear()
    if not records:
        return
    ids = list(dict.fromkeys(record.id for record in records))
    names = [html.escape(name) for name in ids]
    # No link in the summary: what opens and closes by a key cannot lead elsewhere by the same key.
    said = "".join(f' · <span class="claim-id">{name}</span>' for name in names)
    links = " · ".join(f'<a class="claim-id" href="claims.html#{name}">{name}</a>' for name in names)
    page = (
        f'<details class="claims"><summary><span class="claim-mark">✓</span> {tally(records)}{said}</summary>'
        f"{rows(records)}<p>In the ledger: {links}</p></details>"
    )
    text = "\n".join([f"✓ {tally(records)} · {' · '.join(ids)}", *(f"  {r.kind}: {r.label}" for r in records)])
    show({"text/html": page, "text/plain": text}, {METADATA: [record._asdict() for record in records]})
