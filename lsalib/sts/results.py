"""What came back: scores out of answers, their errors with intervals, and a table."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from lsalib.book.statistics import Interval, mse

__all__ = ["SETTING", "Outcome", "compare", "outcome", "parse", "pooled", "table"]

# A first line that is one number; before it at most the word "score" and signs, after
# it "out of 5" and signs.
_NUMBER = (
    r"[^\w\-−–.]*(?:similarity )?(?:score)?[^\w\-−–.\n]*"
    r"([0-9](?:[.,][0-9]+)?)"
    r"(?: ?/ ?5| out of 5)?[^\w\n]*(?:\n|\Z)"
)
#: The fields of an experiment whose results are pooled or compared only where they
#: are equal.
SETTING = ("model", "style", "runs", "context_size", "max_new_tokens")
_OTHERS = ("none", "constant", "shuffled")
_HEADINGS = "model style guess condition draws runs failed error".split()
_HEADINGS += [f"less: {name}" for name in ("the guess itself", *_OTHERS)]


class Outcome(NamedTuple):
    """The predictions that count, (n,) each; ``failed`` marks answers without a score,
    now the context's mean.
    """

    prediction: Float[np.ndarray, " n"]
    truth: Float[np.ndarray, " n"]
    guess: Float[np.ndarray, " n"]
    failed: Bool[np.ndarray, " n"]


def parse(text: str) -> float | None:
    """The score, from 0 to 5, in an answer that begins with it; None where it begins
    with anything else.

    The prompt asks for one number. A longer answer may be about another pair, so it is
    not searched for a number.

    Example:
        >>> parse("**4**"), parse("Score: 3.5 out of 5")
        (4.0, 3.5)
        >>> [parse(s) for s in ("Initial guess: 2.31\\nScore: 3.0", "3 or 4")]
        [None, None]
    """
    found = re.match(_NUMBER, text, re.IGNORECASE)
    value = float(found[1].replace(",", ".")) if found else np.inf
    return value if value <= 5 else None


def outcome(result: dict) -> Outcome:
    """Predictions beside the truth; guesses are NaN in the condition without.

    An answer without a score fails: it is replaced by the mean score of its context.

    Example:
        >>> common = {"guess": None, "context_mean": 2.0}
        >>> records = [
        ...     {"answer": "3", "truth": 3.5, **common},
        ...     {"answer": "?", "truth": 1.0, **common},
        ... ]
        >>> outcome({"records": records}).prediction.tolist()
        [3.0, 2.0]
    """
    column = lambda name: [record[name] for record in result["records"]]
    # None becomes NaN
    prediction = np.array([parse(answer) for answer in column("answer")], np.float64)
    truth, guess, mean = (
        np.array(column(name), np.float64)
        for name in ("truth", "guess", "context_mean")
    )
    failed = np.isnan(prediction)
    return Outcome(np.where(failed, mean, prediction), truth, guess, failed)


def compare(result: dict, other: dict | None, *, family: int = 1) -> Interval:
    """The difference of two results' mean squared errors, of the same pairs; negative
    where the first is better.

    The other result None stands for the guesses that the first was shown. As many
    intervals as ``family`` says hold together with a confidence of 95 %.
    """
    mine = outcome(result)
    if other and _pairs(result) != _pairs(other):
        raise ValueError(
            "other must be about the same queries and contexts as result, "
            "got other ones"
        )
    less = outcome(other).prediction if other else mine.guess
    return mse(mine.prediction, mine.truth, less, family=family)


def pooled(results: Sequence[dict]) -> dict[tuple, dict]:
    """All draws of a condition as one result, by setting, guess model and condition; a
    copy counts once.

    A setting has the values of ``SETTING``, with the model first.
    """
    groups: dict[tuple, dict[tuple, list]] = {}
    for one in results:
        asked = one["experiment"]
        key = (
            tuple(asked[name] for name in SETTING),
            asked["guess_model"],
            asked["condition"],
        )
        groups.setdefault(key, {})[asked["draw"], asked["seed"]] = one["records"]
    rows = lambda parts: [
        row | {"draw": draw}
        for (draw, _), part in sorted(parts.items())
        for row in part
    ]
    return {key: {"records": rows(parts)} for key, parts in groups.items()}


def table(results: Sequence[dict]) -> str:
    """Mean squared errors with 95 % intervals, a row for each condition, all its draws
    together.

    The next columns have differences: the error less that of the guess itself and of
    the other conditions, with a dash where conditions have other draws.
    """
    found, rows = pooled(results), [_HEADINGS]
    for (setting, guesser, condition), one in found.items():
        said, draws = outcome(one), sorted({row["draw"] for row in one["records"]})
        values: list = [
            mse(said.prediction, said.truth),
            compare(one, None) if condition != "none" else None,
        ]
        for name in _OTHERS:
            other = found.get((setting, guesser if name == "shuffled" else None, name))
            alike = other and name != condition and _pairs(one) == _pairs(other)
            values.append(compare(one, other) if alike else None)
        cells = [*setting[:2], guesser or "-", condition]
        cells += [",".join(map(str, draws)), str(len(said.truth))]
        rows.append([*cells, str(said.failed.sum()), *map(_cell, values)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _cell(value: Interval | None) -> str:
    if value is None:
        return "-"
    # none where rows are few
    ends = "" if np.isnan(value.low) else f" [{value.low:.3f}, {value.high:.3f}]"
    return f"{value.estimate:.3f}{ends}"


def _pairs(result: dict) -> list:
    """Which queries were asked, and the mean scores of the examples before them."""
    return [(row["query"], row["context_mean"]) for row in result["records"]]
