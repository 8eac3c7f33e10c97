"""What training minimizes: the risk of a fresh batch, or the exact risk.

A step goes from weights to a loss in three stages:

1. ``risk`` reduces each head to what a prediction reads: ``b_h``, the last row of ``W_P W_V``, and
   ``A_h = W_K^T W_Q``.
2. ``theory.standard_form`` moves the heads into the coordinates of ``tasks.standardize``, where features are white and
   labels are residuals ``y - w*.x``. Prior mean, guess and bias are then part of the heads, no longer of the data.
3. The loss is a function of these heads: ``theory.standard_risk``, or the mean squared error of a batch drawn in the
   same coordinates.

The weights are moved instead of the data because a batch is much larger, and because the data then are the same for
runs that differ in prior mean, guess or bias. ``rows`` maps a step over runs with one key: JAX computes once what does
not depend on the run, here the batch and its Gram matrices, and these are most of a step.

The prediction is written in four places on purpose. ``attention.lsa`` follows the paper's formula matrix by matrix, and
``attention.predict`` is its short form for one example. ``gram_attention`` and ``head_attention`` below compute the
attention of a whole batch, batch last, in two orders that are fast for different sizes. Neither is fast in the place of
the other, and tests compare all of them.
"""

import math
from functools import reduce
from operator import add
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib._white import apply_root, contract, data_from_draw, draw
from lsalib.tasks import StandardTask
from lsalib.theory import standard_form, standard_risk

__all__ = [
    "OBJECTIVES",
    "BatchShape",
    "Setting",
    "Weights",
    "gram_attention",
    "head_attention",
    "pack",
    "risk",
    "unpack",
]

OBJECTIVES = ("sampled", "population")

Scalar = Float[Array, ""]


