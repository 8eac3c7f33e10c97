"""What the pages on language models do with recorded probabilities, and with tables of effects."""

import numpy as np
from jaxtyping import Float

from lsalib import _validate
from lsalib.sts.experiment import ANSWERS
from lsalib.sts.statistics import Interval, _tail

__all__ = ["crossed", "written"]


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
