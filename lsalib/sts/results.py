"""What came back: predictions out of answers, their errors and what moves them, with intervals, and tables."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import softmax

from lsalib import _validate
from lsalib.book.statistics import Interval, bootstrap, mse
from lsalib.sts._parsing import parse
from lsalib.sts.design import CHOICES, NUMBERS
from lsalib.sts.experiment import ANSWERS, READOUTS

__all__ = ["LEAST_MASS", "READOUTS", "Outcome"]
__all__ += ["compare", "effects", "expected", "mass", "outcome", "parse", "table", "unreadable", "written"]

# An expected score is a mean over the answers 0.0 … 5.0. Where these have less than half of the probability, the model
# mostly says something else, and the mean describes what it says in the minority of cases.
LEAST_MASS = 0.5
_NOT_SHOWN = f"not shown: the mass is below {LEAST_MASS}"

_HEADINGS = (*"model style guess draws condition readout runs failed mass what".split(), "value [95 %]")
_SETTING = ("model", "style", "runs", "context_size", "context_split", "max_new_tokens")
# What the error of the answers is compared with; with the right guesses also the error with guesses that say less.
_GUESS = "the guess itself"
_OTHERS: dict[str, tuple[str, ...]] = dict.fromkeys(CHOICES["condition"][1:], (_GUESS, "none")) | {"none": ()}
_OTHERS["guess"] += ("shuffled", "permuted", "neutral")
_ARMS = CHOICES["moved"][1:]
_SUM = "all less the three"


class Outcome(NamedTuple):
    """The predictions that count, (n,) each; ``failed`` marks answers without a score, now the context's mean."""

    prediction: Float[np.ndarray, " n"]
    truth: Float[np.ndarray, " n"]
    guess: Float[np.ndarray, " n"]
    failed: Bool[np.ndarray, " n"]


def expected(logprobs: Float[np.ndarray, "*n k"]) -> Float[np.ndarray, "*n"]:
    """The mean score ``sum_k s_k p_k / sum_k p_k``, for ``s_k`` = 0.0, 0.1, ..., 5.0 and ``log p_k``, (..., 51).

    Example:
        >>> expected(np.zeros((1, 51))).round(6).tolist()
        [2.5]
    """
    logprobs = np.asarray(logprobs, np.float64)
    _validate.shape("logprobs", logprobs, (*logprobs.shape[:-1], len(ANSWERS)))
    return np.asarray(softmax(logprobs, axis=-1) @ np.array(ANSWERS, np.float64))


def written(logprobs: Float[np.ndarray, "*n k"]) -> Float[np.ndarray, "*n"]:
    """The score that is written digit by digit: the likeliest first digit, then the likeliest second one; (..., 51).

    Example:
        >>> logprobs = np.full(51, -9.0)
        >>> logprobs[[10, 30, 31]] = np.log([0.4, 0.3, 0.29])
        >>> float(written(logprobs))  # 1.0 is the likeliest score, 3 the likeliest digit
        3.0
    """
    logprobs = np.asarray(logprobs, np.float64)
    _validate.shape("logprobs", logprobs, (*logprobs.shape[:-1], len(ANSWERS)))
    digits = np.zeros((*logprobs.shape[:-1], 60))
    digits[..., : len(ANSWERS)] = np.exp(logprobs)
    digits = digits.reshape(*logprobs.shape[:-1], 6, 10)
    first = digits.sum(-1).argmax(-1)
    second = np.take_along_axis(digits, first[..., None, None], -2)[..., 0, :].argmax(-1)
    return np.asarray(first + second / 10)


def mass(result: dict) -> float:
    """The probability of the answers 0.0, 0.1, ..., 5.0 together, the mean over the runs.

    Example:
        >>> round(mass({"records": [{"logprobs": [np.log(0.01)] * 51}]}), 2)
        0.51
    """
    return float(np.exp([record["logprobs"] for record in result["records"]]).sum(1).mean())


