"""What training minimises: the risk of a fresh batch, or the exact risk.

Both are functions of the same standard heads (``theory.standard_form``), in the coordinates of ``tasks.standardize``:
there, runs that differ in prior mean, guess or bias still read the same contexts. Under ``jax.vmap`` over runs with one
key, the batch and its Gram matrices are therefore computed once for all of them.
"""

import math
from functools import reduce
from operator import add
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib._white import contract, draw
from lsalib.tasks import StandardTask, law
from lsalib.theory import standard_form, standard_risk

__all__ = ["OBJECTIVES", "Sampler", "Setting", "Weights", "gram_attention", "head_attention", "pack", "risk", "unpack"]

OBJECTIVES = ("sampled", "population")

Scalar = Float[Array, ""]


class Weights(NamedTuple):
    """What is trained: W_K, W_Q, W_V, the last row of each W_P, and the guess.

    No prediction reads the other rows of W_P: their gradient is zero, and Adam leaves them where they are.
    """

    W_K: Float[Array | np.ndarray, "H D D"]
    W_Q: Float[Array | np.ndarray, "H D D"]
    W_V: Float[Array | np.ndarray, "H D D"]
    row_P: Float[Array | np.ndarray, "H D"]
    guess: Float[Array | np.ndarray, " d"]


class Setting(NamedTuple):
    """What a run is given, as arrays; runs that differ only in these share one compiled program."""

    task: StandardTask
    bias: float | Scalar
    train_guess: bool | Scalar


class Sampler(NamedTuple):
    """The shape of a batch; ``context_size`` is None where contexts are compressed."""

    batch_size: int
    context_size: int | None
    noisy: bool


def pack(weights: Weights) -> Float[np.ndarray, " P"]:
    """All trained numbers of a run in one row, on the host.

    Over the leaves of a tree, one by one, Adam takes a CPU ten times as long.
    """
    return np.concatenate([np.ravel(leaf) for leaf in weights])


def unpack(row: Float[Array | np.ndarray, "... P"], heads: int, dim: int) -> Weights:
    """The weights of H heads on d features that a row holds, or many rows."""
    D = dim + 1
    shapes: list[tuple[int, ...]] = [(heads, D, D)] * 3 + [(heads, D), (dim,)]
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    # Its derivative puts the parts together once; that of one slice after the other adds whole rows up.
    parts = (np if isinstance(row, np.ndarray) else jnp).split(row, ends, axis=-1)
    return Weights(*(part.reshape(*row.shape[:-1], *shape) for part, shape in zip(parts, shapes, strict=True)))


def risk(weights: Weights, setting: Setting, key: PRNGKeyArray, sampler: Sampler | None) -> Scalar:
    """The loss of one step of one run: exact without a sampler, else the mean squared error of a fresh batch.

    Args:
        weights: the point.
        setting: the run's constants.
        key: the step's key.
        sampler: the shape of the batch, or None.

    Returns:
        The loss, a scalar.
    """
    # A frozen guess has gradient zero, and Adam leaves it where it is, bit for bit.
    guess = jnp.where(setting.train_guess, weights.guess, jax.lax.stop_gradient(weights.guess))
    offset = jnp.append(guess, setting.bias)
    with jax.default_matmul_precision("highest"):
        b, A = jnp.einsum("hi,hij->hj", weights.row_P, weights.W_V), _keys_queries(weights.W_K, weights.W_Q)
        form = standard_form(b, A, offset, offset, setting.task)
        if sampler is None:
            return standard_risk(*form, setting.task)
        return _sampled_risk(*form, setting.task, key, sampler)


@jax.custom_vjp
def _keys_queries(W_K: Float[Array, "H D D"], W_Q: Float[Array, "H D D"]) -> Float[Array, "H D D"]:
    """``W_K^T W_Q`` of every head.

    Small products are written out as sums of outer products, which a CPU does several times faster than
    one small matrix product after another; these are half of a step on the exact risk.
    """
    D = W_K.shape[-1]
    if D > 16:
        return jnp.einsum("hki,hkj->hij", W_K, W_Q)
    # The barrier keeps the compiler from writing it out again for every use.
    return reduce(add, (W_K[:, k, :, None] * W_Q[:, k, None, :] for k in range(D)))


def _keys_queries_forward(W_K, W_Q):
    return _keys_queries(W_K, W_Q), (W_K, W_Q)


