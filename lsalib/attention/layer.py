"""The layer as eqs. 2-6, 11-12 and 30 write it, for one example.

All faster forms are compared with ``lsa``.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _check
from lsalib._arrays import (
    Features,
    HeadMatrices,
    Labels,
    Real,
    Rows,
    Scalar,
    Tokens,
    Vector,
)


class LSAParams(NamedTuple):
    """The weights of a multi-head LSA layer (eq. 5), each of shape (H, D, D) with D = d
    + 1.
    """

    W_K: HeadMatrices
    W_Q: HeadMatrices
    W_P: HeadMatrices
    W_V: HeadMatrices


def init(key: PRNGKeyArray, dim: int, heads: int, scale: float = 0.1) -> LSAParams:
    r"""Independent normal weights, `W \sim N(0, s^2)` entrywise.

    The paper does not give its initial scale, on which the risk after a fixed number of
    steps depends.

    Args:
        key: a key of ``jax.random``.
        dim: d, the number of features.
        heads: `H`.
        scale: s, the standard deviation of each entry; by default that of
            ``training.Run``.

    Example:
        >>> init(jax.random.key(0), dim=3, heads=2).W_K.shape
        (2, 4, 4)
    """
    D = _check.count("dim", dim) + 1
    shape = (4, _check.count("heads", heads), D, D)
    return LSAParams(
        *_check.number("scale", scale, above=0.0) * normal(_check.key(key), shape)
    )


@_check.compiled
def embed(X: Features, y: Labels, x_q: Vector, y_q: Real) -> Tokens:
    r"""The embedding of a context and its query, with the initial guess y_q (eq. 2).

    .. math:: E = \begin{pmatrix} X^\top & x_q \\ y^\top & y_q \end{pmatrix}

    Args:
        X: context features, (C, d).
        y: context labels, (C,).
        x_q: query, (d,).
        y_q: initial guess of the query's label, a number.

    Returns:
        E, shape (d+1, C+1): one token a column, the query last.

    Example:
        >>> embed([[1.0, 2.0]], [3.0], [4.0, 5.0], 6.0).tolist()
        [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]
    """
    _check.context(X, y, x_q)
    _check.shape("y_q", y_q, ())
    return jnp.concatenate([tokens(X, y), jnp.append(x_q, y_q)[None]]).T


@_check.compiled
def lsa(params: LSAParams, E: Tokens | Any) -> Scalar:
    r"""Multi-head LSA by the full matrices of eqs. 3, 5 and 6.

    .. math:: f(E) = \Big[ E + \sum_h W_P W_V E W_M (E^\top W_K^\top W_Q E) / C
       \Big]_{-1,-1}

    The mask `W_M = \mathrm{diag}(1_C, 0)` hides the query from keys and values.

    Args:
        params: the weights, (H, D, D) each.
        E: one embedding, (D, C+1).

    Example:
        >>> from lsalib.attention import gd_weights
        >>> E = embed(jnp.eye(2), [1.0, 2.0], [1.0, 1.0], 0.0)
        >>> float(lsa(gd_weights([0.0, 0.0], step_size=2.0), E))
        3.0
    """
    D = check_params(params)
    _check.shape("E", E, (D, "C+1"))
    _check.count("the context size, the columns of E less one,", E.shape[1] - 1)
    return add_heads(params, E)[-1, -1]


@_check.compiled
def yq_lsa(params: LSAParams, w: Vector, X: Features, y: Labels, x_q: Vector) -> Scalar:
    r"""LSA whose initial guess is linear in the query, `y_q = w^\top x_q` with
    trainable w (eqs. 11-12).

    Args:
        params: the weights, (H, d+1, d+1) each.
        w: weights of the initial guess, (d,).
        X, y, x_q: context and query, (C, d), (C,), (d,).

    Example:
        >>> from lsalib.attention import gd_weights
        >>> w = [1.0, 2.0]
        >>> params = gd_weights(w, step_size=1.0)
        >>> float(yq_lsa(params, w, X=jnp.eye(2), y=w, x_q=[1.0, 1.0]))
        3.0
    """
    _check.context(X, y, x_q)
    _check.shape("w", w, x_q.shape)
    return lsa(params, embed(X, y, x_q, w @ x_q))


@_check.compiled
def linear_transformer_block(
    params: LSAParams, W_1: Rows, W_2: Rows, X: Features, y: Labels, x_q: Vector
) -> Scalar:
    r"""LSA followed by a linear MLP, with no initial guess (eq. 30).

    .. math:: f(E) = \Big[ W_2^\top W_1 \Big( E + \sum_h W_P W_V E W_M (E^\top W_K^\top
       W_Q E) / C \Big) \Big]_{-1,-1}

    Args:
        params: the weights of the attention, (H, D, D) each, D = d+1.
        W_1, W_2: weights of the MLP, (m, D), of any width m.
        X, y, x_q: context and query, (C, d), (C,), (d,).

    Example:
        >>> from lsalib.attention import gd_weights
        >>> params = gd_weights([0.0, 0.0], step_size=2.0)
        >>> W_1 = W_2 = jnp.eye(3)
        >>> X, y, x_q = jnp.eye(2), [1.0, 2.0], [1.0, 1.0]
        >>> float(linear_transformer_block(params, W_1, W_2, X, y, x_q))
        3.0
    """
    _check.context(X, y, x_q)
    D = check_params(params, len(x_q))
    _check.shape("W_1", W_1, ("m", D))
    _check.shape("W_2", W_2, W_1.shape)
    E = embed(X, y, x_q, 0.0)
    return W_2[:, -1] @ (W_1 @ add_heads(params, E)[:, -1])


def add_heads(params: LSAParams, E: Tokens) -> Tokens:
    """``E + sum_h head_h(E)`` (eqs. 5-6). Keys and values may have any length."""
    C = E.shape[1] - 1
    W_M = jnp.diag(jnp.ones(C + 1, E.dtype).at[-1].set(0))

    def head(W_K, W_Q, W_P, W_V):
        return W_P @ W_V @ E @ W_M @ (E.T @ W_K.T @ W_Q @ E) / C

    return E + jax.vmap(head)(*params).sum(0)


def tokens(X: Float[Array, "C d"], y: Float[Array, " C"]) -> Float[Array, "C D"]:
    """``z_i = [x_i; y_i]``, one a row."""
    return jnp.concatenate([X, y[:, None]], axis=1)


def check_params(
    params: LSAParams, dim: int | None = None, name: str = "params"
) -> int:
    """Check that all weights have one shape (H, D, D), for ``dim`` features if given,
    and return D.
    """
    if getattr(params, "_fields", None) != LSAParams._fields:
        raise ValueError(f"{name} must be LSAParams, got {_check.describe(params)}")
    size = "D" if dim is None else dim + 1
    H, D, _ = _check.shape(f"{name}.W_K", params.W_K, ("H", size, size)).shape
    for field, W in params._asdict().items():
        _check.shape(f"{name}.{field}", W, (H, D, D))
    return D


def normal(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Standard normal numbers, drawn in one row: a draw with four axes takes ten times
    as long to compile.
    """
    row = jax.random.normal(key, (math.prod(shape),))
    return jax.lax.optimization_barrier(row).reshape(shape)
