"""What a predictor's risk is on fresh tasks, and how close two predictors are (appendix C.2)."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _validate
from lsalib.tasks import GaussianTask, sample

__all__ = ["Estimate", "gradient_cosine", "gradient_difference", "prediction_difference", "sampled_risk"]

Scalar = Float[Array, ""]
# A predictor reads X (C, d), y (C,), x_q (d,) and returns a scalar.
Predictor = Callable[[Float[Array, "C d"], Float[Array, " C"], Float[Array, " d"]], Scalar]


class Estimate(NamedTuple):
    """A sample mean and its standard error."""

    mean: float
    standard_error: float


def sampled_risk(
    key: PRNGKeyArray, task: GaussianTask, f: Predictor, *, batches: int = 32, batch_size: int = 2**15, dtype=None
) -> Estimate:
    """Monte Carlo estimate of the ICL risk ``E[(f(X, y, x_q) - w.x_q)^2]`` (eq. 4) on fresh tasks.

    Args:
        key: a key of ``jax.random``.
        task: the task distribution.
        f: a function of (X, y, x_q) for one example that returns a scalar.
        batches, batch_size: their product is the number of tasks; only one batch is in memory.
        dtype: a float type; None means JAX's default.

    Returns:
        An ``Estimate`` whose standard error is that of the mean over all tasks.

    Raises:
        ValueError: if ``batches`` or ``batch_size`` is below 1.

    Example:
        >>> task = GaussianTask([1.0, 1.0], context_size=2)
        >>> risk = sampled_risk(jax.random.key(0), task, lambda X, y, x_q: x_q.sum(), batches=2, batch_size=5000)
        >>> abs(risk.mean - 2.0) < 5 * risk.standard_error
        True
    """
    count = _validate.count("batches", batches) * _validate.count("batch_size", batch_size)

    @jax.jit
    def moments(keys):
        def one(key):
            batch = sample(key, task, batch_size, dtype=dtype)
            errors = jax.vmap(f)(batch.X, batch.y, batch.x_q) - batch.target
            return jnp.mean(errors**2), jnp.mean(errors**4)

        return jax.lax.map(one, keys)

    second, fourth = (float(jnp.mean(m)) for m in moments(jax.random.split(key, batches)))
    return Estimate(second, ((fourth - second**2) / count) ** 0.5)


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
