"""How sure a measured error is: bootstrap intervals over queries, paired where two conditions answered the same."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lsalib import _validate

__all__ = ["Interval", "bootstrap", "correlation", "mse", "mse_difference"]

Column = Float[np.ndarray, " n"]


class Interval(NamedTuple):
    """A statistic of the sample and the ends of its confidence interval."""

    estimate: float
    low: float
    high: float


def bootstrap(
    statistic: Callable, *columns: Column, seed: int = 0, resamples: int = 10_000, level: float = 0.95
) -> Interval:
    """The percentile interval of a statistic when the rows of all columns are drawn together, with replacement.

    Args:
        statistic: a function of the columns that works along their last axis, ``(..., n) -> (...)``.
        columns: equally long, at least two rows; a row is a query.
        seed: of the resampling.
        resamples: how many.
        level: the confidence, between 0 and 1.

    Returns:
        An ``Interval``.

    Raises:
        ValueError: if a column is not finite, is too short or has another length, or a number is out of range.

    Example:
        >>> interval = bootstrap(lambda x: x.mean(-1), np.arange(100.0))
        >>> interval.estimate, interval.low < 49.5 < interval.high, round(interval.high - interval.low)
        (49.5, True, 11)

    Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, section 13.3.
    """
    if not columns or np.size(columns[0]) < 2:
        raise ValueError("columns must have at least two rows to resample")
    columns = tuple(_validate.vector(f"column {n}", column, np.size(columns[0])) for n, column in enumerate(columns))
    _validate.count("resamples", resamples)
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level}")
    n, rng, values = len(columns[0]), np.random.default_rng(seed), []
    # In pieces, so that the resampled rows of a long column fit in memory.
    for begin in range(0, resamples, piece := max(1, 2**21 // n)):
        rows = rng.integers(n, size=(min(piece, resamples - begin), n))
        values.append(statistic(*(column[rows] for column in columns)))
    low, high = np.quantile(np.concatenate(values), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(statistic(*columns)), float(low), float(high))


def mse(prediction: Column, truth: Column, **options) -> Interval:
    """The mean squared error, ``mean (prediction - truth)^2``.

    Args:
        prediction, truth: (n,).
        options: seed, resamples and level of ``bootstrap``.

    Returns:
        An ``Interval``.

    Raises:
        ValueError: as ``bootstrap``.

    Example:
        >>> mse(np.array([1.0, 2.0]), np.array([1.0, 4.0])).estimate
        2.0
    """
    return bootstrap(_mse, prediction, truth, **options)


def mse_difference(prediction: Column, other: Column, truth: Column, **options) -> Interval:
    """How much larger the first prediction's mean squared error is than the other's, on the same queries.

    Args:
        prediction, other, truth: (n,).
        options: seed, resamples and level of ``bootstrap``.

    Returns:
        An ``Interval``; negative where the first prediction is better.

    Raises:
        ValueError: as ``bootstrap``.

    Example:
        >>> mse_difference(np.array([1.0, 2.0]), np.array([1.0, 4.0]), np.array([1.0, 4.0])).estimate
        2.0
    """
    return bootstrap(lambda a, b, truth: _mse(a, truth) - _mse(b, truth), prediction, other, truth, **options)


def correlation(prediction: Column, truth: Column, **options) -> Interval:
    """Pearson's correlation; 0 in a resample in which one column does not vary.

    Args:
        prediction, truth: (n,).
        options: seed, resamples and level of ``bootstrap``.

    Returns:
        An ``Interval``.

    Raises:
        ValueError: as ``bootstrap``.

    Example:
        >>> round(correlation(np.arange(5.0), 3 - 2 * np.arange(5.0)).estimate, 6)
        -1.0
    """
    return bootstrap(_correlation, prediction, truth, **options)


def _mse(prediction, truth):
    return ((prediction - truth) ** 2).mean(-1)


def _correlation(a, b):
    a, b = a - a.mean(-1, keepdims=True), b - b.mean(-1, keepdims=True)
    scale = np.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    return (a * b).sum(-1) / np.where(scale > 0, scale, 1)
