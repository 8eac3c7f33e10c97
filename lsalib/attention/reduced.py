"""What a prediction reads of the context and of the weights, and weights for given
predictions.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from lsalib import _check
from lsalib._arrays import (
    Features,
    Gram,
    HeadMatrices,
    HeadVectors,
    Labels,
    Lift,
    Real,
    Scalar,
    Vector,
)
from lsalib.attention.layer import LSAParams, check_params, tokens


@_check.compiled
def gram(X: Features, y: Labels) -> Float[Array, "D D"]:
    r"""The Gram matrix of the context's tokens: all that linear attention reads of the
    context.

    .. math:: G = \frac{1}{C} \sum_i z_i z_i^\top, \qquad z_i = [x_i; y_i]

    Args:
        X: context features, (C, d).
        y: context labels, (C,).

    Returns:
        G, shape (d+1, d+1).

    Example:
        >>> gram([[1.0], [3.0]], [1.0, 1.0]).tolist()
        [[5.0, 2.0], [2.0, 1.0]]
    """
    _check.context(X, y)
    Z = tokens(X, y)
    return Z.T @ Z / len(y)


def effective(params: LSAParams) -> tuple[HeadVectors, HeadMatrices]:
    r"""What a head does to a prediction: `b_h`, the last row of `W_P W_V`, and `A_h =
    W_K^\top W_Q`.

    Args:
        params: the weights, (H, D, D) each.

    Returns:
        b of shape (H, D) and A of shape (H, D, D), whose columns are the `a_{h,j}`.

    Example:
        >>> b, A = effective(gd_weights([1.0, 2.0], step_size=0.5))
        >>> b.tolist()
        [[-0.5, -1.0, 0.5]]
    """
    [params] = _check.floats(params=params)
    check_params(params)
    b = jnp.einsum("hi,hij->hj", params.W_P[:, -1], params.W_V)
    A = jnp.einsum("hki,hkj->hij", params.W_K, params.W_Q)
    return b, A


def from_effective(b: HeadVectors | Any, A: HeadMatrices | Any) -> LSAParams:
    r"""Weights with ``effective(from_effective(b, A)) == (b, A)``: W_Q is A, the last
    row of W_V is b.

    Args:
        b: the last rows of `W_P W_V`, (H, D).
        A: `W_K^\top W_Q`, (H, D, D).

    Returns:
        ``LSAParams`` with H heads.

    Example:
        >>> b, A = effective(from_effective([[1.0, 1.0]], [[[3.0, 3.0], [3.0, 3.0]]]))
        >>> b.tolist(), A.tolist()
        ([[1.0, 1.0]], [[[3.0, 3.0], [3.0, 3.0]]])
    """
    b, A = _check.floats(b=b, A=A)
    _check.shape("b", b, ("H", "D"))
    _check.shape("A", A, (*b.shape, b.shape[1]))
    each = jnp.broadcast_to(jnp.eye(b.shape[1], dtype=A.dtype), A.shape)
    return LSAParams(W_K=each, W_Q=A, W_P=each, W_V=jnp.zeros_like(A).at[:, -1].set(b))


def lift(params: LSAParams) -> Lift:
    r"""The lifted parameters (appendix A.1), in which the risk is convex.

    .. math:: M_j = \sum_h b_h a_{h,j}^\top

    Args:
        params: the weights, (H, D, D) each.

    Returns:
        M, shape (D, D, D); ``M[j]`` is M_j.

    Example:
        >>> M = lift(gd_weights([1.0], step_size=0.5))
        >>> M.shape, float(M[0, 1, 0])
        ((2, 2, 2), 0.5)
    """
    return jnp.einsum("hm,hnj->jmn", *effective(params))


def from_lift(M: Lift | Any) -> LSAParams:
    """Weights of D = d+1 heads with ``lift(from_lift(M)) == M``: the construction
    behind Theorem 1.

    Head h reads coordinate h, `b_h = e_h`, and `a_{h,j}` is row h of `M_j`.

    Args:
        M: any lifted parameters, (D, D, D).

    Returns:
        ``LSAParams`` with H = D heads.

    Example:
        >>> M = jnp.arange(8.0).reshape(2, 2, 2)
        >>> bool((lift(from_lift(M)) == M).all())
        True
    """
    [M] = _check.floats(M=M)
    D = len(_check.shape("M", M, ("D", "D", "D")))
    _check.shape("M", M, (D, D, D))
    return from_effective(jnp.eye(D, dtype=M.dtype), jnp.einsum("jhn->hnj", M))


@_check.compiled
def predict(params: LSAParams, G: Gram, x_q: Vector, y_q: Real) -> Scalar:
    r"""The prediction of ``lsa``, from what it reads alone.

    .. math:: f = y_q + \sum_h b_h^\top G A_h z_q, \qquad z_q = [x_q; y_q]

    With ``G = gram(X, y)`` this equals ``lsa(params, embed(X, y, x_q, y_q))`` up to
    rounding, at a cost that does not depend on the context size.

    Args:
        params: the weights, (H, D, D) each.
        G: the context's Gram matrix, (D, D).
        x_q: query, (d,).
        y_q: initial guess, a number.

    Example:
        >>> G = gram(jnp.eye(2), [1.0, 2.0])
        >>> params = gd_weights([0.0, 0.0], step_size=2.0)
        >>> float(predict(params, G, x_q=[1.0, 1.0], y_q=0.0))
        3.0
    """
    D = check_params(params)
    _check.shape("G", G, (D, D))
    _check.shape("x_q", x_q, (D - 1,))
    _check.shape("y_q", y_q, ())
    # The lift first: it does not depend on the example, so ``jax.vmap`` computes it
    # once for a whole batch.
    return y_q + jnp.vdot(G, jnp.tensordot(jnp.append(x_q, y_q), lift(params), 1))


def gd_weights(prior_mean: Vector, step_size: Real) -> LSAParams:
    r"""One head that takes a gradient step of size eta from the prior mean (eq. 7).

    .. math:: W_V = \begin{pmatrix} 0 & 0 \\ w_\star^\top & -1 \end{pmatrix}, \quad
       W_K = W_Q = \begin{pmatrix} I_d & 0 \\ 0 & 0 \end{pmatrix}, \quad W_P = -\eta I

    Eq. 7 prints `W_P = -(\eta/C) I`, but eq. 3 already divides by C: with both, C would
    be counted twice. The result is one-step GD from `w_\star` when the initial guess is
    `y_q = w_\star^\top x_q`.

    Args:
        prior_mean: `w_\star`, shape (d,).
        step_size: `\eta`, a number.

    Returns:
        ``LSAParams`` with one head.

    Example:
        >>> gd_weights([2.0], step_size=0.5).W_V.tolist()
        [[[0.0, 0.0], [2.0, -1.0]]]
    """
    prior_mean, step_size = _check.floats(prior_mean=prior_mean, step_size=step_size)
    _check.shape("prior_mean", prior_mean, ("d",))
    _check.shape("step_size", step_size, ())
    residual = jnp.append(prior_mean, -1.0)
    identity = jnp.eye(len(residual), dtype=residual.dtype)
    reads_features = identity.at[-1, -1].set(0)
    W_V = jnp.zeros_like(identity).at[-1].set(residual)
    return LSAParams(
        *(W[None] for W in (reads_features, reads_features, -step_size * identity, W_V))
    )
