r"""Multi-head softmax attention (He et al., arXiv 2503.12734).

With tokens `z_l = [x_l; y_l]` and the query `z_q = [x_q; y_q]`, head h adds to the
prediction

.. math:: W_O W_V \sum_l p_l z_l, \qquad p_l \propto \exp \big( (W_K z_l)^\top (W_Q z_q)
   / \sqrt{D} \big),

D the length of a token. The query is not among the tokens that are attended to. A head
acts only through `b = W_O W_V` and `A = W_K^\top W_Q / \sqrt{D}`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lsalib import _check
from lsalib._arrays import (
    Features,
    HeadMatrices,
    Labels,
    PerHead,
    PerToken,
    Real,
    Rows,
    Scalar,
    Vector,
)
from lsalib.attention.layer import tokens


class SoftmaxParams(NamedTuple):
    r"""A softmax layer with H heads, tokens of length D and m outputs: `b = W_O W_V`
    and `A = W_K^\top W_Q / \sqrt{D}`, all that a prediction reads of its weights.
    """

    b: Float[Array, "H m D"]
    A: HeadMatrices


@_check.compiled
def softmax_heads(
    params: SoftmaxParams, Z: Rows, z_q: PerToken | Any
) -> Float[Array, "H m"]:
    r"""What each head adds to the prediction.

    .. math:: W_O W_V Z^\top \mathrm{softmax} \big( Z W_K^\top W_Q z_q / \sqrt{D} \big)

    Args:
        params: the weights.
        Z: context tokens, one a row, (L, D).
        z_q: the query's token, (D,).

    Returns:
        One row for each head, (H, m).

    Example:
        >>> params = from_effective_softmax([[[0.0, 2.0]]], jnp.zeros((1, 2, 2)))
        >>> softmax_heads(params, [[1.0, 1.0], [5.0, 3.0]], [7.0, 0.0]).tolist()
        [[4.0]]
    """
    if getattr(params, "_fields", None) != SoftmaxParams._fields:
        raise ValueError(f"params must be SoftmaxParams, got {_check.describe(params)}")
    b, A = from_effective_softmax(*params)  # checks the shapes
    _check.shape("Z", Z, ("L", A.shape[1]))
    _check.shape("z_q", z_q, Z.shape[1:])
    weights = jax.nn.softmax(jnp.einsum("li,hij,j->hl", Z, A, z_q), axis=1)
    return jnp.einsum("hmi,li,hl->hm", b, Z, weights)


@_check.compiled
def softmax_attention(
    params: SoftmaxParams, X: Features, y: Labels, x_q: Vector, y_q: Real = 0.0
) -> Scalar:
    r"""The layer's prediction for one context.

    .. math:: f = y_q + \sum_h W_O W_V Z^\top \mathrm{softmax} \big( Z W_K^\top W_Q z_q
       / \sqrt{D} \big)

    The residual connection carries the initial guess y_q, as in linear attention (eq. 6
    of arXiv 2512.04268). With `y_q = 0` this is the model of He et al., which has no
    guess.

    Args:
        params: the weights, with one output.
        X, y, x_q: context and query, (L, d), (L,), (d,).
        y_q: initial guess, a number.

    Example:
        >>> params = from_effective_softmax([[[0.0, 0.0, 1.0]]], jnp.zeros((1, 3, 3)))
        >>> X, y, x_q = jnp.eye(2), [1.0, 2.0], [1.0, 1.0]
        >>> float(softmax_attention(params, X, y, x_q, y_q=0.5))
        2.0

    Source: He et al., arXiv 2503.12734.
    """
    _check.context(X, y, x_q)
    _check.shape("y_q", y_q, ())
    heads = softmax_heads(params, tokens(X, y), jnp.append(x_q, y_q))
    _check.shape("b", params.b, ("H", 1, "D"))
    return y_q + heads.sum()


def from_effective_softmax(
    b: Float[Array, "H m D"] | Any, A: HeadMatrices | Any
) -> SoftmaxParams:
    r"""The layer whose heads have these “OV” and “KQ” circuits.

    Args:
        b: `W_O W_V`, (H, m, D).
        A: the matrix of the logits, `W_K^\top W_Q / \sqrt{D}`, (H, D, D).

    Example:
        >>> from_effective_softmax(jnp.ones((1, 1, 4)), jnp.eye(4)[None]).b.tolist()
        [[[1.0, 1.0, 1.0, 1.0]]]
    """
    b, A = _check.floats(b=b, A=A)
    H, _, D = _check.shape("b", b, ("H", "m", "D")).shape
    _check.shape("A", A, (H, D, D))
    return SoftmaxParams(b, A)


@_check.compiled
def reduced_softmax(
    omega: PerHead, mu: PerHead, X: Features, y: Labels, x_q: Vector
) -> Scalar:
    r"""Softmax attention with two numbers for each head.

    .. math:: f = \sum_h \mu_h \sum_l y_l \, \mathrm{softmax}(\omega_h X x_q)_l

    This is the layer with `A_h = \omega_h \, \mathrm{diag}(I_d, 0)` and `b_h = \mu_h
    [0; 1]`: logits are inner products of features, values are labels.

    Args:
        omega, mu: the heads, (H,) each.
        X, y, x_q: context and query, (L, d), (L,), (d,).

    Example:
        >>> float(reduced_softmax([0.0], [2.0], jnp.eye(2), [1.0, 2.0], [1.0, 1.0]))
        3.0

    Source: He et al., arXiv 2503.12734.
    """
    _check.context(X, y, x_q)
    _check.shape("omega", omega, ("H",))
    _check.shape("mu", mu, omega.shape)
    return mu @ (jax.nn.softmax(jnp.outer(omega, X @ x_q), axis=1) @ y)
