"""The executable claims: each check raises when it fails, and leaves a record; a cell shows its records as one row.

The records travel inside the notebook, in the metadata of that row, so the ledger is made from the very
outputs that the book shows.
"""

import html
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from lsalib.book._conversion import real, whole, written
from lsalib.book.notebook import after_cell, show
from lsalib.book.records import METADATA, Record, rows, tally

__all__ = ["ClaimError", "Record", "check", "control"]

# How many records each claim has in this session, and each "claim/name": no two records share an anchor or a key.
_seen: Counter[str] = Counter()
# Every word begins with a letter, so that no name looks like a running number or ends in one.
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z][a-z0-9]*)*")
# The records of the running cell.
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
    name: str = "",
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
        name: a short name such as "ten-heads", which with the claim's id identifies the check in stored results.
            Without it, the check is identified by its running number among the claim's records. In a loop, the
            name gets a running number from the second record on.

    Returns:
        The ``Record``.

    Raises:
        ClaimError: if the claim does not hold, with the worst entry.
        ValueError: if the shapes differ, the relation is unknown, a number or a tolerance is not real and finite,
            a tolerance is negative or missing, the label is no text, the seeds are not whole numbers, or the name is
            not made of small letters, digits and hyphens.

    Example:
        >>> check("exact-gd-risk", 5.2381, 110 / 21, atol=1e-4, label="one-step GD").measured
        5.2381
    """
    options = {"atol": atol, "rtol": rtol, "relation": relation, "label": label, "seeds": seeds, "name": name}
    record = _compare("check", claim_id, measured, expected, **options)
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
    name: str = "",
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
    options = {"atol": atol, "rtol": rtol, "relation": relation, "label": label, "seeds": seeds, "name": name}
    record = _compare("control", claim_id, measured, expected, **options)
    if not record.passed:
        raise ClaimError(f"{claim_id}: the control «{label}» passes: {_comparison(record)}")
    return _publish(record)


def _compare(
    kind, claim_id, measured, expected, *, atol=0.0, rtol=0.0, relation="=", label="", seeds=(), name=""
) -> Record:
    """The record, judged on the unrounded numbers; the entry closest to the other verdict speaks for the array."""
    if relation not in ("=", "<", ">"):
        raise ValueError(f"relation must be '=', '<' or '>', got {relation!r}")
    for argument, text in {"claim_id": claim_id, "label": label, "name": name}.items():
        if not isinstance(text, str):
            raise ValueError(f"{argument} must be a text, got {text!r}")
    if name and not _NAME.fullmatch(name):
        raise ValueError(f"name must be words such as 'ten-heads', of a-z and 0-9, letter first, got {name!r}")
    got, want = real("measured", measured), real("expected", expected)
    tolerances = {"atol": real("atol", atol), "rtol": real("rtol", rtol)}
    for argument, array in tolerances.items():
        if array.min() < 0:
            raise ValueError(f"{argument} must not be negative, got {array}")
    if tolerances["rtol"].shape:
        raise ValueError(f"rtol must be one number, got shape {tolerances['rtol'].shape}")
    for argument, shape in {"expected": want.shape, "atol": tolerances["atol"].shape}.items():
        if shape not in ((), got.shape):
            raise ValueError(f"{argument} must be one number or have the shape of measured, {got.shape}, got {shape}")
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
    number = _count(claim_id)
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
        anchor=f"claim-{claim_id}{_suffix(number)}",
        name=f"{name}{_suffix(_count(f'{claim_id}/{name}'))}" if name else str(number),
    )


def _count(key: str) -> int:
    _seen[key] += 1
    return _seen[key]


def _suffix(number: int) -> str:
    return f"-{number}" if number > 1 else ""


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
    escaped = [html.escape(each) for each in ids]
    # No link in the summary: what opens and closes by a key cannot lead elsewhere by the same key.
    said = "".join(f' · <span class="claim-id">{each}</span>' for each in escaped)
    links = " · ".join(f'<a class="claim-id" href="claims.html#{each}">{each}</a>' for each in escaped)
    page = (
        f'<details class="claims"><summary><span class="claim-mark">✓</span> {tally(records)}{said}</summary>'
        f"{rows(records)}<p>In the ledger: {links}</p></details>"
    )
    text = "\n".join([f"✓ {tally(records)} · {' · '.join(ids)}", *(f"  {r.kind}: {r.label}" for r in records)])
    show({"text/html": page, "text/plain": text}, {METADATA: [record._asdict() for record in records]})
