"""The layer as eqs. 2-6, 11-12 and 30 write it, for one example.

``lsa`` is the reference for all faster forms of the same prediction (``training.objectives`` lists them).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _arrays, _random, _validate

__all__ = [
    "LSAParams",
    "embed",
    "init",
    "linear_transformer_block",
    "lsa",
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
    r"""Independent normal weights, `W \sim N(0, s^2)` entrywise.

    The paper does not give its initial scale; the risk after a fixed number of steps depends on it.

    Args:
        key: a key of ``jax.random``.
        dim: d, the number of features.
        heads: H, their number.
        scale: s, the standard deviation of each entry.
        dtype: a float type; None means JAX's default.

    Returns:
        ``LSAParams`` of shape (H, d+1, d+1) each.

    Raises:
        ValueError: if ``key`` is no key, ``dim < 1``, ``heads < 1``, ``scale`` is not a finite positive number or
            ``dtype`` no float type in use.

    Example:
        >>> init(jax.random.key(0), dim=3, heads=2, scale=0.1).W_K.shape
        (2, 4, 4)
    """
    D = _validate.count("dim", dim) + 1
    shape = (4, _validate.count("heads", heads), D, D)
    dtype = None if dtype is None else _validate.float_type("dtype", dtype)
    weights = _validate.number("scale", scale, above=0.0) * _random.normal(_validate.key(key), shape, dtype)
    # Not jnp.asarray, which compiles a program for each shape.
    return LSAParams(*(weights if isinstance(weights, jax.Array) else map(jax.device_put, weights)))


@_arrays.promoted
@jax.jit
def embed(
    X: Float[Array, "C d"], y: Float[Array, " C"], x_q: Float[Array, " d"], y_q: float | Scalar
) -> Float[Array, "D T"]:
    r"""The embedding of a context and its query, with the initial guess y_q (eq. 2).

    .. math:: E = \begin{pmatrix} X^\top & x_q \\ y^\top & y_q \end{pmatrix}

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
    _validate.context(X, y, x_q)
    _validate.shape("y_q", y_q, ())
    context = jnp.concatenate([X, y[:, None]], axis=1)
    return jnp.concatenate([context, query_token(x_q, y_q)[None]]).T


@_arrays.promoted
@jax.jit
def lsa(params: LSAParams, E: Float[Array, "D T"]) -> Scalar:
    r"""Multi-head LSA by the full matrices of eqs. 3, 5 and 6.

    .. math:: f(E) = \Big[ E + \sum_h W_P W_V E W_M (E^\top W_K^\top W_Q E) / C \Big]_{-1,-1}

    The mask `W_M = \mathrm{diag}(1_C, 0)` hides the query from keys and values.

    Args:
        params: the weights, (H, D, D) each.
        E: one embedding, (D, C+1).

    Returns:
        The prediction, a scalar.

    Raises:
        ValueError: if the weights or the embedding do not fit each other.

    Example:
        >>> from lsalib.attention import gd_weights
        >>> E = embed(jnp.eye(2), jnp.array([1.0, 2.0]), jnp.ones(2), 0.0)
        >>> float(lsa(gd_weights(jnp.zeros(2), step_size=2.0), E))
        3.0
    """
    return _layer(params, E)[-1, -1]


@_arrays.promoted
@jax.jit
def yq_lsa(
    params: LSAParams, w: Float[Array, " d"], X: Float[Array, "C d"], y: Float[Array, " C"], x_q: Float[Array, " d"]
) -> Scalar:
    r"""LSA whose initial guess is linear in the query, `y_q = w^\top x_q` with trainable w (eqs. 11-12).

    Args:
        params: the weights, (H, d+1, d+1) each.
        w: weights of the initial guess, (d,).
        X, y, x_q: context and query, (C, d), (C,), (d,).

    Returns:
        The prediction, a scalar.

    Raises:
        ValueError: if a shape does not fit.

    Example:
        >>> from lsalib.attention import gd_weights
        >>> w = jnp.array([1.0, 2.0])
        >>> float(yq_lsa(gd_weights(w, step_size=1.0), w, jnp.eye(2), w, jnp.ones(2)))
        3.0
    """
    _validate.context(X, y, x_q)
    _validate.shape("w", w, x_q.shape)
    return lsa(params, embed(X, y, x_q, w @ x_q))


@_arrays.promoted
@jax.jit
def linear_transformer_block(
    params: LSAParams,
    W_1: Float[Array, "m D"],
    W_2: Float[Array, "m D"],
    X: Float[Array, "C d"],
    y: Float[Array, " C"],
    x_q: Float[Array, " d"],
) -> Scalar:
    r"""LSA followed by a linear MLP, with no initial guess (eq. 30).

    .. math:: f(E) = \Big[ W_2^\top W_1 \Big( E + \sum_h W_P W_V E W_M (E^\top W_K^\top W_Q E) / C \Big) \Big]_{-1,-1}

    Args:
        params: the weights of the attention, (H, D, D) each, D = d+1.
        W_1, W_2: weights of the MLP, (m, D), of any width m.
        X, y, x_q: context and query, (C, d), (C,), (d,).

    Returns:
        The prediction, a scalar.

    Raises:
        ValueError: if a shape does not fit.

    Example:
        >>> from lsalib.attention import gd_weights
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


def _layer(params: LSAParams, E: Float[Array, "D T"]) -> Float[Array, "D T"]:
    """``E + sum_h head_h(E)`` (eqs. 5-6)."""
    D = check_params(params)
    _validate.shape("E", E, (D, "C+1"))
    C = _validate.count("the context size, the columns of E less one,", E.shape[1] - 1)
    W_M = jnp.diag(jnp.ones(C + 1, E.dtype).at[-1].set(0))

    def head(W_K, W_Q, W_P, W_V):
        return W_P @ W_V @ E @ W_M @ (E.T @ W_K.T @ W_Q @ E) / C

    return E + jax.vmap(head)(*params).sum(0)


def query_token(x_q: Float[Array, " d"], y_q) -> Float[Array, " D"]:
    """``z_q = [x_q; y_q]``."""
    return jnp.append(x_q, jnp.asarray(y_q, x_q.dtype))


def check_params(params: LSAParams, dim: int | None = None) -> int:
    """Check that all weights have one shape (H, D, D), for dim features if given, and return D."""
    length: int | str = "D" if dim is None else dim + 1
    _validate.shape("W_K", params.W_K, ("H", length, length))
    H, D, _ = params.W_K.shape
    for name, W in params._asdict().items():
        _validate.shape(name, W, (H, D, D))
    return D
