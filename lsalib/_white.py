"""White randomness: everything random in a batch of tasks, before a task gives it its covariances. Internal."""

import math
from functools import reduce
from operator import add
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _random

__all__ = ["Draw", "chi", "contract", "draw", "normal"]


class Draw(NamedTuple):
    """White randomness of B tasks, batch last: all that is random before a task gives it its covariances.

    Tokens (m, p, B) with p = d features, and one entry more with label noise; queries and task weights, (d, B) each.
    """

    tokens: Float[Array, "m p B"]
    query: Float[Array, "d B"]
    weights: Float[Array, "d B"]


def draw(
    key: PRNGKeyArray, dim: int, context_size, batch_size: int, *, noisy: bool, compress: bool, dtype=None
) -> Draw:
    """The randomness behind ``sample``, in the layout that training works on.

    Compressed tokens are the rows of ``sqrt(p/C) R``, ``Z = Q R`` the white context: R has
    ``chi(C - k)`` at (k, k), k = 0..p-1, standard normal numbers to the right of it, and zeros to the left.

    Args:
        key: a key of ``jax.random``.
        dim: d.
        context_size: C; compressed, it may be a traced number, and is greater than p.
        batch_size: B.
        noisy: whether the context's labels are noisy: tokens then have p = d+1 entries instead of d.
        compress: whether to draw p tokens instead of C.
        dtype: a float type; None means JAX's default.

    Returns:
        A ``Draw``.

    Example:
        >>> draw(jax.random.key(0), 3, 100, 8, noisy=True, compress=True).tokens.shape
        (4, 4, 8)
    """
    dtype = jnp.result_type(float) if dtype is None else jnp.dtype(dtype)
    p = dim + noisy
    key_normal, key_chi = jax.random.split(key)
    drawn = p * (p - 1) // 2 if compress else context_size * p
    # One call for everything that is standard normal; the barrier keeps the compiler from repeating it for every use.
    white = lax.optimization_barrier(normal(key_normal, (drawn + 2 * dim, batch_size), dtype))
    tokens, query, weights = white[:drawn], white[drawn : drawn + dim], white[drawn + dim :]
    if not compress:
        return Draw(tokens.reshape(context_size, p, batch_size), query, weights)
    degrees = jnp.asarray(context_size, dtype) - jnp.arange(p, dtype=dtype)
    entries = jnp.concatenate([tokens, chi(key_chi, degrees, batch_size), jnp.zeros((1, batch_size), dtype)])
    return Draw(jnp.sqrt(jnp.asarray(p / context_size, dtype)) * entries[_triangle(p)], query, weights)


def _triangle(p: int) -> np.ndarray:
    """Where R finds its entries among p(p-1)/2 numbers from above the diagonal, the diagonal, and a zero."""
    above = p * (p - 1) // 2
    index = np.full((p, p), above + p)
    index[np.triu_indices(p, 1)] = np.arange(above)
    np.fill_diagonal(index, above + np.arange(p))
    return index


def normal(key: PRNGKeyArray, shape: tuple[int, ...], dtype) -> Float[Array, "..."]:
    """Standard normal numbers."""
    if dtype != jnp.float32 or jax.random.key_data(key).shape != (2,):
        return _random.normal(key, shape, dtype)
    from jax.extend.random import threefry_2x32  # here, since it takes as long to import as a quarter of this library

    # Random numbers are most of a training step on a CPU. jax.random xors the two words that
    # threefry computes into one; here both are used, each for 23 random bits as in jax.random.
    words = threefry_2x32(jax.random.key_data(key), lax.iota(jnp.uint32, math.prod(shape)))
    unit = lax.bitcast_convert_type((words >> 9) | jnp.uint32(0x3F800000), jnp.float32) - 1
    least = np.nextafter(np.float32(-1), np.float32(0))
    return (np.float32(math.sqrt(2)) * lax.erf_inv(jnp.maximum(2 * unit + least, least))).reshape(shape)


def chi(key: PRNGKeyArray, degrees: Float[Array, " p"], batch_size: int) -> Float[Array, "p B"]:
    """Chi-distributed numbers with p degrees of freedom of at least 2, by Marsaglia and Tsang's rejection method.

    ``g (1 + t)^3``, ``t = normal/sqrt(9 g)``, ``g = degrees/2 - 1/3``, is accepted when
    ``log(uniform) < 3 g (log(1+t) - t + t^2/2 - t^3/3)``: in this form nothing large cancels.
    ``jax.random.gamma`` has the same law, but loops over the entries one by one, ten times as slowly on a CPU.
    """
    shape, g = (len(degrees), batch_size), (degrees / 2 - 1 / 3)[:, None]

    def attempt(state):
        trial, t, waiting = state
        key_normal, key_uniform = jax.random.split(jax.random.fold_in(key, trial))
        new = normal(key_normal, shape, degrees.dtype) / jnp.sqrt(9 * g)
        # t <= -1 is never accepted: the logarithm is then -inf or nan.
        log_ratio = 3 * g * (jnp.log1p(new) - new + new**2 / 2 - new**3 / 3)
        accepted = waiting & (-jax.random.exponential(key_uniform, shape, degrees.dtype) < log_ratio)
        return trial + 1, jnp.where(accepted, new, t), waiting & ~accepted

    start = (0, jnp.zeros(shape, degrees.dtype), jnp.ones(shape, bool))
    _, t, _ = lax.while_loop(lambda state: state[2].any(), attempt, start)
    return jnp.sqrt(2 * g * (1 + t) ** 3)


def contract(x: Float[Array, "*more d B"], y: Float[Array, "d B"]) -> Float[Array, "*more B"]:
    """``sum_i x[..., i, :] y[i]``."""
    if len(y) > 32:
        return (x * jnp.broadcast_to(y, x.shape)).sum(-2)
    # Written out, small sums become vector operations over the batch: ten times faster on a CPU.
    return reduce(add, (x[..., i, :] * jnp.broadcast_to(y[i], x[..., i, :].shape) for i in range(len(y))))
