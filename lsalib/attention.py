"""Linear self-attention: the paper's formula to the letter, and what is left of it in a prediction.

Only the bottom-right entry of the output is a prediction, so a head acts through
``b_h``, the last row of ``W_P W_V``, and ``A_h = W_K^T W_Q`` alone. With the Gram matrix
``G = Z^T Z / C`` of the context tokens ``z_i = [x_i; y_i]`` and ``z_q = [x_q; y_q]``,

    f(E) = y_q + sum_h b_h^T G A_h z_q = y_q + sum_j <G, M_j> z_q[j],   M_j = sum_h b_h a_{h,j}^T.

Everything is written for one example; ``jax.vmap`` makes the batch.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _validate

__all__ = [
    "LSAParams",
    "effective",
    "embed",
    "from_lift",
    "gd_weights",
    "gram",
    "init",
    "lift",
    "linear_transformer_block",
    "lsa",
    "predict",
    "yq_lsa",
]

Scalar = Float[Array, ""]


class LSAParams(NamedTuple):
    """The weights of a multi-head LSA layer (eq. 5), each of shape (H, D, D) with D = d + 1."""

    W_K: Float[Array, "H D D"]
    W_Q: Float[Array, "H D D"]
    W_P: Float[Array, "H D D"]
    W_V: Float[Array, "H D D"]


def init(key: PRNGKeyArray, dim: int, heads: int, scale: float, *, dtype=None) -> LSAParams:
    """Independent normal weights, ``W ~ N(0, scale^2)`` entrywise.

    The paper does not give its initial scale; the risk after a fixed number of steps depends on it.

    Args:
        key: a key of ``jax.random``.
        dim: d, the number of features.
        heads: H.
        scale: standard deviation of each entry.
        dtype: a float type; None means JAX's default.

    Returns:
        ``LSAParams`` of shape (H, d+1, d+1) each.

    Raises:
        ValueError: if ``dim < 1``, ``heads < 1`` or ``scale`` is not a finite positive number.

    Example:
        >>> init(jax.random.key(0), dim=3, heads=2, scale=0.1).W_K.shape
        (2, 4, 4)
    """
    D = _validate.count("dim", dim) + 1
    shape = (4, _validate.count("heads", heads), D, D)
    return LSAParams(*_validate.number("scale", scale, above=0.0) * jax.random.normal(key, shape, dtype))


def embed(X: Float[Array, "C d"], y: Float[Array, " C"], x_q: Float[Array, " d"], y_q: float | Scalar) -> Float[Array, "D T"]:
    """The embedding ``E = [[X^T, x_q], [y^T, y_q]]`` with the initial guess y_q (eq. 2).

    Args:
        X: context features, (C, d).
        y: context labels, (C,).
        x_q: query, (d,).
        y_q: initial guess of the query's label.

    Returns:
        E, shape (d+1, C+1): one token a column, the query last.

    Raises:
        ValueError: if a shape does not fit.

    Example:
        >>> embed(jnp.array([[1.0, 2.0]]), jnp.array([3.0]), jnp.array([4.0, 5.0]), 6.0).tolist()
        [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
    """
    _check_context(X, y, x_q)
    context = jnp.concatenate([X, y[:, None]], axis=1)
    return jnp.concatenate([context, _query_token(x_q, y_q)[None]]).T


def lsa(params: LSAParams, E: Float[Array, "D T"]) -> Scalar:
    """Multi-head LSA by the full matrices of eqs. 3, 5 and 6.

    ``f(E) = [E + sum_h (1/C) W_P W_V E W_M (E^T W_K^T W_Q E)]_{-1,-1}`` with the mask
    ``W_M = diag(1_C, 0)``, which hides the query from the keys and values.

    Args:
        params: the weights, (H, D, D) each.
        E: one embedding, (D, C+1).

    Returns:
        The prediction, a scalar.

    Raises:
        ValueError: if the weights or the embedding do not fit each other.

    Example:
        >>> E = embed(jnp.eye(2), jnp.array([1.0, 2.0]), jnp.ones(2), 0.0)
        >>> float(lsa(gd_weights(jnp.zeros(2), step_size=2.0), E))
        3.0
    """
    return _layer(params, E)[-1, -1]


def yq_lsa(
    params: LSAParams, w: Float[Array, " d"], X: Float[Array, "C d"], y: Float[Array, " C"], x_q: Float[Array, " d"]
) -> Scalar:
    """LSA whose initial guess is linear in the query, ``y_q = w.x_q`` with trainable w (eqs. 11-12).

    Args:
        params: the weights, (H, d+1, d+1) each.
        w: weights of the initial guess, (d,).
        X, y, x_q: context and query, (C, d), (C,), (d,).

    Returns:
        The prediction, a scalar.

    Raises:
        ValueError: if a shape does not fit.

    Example:
        >>> w = jnp.array([1.0, 2.0])
        >>> float(yq_lsa(gd_weights(w, step_size=1.0), w, jnp.eye(2), w, jnp.ones(2)))
        3.0
    """
    _validate.shape("w", w, jnp.shape(x_q))
    return lsa(params, embed(X, y, x_q, w @ x_q))


def linear_transformer_block(
    params: LSAParams,
    W_1: Float[Array, "m D"],
    W_2: Float[Array, "m D"],
    X: Float[Array, "C d"],
    y: Float[Array, " C"],
    x_q: Float[Array, " d"],
) -> Scalar:
    """LSA followed by a linear MLP, with no initial guess: ``[W_2^T W_1 (E + heads)]_{-1,-1}`` (eq. 30).

    Args:
        params: the weights of the attention, (H, D, D) each, D = d+1.
        W_1, W_2: weights of the MLP, (m, D), of any width m.
        X, y, x_q: context and query, (C, d), (C,), (d,).

    Returns:
        The prediction, a scalar.

    Raises:
        ValueError: if a shape does not fit.

    Example:
        >>> w = jnp.array([1.0, 2.0])
        >>> params = gd_weights(jnp.zeros(2), step_size=2.0)
        >>> float(linear_transformer_block(params, jnp.eye(3), jnp.eye(3), jnp.eye(2), w, jnp.ones(2)))
        3.0
    """
    E = embed(X, y, x_q, 0.0)
    D = E.shape[0]
    _validate.shape("W_1", W_1, ("m", D))
    _validate.shape("W_2", W_2, (W_1.shape[0], D))
    return W_2[:, -1] @ (W_1 @ _layer(params, E)[:, -1])


def gram(X: Float[Array, "C d"], y: Float[Array, " C"]) -> Float[Array, "D D"]:
    """The Gram matrix of the context, ``G = (1/C) sum_i z_i z_i^T`` with ``z_i = [x_i; y_i]``.

    Args:
        X: context features, (C, d).
        y: context labels, (C,).

    Returns:
        G, shape (d+1, d+1): all that attention reads of the context.

    Example:
        >>> gram(jnp.array([[1.0], [3.0]]), jnp.array([1.0, 1.0])).tolist()
        [[5.0, 2.0], [2.0, 1.0]]
    """
    Z = jnp.concatenate([X, y[:, None]], axis=1)
    return Z.T @ Z / len(y)


def effective(params: LSAParams) -> tuple[Float[Array, "H D"], Float[Array, "H D D"]]:
    """What a head does to a prediction: ``b_h``, the last row of ``W_P W_V``, and ``A_h = W_K^T W_Q``.

    Args:
        params: the weights, (H, D, D) each.

    Returns:
        b of shape (H, D) and A of shape (H, D, D), whose columns are the a_{h,j}.

    Example:
        >>> b, A = effective(gd_weights(jnp.array([1.0, 2.0]), step_size=0.5))
        >>> b.tolist()
        [[-0.5, -1.0, 0.5]]
    """
    b = jnp.einsum("hi,hij->hj", params.W_P[:, -1], params.W_V)
    A = jnp.einsum("hki,hkj->hij", params.W_K, params.W_Q)
    return b, A


def lift(params: LSAParams) -> Float[Array, "D D D"]:
    """The lifted parameters ``M_j = sum_h b_h a_{h,j}^T`` (appendix A.1), in which the risk is convex.

    Args:
        params: the weights, (H, D, D) each.

    Returns:
        M, shape (D, D, D); ``M[j]`` is M_j.

    Example:
        >>> M = lift(gd_weights(jnp.ones(1), step_size=0.5))
        >>> M.shape, float(M[0, 1, 0])
        ((2, 2, 2), 0.5)
    """
    b, A = effective(params)
    return jnp.einsum("hm,hnj->jmn", b, A)


def from_lift(M: Float[Array, "D D D"]) -> LSAParams:
    """Weights of D = d+1 heads with ``lift(from_lift(M)) == M``: the construction behind Theorem 1.

    Head h reads coordinate h (``b_h = e_h``) and ``a_{h,j}`` is row h of M_j.

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
    eye = jnp.eye(D, dtype=M.dtype)
    each = jnp.broadcast_to(eye, (D, D, D))
    # The last row of W_V is e_h, and W_P hands it on: (W_P W_V)[-1] = e_h.
    W_V = jnp.zeros_like(M).at[:, -1].set(eye)
    return LSAParams(W_K=each, W_Q=jnp.einsum("jhn->hnj", M), W_P=each, W_V=W_V)


def predict(params: LSAParams, G: Float[Array, "D D"], x_q: Float[Array, " d"], y_q: float | Scalar) -> Scalar:
    """The prediction of ``lsa`` without its unread entries: ``y_q + sum_h b_h^T G A_h z_q``.

    Equal to ``lsa(params, embed(X, y, x_q, y_q))`` with ``G = gram(X, y)`` up to rounding, at a
    cost that does not depend on the context size. Training runs on this.

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
    D = _check_params(params)
    _validate.shape("G", G, (D, D))
    _validate.shape("x_q", x_q, (D - 1,))
    z_q = _query_token(x_q, y_q)
    # The sum over heads and columns first: it is the same for a whole batch.
    return y_q + jnp.vdot(G, jnp.tensordot(z_q, lift(params), 1))


def gd_weights(prior_mean: Float[Array, " d"], step_size: float | Scalar) -> LSAParams:
    """One head that takes a gradient step of size eta from the prior mean (eq. 7).

    ``W_V = [[0, 0], [w*^T, -1]]``, ``W_K = W_Q = diag(I_d, 0)`` and ``W_P = -eta I``. Eq. 7 prints
    ``W_P = -(eta/C) I``, but eq. 3 already divides by C: with both, C would be counted twice.
    The result is one-step GD from w* when the initial guess is ``y_q = w*.x_q``.

    Args:
        prior_mean: w*, shape (d,).
        step_size: eta.

    Returns:
        ``LSAParams`` with one head.

    Raises:
        ValueError: if ``prior_mean`` is not a vector.

    Example:
        >>> gd_weights(jnp.array([2.0]), step_size=0.5).W_V.tolist()
        [[[0.0, 0.0], [2.0, -1.0]]]
    """
    prior_mean = jnp.asarray(prior_mean)
    _validate.shape("prior_mean", prior_mean, ("d",))
    D = prior_mean.shape[0] + 1
    residual = jnp.append(prior_mean, -1.0)
    reads_features = jnp.eye(D, dtype=residual.dtype).at[-1, -1].set(0)
    W_V = jnp.zeros_like(reads_features).at[-1].set(residual)
    W_P = -step_size * jnp.eye(D, dtype=residual.dtype)
    return LSAParams(*(W[None] for W in (reads_features, reads_features, W_P, W_V)))


def _layer(params: LSAParams, E: Float[Array, "D T"]) -> Float[Array, "D T"]:
    """``E + sum_h head_h(E)`` (eqs. 5-6)."""
    D = _check_params(params)
    _validate.shape("E", E, (D, "C+1"))
    C = _validate.count("the context size, the columns of E less one,", E.shape[1] - 1)
    W_M = jnp.diag(jnp.ones(C + 1, E.dtype).at[-1].set(0))

    def head(W_K, W_Q, W_P, W_V):
        return W_P @ W_V @ E @ W_M @ (E.T @ W_K.T @ W_Q @ E) / C

    return E + jax.vmap(head)(*params).sum(0)


def _query_token(x_q: Float[Array, " d"], y_q) -> Float[Array, " D"]:
    return jnp.append(x_q, jnp.asarray(y_q, x_q.dtype))


def _check_context(X, y, x_q) -> None:
    _validate.shape("X", X, ("C", "d"))
    C, d = X.shape
    _validate.count("the context size C of X", C)
    _validate.shape("y", y, (C,))
    _validate.shape("x_q", x_q, (d,))


def _check_params(params: LSAParams) -> int:
    """D, after a look at the shapes."""
    _validate.shape("W_K", params.W_K, ("H", "D", "D"))
    H, D, _ = params.W_K.shape
    for name, W in params._asdict().items():
        _validate.shape(name, W, (H, D, D))
    return D
