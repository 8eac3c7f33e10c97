"""Means over fresh samples, batch by batch, and their deviations in standard errors."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from lsalib import _validate
from lsalib.book._conversion import real, whole

__all__ = ["by_batch", "z_score"]


def by_batch(f: Callable[[jax.Array], jax.Array], seeds: Sequence[int], batches: int) -> np.ndarray:
    """The values of f for the keys of all batches, in one program that takes one batch at a time.

    Args:
        f: a function of a key, which samples one batch.
        seeds: the seeds; each gives its own keys.
        batches: how many keys a seed gives.

    Returns:
        The values, (seeds times batches, ...), in float64.

    Raises:
        ValueError: if ``batches`` is not a positive whole number, or the seeds are not whole numbers.

    Example:
        >>> by_batch(lambda key: jax.random.normal(key, (3,)), [0, 1], batches=4).shape
        (8, 3)
    """
    batches, seeds = _validate.count("batches", batches), whole("seeds", seeds)

    @jax.jit
    def of_all():
        keys = [jax.random.split(jax.random.key(seed), batches) for seed in seeds]
        return jax.lax.map(f, jnp.concatenate(keys))

    return np.asarray(of_all(), np.float64)


def z_score(values, expected) -> np.ndarray:
    """The deviation of means over batches from their expected values, in standard errors.

    Args:
        values: one row for each batch, (batches, ...), at least two.
        expected: what the means should be: a number, or an array (...).

    Returns:
        (mean - expected) / standard error of the mean, (...).

    Raises:
        ValueError: if the shapes do not fit, or an entry is not a finite real number.

    Example:
        >>> z_score([[1.0, 4.0], [3.0, 8.0]], [1.0, 6.0]).tolist()
        [1.0, 0.0]
    """
    values, expected = real("values", values), real("expected", expected)
    if values.ndim == 0 or len(values) < 2:
        raise ValueError(f"values must have at least two rows, got shape {values.shape}")
    if expected.shape not in ((), values.shape[1:]):
        raise ValueError(f"expected must be one number or have shape {values.shape[1:]}, got {expected.shape}")
    return (values.mean(0) - expected) / (values.std(0, ddof=1) / np.sqrt(len(values)))
