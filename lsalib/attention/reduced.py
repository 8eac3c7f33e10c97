"""What a prediction reads of the context and of the weights, and weights for given predictions."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lsalib import _arrays, _validate
from lsalib.attention.layer import LSAParams, check_params, query_token

__all__ = ["effective", "from_effective", "from_lift", "gd_weights", "gram", "lift", "predict"]

Scalar = Float[Array, ""]


@_arrays.promoted
@jax.jit
def gram(X: Float[Array, "C d"], y: Float[Array, " C"]) -> Float[Array, "D D"]:
    r"""The Gram matrix of the context's tokens.

    .. math:: G = \frac{1}{C} \sum_i z_i z_i^\top, \qquad z_i = [x_i; y_i]

    Args:
        X: context features, (C, d).
        y: context labels, (C,).

    Returns:
        G, shape (d+1, d+1): all that attention reads of the context.

    Raises:
        ValueError: if a shape does not fit, or the context is empty.

    Example:
        >>> gram(jnp.array([[1.0], [3.0]]), jnp.array([1.0, 1.0])).tolist()
        [[5.0, 2.0], [2.0, 1.0]]
    """
    _validate.context(X, y)
    Z = jnp.concatenate([X, y[:, None]], axis=1)
    return Z.T @ Z / len(y)


@_arrays.promoted
@jax.jit
def effective(params: LSAParams) -> tuple[Float[Array, "H D"], Float[Array, "H D D"]]:
    r"""What a head does to a prediction: `b_h`, the last row of `W_P W_V`, and `A_h = W_K^\top W_Q`.

    Args:
        params: the weights, (H, D, D) each.

    Returns:
        b of shape (H, D) and A of shape (H, D, D), whose columns are the `a_{h,j}`.

    Raises:
        ValueError: if the weights do not have one shape (H, D, D).

    Example:
        >>> b, A = effective(gd_weights(jnp.array([1.0, 2.0]), step_size=0.5))
        >>> b.tolist()
        [[-0.5, -1.0, 0.5]]
    """
    check_params(params)
    b = jnp.einsum("hi,hij->hj", params.W_P[:, -1], params.W_V)
    A = jnp.einsum("hki,hkj->hij", params.W_K, params.W_Q)
    return b, A


@_arrays.promoted
@jax.jit
def from_effective(b: Float[Array, "H D"], A: Float[Array, "H D D"]) -> LSAParams:
    r"""Weights with ``effective(from_effective(b, A)) == (b, A)``: W_Q is A, the last row of W_V is b.

    Args:
        b: what the heads read of the values, (H, D).
        A: `W_K^\top W_Q`, (H, D, D).

    Returns:
        ``LSAParams`` with H heads.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> b, A = effective(from_effective(jnp.ones((1, 2)), jnp.full((1, 2, 2), 3.0)))
        >>> b.tolist(), A.tolist()
        ([[1.0, 1.0]], [[[3.0, 3.0], [3.0, 3.0]]])
    """
    _validate.shape("b", b, ("H", "D"))
    _validate.shape("A", A, (*b.shape, b.shape[1]))
    each = jnp.broadcast_to(jnp.eye(b.shape[1], dtype=A.dtype), A.shape)
    return LSAParams(W_K=each, W_Q=A, W_P=each, W_V=jnp.zeros_like(A).at[:, -1].set(b))


@_arrays.promoted
@jax.jit
def lift(params: LSAParams) -> Float[Array, "D D D"]:
    r"""The lifted parameters (appendix A.1), in which the risk is convex.

    .. math:: M_j = \sum_h b_h a_{h,j}^\top

    Args:
        params: the weights, (H, D, D) each.

    Returns:
        M, shape (D, D, D); ``M[j]`` is M_j.

    Raises:
        ValueError: if the weights do not have one shape (H, D, D).

    Example:
        >>> M = lift(gd_weights(jnp.ones(1), step_size=0.5))
        >>> M.shape, float(M[0, 1, 0])
        ((2, 2, 2), 0.5)
    """
    b, A = effective(params)
    return jnp.einsum("hm,hnj->jmn", b, A)


@_arrays.promoted
@jax.jit
def from_lift(M: Float[Array, "D D D"]) -> LSAParams:
    """Weights of D = d+1 heads with ``lift(from_lift(M)) == M``: the construction behind Theorem 1.

    Head h reads coordinate h, `b_h = e_h`, and `a_{h,j}` is row h of `M_j`.

    Args:
        M: any lifted parameters, (D, D, D).

    Returns:
        ``LSAParams`` with H = D heads.

    Raises:
        ValueError: if M is not a cube.

    Example:
        >>> M = jnp.arange(8.0).reshape(2, 2, 2)
        >>> bool((lift(from_lift(M)) == M).all())
        True
    """
    _validate.shape("M", M, ("D", "D", "D"))
    D = M.shape[0]
    _validate.shape("M", M, (D, D, D))
    return from_effective(jnp.eye(D, dtype=M.dtype), jnp.einsum("jhn->hnj", M))


@_arrays.promoted
@jax.jit
def predict(params: LSAParams, G: Float[Array, "D D"], x_q: Float[Array, " d"], y_q: float | Scalar) -> Scalar:
    r"""The prediction of ``lsa``, from what it reads alone.

    .. math:: f = y_q + \sum_h b_h^\top G A_h z_q, \qquad z_q = [x_q; y_q]

    Equal to ``lsa(params, embed(X, y, x_q, y_q))`` with ``G = gram(X, y)`` up to rounding, at a
    cost that does not depend on the context size.

    Args:
        params: the weights, (H, D, D) each.
        G: the context's Gram matrix, (D, D).
        x_q: query, (d,).
        y_q: initial guess.

    Returns:
        The prediction, a scalar.

    Raises:
        ValueError: if a shape does not fit.

    Example:
        >>> X, y, x_q = jnp.eye(2), jnp.array([1.0, 2.0]), jnp.ones(2)
        >>> float(predict(gd_weights(jnp.zeros(2), step_size=2.0), gram(X, y), x_q, 0.0))
        3.0
    """
    D = check_params(params)
    _validate.shape("G", G, (D, D))
    _validate.shape("x_q", x_q, (D - 1,))
    _validate.shape("y_q", y_q, ())
    z_q = query_token(x_q, y_q)
    # The lift first: it does not depend on the example, so under ``jax.vmap`` it is computed once for a whole batch.
    return y_q + jnp.vdot(G, jnp.tensordot(z_q, lift(params), 1))


@_arrays.promoted
@jax.jit
def gd_weights(prior_mean: Float[Array, " d"], step_size: float | Scalar) -> LSAParams:
    r"""One head that takes a gradient step of size eta from the prior mean (eq. 7).

    .. math:: W_V = \begin{pmatrix} 0 & 0 \\ w_\star^\top & -1 \end{pmatrix}, \quad
       W_K = W_Q = \begin{pmatrix} I_d & 0 \\ 0 & 0 \end{pmatrix}, \quad W_P = -\eta I

    Eq. 7 prints `W_P = -(\eta/C) I`, but eq. 3 already divides by C: with both, C would be counted twice.
    The result is one-step GD from `w_\star` when the initial guess is `y_q = w_\star^\top x_q`.

    Args:
        prior_mean: `w_\star`, shape (d,).
        step_size: `\eta`.

    Returns:
        ``LSAParams`` with one head.

    Raises:
        ValueError: if ``prior_mean`` is not a vector or ``step_size`` not a scalar.

    Example:
        >>> gd_weights(jnp.array([2.0]), step_size=0.5).W_V.tolist()
        [[[0.0, 0.0], [2.0, -1.0]]]
    """
    _validate.shape("prior_mean", prior_mean, ("d",))
    _validate.shape("step_size", step_size, ())
    D = prior_mean.shape[0] + 1
    residual = jnp.append(prior_mean, -1.0)
    reads_features = jnp.eye(D, dtype=residual.dtype).at[-1, -1].set(0)
    W_V = jnp.zeros_like(reads_features).at[-1].set(residual)
    W_P = -step_size * jnp.eye(D, dtype=residual.dtype)
    return LSAParams(*(W[None] for W in (reads_features, reads_features, W_P, W_V)))