def outcome(result: dict, readout: str = "written") -> Outcome:
    """Predictions beside the truth; guesses are NaN in the condition without.

    A written answer without a score fails: it is replaced by the mean score of its context, what one would
    say without reading the query. Expected scores are refused where the answers' ``mass`` is below ``LEAST_MASS``: they
    are then no summary of what the model says.

    Args:
        result: as ``experiment.run`` or ``records.own`` gives it.
        readout: "written", the score in the answer's text, or "expected", the mean over answer probabilities.

    Example:
        >>> common = {"guess": None, "context_mean": 2.0}
        >>> records = [{"answer": "3", "truth": 3.5, **common}, {"answer": "?", "truth": 1.0, **common}]
        >>> outcome({"records": records}).prediction.tolist()
        [3.0, 2.0]
    """
    column = lambda name: [record[name] for record in result["records"]]
    if readout not in (known := _given(result)):
        raise ValueError(f"readout must be one of {', '.join(known)}, which the model gave, got {readout!r}")
    if readout not in _readouts(result):
        hint = "the model mostly says something else; ask with the style prefill, or take what is written"
        got = f"got {readout!r}, whose answers have a probability of {mass(result):.2f}"
        raise ValueError(f"readout must have a probability mass of at least {LEAST_MASS}, {got}; {hint}")
    if readout == "written":
        prediction = np.array([parse(answer) for answer in column("answer")], np.float64)  # None becomes NaN
    else:
        prediction = expected(np.array(column("logprobs")))
    truth, guess, mean = (np.array(column(name), np.float64) for name in ("truth", "guess", "context_mean"))
    failed = np.isnan(prediction)
    return Outcome(np.where(failed, mean, prediction), truth, guess, failed)


def compare(result: dict, other: dict | None, readout: str = "written", *, family: int = 1) -> Interval:
    """The difference of two results' mean squared errors, negative where the first is better; of the same pairs.

    Where there is no other, the guesses that the first was shown are the predictions that it is compared with. So many
    intervals as ``family`` says hold together with a confidence of 95 %.
    """
    mine = outcome(result, readout)
    if other is None:
        return mse(mine.prediction, mine.truth, less=mine.guess, family=family)
    pairs, others = ([(one["query"], one["context"]) for one in each["records"]] for each in (result, other))
    if pairs != others:
        hint = "give both the same draw, runs and context_size"
        raise ValueError(f"other must be about the same queries and contexts as result, got other ones; {hint}")
    return mse(mine.prediction, mine.truth, less=outcome(other, readout).prediction, family=family)


def effects(arms: Mapping[str, dict]) -> dict[str, Float[np.ndarray, " n"]]:
    """What one point more does to the answer, run by run, in a probe: results by what they have ``moved``.

    It is the expected score if that has enough ``mass``, else the written one. After the effects of the
    ``design.NUMBERS``, and of all together, comes "all less the three": zero where effects add up.
    """
    readout = READOUTS[1] if all(READOUTS[1] in _readouts(arms[part]) for part in _ARMS) else READOUTS[0]
    scores = {part: outcome(arms[part], readout).prediction for part in _ARMS}
    found = {part: scores[part] - scores["nothing"] for part in _ARMS[1:]}
    return found | {_SUM: found["all"] - sum(found[part] for part in NUMBERS)}


def unreadable(results: Sequence[dict]) -> str:
    """How many written answers of each condition have no score, if these are most of all answers; else nothing."""
    written = [one for one in results if "written" in _readouts(one)]
    failed = [(one["experiment"]["condition"], outcome(one).failed) for one in written]
    if 2 * sum(each.sum() for _, each in failed) <= sum(len(each) for _, each in failed):
        return ""
    return ", ".join(f"{name}: {each.sum()} of {len(each)}" for name, each in failed)


