"""What came back: scores read out of answers, their errors with intervals, and a table."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from lsalib import _validate
from lsalib.sts import statistics
from lsalib.sts._parsing import parse
from lsalib.sts.experiment import ANSWERS

__all__ = ["READOUTS", "Outcome", "compare", "expected", "outcome", "parse", "table"]

READOUTS = ("written", "expected")
_SETTING = ("model", "style", "condition", "guess", "draw", "readout", "runs", "failed")
_HEADINGS = (*_SETTING, "MSE [95 %]", "MSE, failed dropped", "r", "MSE of the guess", "against none [95 %]")


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
    weights = np.exp(logprobs - logprobs.max(1, keepdims=True))
    return weights @ np.array(ANSWERS, np.float64) / weights.sum(1)


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
    if readout not in _readouts(result):
        raise ValueError(
            f"readout must be one of {', '.join(_readouts(result))}, which the model gave, got {readout!r}"
        )
    if readout == "written":
        prediction = np.array([parse(answer, mode) for answer in column("answer")], np.float64)  # None becomes NaN
    else:
        prediction = expected(np.array(column("logprobs")))
    truth, guess, mean = (np.array(column(name), np.float64) for name in ("truth", "guess", "context_mean"))
    failed = np.isnan(prediction)
    return Outcome(np.where(failed, mean, prediction), truth, guess, failed)


def compare(result: dict, other: dict, readout: str = "written") -> statistics.Interval:
    """The difference of two results' mean squared errors, negative where the first is better; of the same pairs."""
    pairs, others = ([(one["query"], one["context"]) for one in each["records"]] for each in (result, other))
    if pairs != others:
        hint = "give both the same draw, runs and context_size"
        raise ValueError(f"other must be about the same queries and contexts as result, got other ones; {hint}")
    mine = outcome(result, readout)
    return statistics.mse(mine.prediction, mine.truth, less=outcome(other, readout).prediction)


def table(results: Sequence[dict]) -> str:
    """A line for each experiment, as ``records.own`` gives them, and readout; columns aligned."""
    rows = [_HEADINGS, *(_row(one, readout, results) for one in results for readout in _readouts(one))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def _row(result: dict, readout: str, results: Sequence[dict]) -> tuple[str, ...]:
    asked, found = result["experiment"], outcome(result, readout)
    cells = [asked[name] or "-" for name in ("model", "style", "condition", "guess_model")]
    cells += [str(asked["draw"]), readout, str(len(found.truth)), str(int(found.failed.sum()))]
    if len(found.truth) < 2:
        return (*cells, *["-"] * 5)
    squares = (found.prediction - found.truth) ** 2
    cells += [_shown(statistics.mse(found.prediction, found.truth)), _mean(squares[~found.failed])]
    cells += [_correlation(found.prediction, found.truth), _mean((found.guess - found.truth) ** 2)]
    return (*cells, _against_none(result, readout, results))


def _against_none(result: dict, readout: str, results: Sequence[dict]) -> str:
    """The difference to the same experiment without guesses, where that was run and has the readout."""
    asked = result["experiment"]
    plain = asked | {"condition": "none", "guess_model": None, "seed": 0}
    for other in results:
        same = other["experiment"] == plain != asked and other["versions"] == result["versions"]
        if same and readout in _readouts(other):
            return _shown(compare(result, other, readout))
    return "-"


def _readouts(result: dict) -> tuple[str, ...]:
    """Those that the model gave."""
    return READOUTS if all(record.get("logprobs") for record in result["records"]) else READOUTS[:1]


def _shown(interval: statistics.Interval) -> str:
    return f"{interval.estimate:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _mean(values: Float[np.ndarray, " n"]) -> str:
    return "-" if not len(values) or np.isnan(values).any() else f"{values.mean():.3f}"


def _correlation(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> str:
    """Pearson's; 0 where one does not vary."""
    a, b = a - a.mean(), b - b.mean()
    return f"{a @ b / (np.sqrt(a @ a * (b @ b)) or 1):.3f}"
