"""How close two predictors are (appendix C.2): in value, and in sensitivity to the query."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

__all__ = ["gradient_cosine", "gradient_difference", "prediction_difference"]

Scalar = Float[Array, ""]
# A predictor reads X (C, d), y (C,), x_q (d,) and returns a scalar.
Predictor = Callable[[Float[Array, "C d"], Float[Array, " C"], Float[Array, " d"]], Scalar]


def prediction_difference(
    f: Predictor, g: Predictor, X: Float[Array, "C d"], y: Float[Array, " C"], x_q: Float[Array, " d"]
) -> Scalar:
    """Size of the difference in prediction, ``|f(x_q) - g(x_q)|`` (appendix C.2).

    Args:
        f, g: functions of (X, y, x_q) that return a scalar.
        X, y, x_q: one context and query, (C, d), (C,), (d,).

    Returns:
        A scalar, in the units of y.

    Example:
        >>> f, g = (lambda X, y, x_q: x_q.sum()), (lambda X, y, x_q: 0.0 * x_q.sum())
        >>> float(prediction_difference(f, g, jnp.eye(2), jnp.ones(2), jnp.ones(2)))
        2.0
    """
    return jnp.abs(f(X, y, x_q) - g(X, y, x_q))


def gradient_difference(
    f: Predictor, g: Predictor, X: Float[Array, "C d"], y: Float[Array, " C"], x_q: Float[Array, " d"]
) -> Scalar:
    """Norm of the difference of the gradients by the query, ``|df/dx_q - dg/dx_q|`` (appendix C.2).

    Args and example as in ``prediction_difference``; the result is in units of y per unit of x_q.

        >>> f, g = (lambda X, y, x_q: 3 * x_q[0]), (lambda X, y, x_q: 4 * x_q[1])
        >>> float(gradient_difference(f, g, jnp.eye(2), jnp.ones(2), jnp.ones(2)))
        5.0
    """
    return jnp.linalg.norm(_query_gradient(f, X, y, x_q) - _query_gradient(g, X, y, x_q))


def gradient_cosine(
    f: Predictor, g: Predictor, X: Float[Array, "C d"], y: Float[Array, " C"], x_q: Float[Array, " d"]
) -> Scalar:
    """Cosine of the angle between the gradients by the query (appendix C.2).

    Args and example as in ``prediction_difference``; the result has no unit and is NaN where a gradient is zero.

        >>> f, g = (lambda X, y, x_q: x_q[0]), (lambda X, y, x_q: 2 * x_q[0])
        >>> float(gradient_cosine(f, g, jnp.eye(2), jnp.ones(2), jnp.ones(2)))
        1.0
    """
    a, b = _query_gradient(f, X, y, x_q), _query_gradient(g, X, y, x_q)
    return a @ b / (jnp.linalg.norm(a) * jnp.linalg.norm(b))


def _query_gradient(f: Predictor, X, y, x_q) -> Float[Array, " d"]:
    return jax.grad(f, argnums=2)(X, y, x_q)