def table(results: Sequence[dict]) -> str:
    """What results say, as ``records.own`` gives them: mean squared errors, also less those of other conditions and of
    the guess itself, all draws of a setting together; and the mean ``effects`` of probes. With 95 % intervals."""
    plain, probes = ([one for one in results if bool(one["experiment"].get("moved")) == moved] for moved in (0, 1))
    rows = [_HEADINGS, *_errors(plain), *_probed(probes)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _errors(results: Sequence[dict]) -> Iterator[tuple[str, ...]]:
    groups = _grouped(results, "condition", "guess_model", within=("draw", "seed"))
    for (*setting, condition, kind), mine in groups.items():
        for other, readout in product(("", *_OTHERS[condition]), READOUTS):
            none = other == "none"
            others = mine if other in ("", _GUESS) else groups.get((*setting, other, None if none else kind), {})
            at = {key: (key[0], 0) if none else key for key in mine}
            pairs = [(mine[key], others[at[key]]) for key in mine if at[key] in others]
            pairs = [pair for pair in pairs if all(readout in _readouts(each) for each in pair)]
            one, less = ({"records": [row for pair in pairs for row in pair[side]["records"]]} for side in (0, 1))
            if pairs:
                found, draws = outcome(one, readout), ",".join(str(each["experiment"]["draw"]) for each, _ in pairs)
                cells = (*setting[:2], kind or "-", draws, condition, readout, str(len(found.truth)))
                sure = "-" if readout == "written" else f"{mass(one):.2f}"
                value = compare(one, None if other == _GUESS else less, readout) if other else mse(*found[:2])
                yield (*cells, str(found.failed.sum()), sure, f"MSE less: {other}" if other else "MSE", _written(value))
        if unsure := [mass(one) for one in mine.values() if "expected" in set(_given(one)) - set(_readouts(one))]:
            cells = (*setting[:2], kind or "-", "-", condition, "expected", "-", "-", f"{max(unsure):.2f}", "MSE")
            yield (*cells, _NOT_SHOWN)


def _probed(results: Sequence[dict]) -> Iterator[tuple[str, ...]]:
    groups = _grouped(results, "guess_model", "draw", "seed", within=("condition", "moved"))
    for (model, style, *_, kind, draw, _), arms in groups.items():
        names = [name for name in _OTHERS if all((name, part) in arms for part in _ARMS)]
        whole = {name: {part: arms[name, part] for part in _ARMS} for name in names}
        known = [name for name in whole if all(map(_readouts, whole[name].values()))]
        least = {name: _least_mass(whole[name]) for name in names}
        for name in (name for name in names if name not in known):
            yield (model, style, kind, str(draw), name, *"---", least[name], "one point more", _NOT_SHOWN)
        found = {name: effects(whole[name]) for name in known}
        if right := found.get("guess"):
            less = {name: found[name] for name in known if name != "guess"}
            found |= {f"guess less: {name}": {part: right[part] - less[name][part] for part in right} for name in less}
            least |= {f"guess less: {name}": min(least["guess"], least[name]) for name in less}
        for name, part in product(found, (*_ARMS[1:], _SUM)):
            values = found[name][part]
            cells = (model, style, kind, str(draw), name, "-", str(len(values)), "-", least[name])
            yield (*cells, f"one point more in {part}", _written(bootstrap(lambda x: x.mean(-1), values)))


def _least_mass(arms: Mapping[str, dict]) -> str:
    """The smallest mass of a probe's arms; "-", which sorts first, where its effects are of written answers."""
    unsure = [one for one in arms.values() if READOUTS[1] not in _readouts(one)]
    if unsure and all(map(_readouts, unsure)):
        return "-"
    return f"{min(mass(one) for one in arms.values() if READOUTS[1] in _given(one)):.2f}"


def _grouped(results: Sequence[dict], *names: str, within: tuple[str, str]) -> dict[tuple, dict[tuple, dict]]:
    """Results by their setting and these fields, and those of a group by two others; a copy counts once."""
    groups: dict[tuple, dict[tuple, dict]] = {}
    for one in results:
        asked = one["experiment"]
        key = tuple(asked[name] for name in (*_SETTING, *names))
        groups.setdefault(key, {})[tuple(asked[name] for name in within)] = one
    return groups


def _given(result: dict) -> tuple[str, ...]:
    """The readouts that the model gave."""
    names = zip(READOUTS, ("answer", "logprobs"), strict=True)
    return tuple(readout for readout, name in names if all(row.get(name) is not None for row in result["records"]))


def _readouts(result: dict) -> tuple[str, ...]:
    """Those of them that say what the model says."""
    return tuple(name for name in _given(result) if name == "written" or mass(result) >= LEAST_MASS)


def _written(interval: Interval) -> str:
    """The ends only where there are enough rows for them."""
    ends = "" if np.isnan(interval.low) else f" [{interval.low:.3f}, {interval.high:.3f}]"
    return f"{interval.estimate:.3f}{ends}"
