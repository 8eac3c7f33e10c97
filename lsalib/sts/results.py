"""What came back: scores read out of answers, their errors with intervals, and a table."""

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from lsalib import _validate
from lsalib.sts import statistics
from lsalib.sts.experiment import ANSWERS

__all__ = ["READOUTS", "Outcome", "compare", "expected", "outcome", "parse", "table"]

READOUTS = ("written", "expected")
_SETTING = ("model", "style", "condition", "guess", "draw", "readout", "runs", "failed")
_HEADINGS = (*_SETTING, "MSE [95 %]", "MSE, failed dropped", "r", "MSE of the guess", "against none [95 %]")

_STRICT = re.compile(r"(\d++(?:\.\d++)?)\.?", re.ASCII)

# A number stands alone: no letter or digit touches it, as in v2, 2nd, 1e5, 4.5.6; an underscore or a star may.
_FIGURE = r"(?:\d++(?:[.,]\d++)?+|(?<!\.)\.\d++)"
_BEGIN, _END = r"(?<![^\W_])(?<!\d[.,])", r"(?![^\W_])(?![.,]\d)"
_MINUS = "[-\u2212\u2013]"  # hyphen, minus, en dash
_NUMBER = re.compile(rf"{_BEGIN}(?P<minus>{_MINUS}?)(?P<value>{_FIGURE}){_END}(?!\s?%)")
_RANGE = re.compile(
    rf"{_BEGIN}(?:between\s+{_FIGURE}\s+and\s+{_FIGURE}|{_MINUS}?{_FIGURE}\s?(?:{_MINUS}|\bto\b)\s?{_FIGURE}){_END}",
    re.IGNORECASE,
)
_FRACTION = re.compile(rf"{_BEGIN}(?P<value>{_FIGURE})\s?(?:/|\bout\sof\b)\s?(?P<of>{_FIGURE}){_END}", re.IGNORECASE)

# What stands directly before a number, and says what it is.
_LABEL = re.compile(r"(?:score|rating|similarity)\W{0,8}(?:(?:is|of|would\sbe)\W{1,8})?\Z", re.IGNORECASE)
_OTHER_THING = re.compile(
    r"(?:sentences?|examples?|pairs?|steps?|#|\bfrom|\bscale\W{1,4}of|(?:initial|prior|given)\W{1,4}guess(?:\W{1,4}(?:is|was|of))?)\W{0,4}\Z",
    re.IGNORECASE,
)


class Outcome(NamedTuple):
    """The predictions that count, (n,) each; ``failed`` marks answers without a score, now the context's mean."""

    prediction: Float[np.ndarray, " n"]
    truth: Float[np.ndarray, " n"]
    guess: Float[np.ndarray, " n"]
    failed: Bool[np.ndarray, " n"]


def parse(text: str, mode: str = "strict") -> float | None:
    """Read the score out of an answer, between 0 and 5, or None where the rule finds none.

    With mode "strict" the answer is a number in [0, 5], digits with or without a decimal point, and nothing else but
    whitespace around it and a final full stop.

    With mode "lenient" it is, of the numbers that stand alone, digits of any script, with a decimal point or comma, the
    first in [0, 5] that directly follows «score», «rating» or «similarity» (and «is», «of», «would be», any signs
    between); if there is none, the first in [0, 5] at all. Left out are negative numbers, percentages, ranges («3-4»,
    «3 to 4», «between 3 and 4»), fractions of anything but five («4/5» and «4 out of 5» are 4), and numbers of
    something else: after «sentence», «example», «pair», «step», «#», «from», «scale of», or after «guess» where that is
    the initial, prior or given one.

    Example:
        >>> parse(" 3.8."), parse("Score: 3.8"), parse("5.01")
        (3.8, None, None)
        >>> answers = "**4**", "4/5", "3,5", "Sentence 1 is close to sentence 2: 2.75", "8/10"
        >>> [parse(answer, "lenient") for answer in answers]
        [4.0, 4.0, 3.5, 2.75, None]
    """
    if mode not in ("strict", "lenient"):
        raise ValueError(f"mode must be one of strict, lenient, got {mode!r}")
    if mode == "strict":
        match = _STRICT.fullmatch(text.strip())
        return _in_range(match[1]) if match else None
    text = "".join(str(unicodedata.decimal(sign, sign)) for sign in text)
    text = _RANGE.sub("\u2026", text)
    text = _FRACTION.sub(lambda match: match["value"] if _in_range(match["of"]) == 5 else "\u2026", text)
    numbers = [match for match in _NUMBER.finditer(text) if not match["minus"]]
    found = [(text[max(0, match.start() - 40) : match.start()], _in_range(match["value"])) for match in numbers]
    found = [(before, score) for before, score in found if score is not None and not _OTHER_THING.search(before)]
    return next((score for before, score in found if _LABEL.search(before)), found[0][1] if found else None)


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


def _in_range(written: str) -> float | None:
    value = float(written.replace(",", "."))
    return value if 0 <= value <= 5 else None