class Weights(NamedTuple):
    """What is trained: W_K, W_Q, W_V, the last row of each W_P, and the guess.

    No prediction reads the other rows of W_P: their gradient is zero, and Adam would leave them where they are.
    Training without them has the same result for less work; ``rows`` puts them back at the end.
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


class BatchShape(NamedTuple):
    """The shape of a batch; ``context_size`` is None where contexts are compressed.

    If ``padded``, contexts are filled up with zeros to that size, and each task says how many tokens it has.
    """

    batch_size: int
    context_size: int | None
    noisy: bool
    padded: bool = False


def pack(weights: Weights) -> Float[np.ndarray, " P"]:
    """All trained numbers of a run in one row, on the host.

    Adam works entry by entry. On one long row it is a few operations; over the leaves of a tree, one by one, it takes a
    CPU ten times as long.
    """
    return np.concatenate([np.ravel(leaf) for leaf in weights])


def unpack(row: Float[Array | np.ndarray, "... P"], heads: int, dim: int) -> Weights:
    """The weights of H heads on d features that a row holds, or many rows."""
    D = dim + 1
    shapes: list[tuple[int, ...]] = [(heads, D, D)] * 3 + [(heads, D), (dim,)]
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    # ``split`` and not slices: the derivative of a split is one concatenation. That of a slice is a whole row, zero
    # outside of the part, and the rows of all parts have to be added up.
    parts = (np if isinstance(row, np.ndarray) else jnp).split(row, ends, axis=-1)
    return Weights(*(part.reshape(*row.shape[:-1], *shape) for part, shape in zip(parts, shapes, strict=True)))


def risk(weights: Weights, setting: Setting, key: PRNGKeyArray, batch_shape: BatchShape | None) -> Scalar:
    """The loss of one step of one run: the mean squared error of a fresh batch, or without a batch the exact risk.

    Args:
        weights: the point.
        setting: the run's constants.
        key: the step's key.
        batch_shape: the shape of the batch; None for the exact risk.

    Returns:
        The loss, a scalar.
    """
    # Whether the guess is trained is data, so that runs of both kinds share a program. A frozen guess has gradient
    # zero, and Adam leaves it where it is, bit for bit.
    guess = jnp.where(setting.train_guess, weights.guess, jax.lax.stop_gradient(weights.guess))
    offset = jnp.append(guess, setting.bias)
    # By default a GPU rounds the factors of float32 products to fewer digits, too few for an exact risk.
    with jax.default_matmul_precision("highest"):
        # As ``attention.effective``, from the last rows of W_P alone and with the fast product.
        b, A = jnp.einsum("hi,hij->hj", weights.row_P, weights.W_V), _keys_queries(weights.W_K, weights.W_Q)
        form = standard_form(b, A, offset, offset, setting.task)
        if batch_shape is None:
            return standard_risk(*form, setting.task)
        return _sampled_risk(*form, setting.task, key, batch_shape)


@jax.custom_vjp
def _keys_queries(W_K: Float[Array, "H D D"], W_Q: Float[Array, "H D D"]) -> Float[Array, "H D D"]:
    """``W_K^T W_Q`` of every head.

    A small product is written out as a sum of outer products, which works on all heads at once, where a batched product
    calls one small product after the other. Its derivative is given by hand, as batched products again: that of the
    written-out sum, which JAX would derive, takes five times as long, and eight times as long to compile (D = 11).
    """
    D = W_K.shape[-1]
    if D > 16:  # from here on the batched product is the faster one
        return jnp.einsum("hki,hkj->hij", W_K, W_Q)
    return reduce(add, (W_K[:, k, :, None] * W_Q[:, k, None, :] for k in range(D)))


def _keys_queries_forward(W_K, W_Q):
    return _keys_queries(W_K, W_Q), (W_K, W_Q)


def _keys_queries_backward(residuals, cotangent):
    W_K, W_Q = residuals
    return jnp.einsum("hkj,hij->hki", W_Q, cotangent), jnp.einsum("hki,hij->hkj", W_K, cotangent)


_keys_queries.defvjp(_keys_queries_forward, _keys_queries_backward)


def _sampled_risk(b, A, c, task: StandardTask, key: PRNGKeyArray, batch_shape: BatchShape) -> Scalar:
    """The mean of ``(sum_k t_k (<G, N_k> + c_k) - eps.x_q)^2`` over a batch, t = [x_q; 1].

    The heads are in standard coordinates, and so are the data: prior mean zero, white features. This is the same draw
    that ``tasks.sample`` turns into data of the task itself.
    """
    compress = batch_shape.context_size is None
    context_size = task.context_size if compress or batch_shape.padded else batch_shape.context_size
    shape = {"noisy": batch_shape.noisy, "compress": compress, "dtype": b.dtype}
    shape["most"] = batch_shape.context_size if batch_shape.padded else None
    white = draw(key, len(c) - 1, context_size, batch_shape.batch_size, **shape)
    # None, None: in standard coordinates the prior mean is zero, and the root of the features' covariance is I.
    features, labels, query, eps = data_from_draw(
        white, None, None, task.prior_root, task.noise_std if batch_shape.noisy else None
    )
    if task.query_root is not None:
        eps = apply_root(task.query_root, white.weights)
    # The barrier keeps the compiler from computing the labels again for every entry of the Gram matrix.
    Z = jax.lax.optimization_barrier(jnp.concatenate([features, labels[:, None]], axis=1))
    t = jnp.concatenate([query, jnp.ones_like(query[:1])])
    # With m about D tokens, the Gram matrix and its products with N_k cost D^3 an example, the heads one by one H D^2.
    # The first shares G among runs and is the faster one for small D; the second pays for few heads and a large D.
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
    # G is symmetric: only its upper triangle is computed and contracted, half of the work.
    rows, columns = np.triu_indices(D)
    N = jnp.einsum("hm,hnk->kmn", b, A)
    # Off the diagonal an entry of G stands for itself and its mirror image, so it is multiplied by both entries of N.
    N = (N + N.swapaxes(1, 2))[:, rows, columns] * np.where(rows == columns, 0.5, 1.0).astype(N.dtype)[None]
    # A product with ones instead of a sum over the first axis, which is slow on a CPU: 15 % of a step at H = 11.
    return jnp.ones(D, t.dtype) @ ((N / m) @ _gram_entries(Z) * t)


def _gram_entries(Z: Float[Array, "m D B"]) -> Float[Array, "F B"]:
    """The upper triangle of Z^T Z, row by row, F = D(D+1)/2."""
    m, D, _ = Z.shape
    if m * D > 256:
        return jnp.einsum("cib,cjb->bij", Z, Z)[:, *np.triu_indices(D)].T
    # Written out, as in ``contract``: five times as fast on a CPU as small products one by one. The program grows with
    # m D, and takes more than a second to compile above this bound. The barrier forbids the compiler to compute G again
    # for the gradient; on a CPU with jax 0.10 the step is as fast without it.
    return jax.lax.optimization_barrier(
        jnp.concatenate([sum(Z[c, i][None] * Z[c, i:] for c in range(m)) for i in range(D)])
    )


def head_attention(
    b: Float[Array, "H D"], A: Float[Array, "H D D"], Z: Float[Array, "m D B"], t: Float[Array, "D B"]
) -> Float[Array, " B"]:
    """What ``gram_attention`` computes, as ``sum_h (Z b_h).(Z A_h t) / m``: neither G nor the N_k are built.

    Args and returns as there.

    Example:
        >>> ones = jnp.ones
        >>> head_attention(ones((1, 2)), ones((1, 2, 2)), ones((3, 2, 1)), ones((2, 1))).tolist()
        [8.0]
    """
    values = jnp.einsum("cmb,hm->bch", Z, b)
    keys = jnp.einsum("cnb,bhn->bch", Z, jnp.einsum("hnk,kb->bhn", A, t))
    return (values * keys).sum((1, 2)) / len(Z)
