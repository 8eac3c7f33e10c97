r"""Multi-head softmax attention (He et al., arXiv 2503.12734): the layer, and what a prediction reads of its weights.

With tokens `z_l = [x_l; y_l]` and the query `z_q = [x_q; y_q]`, head h adds to the prediction

.. math:: W_O W_V \sum_l p_l z_l, \qquad p_l \propto \exp \big( (W_K z_l)^\top (W_Q z_q) / \sqrt{D} \big),

D the length of a token. The query is not among the tokens that are attended to. A head acts through
`b = W_O W_V` and `A = W_K^\top W_Q / \sqrt{D}` alone, the softmax's share included in A.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _arrays, _validate
from lsalib.attention.layer import query_token

__all__ = [
    "SoftmaxParams",
    "effective_softmax",
    "from_effective_softmax",
    "init_softmax",
    "reduced_softmax",
    "softmax_attention",
    "softmax_heads",
]

Scalar = Float[Array, ""]


class SoftmaxParams(NamedTuple):
    """The weights of a softmax layer with H heads, tokens of length D and m outputs."""

    W_K: Float[Array, "H D D"]
    W_Q: Float[Array, "H D D"]
    W_V: Float[Array, "H D D"]
    W_O: Float[Array, "H m D"]


def init_softmax(key: PRNGKeyArray, dim: int, heads: int, *, outputs: int = 1, dtype=None) -> SoftmaxParams:
    r"""Uniform weights: W_K, W_Q and W_V within `\pm 1/\sqrt{D}`, W_O within `\pm 1/\sqrt{D H}`, with `D = d + m`.

    This is what the linear layers in the authors' public code start from.

    Args:
        key: a key of ``jax.random``.
        dim: d, the number of features.
        heads: H, their number.
        outputs: m, the number of labels in a token.
        dtype: a float type; None means JAX's default.

    Returns:
        ``SoftmaxParams``.

    Raises:
        ValueError: if ``key`` is no key, ``dim``, ``heads`` or ``outputs`` is below 1, or ``dtype`` no float type in
            use.

    Example:
        >>> init_softmax(jax.random.key(0), dim=3, heads=2).W_O.shape
        (2, 1, 4)
    """
    H, m = _validate.count("heads", heads), _validate.count("outputs", outputs)
    D = _validate.count("dim", dim) + m
    dtype = jnp.result_type(float) if dtype is None else _validate.float_type("dtype", dtype)
    keys, bound = jax.random.split(_validate.key(key), 4), D**-0.5
    shapes, bounds = [(H, D, D)] * 3 + [(H, m, D)], [bound] * 3 + [bound * H**-0.5]

    def draw(key, shape, bound):
        # In one row first, which compiles ten times as fast.
        return jax.lax.optimization_barrier(jax.random.uniform(key, (math.prod(shape),), dtype, -bound, bound)).reshape(
            shape
        )

    return SoftmaxParams(*map(draw, keys, shapes, bounds))


@_arrays.promoted
@jax.jit
def softmax_heads(params: SoftmaxParams, Z: Float[Array, "L D"], z_q: Float[Array, " D"]) -> Float[Array, "H m"]:
    r"""What each head adds to the prediction.

    .. math:: W_O W_V Z^\top \mathrm{softmax} \big( Z W_K^\top W_Q z_q / \sqrt{D} \big)

    Args:
        params: the weights.
        Z: context tokens, one a row, (L, D).
        z_q: the query's token, (D,).

    Returns:
        One row a head, (H, m).

    Raises:
        ValueError: if a shape does not fit.

    Example:
        >>> params = from_effective_softmax(jnp.array([[[0.0, 2.0]]]), jnp.zeros((1, 2, 2)))
        >>> softmax_heads(params, jnp.array([[1.0, 1.0], [5.0, 3.0]]), jnp.array([7.0, 0.0])).tolist()
        [[4.0]]
    """
    D = _check(params)
    _validate.shape("Z", Z, ("L", D))
    _validate.shape("z_q", z_q, (D,))
    b, A = effective_softmax(params)
    weights = jax.nn.softmax(jnp.einsum("li,hij,j->hl", Z, A, z_q), axis=1)
    return jnp.einsum("hmi,li,hl->hm", b, Z, weights)


@_arrays.promoted
@jax.jit
def softmax_attention(
    params: SoftmaxParams,
    X: Float[Array, "L d"],
    y: Float[Array, " L"],
    x_q: Float[Array, " d"],
    y_q: float | Scalar = 0.0,
) -> Scalar:
    r"""The layer's prediction for one context.

    .. math:: f = y_q + \sum_h W_O W_V Z^\top \mathrm{softmax} \big( Z W_K^\top W_Q z_q / \sqrt{D} \big)

    The residual connection carries the initial guess y_q, as in linear attention (eq. 6 of arXiv 2512.04268);
    with `y_q = 0` this is the model of He et al., which has none.

    Args:
        params: the weights, with one output.
        X, y, x_q: context and query, (L, d), (L,), (d,).
        y_q: initial guess.

    Returns:
        The prediction, a scalar.

    Raises:
        ValueError: if a shape does not fit, or the layer has more than one output.

    Example:
        >>> params = from_effective_softmax(jnp.array([[[0.0, 0.0, 1.0]]]), jnp.zeros((1, 3, 3)))
        >>> float(softmax_attention(params, jnp.eye(2), jnp.array([1.0, 2.0]), jnp.ones(2), y_q=0.5))
        2.0

    Source: He et al., arXiv 2503.12734.
    """
    _validate.context(X, y, x_q)
    _validate.shape("y_q", y_q, ())
    D = _check(params)
    _validate.shape("W_O", params.W_O, (len(params.W_K), 1, D))
    Z = jnp.concatenate([X, y[:, None]], axis=1)
    return y_q + softmax_heads(params, Z, query_token(x_q, y_q)).sum()


@_arrays.promoted
@jax.jit
def effective_softmax(params: SoftmaxParams) -> tuple[Float[Array, "H m D"], Float[Array, "H D D"]]:
    r"""What a head does to a prediction: `b = W_O W_V` and `A = W_K^\top W_Q / \sqrt{D}`, the «OV» and «KQ» circuits.

    Args:
        params: the weights.

    Returns:
        b of shape (H, m, D) and A of shape (H, D, D).

    Raises:
        ValueError: if the weights do not fit each other.

    Example:
        >>> b, A = effective_softmax(init_softmax(jax.random.key(0), dim=3, heads=2))
        >>> b.shape, A.shape
        ((2, 1, 4), (2, 4, 4))
    """
    D = _check(params)
    b = jnp.einsum("hmi,hij->hmj", params.W_O, params.W_V)
    return b, jnp.einsum("hki,hkj->hij", params.W_K, params.W_Q) * D**-0.5


@_arrays.promoted
@jax.jit
def from_effective_softmax(b: Float[Array, "H m D"], A: Float[Array, "H D D"]) -> SoftmaxParams:
    """Weights that ``effective_softmax`` takes back to (b, A), up to rounding.

    Args:
        b: what the heads read of the values, (H, m, D).
        A: what makes the logits, (H, D, D).

    Returns:
        ``SoftmaxParams``.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> b, A = effective_softmax(from_effective_softmax(jnp.ones((1, 1, 4)), jnp.ones((1, 4, 4))))
        >>> float(A[0, 0, 0]), float(b[0, 0, 0])
        (1.0, 1.0)
    """
    _validate.shape("b", b, ("H", "m", "D"))
    H, _, D = b.shape
    _validate.shape("A", A, (H, D, D))
    each = jnp.broadcast_to(jnp.eye(D, dtype=A.dtype), A.shape)
    return SoftmaxParams(W_K=each, W_Q=D**0.5 * A, W_V=each, W_O=b)


@_arrays.promoted
@jax.jit
def reduced_softmax(
    omega: Float[Array, " H"],
    mu: Float[Array, " H"],
    X: Float[Array, "L d"],
    y: Float[Array, " L"],
    x_q: Float[Array, " d"],
) -> Scalar:
    r"""Softmax attention with two numbers a head.

    .. math:: f = \sum_h \mu_h \sum_l y_l \, \mathrm{softmax}(\omega_h X x_q)_l

    The layer with `A_h = \omega_h \, \mathrm{diag}(I_d, 0)` and `b_h = \mu_h [0; 1]`: logits are inner products of the
    features, values are labels.

    Args:
        omega, mu: the heads, (H,) each.
        X, y, x_q: context and query, (L, d), (L,), (d,).

    Returns:
        The prediction, a scalar.

    Raises:
        ValueError: if a shape does not fit.

    Example:
        >>> one = jnp.ones(1)
        >>> float(reduced_softmax(0 * one, 2 * one, jnp.eye(2), jnp.array([1.0, 2.0]), jnp.ones(2)))
        3.0

    Source: He et al., arXiv 2503.12734.
    """
    _validate.context(X, y, x_q)
    _validate.shape("omega", omega, ("H",))
    _validate.shape("mu", mu, omega.shape)
    return mu @ (jax.nn.softmax(jnp.outer(omega, X @ x_q), axis=1) @ y)


def _check(params: SoftmaxParams) -> int:
    """Check that the weights fit each other, and return D."""
    _validate.shape("W_K", params.W_K, ("H", "D", "D"))
    H, D, _ = params.W_K.shape
    for name in ("W_K", "W_Q", "W_V"):
        _validate.shape(name, getattr(params, name), (H, D, D))
    _validate.shape("W_O", params.W_O, (H, "m", D))
    return D
