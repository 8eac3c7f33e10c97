"""What came back: predictions out of answers, their errors and what moves them, with intervals, and tables."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import softmax

from lsalib import _validate
from lsalib.sts import statistics
from lsalib.sts._parsing import parse
from lsalib.sts.design import CHOICES, NUMBERS
from lsalib.sts.experiment import ANSWERS, READOUTS

__all__ = ["READOUTS", "Outcome", "compare", "effects", "expected", "outcome", "parse", "table"]

_ERRORS = ("MSE [95 %]", "MSE, failed dropped", "r", "MSE of the guess")
_HEADINGS = ("model", "style", "condition", "guess", "draw", "readout", "runs", "failed", *_ERRORS)
_CONTRASTS = ("model", "style", "guess", "draws", "readout", "contrast", "difference of MSE [95 %]")
_PROBES = ("model", "style", "guess", "draw", "runs", "condition", "one point more in", "effect [95 %]")
_ITSELF = "the guess itself"
# What an answer's error is held against; that with the right guesses also against guesses that say less.
_OTHERS: dict[str, tuple[str, ...]] = dict.fromkeys(CHOICES["condition"][1:], ("none", _ITSELF))
_OTHERS["guess"] += ("shuffled", "permuted", "neutral")
_ARMS = CHOICES["moved"][1:]


class Outcome(NamedTuple):
    """The predictions that count, (n,) each; ``failed`` marks answers without a score, now the context's mean."""

    prediction: Float[np.ndarray, " n"]
    truth: Float[np.ndarray, " n"]
    guess: Float[np.ndarray, " n"]
    failed: Bool[np.ndarray, " n"]


