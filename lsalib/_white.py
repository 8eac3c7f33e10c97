"""White randomness: everything random in a batch of tasks, before a task gives it its covariances. Internal.

No draw depends on a task's numbers, so runs that differ in these share one. ``data_from_draw`` turns it into data, for
two sides: ``tasks.sample`` applies it to a task as it is given, training in the coordinates of ``tasks.standardize``,
where x is white, labels are residuals, and tasks that differ only in their prior mean share their contexts.

The batch is the last axis here and in ``training.objectives``. On a CPU a small sum over features or tokens is then a
few vector operations over the whole batch. ``tasks.sample`` moves the batch to the front, where ``jax.vmap`` expects
it, and is the only place that does.
"""

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

__all__ = ["Draw", "apply_root", "can_pad", "chi", "contract", "data_from_draw", "draw", "normal", "root"]


class Draw(NamedTuple):
    """Standard normal numbers for B tasks, batch last.

    A token has p entries: the d features and, if labels are noisy, their noise. There are m tokens: C, or p if the
    context is compressed. Queries and task weights are (d, B) each.
    """

    tokens: Float[Array, "m p B"]
    query: Float[Array, "d B"]
    weights: Float[Array, "d B"]


def draw(
    key: PRNGKeyArray, dim: int, context_size, batch_size: int, *, noisy: bool, compress: bool, dtype=None, most=None
) -> Draw:
    """The randomness behind ``sample``, in the layout that training works on.

    A compressed context replaces C tokens Z by p tokens with the same Gram matrix. With ``Z = Q R``, ``Z^T Z / C`` is
    ``R^T R / C``, and R can be drawn without Z (Bartlett's decomposition): its entries are independent, ``chi(C - k)``
    at (k, k), k = 0..p-1, standard normal above the diagonal, zero below. Whoever reads the p tokens divides their
    products by p instead of C, so they are the rows of ``sqrt(p/C) R``.

    Args:
        key: a key of ``jax.random``.
        dim: d.
        context_size: C. If compressed, it is greater than p, and may be traced: then one program serves all C > p.
        batch_size: B.
        noisy: whether the context's labels are noisy: tokens then have p = d+1 entries instead of d.
        compress: whether to draw p tokens instead of C.
        dtype: a float type; None means JAX's default.
        most: m, the number of tokens of a context that is not compressed; None means C. If it is greater, C may be
            traced: the draw is that of C tokens, and the others are zero. All are multiplied by ``sqrt(m/C)``, since
            products of tokens are divided by m.

    Returns:
        A ``Draw``.

    Example:
        >>> draw(jax.random.key(0), 3, 100, 8, noisy=True, compress=True).tokens.shape
        (4, 4, 8)
    """
    dtype = jnp.result_type(float) if dtype is None else jnp.dtype(dtype)
    p = dim + noisy
    key_normal, key_chi = jax.random.split(key)
    if most is not None:
        return _padded(key_normal, dim, jnp.asarray(context_size), batch_size, p, dtype, most)
    drawn = p * (p - 1) // 2 if compress else context_size * p
    # One call for everything that is standard normal. Without the barrier the compiler may fuse the generator into each
    # of its users, and draw the same numbers again for every one of them: without this barrier and those in
    # ``training.objectives`` a step takes a third longer on a CPU.
    white = lax.optimization_barrier(normal(key_normal, (drawn + 2 * dim, batch_size), dtype))
    tokens, query, weights = white[:drawn], white[drawn : drawn + dim], white[drawn + dim :]
    if not compress:
        return Draw(tokens.reshape(context_size, p, batch_size), query, weights)
    # C > p, so that all degrees of freedom are at least 2, as ``chi`` requires.
    degrees = jnp.asarray(context_size, dtype) - jnp.arange(p, dtype=dtype)
    # The places are constants of the program; one gather fills all of R.
    entries = jnp.concatenate([tokens, chi(key_chi, degrees, batch_size), jnp.zeros((1, batch_size), dtype)])
    return Draw(jnp.sqrt(jnp.asarray(p / context_size, dtype)) * entries[_triangle(p)], query, weights)


def _padded(key, dim: int, context_size, batch_size: int, p: int, dtype, most: int) -> Draw:
    """The draw of C tokens with a traced C, and zeros for the tokens from there to ``most``."""
    drawn = context_size.astype(jnp.int32) * p
    white = normal(key, (most * p + 2 * dim, batch_size), dtype, rows=drawn + 2 * dim)
    white = lax.optimization_barrier(white)
    tokens = white[: most * p].reshape(most, p, batch_size)
    scale = jnp.sqrt(jnp.asarray(most, dtype) / context_size.astype(dtype))
    there = jnp.arange(most, dtype=jnp.int32) < context_size.astype(jnp.int32)
    query = lax.dynamic_slice_in_dim(white, drawn, dim)
    weights = lax.dynamic_slice_in_dim(white, drawn + dim, dim)
    return Draw(tokens * jnp.where(there, scale, 0)[:, None, None], query, weights)


def _triangle(p: int) -> np.ndarray:
    """For each entry of R its index in the list of p(p-1)/2 entries above the diagonal, p on it, and one zero."""
    above = p * (p - 1) // 2
    index = np.full((p, p), above + p)
    index[np.triu_indices(p, 1)] = np.arange(above)
    np.fill_diagonal(index, above + np.arange(p))
    return index


