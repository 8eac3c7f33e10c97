"""What came back: predictions with their failures, errors with their intervals, and a table."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from lsalib.sts import statistics
from lsalib.sts.experiment import ANSWERS
from lsalib.sts.parsing import parse

__all__ = ["READOUTS", "Outcome", "compare", "expected", "find", "outcome", "table"]

READOUTS = ("written", "expected")
FAILURES = ("replace", "drop")
_HEADINGS = (
    "model",
    "style",
    "condition",
    "guess",
    "draw",
    "readout",
    "runs",
    "failed",
    "MSE [95 %]",
    "MSE, failed dropped",
    "r",
    "MSE of the guess",
    "against none [95 %]",
)


class Outcome(NamedTuple):
    """The predictions of an experiment that count, (n,) each; ``failed`` marks answers without a score, now the context's mean."""

    prediction: Float[np.ndarray, " n"]
    truth: Float[np.ndarray, " n"]
    guess: Float[np.ndarray, " n"]
    failed: Bool[np.ndarray, " n"]


def find(folder: str | os.PathLike) -> list[dict]:
    """All finished results in a folder and below.

    Args:
        folder: for instance the one above those that ``run`` filled.

    Returns:
        The results, in the order of their paths.

    Raises:
        FileNotFoundError: if there is none.
        ValueError: if one is damaged.

    Example:
        >>> find("no-such-folder")
        Traceback (most recent call last):
        FileNotFoundError: no result.json in no-such-folder or below; python -m lsalib.sts run writes one
    """
    paths = sorted(Path(folder).rglob("result.json"))
    if not paths:
        raise FileNotFoundError(f"no result.json in {folder} or below; python -m lsalib.sts run writes one")
    return [read(path) for path in paths]


def read(path: Path) -> dict:
    """One stored result.

    Args:
        path: of its file.

    Returns:
        The result.

    Raises:
        ValueError: if the file is damaged, or another.

    Example:
        >>> read(Path(__file__))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: ...results.py must be a result that an experiment wrote, got a damaged file ...
    """
    try:
        result = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} must be a result that an experiment wrote, got a damaged file ({error})") from None
    if not isinstance(result, dict) or not {"experiment", "versions", "records"} <= result.keys():
        raise ValueError(f"{path} must be a result that an experiment wrote, got another file")
    return result


def expected(logprobs: Float[np.ndarray, "n k"]) -> Float[np.ndarray, " n"]:
    """The mean score under the probabilities of 0.0, 0.1, ..., 5.0, made to sum to one: ``sum_k s_k p_k / sum_k p_k``.

    Args:
        logprobs: ``log p_k``, (n, 51).

    Returns:
        Scores, (n,).

    Raises:
        ValueError: if there are not 51.

    Example:
        >>> expected(np.zeros((1, 51))).round(6).tolist()
        [2.5]
    """
    logprobs = np.asarray(logprobs, np.float64)
    if logprobs.ndim != 2 or logprobs.shape[1] != len(ANSWERS):
        raise ValueError(f"logprobs must have shape (n, {len(ANSWERS)}), got shape {logprobs.shape}")
    weights = np.exp(logprobs - logprobs.max(1, keepdims=True))
    return weights @ np.array(ANSWERS, np.float64) / weights.sum(1)


def outcome(result: dict, readout: str = "written", *, mode: str = "lenient", failures: str = "replace") -> Outcome:
    """Predictions beside the truth.

    A written answer without a score fails: it is replaced by the mean score of its context, what one would
    say without reading the query, or dropped.

    Args:
        result: as ``experiment.run`` or ``find`` gives it.
        readout: "written", the score in the answer's text, or "expected", the mean over answer probabilities.
        mode: of ``parse``, for the written readout.
        failures: "replace" or "drop".

    Returns:
        The ``Outcome``; its guesses are NaN in the condition without.

    Raises:
        ValueError: if a name is unknown, or the model gave no probabilities.

    Example:
        >>> records = [{"answer": "3", "truth": 3.5, "guess": None, "context_mean": 2.0}, {"answer": "?", "truth": 1.0, "guess": None, "context_mean": 2.0}]
        >>> outcome({"records": records}).prediction.tolist(), outcome({"records": records}, failures="drop").prediction.tolist()
        ([3.0, 2.0], [3.0])
    """
    for name, value, known in (("readout", readout, READOUTS), ("failures", failures, FAILURES)):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    records = result["records"]
    prediction = (
        _expected(result) if readout == "expected" else _floats(parse(record["answer"], mode) for record in records)
    )
    truth, guess, mean = (_floats(record[name] for record in records) for name in ("truth", "guess", "context_mean"))
    failed = np.isnan(prediction)
    everything = Outcome(np.where(failed, mean, prediction), truth, guess, failed)
    return everything if failures == "replace" else Outcome(*(column[~failed] for column in everything))