def _keys_queries_backward(residuals, cotangent):
    W_K, W_Q = residuals
    return jnp.einsum("hkj,hij->hki", W_Q, cotangent), jnp.einsum("hki,hij->hkj", W_K, cotangent)


_keys_queries.defvjp(_keys_queries_forward, _keys_queries_backward)


def _sampled_risk(b, A, c, task: StandardTask, key: PRNGKeyArray, sampler: Sampler) -> Scalar:
    """The mean of ``(sum_k t_k (<G, N_k> + c_k) - eps.x_q)^2`` over a batch, t = [x_q; 1]."""
    compress = sampler.context_size is None
    context_size = task.context_size if compress else sampler.context_size
    shape = {"noisy": sampler.noisy, "compress": compress, "dtype": b.dtype}
    white = draw(key, len(c) - 1, context_size, sampler.batch_size, **shape)
    # Contexts of the task in its own coordinates of ``standardize``: white features, residual labels.
    features, labels, query, eps = law(white, None, None, task.prior_root, task.noise_std if sampler.noisy else None)
    # The barrier keeps the compiler from computing the labels again for every entry of the Gram matrix.
    Z = jax.lax.optimization_barrier(jnp.concatenate([features, labels[:, None]], axis=1))
    t = jnp.concatenate([query, jnp.ones_like(query[:1])])
    # Gram matrices and the lift cost D^3 an example, heads one by one H D^2.
    attention = gram_attention if len(c) <= max(16, 3 * len(b)) else head_attention
    error = attention(b, A, Z, t) + c @ t - contract(query, eps)
    return jnp.mean(error**2)


def gram_attention(
    b: Float[Array, "H D"], A: Float[Array, "H D D"], Z: Float[Array, "m D B"], t: Float[Array, "D B"]
) -> Float[Array, " B"]:
    """``sum_k t_k <G, N_k>`` with ``G = Z^T Z / m`` and ``N_k = sum_h b_h A_h[:, k]^T``, for a batch.

    Args:
        b, A: heads, (H, D) and (H, D, D).
        Z: tokens, batch last, (m, D, B).
        t: queries, batch last, (D, B).

    Returns:
        What attention adds to the guess, (B,).

    Example:
        >>> ones = jnp.ones
        >>> gram_attention(ones((1, 2)), ones((1, 2, 2)), ones((3, 2, 1)), ones((2, 1))).tolist()
        [8.0]
    """
    m, D, _ = Z.shape
    rows, columns = np.triu_indices(D)
    N = jnp.einsum("hm,hnk->kmn", b, A)
    # Off the diagonal an entry of G stands for itself and its mirror image.
    N = (N + N.swapaxes(1, 2))[:, rows, columns] * np.where(rows == columns, 0.5, 1.0).astype(N.dtype)[None]
    # A product with ones instead of a sum: on a CPU, sums over any axis but the last are slow.
    return jnp.ones(D, t.dtype) @ ((N / m) @ _gram_entries(Z) * t)


def _gram_entries(Z: Float[Array, "m D B"]) -> Float[Array, "F B"]:
    """The upper triangle of Z^T Z, row by row, F = D(D+1)/2."""
    m, D, _ = Z.shape
    if m * D > 256:
        return jnp.einsum("cib,cjb->bij", Z, Z)[:, *np.triu_indices(D)].T
    # Written out, as in ``contract``: five times faster on a CPU than small products one by one.
    return jax.lax.optimization_barrier(
        jnp.concatenate([sum(Z[c, i][None] * Z[c, i:] for c in range(m)) for i in range(D)])
    )


def head_attention(
    b: Float[Array, "H D"], A: Float[Array, "H D D"], Z: Float[Array, "m D B"], t: Float[Array, "D B"]
) -> Float[Array, " B"]:
    """What ``gram_attention`` computes, as ``sum_h (Z b_h).(Z A_h t) / m``: neither G nor the lift is built.

    Args and returns as there.

    Example:
        >>> ones = jnp.ones
        >>> head_attention(ones((1, 2)), ones((1, 2, 2)), ones((3, 2, 1)), ones((2, 1))).tolist()
        [8.0]
    """
    values = jnp.einsum("cmb,hm->bch", Z, b)
    keys = jnp.einsum("cnb,bhn->bch", Z, jnp.einsum("hnk,kb->bhn", A, t))
    return (values * keys).sum((1, 2)) / len(Z)