def expected(logprobs: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
    """The mean score ``sum_k s_k p_k / sum_k p_k``, for ``s_k`` = 0.0, 0.1, ..., 5.0 and ``log p_k``, (n, 51).

    Example:
        >>> expected(np.zeros((1, 51))).round(6).tolist()
        [2.5]
    """
    logprobs = np.asarray(logprobs, np.float64)
    _validate.shape("logprobs", logprobs, ("n", len(ANSWERS)))
    return softmax(logprobs, axis=1) @ np.array(ANSWERS, np.float64)


def outcome(result: dict, readout: str = "written", *, mode: str = "lenient") -> Outcome:
    """Predictions beside the truth; guesses are NaN in the condition without.

    A written answer without a score fails: it is replaced by the mean score of its context, what one would
    say without reading the query.

    Args:
        result: as ``experiment.run`` or ``records.own`` gives it.
        readout: "written", the score in the answer's text, or "expected", the mean over answer probabilities.
        mode: of ``parse``, for the written readout.

    Example:
        >>> common = {"guess": None, "context_mean": 2.0}
        >>> records = [{"answer": "3", "truth": 3.5, **common}, {"answer": "?", "truth": 1.0, **common}]
        >>> outcome({"records": records}).prediction.tolist()
        [3.0, 2.0]
    """
    column = lambda name: [record[name] for record in result["records"]]
    if readout not in (known := _readouts(result)):
        raise ValueError(f"readout must be one of {', '.join(known)}, which the model gave, got {readout!r}")
    if readout == "written":
        prediction = np.array([parse(answer, mode) for answer in column("answer")], np.float64)  # None becomes NaN
    else:
        prediction = expected(np.array(column("logprobs")))
    truth, guess, mean = (np.array(column(name), np.float64) for name in ("truth", "guess", "context_mean"))
    failed = np.isnan(prediction)
    return Outcome(np.where(failed, mean, prediction), truth, guess, failed)


def compare(result: dict, other: dict | None, readout: str = "written") -> statistics.Interval:
    """The difference of two results' mean squared errors, negative where the first is better; of the same pairs.

    Where there is no other, the guesses that the first was shown are the predictions that it is held against.
    """
    mine = outcome(result, readout)
    if other is None:
        return statistics.mse(mine.prediction, mine.truth, less=mine.guess)
    pairs, others = ([(one["query"], one["context"]) for one in each["records"]] for each in (result, other))
    if pairs != others:
        hint = "give both the same draw, runs and context_size"
        raise ValueError(f"other must be about the same queries and contexts as result, got other ones; {hint}")
    return statistics.mse(mine.prediction, mine.truth, less=outcome(other, readout).prediction)


def effects(arms: Mapping[str, dict]) -> dict[str, Float[np.ndarray, " n"]]:
    """What one point more does to the expected score, run by run, in a probe: results by what they have ``moved``.

    Beside the effects of the ``design.NUMBERS``, and of all together, stands "all less the three": zero where effects
    add up.
    """
    scores = {part: expected(np.array([row["logprobs"] for row in arms[part]["records"]])) for part in _ARMS}
    found = {part: scores[part] - scores["nothing"] for part in _ARMS[1:]}
    return found | {"all less the three": found["all"] - sum(found[part] for part in NUMBERS)}


def table(results: Sequence[dict]) -> str:
    """What results say, as ``records.own`` gives them, in up to three tables.

    The first has a line for each experiment and readout. The second has mean squared errors less those of other
    conditions, and of the guess itself, the draws of a setting together. The third has the mean ``effects`` of probes
    in each condition, and with the right guesses less those in the others.
    """
    plain, probes = ([one for one in results if bool(one["experiment"].get("moved")) == moved] for moved in (0, 1))
    errors = [_row(one, readout) for one in plain for readout in _readouts(one)]
    tables = ((_HEADINGS, errors), (_CONTRASTS, [*_contrasts(plain)]), (_PROBES, [*_probes(probes)]))
    return "\n\n".join(_aligned([headings, *rows]) for headings, rows in tables if rows)


def _contrasts(results: Sequence[dict]) -> Iterator[tuple[str, ...]]:
    known = {_key(one): one for one in results}  # a copy counts once
    for group in _grouped(known.values(), "draw", "seed"):
        asked = group[0]["experiment"]
        for name, readout in product(_OTHERS.get(asked["condition"], ()), READOUTS):
            changes = {"condition": name} | ({"guess_model": None, "seed": 0} if name == "none" else {})
            pairs = [(one, one if name == _ITSELF else known.get(_key(one, **changes), {})) for one in group]
            pairs = [pair for pair in pairs if all(each and readout in _readouts(each) for each in pair)]
            one, other = ({"records": [row for pair in pairs for row in pair[side]["records"]]} for side in (0, 1))
            if len(one["records"]) > 1:
                draws = ",".join(str(pair[0]["experiment"]["draw"]) for pair in pairs)
                cells = (asked["model"], asked["style"], asked["guess_model"], draws, readout)
                found = compare(one, None if name == _ITSELF else other, readout)
                yield (*cells, f"{asked['condition']} - {name}", _written(found))


def _probes(results: Sequence[dict]) -> Iterator[tuple[str, ...]]:
    for group in _grouped(results, "moved", "condition"):
        arms: dict[str, dict] = {}
        for one in group:
            arms.setdefault(one["experiment"]["condition"], {})[one["experiment"]["moved"]] = one
        found = {name: effects(arms[name]) for name in _OTHERS if len(arms.get(name, ())) == len(_ARMS)}
        if right := found.get("guess"):
            others = [name for name in found if name != "guess"]
            found |= {f"guess - {name}": {part: right[part] - found[name][part] for part in right} for name in others}
        cells = [str(group[0]["experiment"][name]) for name in ("model", "style", "guess_model", "draw", "runs")]
        for name, each in found.items():
            yield from ((*cells, name, part, _shown(values)) for part, values in each.items())


def _grouped(results: Iterable[dict], *apart: str) -> list[list[dict]]:
    """Results that differ in nothing but some of their fields."""
    groups: dict[str, list[dict]] = {}
    for one in results:
        groups.setdefault(_key(one, **dict.fromkeys(apart)), []).append(one)
    return list(groups.values())


def _key(result: dict, **changes) -> str:
    """What is asked and of which versions, but for some changes; fields without a value, an older result may lack."""
    fields = {name: value for name, value in (result["experiment"] | changes).items() if value is not None}
    return json.dumps([fields, result["versions"]], sort_keys=True)


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _row(result: dict, readout: str) -> tuple[str, ...]:
    asked, found = result["experiment"], outcome(result, readout)
    cells = [asked[name] or "-" for name in ("model", "style", "condition", "guess_model")]
    cells += [str(asked["draw"]), readout, str(len(found.truth)), str(int(found.failed.sum()))]
    squares, guessed = ((made - found.truth) ** 2 for made in (found.prediction, found.guess))
    a, b = (x - x.mean() for x in (found.prediction, found.truth))
    correlation = a @ b / (np.sqrt(a @ a * (b @ b)) or 1)  # 0 where one does not vary
    others = (_mean(squares[~found.failed]), f"{correlation:.3f}", _mean(guessed))
    return (*cells, _shown(squares), *(others if len(squares) > 1 else ["-"] * 3))


def _readouts(result: dict) -> tuple[str, ...]:
    """Those that the model gave."""
    return READOUTS if all(record.get("logprobs") for record in result["records"]) else READOUTS[:1]


def _shown(values: Float[np.ndarray, " n"]) -> str:
    """The mean with its interval, where there is more than one value."""
    return "-" if len(values) < 2 else _written(statistics.bootstrap(lambda x: x.mean(-1), values))


def _written(interval: statistics.Interval) -> str:
    return f"{interval.estimate:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _mean(values: Float[np.ndarray, " n"]) -> str:
    return "-" if not len(values) or np.isnan(values).any() else f"{values.mean():.3f}"