def compare(
    result: dict, other: dict, readout: str = "written", *, mode: str = "lenient", failures: str = "replace", **options
) -> statistics.Interval:
    """The difference of two experiments' mean squared errors, run by run on the same query and context.

    Args:
        result, other: results that asked about the same pairs.
        readout, mode: as in ``outcome``.
        failures: "replace", or "drop": the runs where either failed.
        options: seed, resamples and level of ``statistics.bootstrap``.

    Returns:
        An ``Interval``, negative where ``result`` is better.

    Raises:
        ValueError: if the runs are not of the same pairs, or as ``outcome``.

    Example:
        >>> def result(*answers):
        ...     return {"records": [{"query": n, "context": [n], "answer": a, "truth": 1.0, "guess": None, "context_mean": 2.0} for n, a in enumerate(answers)]}
        >>> compare(result("1", "1"), result("2", "3")).estimate
        -2.5
    """
    if _pairs(result) != _pairs(other):
        raise ValueError(
            "other must be about the same queries and contexts as result, got other ones; give both the same draw, runs and context_size"
        )
    mine, theirs = (outcome(each, readout, mode=mode) for each in (result, other))
    if failures not in FAILURES:
        raise ValueError(f"failures must be one of {', '.join(FAILURES)}, got {failures!r}")
    keep = np.full(len(mine.truth), True) if failures == "replace" else ~(mine.failed | theirs.failed)
    return statistics.mse_difference(mine.prediction[keep], theirs.prediction[keep], mine.truth[keep], **options)


def table(results: Sequence[dict]) -> str:
    """A line for each experiment and readout, columns aligned.

    Args:
        results: as ``find`` gives them.

    Returns:
        The text.

    Example:
        >>> print(table([]).split()[0])
        model
    """
    rows = [_HEADINGS]
    for result in results:
        rows += [_row(result, readout, results) for readout in _readouts(result)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _row(result: dict, readout: str, results: Sequence[dict]) -> tuple[str, ...]:
    asked = result["experiment"]
    everything, answered = outcome(result, readout), outcome(result, readout, failures="drop")
    cells = [str(asked[name]) for name in ("model", "style", "condition")]
    cells += [
        asked["guess_model"] or "-",
        str(asked["draw"]),
        readout,
        str(len(everything.truth)),
        str(int(everything.failed.sum())),
    ]
    if len(everything.truth) < 2:
        return (*cells, *["-"] * (len(_HEADINGS) - len(cells)))
    cells.append(_shown(statistics.mse(everything.prediction, everything.truth)))
    cells.append(f"{((answered.prediction - answered.truth) ** 2).mean():.3f}" if len(answered.truth) else "-")
    cells.append(f"{statistics.correlation(everything.prediction, everything.truth).estimate:.3f}")
    cells.append(
        "-" if np.isnan(everything.guess).any() else f"{((everything.guess - everything.truth) ** 2).mean():.3f}"
    )
    return (*cells, _against_none(result, readout, results))


def _against_none(result: dict, readout: str, results: Sequence[dict]) -> str:
    """The difference to the same experiment without guesses, where that was run and has the readout."""
    own = result["experiment"]
    for other in results:
        as_mine = other["experiment"] | {name: own[name] for name in ("condition", "guess_model", "seed")}
        same = as_mine == own and other["versions"] == result["versions"]
        if (
            same
            and own["condition"] != "none"
            and other["experiment"]["condition"] == "none"
            and readout in _readouts(other)
        ):
            return _shown(compare(result, other, readout))
    return "-"


def _readouts(result: dict) -> tuple[str, ...]:
    """Those that the model gave."""
    return READOUTS if all(record["logprobs"] is not None for record in result["records"]) else READOUTS[:1]


def _shown(interval: statistics.Interval) -> str:
    return f"{interval.estimate:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _expected(result: dict) -> Float[np.ndarray, " n"]:
    if "expected" not in _readouts(result):
        raise ValueError("readout must be 'written': this model gave no probabilities")
    return expected(np.array([record["logprobs"] for record in result["records"]]))


def _pairs(result: dict) -> list:
    return [(record["query"], record["context"]) for record in result["records"]]


def _floats(values: Iterable[float | None]) -> Float[np.ndarray, " n"]:
    return np.array([np.nan if value is None else value for value in values], np.float64)
