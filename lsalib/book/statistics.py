"""Intervals of what is measured: over rows, paired where two columns belong together, or over rows and columns."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.stats
from jaxtyping import Float

from lsalib import _validate

__all__ = ["Interval", "bootstrap", "crossed", "mse"]


class Interval(NamedTuple):
    """A statistic of the sample and the ends of its 95 % confidence interval."""

    estimate: float
    low: float
    high: float


def bootstrap(statistic: Callable, *columns: Float[np.ndarray, " n"], family: int = 1) -> Interval:
    """The bootstrap interval of a statistic: the rows of all columns are drawn together, 10,000 times, seed 0.

    Plain percentiles are too narrow for few rows. We take those further out that give a mean its t interval: the level
    is ``1 - 2 Phi(-sqrt(n / (n - 1)) t)`` with the quantile t of n - 1 degrees of freedom. Fewer than 8 rows get no
    interval: its ends are NaN.

    Args:
        statistic: a function of the columns that works along their last axis, ``(..., n) -> (...)``.
        columns: equally long, finite; a row may be a query.
        family: so many intervals hold together with a confidence of 95 % (Bonferroni).

    Example:
        >>> interval = bootstrap(lambda x: x.mean(-1), np.arange(100.0))
        >>> interval.estimate, interval.low < 49.5 < interval.high, round(interval.high - interval.low)
        (49.5, True, 11)

    Source: Hesterberg (2015), What Teachers Should Know About the Bootstrap, section 5.
    """
    if not columns or (n := np.size(columns[0])) < 1:
        raise ValueError("columns must have at least one row")
    columns = tuple(_validate.vector(f"column {k}", column, n) for k, column in enumerate(columns))
    estimate = float(statistic(*columns))
    if n < 8:
        return Interval(estimate, np.nan, np.nan)
    options = {"paired": True, "vectorized": True, "method": "percentile", "n_resamples": 10_000}
    options |= {"confidence_level": 1 - 2 * _tail(n, family)}
    options |= {"batch": max(1, 2**21 // n), "rng": np.random.default_rng(0)}  # batches that fit in memory
    found = scipy.stats.bootstrap(columns, lambda *rows, axis: statistic(*rows), **options)
    return Interval(estimate, *map(float, found.confidence_interval))


def crossed(values: Float[np.ndarray, "m n"]) -> Interval:
    """The bootstrap interval of the mean of a table whose rows and columns are samples: both are drawn again.

    As in ``bootstrap``, percentiles further out than the plain ones stand for a t interval, here with the degrees of
    freedom of the shorter side. If it is shorter than 8, there is no interval.

    Args:
        values: an entry for each row and column, such as one for each set of layers and each query; finite.

    Example:
        >>> interval = crossed(np.add.outer(np.arange(12.0), np.arange(20.0)))
        >>> interval.estimate, interval.low < 15.0 < interval.high, round(interval.high - interval.low)
        (15.0, True, 8)
    """
    _validate.shape("values", values := np.asarray(values, np.float64), ("m", "n"))
    _validate.vector("values", values.ravel(), values.size)
    if (n := min(values.shape)) < 8:
        return Interval(float(values.mean()), np.nan, np.nan)
    rng, cut = np.random.default_rng(0), _tail(n)
    rows, columns = (rng.multinomial(k, np.full(k, 1 / k), 10_000) / k for k in values.shape)  # how often each is drawn
    means = np.einsum("si,ij,sj->s", rows, values, columns, optimize=True)
    return Interval(float(values.mean()), *map(float, np.quantile(means, [cut, 1 - cut])))


def _tail(n: int, family: int = 1) -> float:
    """The share of resamples on each side of an interval of n rows: the "expanded percentile" of the source above."""
    t = scipy.stats.t.isf(0.025 / _validate.count("family", family), n - 1)
    return float(scipy.stats.norm.sf(np.sqrt(n / (n - 1)) * t))


def mse(prediction: np.ndarray, truth: np.ndarray, less: np.ndarray | None = None, *, family: int = 1) -> Interval:
    """The mean squared error, ``mean (prediction - truth)^2``; or, where there is another prediction, less its error.

    Example:
        >>> mse(np.array([1.0, 2.0]), np.array([1.0, 4.0]), less=np.array([1.0, 3.0])).estimate
        1.5
    """
    error = lambda a, b, y: ((a - y) ** 2 - (b - y) ** 2).mean(-1)
    return bootstrap(error, prediction, truth if less is None else less, truth, family=family)