def normal(key: PRNGKeyArray, shape: tuple[int, ...], dtype, rows=None) -> Float[Array, "..."]:
    """Standard normal numbers: a fast generator for float32 and JAX's default keys, JAX's own for all others.

    Of a draw for many rows, (n, B), the first ``rows`` can be the numbers of a draw for these rows alone, where
    ``can_pad`` says so; ``rows`` may be traced, and the numbers behind them mean nothing.
    """
    if dtype != jnp.float32 or jax.random.key_data(key).shape != (2,):
        return _random.normal(key, shape, dtype)
    from jax.extend.random import threefry_2x32  # here, since it takes as long to import as a quarter of this library

    # Random numbers are about half of a sampled step on a CPU. Threefry computes two words at a time. jax.random
    # combines them into one by xor; here both are used, so that half as many calls are enough.
    count = math.prod(shape)
    if rows is None:
        words = threefry_2x32(jax.random.key_data(key), lax.iota(jnp.uint32, count))
    else:
        # Threefry pairs number i of n with number i + n/2: an odd n is filled up by a zero.
        used = (rows * shape[1]).astype(jnp.uint32)
        half, most = (used + 1) // 2, (count + 1) // 2
        first = lax.iota(jnp.uint32, most)
        second = jnp.where(first + half < used, first + half, 0)
        pairs = threefry_2x32(jax.random.key_data(key), jnp.concatenate([first, second]))
        words = lax.dynamic_update_slice_in_dim(pairs, pairs[most:], half.astype(jnp.int32), 0)[:count]
    # As in jax.random: 23 random bits behind the exponent of 1 are a uniform number in [1, 2).
    unit = lax.bitcast_convert_type((words >> 9) | jnp.uint32(0x3F800000), jnp.float32) - 1
    # The inverse of erf at -1 is infinite: the smallest argument is the next number above.
    least = np.nextafter(np.float32(-1), np.float32(0))
    return (np.float32(math.sqrt(2)) * lax.erf_inv(jnp.maximum(2 * unit + least, least))).reshape(shape)


def can_pad(key, dtype) -> bool:
    """Whether ``normal`` knows ``rows`` for keys and floats of these types."""
    ours = jax.random.key_data(key).shape == (2,) and "fry" in str(jax.random.key_impl(key))
    return ours and (dtype == jnp.float32 or bool(jax.config.jax_threefry_partitionable))  # type: ignore[attr-defined]


def chi(key: PRNGKeyArray, degrees: Float[Array, " p"], batch_size: int) -> Float[Array, "p B"]:
    """Chi-distributed numbers with p degrees of freedom, each at least 2, by Marsaglia and Tsang's rejection method.

    ``g (1 + t)^3``, ``t = normal/sqrt(9 g)``, ``g = degrees/2 - 1/3``, is accepted when
    ``log(uniform) < 3 g (log(1+t) - t + t^2/2 - t^3/3)``: in this form nothing large cancels.
    ``jax.random.gamma`` has the same distribution, but loops over the entries one by one, ten times as slowly on a CPU.
    """
    shape, g = (len(degrees), batch_size), (degrees / 2 - 1 / 3)[:, None]

    # A whole array is proposed at once, and what has been accepted is kept. Of the proposals 95 % are accepted for
    # 2 degrees of freedom and 99 % from 7 on, so 2048 tasks take two or three rounds.
    def attempt(state):
        trial, t, waiting = state
        key_normal, key_uniform = jax.random.split(jax.random.fold_in(key, trial))
        new = normal(key_normal, shape, degrees.dtype) / jnp.sqrt(9 * g)
        # t <= -1 is never accepted: the logarithm is then -inf or NaN, and every comparison with NaN is false.
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
    # Written out, a small sum is a few vector operations over the batch: about ten times as fast on a CPU for up to 32
    # terms. The program, and the time to compile it, grow with the terms; at 128 terms both forms are equally fast.
    return reduce(add, (x[..., i, :] * jnp.broadcast_to(y[i], x[..., i, :].shape) for i in range(len(y))))


def data_from_draw(
    white: Draw, prior_mean, feature_root, prior_root, noise_std, query_root=None
) -> tuple[Array, Array, Array, Array]:
    r"""Data from white randomness, batch last: `x = U \xi`, `w = w_\star + R g`, `y = w^\top x + \sigma n`.

    Args:
        white: the randomness xi, g and n.
        prior_mean: w*, (d,); None means zero.
        feature_root, prior_root: U and R, (d, d); None means the identity.
        noise_std: s; None means that there is no noise.
        query_root: that of the query, (d, d); None means U.

    Returns:
        Contexts (m, d, B), their labels (m, B), queries (d, B), task weights (d, B).
    """
    d = len(white.query)
    features = apply_root(feature_root, white.tokens[:, :d])
    query = apply_root(feature_root if query_root is None else query_root, white.query)
    weights = apply_root(prior_root, white.weights)
    if prior_mean is not None:
        weights = weights + prior_mean[:, None]
    labels = contract(features, weights)
    if noise_std is not None:
        labels = labels + noise_std * white.tokens[:, d]
    return features, labels, query, weights


def apply_root(R: Float[np.ndarray | Array, "d d"] | None, normal: Float[Array, "*m d B"]) -> Float[Array, "*m d B"]:
    """Turn standard normal vectors into N(0, R R^T)."""
    return normal if R is None else jnp.einsum("ij,...jb->...ib", R, normal)


def root(xp, cov):
    """R with ``R R^T = cov``: Cholesky's factor, or that of the eigenvectors where the covariance is singular."""
    try:
        return xp.linalg.cholesky(cov)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(cov)
        return vectors * np.sqrt(np.maximum(values, 0))
