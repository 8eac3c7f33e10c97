"""What a predictor's risk is on fresh tasks, and how close two predictors are (appendix C.2)."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _validate
from lsalib.tasks import Batch, Task

__all__ = ["Estimate", "gradient_cosine", "gradient_difference", "prediction_difference", "sampled_risk"]

Scalar = Float[Array, ""]
# A predictor reads X (C, d), y (C,), x_q (d,) and returns a scalar.
Predictor = Callable[[Float[Array, "C d"], Float[Array, " C"], Float[Array, " d"]], Scalar]


class Estimate(NamedTuple):
    """A sample mean and its standard error; arrays of them, (k,), where a predictor makes k predictions."""

    mean: float | np.ndarray
    standard_error: float | np.ndarray


def sampled_risk(
    key: PRNGKeyArray, task: Task, f: Predictor, *, batches: int = 32, batch_size: int = 2**15, dtype=None
) -> Estimate:
    r"""Monte Carlo estimate of the ICL risk (eq. 4) on fresh tasks.

    .. math:: E \big[ (f(X, y, x_q) - \mathrm{target})^2 \big]

    Several predictors that are compared belong into one call, as one function that returns all their predictions:
    they then see the same tasks, in one program.

    Args:
        key: a key of ``jax.random``.
        task: a ``GaussianTask``, or any other object with ``dim`` and ``sample(key, n)`` (``tasks.Task``).
        f: a function of (X, y, x_q) for one example that returns a scalar, or k > 1 predictions (k,).
        batches, batch_size: their product is the number of tasks; only one batch is in memory.
        dtype: a float type, handed on to the task's ``sample``; None means what that draws by itself.

    Returns:
        An ``Estimate`` whose standard error is that of the mean over all tasks; with k predictions, of arrays (k,).

    Raises:
        ValueError: if ``batches`` or ``batch_size`` is below 1, ``task`` lacks what a task has or draws parts that do
            not fit together, or ``f`` returns anything but a scalar or a vector of at least two.

    Example:
        >>> from lsalib.tasks import GaussianTask
        >>> task = GaussianTask([1.0, 1.0], context_size=2)
        >>> risk = sampled_risk(jax.random.key(0), task, lambda X, y, x_q: x_q.sum(), batches=2, batch_size=5000)
        >>> abs(risk.mean - 2.0) < 5 * risk.standard_error
        True
    """
    if not isinstance(task, Task):
        raise ValueError(f"task must have dim and sample(key, n), got {task!r}")
    count = _validate.count("batches", batches) * _validate.count("batch_size", batch_size)
    drawn = _Opaque(task) if jax.tree_util.all_leaves([task]) else task
    moments = _moments(jax.random.split(key, batches), drawn, f, batch_size, dtype)
    second, fourth = (np.asarray(m, np.float64).mean(axis=0) for m in moments)
    errors = np.sqrt((fourth - second**2) / count)
    return Estimate(second, errors) if second.ndim else Estimate(float(second), float(errors))


@jax.tree_util.register_static
class _Opaque:
    """A task that is no pytree, as part of the program that draws from it."""

    def __init__(self, task: Task):
        self.task, self.dim, self.sample = task, task.dim, task.sample

    def __hash__(self):
        return id(self.task)

    def __eq__(self, other):
        return isinstance(other, _Opaque) and self.task is other.task


# Once for each kind of task and each predictor: another key, or other numbers in a task, find their program made.
@partial(jax.jit, static_argnames=("f", "batch_size", "dtype"))
def _moments(keys, task: Task, f: Predictor, batch_size: int, dtype):
    """Means of the second and fourth powers of the errors, batch by batch."""
    options = {} if dtype is None else {"dtype": dtype}

    def one(key):
        batch = task.sample(key, batch_size, **options)
        _check_batch(batch, batch_size, task.dim)
        predictions = jax.vmap(f)(batch.X, batch.y, batch.x_q)
        if predictions.ndim > 2 or predictions.shape[1:] == (1,):
            raise ValueError(f"f must return a scalar, or at least two in a vector, got shape {predictions.shape[1:]}")
        errors = predictions - jnp.expand_dims(batch.target, tuple(range(1, predictions.ndim)))
        return jnp.mean(errors**2, axis=0), jnp.mean(errors**4, axis=0)

    return jax.lax.map(one, keys)


def _check_batch(batch: Batch, n: int, dim: int) -> None:
    _validate.shape("the X of the task's sample", batch.X, (n, "C", dim))
    for name, shape in {"y": batch.X.shape[:2], "x_q": (n, dim), "target": (n,)}.items():
        _validate.shape(f"the {name} of the task's sample", getattr(batch, name), shape)


def prediction_difference(
    f: Predictor, g: Predictor, X: Float[Array, "C d"], y: Float[Array, " C"], x_q: Float[Array, " d"]
) -> Scalar:
    """Size of the difference in prediction, `| f(x_q) - g(x_q) |` (appendix C.2).

    Args:
        f, g: functions of (X, y, x_q) that return a scalar.
        X, y, x_q: one context and query, (C, d), (C,), (d,).

    Returns:
        A scalar, in the units of y.

    Raises:
        ValueError: if ``f`` or ``g`` returns anything but a scalar.

    Example:
        >>> f, g = (lambda X, y, x_q: x_q.sum()), (lambda X, y, x_q: 0.0 * x_q.sum())
        >>> float(prediction_difference(f, g, jnp.eye(2), jnp.ones(2), jnp.ones(2)))
        2.0
    """
    return jnp.abs(_scalar("f", f(X, y, x_q)) - _scalar("g", g(X, y, x_q)))


def gradient_difference(
    f: Predictor, g: Predictor, X: Float[Array, "C d"], y: Float[Array, " C"], x_q: Float[Array, " d"]
) -> Scalar:
    r"""Norm of the difference of the gradients by the query, `\| \nabla_{x_q} f - \nabla_{x_q} g \|` (appendix C.2).

    Args and errors as in ``prediction_difference``; the result is in units of y per unit of x_q.

        >>> f, g = (lambda X, y, x_q: 3 * x_q[0]), (lambda X, y, x_q: 4 * x_q[1])
        >>> float(gradient_difference(f, g, jnp.eye(2), jnp.ones(2), jnp.ones(2)))
        5.0
    """
    return jnp.linalg.norm(_query_gradient("f", f, X, y, x_q) - _query_gradient("g", g, X, y, x_q))


def gradient_cosine(
    f: Predictor, g: Predictor, X: Float[Array, "C d"], y: Float[Array, " C"], x_q: Float[Array, " d"]
) -> Scalar:
    """Cosine of the angle between the gradients by the query (appendix C.2).

    Args and errors as in ``prediction_difference``; the result has no unit and is NaN where a gradient is zero.

        >>> f, g = (lambda X, y, x_q: x_q[0]), (lambda X, y, x_q: 2 * x_q[0])
        >>> float(gradient_cosine(f, g, jnp.eye(2), jnp.ones(2), jnp.ones(2)))
        1.0
    """
    a, b = _query_gradient("f", f, X, y, x_q), _query_gradient("g", g, X, y, x_q)
    return a @ b / (jnp.linalg.norm(a) * jnp.linalg.norm(b))


def _query_gradient(name: str, f: Predictor, X, y, x_q) -> Float[Array, " d"]:
    return jax.grad(lambda x_q: _scalar(name, f(X, y, x_q)))(x_q)


def _scalar(name: str, prediction) -> Scalar:
    """A prediction that would otherwise be broadcast."""
    if jnp.shape(prediction) != ():
        raise ValueError(f"{name} must return a scalar, got shape {jnp.shape(prediction)}")
    return prediction
