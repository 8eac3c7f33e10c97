"""Everything random in a batch of tasks, before a task gives it its mean and
covariances.

No draw depends on a task's numbers, so training runs that differ only in these share
one: ``tasks.sample`` gives it the numbers of a task, training those of its standard
coordinates (``tasks.standardize``).

The batch is the last axis here and in training: on a CPU a small sum over features or
tokens is then a few vector operations over the whole batch. ``tasks.sample`` moves the
batch to the front, where ``jax.vmap`` expects it.
"""

from functools import reduce
from operator import add
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray


class Draw(NamedTuple):
    """Normal numbers for B tasks.

    Of the p entries of a token d are features, and the last is noise if there is any.
    """

    tokens: Float[Array, "m p B"]
    query: Float[Array, "d B"]
    weights: Float[Array, "d B"]


class Data(NamedTuple):
    """B tasks: contexts, labels, queries and weights."""

    X: Float[Array, "m d B"]
    y: Float[Array, "m B"]
    x_q: Float[Array, "d B"]
    w: Float[Array, "d B"]


# JAX's default stream hashes two words for each number and keeps one. The older stream
# keeps both, and half the hashes are most of a sampled step. The default could also be
# computed piece by piece on several devices; here a key's numbers stay on one device.
@jax.threefry_partitionable(False)
def draw(
    key: PRNGKeyArray,
    dim: int,
    context_size,
    batch_size: int,
    *,
    noisy: bool,
    compress: bool,
    dtype=float,
) -> Draw:
    """The randomness of ``batch_size`` tasks.

    A compressed context replaces C tokens Z by p tokens with the same Gram matrix. With
    ``Z = Q R``, ``Z^T Z / C`` is ``R^T R / C``, and R can be drawn without Z
    (Bartlett's decomposition): its entries are independent, ``chi(C - k)`` at (k, k), k
    = 0..p-1, standard normal above the diagonal, zero below. Whoever reads the p tokens
    divides their products by p instead of C, so they are the rows of ``sqrt(p/C) R``.
    This takes a C above p, which JAX may trace.

    Example:
        >>> draw(jax.random.key(0), 3, 100, 8, noisy=True, compress=True).tokens.shape
        (4, 4, 8)
    """
    p = dim + noisy
    key_normal, key_chi = jax.random.split(key)
    count = p * (p - 1) // 2 if compress else context_size * p
    # Without the barrier the compiler may draw the same numbers again for each of their
    # users.
    white = lax.optimization_barrier(
        jax.random.normal(key_normal, (count + 2 * dim, batch_size), dtype)
    )
    tokens, query, weights = jnp.split(white, (count, count + dim))
    if not compress:
        return Draw(tokens.reshape(context_size, p, batch_size), query, weights)
    degrees = jnp.asarray(context_size, dtype) - jnp.arange(p, dtype=dtype)
    # For each entry of R its place among those above the diagonal, those on it, and one
    # zero.
    place = np.full((p, p), count + p)
    place[np.triu_indices(p, 1)] = np.arange(count)
    np.fill_diagonal(place, count + np.arange(p))
    entries = jnp.concatenate(
        [tokens, _chi(key_chi, degrees, batch_size), jnp.zeros((1, batch_size), dtype)]
    )
    scale = jnp.sqrt(jnp.asarray(p / context_size, dtype))
    return Draw(scale * entries[place], query, weights)


def _chi(
    key: PRNGKeyArray, degrees: Float[Array, " p"], batch_size: int
) -> Float[Array, "p B"]:
    """Chi-distributed numbers with p degrees of freedom, each at least 2, by Marsaglia
    and Tsang's rejection method.

    ``g (1 + t)^3``, ``t = normal/sqrt(9 g)``, ``g = degrees/2 - 1/3``, is accepted when
    ``log(uniform) < 3 g (log(1+t) - t + t^2/2 - t^3/3)``: in this form nothing large
    cancels. ``jax.random.chisquare`` loops over the entries one by one, and takes a CPU
    four times as long.
    """
    shape, g = (len(degrees), batch_size), (degrees / 2 - 1 / 3)[:, None]

    # A whole array is proposed at once, and what is accepted is kept: at least 95 %, so
    # there are two or three rounds.
    def attempt(state):
        trial, t, waiting = state
        key_normal, key_uniform = jax.random.split(jax.random.fold_in(key, trial))
        new = jax.random.normal(key_normal, shape, degrees.dtype) / jnp.sqrt(9 * g)
        # t <= -1 is never accepted: the logarithm is then -inf or NaN, and every
        # comparison with NaN is false.
        log_ratio = 3 * g * (jnp.log1p(new) - new + new**2 / 2 - new**3 / 3)
        log_uniform = -jax.random.exponential(key_uniform, shape, degrees.dtype)
        accepted = waiting & (log_uniform < log_ratio)
        return trial + 1, jnp.where(accepted, new, t), waiting & ~accepted

    start = (0, jnp.zeros(shape, degrees.dtype), jnp.ones(shape, bool))
    _, t, _ = lax.while_loop(lambda state: state[2].any(), attempt, start)
    return jnp.sqrt(2 * g * (1 + t) ** 3)


def contract(
    x: Float[Array, "*more d B"], y: Float[Array, "d B"]
) -> Float[Array, "*more B"]:
    """``sum_i x[..., i, :] y[i]``."""
    if len(y) > 32:
        return (x * jnp.broadcast_to(y, x.shape)).sum(-2)
    # Written out, a small sum is ten times as fast on a CPU. The program grows with the
    # terms.
    return reduce(
        add,
        (
            x[..., i, :] * jnp.broadcast_to(y[i], x[..., i, :].shape)
            for i in range(len(y))
        ),
    )


def data_from_draw(
    white: Draw, prior_mean, feature_root, prior_root, noise_std
) -> Data:
    r"""Data from white randomness, `x = U \xi`, `w = w_\star + R g`, `y = w^\top x +
    \sigma n`.

    None means no mean, the identity, no noise.
    """
    d = len(white.query)
    features = apply_root(feature_root, white.tokens[:, :d])
    weights = apply_root(prior_root, white.weights)
    if prior_mean is not None:
        weights = weights + prior_mean[:, None]
    labels = contract(features, weights)
    if noise_std is not None:
        labels = labels + noise_std * white.tokens[:, d]
    return Data(features, labels, apply_root(feature_root, white.query), weights)


def apply_root(
    R: Float[np.ndarray | Array, "d d"] | None, normal: Float[Array, "*m d B"]
) -> Float[Array, "*m d B"]:
    """Turn standard normal vectors into N(0, R R^T)."""
    return normal if R is None else jnp.einsum("ij,...jb->...ib", R, normal)


def root(xp, cov):
    """R with ``R R^T = cov``: Cholesky's factor, or that of the eigenvectors where the
    covariance is singular.
    """
    try:
        return xp.linalg.cholesky(cov)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(cov)
        return vectors * np.sqrt(np.maximum(values, 0))
