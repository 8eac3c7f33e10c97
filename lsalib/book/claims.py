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

__all__ = ["Claim", "ClaimError", "Record"]

# How many records each claim has in this session, and each "claim/name": no two records share an anchor or a key.
_seen: Counter[str] = Counter()
# Every word begins with a letter, so that no name looks like a running number or ends in one.
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z][a-z0-9]*)*")
# The records of the running cell, and the labels of what it skipped.
_pending: list[Record] = []
_skipped: list[str] = []


class ClaimError(AssertionError):
    """A claim's check failed, or its negative control passed."""


class Claim:
    """One claim of the ledger, with the checks that show it and the controls that have to fail.

    Args:
        id: the claim's id in the ledger.
        seeds: the seeds behind its measurements, for every check that does not name its own.

    Raises:
        ValueError: if the id is not a text, or the seeds are not whole numbers.

    Example:
        >>> claim = Claim("exact-gd-risk")
        >>> claim.holds("one gradient step", [5.2381, 5.2380], 110 / 21, atol=2e-4).measured
        5.238
        >>> claim.fails("a step twice too long", 6.1, 110 / 21, atol=2e-4).kind
        'control'
    """

    def __init__(self, id: str, *, seeds: Sequence[int] = ()):
        self.id, self.seeds = _text("id", id), whole("seeds", seeds)

    def holds(
        self,
        label: str,
        measured,
        expected,
        *,
        atol=0.0,
        rtol=0.0,
        relation: str = "=",
        seeds: Sequence[int] | None = None,
        name: str = "",
        paper_setting: bool = True,
    ) -> Record | None:
        """Assert that ``measured`` stands in ``relation`` to ``expected``, and record it; the cell shows it.

        "=" asks for ``|measured - expected| <= atol + rtol |expected|`` in every entry, "<" for
        ``measured < expected - atol - rtol |expected|``, and ">" the other way round: the tolerance
        makes the check stricter for an inequality, looser for an equation.

        Args:
            label: what is measured, in a few words.
            measured: a real number or an array, of any type; it is compared in float64.
            expected: a number or an array that broadcasts to the shape of ``measured``.
            atol: the absolute tolerance, from sampling error or float precision; it broadcasts, too.
            rtol: the relative tolerance, a number. With it alone, an expected 0 must be met exactly.
            relation: "=", "<" or ">".
            seeds: the seeds behind the measurement; None means those of the claim.
            name: a short name such as "ten-heads", which with the claim's id identifies the check in stored results.
                Without it, the check is identified by its running number among the claim's records. In a loop, the
                name gets a running number from the second record on.
            paper_setting: whether the page has the parameters that this check is about. If not, the check is
                skipped, and the cell says so.

        Returns:
            The ``Record``; None if the check was skipped.

        Raises:
            ClaimError: if the claim does not hold, with the worst entry.
            ValueError: if the shapes do not fit, the relation is unknown, a number or a tolerance is not real and
                finite, a tolerance is negative or missing, the label is not a text, the seeds are not whole numbers,
                or the name is not made of small letters, digits and hyphens.
        """
        seeds = self.seeds if seeds is None else seeds
        return _judge("check", self.id, label, measured, expected, atol, rtol, relation, seeds, name, paper_setting)

    def fails(
        self,
        label: str,
        measured,
        expected,
        *,
        atol=0.0,
        rtol=0.0,
        relation: str = "=",
        seeds: Sequence[int] | None = None,
        name: str = "",
        paper_setting: bool = True,
    ) -> Record | None:
        """Negative control: assert that the same comparison *fails*, in every entry, once one thing is broken.

        Args, result and errors as in ``holds``; the label says what is broken.

        Raises:
            ClaimError: if the comparison holds in some entry although it should not.
        """
        seeds = self.seeds if seeds is None else seeds
        return _judge("control", self.id, label, measured, expected, atol, rtol, relation, seeds, name, paper_setting)


def _judge(kind, claim_id, label, measured, expected, atol, rtol, relation, seeds, name, paper_setting):
    """Compare and record, or raise; outside the paper's setting only say what is skipped."""
    if not paper_setting:
        _skipped.append(_text("label", label))
        after_cell(_show_pending)
        return None
    record = _compare(kind, claim_id, label, measured, expected, atol, rtol, relation, seeds, name)
    if not record.passed:
        outcome = f"{label or 'check'}: " if kind == "check" else f"the control “{label}” passes: "
        raise ClaimError(f"{claim_id}: {outcome}{_comparison(record)}{' fails' * (kind == 'check')}")
    _pending.append(record)
    after_cell(_show_pending)
    return record


def _compare(kind, claim_id, label, measured, expected, atol, rtol, relation, seeds, name) -> Record:
    """The record, judged on the unrounded numbers; the entry closest to the other verdict speaks for the array."""
    if relation not in ("=", "<", ">"):
        raise ValueError(f"relation must be '=', '<' or '>', got {relation!r}")
    if _text("name", name) and not _NAME.fullmatch(name):
        raise ValueError(f"name must be words such as 'ten-heads', of a-z and 0-9, letter first, got {name!r}")
    got, want = real("measured", measured), real("expected", expected)
    tolerances = {"atol": real("atol", atol), "rtol": real("rtol", rtol)}
    for argument, array in tolerances.items():
        if array.min() < 0:
            raise ValueError(f"{argument} must not be negative, got {array}")
    if tolerances["rtol"].shape:
        raise ValueError(f"rtol must be one number, got shape {tolerances['rtol'].shape}")
    want, atol = (_broadcast(*each, got.shape) for each in (("expected", want), ("atol", tolerances["atol"])))
    allowed = atol + tolerances["rtol"] * np.abs(want)
    # With rtol alone, an expected 0 must be met exactly, as zeros that follow from a structure are.
    if relation == "=" and not tolerances["rtol"] and not atol.all():
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
        label=_text("label", label) or "check",
        measured=float(got[closest]),
        relation=relation,
        expected=float(want[closest]),
        tolerance=float(allowed[closest]),
        entries=got.size,
        kind=kind,
        seeds=whole("seeds", seeds),
        passed=passed,
        anchor=f"claim-{claim_id}{_suffix(number)}",
        name=f"{name}{_suffix(_count(f'{claim_id}/{name}'))}" if name else str(number),
    )


def _text(argument: str, value) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{argument} must be a text, got {value!r}")
    return value


def _broadcast(argument: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(
            f"{argument} must be one number, or broadcast to the shape of measured, {shape}, got shape {array.shape}"
        ) from None


def _count(key: str) -> int:
    _seen[key] += 1
    return _seen[key]


def _suffix(number: int) -> str:
    return f"-{number}" if number > 1 else ""


def _comparison(record: Record) -> str:
    measured, expected = (written(value, ".6g") for value in (record.measured, record.expected))
    return f"{measured} {record.relation} {expected} (tolerance {written(record.tolerance, '.2g')})"


def _show_pending() -> None:
    """One row for all that the cell has checked."""
    records, skipped = tuple(_pending), tuple(_skipped)
    _pending.clear()
    _skipped.clear()
    if skipped:
        show({"text/plain": f"Skipped outside the paper's setting: {'; '.join(skipped)}"})
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
