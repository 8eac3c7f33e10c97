"""Means over fresh samples, batch by batch: every predictor sees the same ones, so that differences are sharp."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from lsalib import _validate

__all__ = ["by_batch", "z_score"]


def by_batch(f: Callable[[jax.Array], jax.Array], seeds: Sequence[int], batches: int) -> np.ndarray:
    """The values of f for the keys of all batches, one after the other, in one program.

    Args:
        f: a function of a key, which samples one batch.
        seeds: each gives keys of its own.
        batches: how many keys a seed gives.

    Returns:
        The values, (seeds times batches, ...), in float64.

    Raises:
        ValueError: if ``batches`` is not a positive whole number.

    Example:
        >>> by_batch(lambda key: jax.random.normal(key, (3,)), [0, 1], batches=4).shape
        (8, 3)
    """
    batches = _validate.count("batches", batches)

    @jax.jit
    def of_all():
        keys = [jax.random.split(jax.random.key(seed), batches) for seed in seeds]
        return jax.lax.map(f, jnp.concatenate(keys))

    return np.asarray(of_all(), np.float64)


def z_score(values, expected) -> np.ndarray:
    """How far the means over batches are off, in standard errors.

    Args:
        values: one row for each batch, (batches, ...).
        expected: what the means should be, (...).

    Returns:
        Means less expected, over the standard errors of the means, (...).

    Example:
        >>> z_score([[1.0, 4.0], [3.0, 8.0]], [1.0, 6.0]).tolist()
        [1.0, 0.0]
    """
    values = np.asarray(values, np.float64)
    error = values.std(0, ddof=1) / np.sqrt(len(values))
    return (values.mean(0) - np.asarray(expected)) / error
