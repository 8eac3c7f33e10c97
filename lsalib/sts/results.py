"""What came back: predictions out of answers, their errors with intervals, and a table."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import softmax

from lsalib.book.statistics import Interval, mse
from lsalib.sts._parsing import parse

__all__ = ["ANSWERS", "LEAST_MASS", "READOUTS", "Outcome"]
__all__ += ["compare", "expected", "mass", "outcome", "parse", "table", "written"]

# The scores whose probabilities give an expected score: steps of a tenth, about as fine as the data.
ANSWERS = tuple(f"{tenths / 10:.1f}" for tenths in range(51))
READOUTS = ("written", "expected")
# Where the answers together have less probability, the model mostly says something else: there is no expected score.
LEAST_MASS = 0.5

_SETTING = ("model", "style", "runs", "context_size", "context_split", "max_new_tokens")
_HEADINGS = (*"model style guess condition draws readout runs failed mass error".split(), "less: the guess itself")
_HEADINGS += ("less: none", "less: shuffled")


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
    return np.asarray(softmax(np.asarray(logprobs, np.float64), axis=-1) @ np.array(ANSWERS, np.float64))


def written(logprobs: Float[np.ndarray, "*n k"]) -> Float[np.ndarray, "*n"]:
    """The score that is written digit by digit: the likeliest first digit, then the likeliest second one; (..., 51).

    Example:
        >>> logprobs = np.full(51, -9.0)
        >>> logprobs[[10, 30, 31]] = np.log([0.4, 0.3, 0.29])
        >>> float(written(logprobs))  # 1.0 is the likeliest score, 3 the likeliest digit
        3.0
    """
    probabilities = np.exp(np.asarray(logprobs, np.float64))
    digits = np.pad(probabilities, [(0, 0)] * (probabilities.ndim - 1) + [(0, 9)])  # of 5.1 to 5.9
    digits = digits.reshape(*digits.shape[:-1], 6, 10)
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

    The readout is "written", the score in the answer's text, or "expected", the mean over answer probabilities. A
    written answer without a score fails: it is replaced by the mean score of its context. Expected scores are refused
    where the answers' ``mass`` is below ``LEAST_MASS``.

    Example:
        >>> common = {"guess": None, "context_mean": 2.0}
        >>> records = [{"answer": "3", "truth": 3.5, **common}, {"answer": "?", "truth": 1.0, **common}]
        >>> outcome({"records": records}).prediction.tolist()
        [3.0, 2.0]
    """
    column = lambda name: [record[name] for record in result["records"]]
    if readout not in (known := _given(result)):
        raise ValueError(f"readout must be one of {', '.join(known)}, which the model gave, got {readout!r}")
    if readout == "expected" and (least := mass(result)) < LEAST_MASS:
        hint = "ask with the style prefill, or take what is written"
        raise ValueError(f"readout must have a mass of at least {LEAST_MASS}, got expected with {least:.2f}; {hint}")
    if readout == "written":
        prediction = np.array([parse(answer) for answer in column("answer")], np.float64)  # None becomes NaN
    else:
        prediction = expected(np.array(column("logprobs")))
    truth, guess, mean = (np.array(column(name), np.float64) for name in ("truth", "guess", "context_mean"))
    failed = np.isnan(prediction)
    return Outcome(np.where(failed, mean, prediction), truth, guess, failed)


def compare(result: dict, other: dict | None, readout: str = "written", *, family: int = 1) -> Interval:
    """The difference of two results' mean squared errors, of the same pairs; negative where the first is better.

    The other result None stands for the guesses that the first was shown. As many intervals as ``family`` says hold
    together with a confidence of 95 %.
    """
    mine = outcome(result, readout)
    if other is None:
        return mse(mine.prediction, mine.truth, less=mine.guess, family=family)
    if _pairs(result) != _pairs(other):
        raise ValueError("other must be about the same queries and contexts as result, got other ones")
    return mse(mine.prediction, mine.truth, less=outcome(other, readout).prediction, family=family)


def table(results: Sequence[dict]) -> str:
    """Mean squared errors with 95 % intervals, a row for each condition and readout, all its draws together.

    The last columns have differences: the error less that of the guess itself, of the condition without guesses, and of
    shuffled guesses. There is a dash where a mass is too small, or where conditions have other draws.
    """
    groups: dict[tuple, dict[tuple, list]] = {}
    for one in results:
        asked = one["experiment"]
        key = (*(asked[name] for name in _SETTING), asked["guess_model"], asked["condition"])
        groups.setdefault(key, {})[asked["draw"], asked["seed"]] = one["records"]
    pooled = {
        key: {"records": [row for _, part in sorted(parts.items()) for row in part]} for key, parts in groups.items()
    }
    rows = [_HEADINGS]
    for (*setting, guesser, condition), one in pooled.items():
        others = {"none": pooled.get((*setting, None, "none")), "shuffled": pooled.get((*setting, guesser, "shuffled"))}
        draws = ",".join(str(draw) for draw, _ in sorted(groups[*setting, guesser, condition]))
        for readout in _given(one):
            least = mass(one) if readout == "expected" else 1.0
            found = outcome(one, readout) if least >= LEAST_MASS else None
            values = [mse(*found[:2]) if found else None, *[None] * 3]
            if found and condition != "none":
                values[1] = compare(one, None, readout)
                for place, (name, other) in enumerate(others.items(), 2):
                    if other and name != condition and _pairs(one) == _pairs(other) and readout in _given(other):
                        values[place] = compare(one, other, readout)
            failed = str(found.failed.sum()) if found else "-"
            cells = (*setting[:2], guesser or "-", condition, draws, readout, str(len(one["records"])), failed)
            rows.append((*cells, f"{least:.2f}", *map(_cell, values)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _cell(value: Interval | None) -> str:
    if value is None:
        return "-"
    ends = "" if np.isnan(value.low) else f" [{value.low:.3f}, {value.high:.3f}]"  # none where rows are few
    return f"{value.estimate:.3f}{ends}"


def _pairs(result: dict) -> list:
    """Which queries were asked, after which examples."""
    return [(row["query"], row["context"]) for row in result["records"]]


def _given(result: dict) -> tuple[str, ...]:
    """The readouts that the model gave for all runs."""
    names = zip(READOUTS, ("answer", "logprobs"), strict=True)
    return tuple(readout for readout, name in names if all(row.get(name) is not None for row in result["records"]))
