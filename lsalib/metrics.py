"""The risk of a predictor on fresh tasks, and how close two predictors are (appendix C.2)."""

from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _arrays, _validate
from lsalib._random import reads_key
from lsalib.tasks import Batch, Task

__all__ = ["Estimate", "gradient_cosine", "gradient_difference", "prediction_difference", "sampled_risk"]

Scalar = Float[Array, ""]
# A predictor reads X (C, d), y (C,), x_q (d,) and returns a scalar.
Predictor = Callable[[Float[Array, "C d"], Float[Array, " C"], Float[Array, " d"]], Scalar]


_promote_data = partial(_arrays.promoted, skip=("f", "g"))


class Estimate(NamedTuple):
    """A sample mean and its standard error; arrays of them, (k,), where a predictor makes k predictions."""

    mean: float | np.ndarray
    standard_error: float | np.ndarray


def sampled_risk(
    key: PRNGKeyArray, task: Task, f: Predictor, *, batches: int = 32, batch_size: int = 2**15, dtype=None
) -> Estimate:
    r"""Monte Carlo estimate of the ICL risk (eq. 4) on fresh tasks.

    .. math:: E \big[ (f(X, y, x_q) - \mathrm{target})^2 \big]

    To compare several predictors, write one function that returns all their predictions: they then see the same
    tasks, in one program. Only one of them may factorize or invert matrices: two that do, such as two calls of
    ``estimators.bayes``, can block each other's threads in JAX on a machine with two cores. Call ``sampled_risk`` with
    the same key for each of them instead.

    Args:
        key: a key of ``jax.random``.
        task: a ``GaussianTask``, or any other object with ``dim`` and ``sample(key, n)`` (``tasks.Task``).
        f: a function of (X, y, x_q) for one example that returns a scalar, or k > 1 predictions (k,). It is compiled,
            so it must be made of JAX's operations. With a predictor made of others, draw
            ``batch = task.sample(key, n)`` and average the squared errors of its predictions.
        batches, batch_size: their product is the number of tasks; only one batch is in memory.
        dtype: a float type, passed on to the task's ``sample``; None means that method's default.

    Returns:
        An ``Estimate`` whose standard error is that of the mean over all tasks; with k predictions, of arrays (k,).

    Raises:
        ValueError: if ``key`` is no key, ``batches`` or ``batch_size`` is below 1, ``dtype`` is no float type in use,
            ``task`` has no ``dim`` or ``sample`` or draws parts whose shapes do not fit, ``f`` is no function that JAX
            can compile, or ``f`` returns anything but a scalar or a vector of at least two.

    Example:
        >>> from lsalib.tasks import GaussianTask
        >>> task = GaussianTask([1.0, 1.0], context_size=2)
        >>> risk = sampled_risk(jax.random.key(0), task, lambda X, y, x_q: x_q.sum(), batches=2, batch_size=5000)
        >>> abs(risk.mean - 2.0) < 5 * risk.standard_error
        True
    """
    if not isinstance(task, Task):
        raise ValueError(f"task must have dim and sample(key, n), got {_arrays.describe(task)}")
    f, key = _function("f", f), _validate.key(key)
    batches, batch_size = _validate.count("batches", batches), _validate.count("batch_size", batch_size)
    dtype = None if dtype is None else _validate.float_type("dtype", dtype)
    drawn = StaticTask(task) if jax.tree_util.all_leaves([task]) else task
    moments = _moments(jax.random.split(key, batches), drawn, f, batch_size, dtype)
    means, spreads = (np.asarray(m, np.float64) for m in moments)
    # Deviations from each batch's own mean, and of these from the whole mean: no large numbers are subtracted.
    mean = means.mean(axis=0)
    variance = spreads.mean(axis=0) + ((means - mean) ** 2).mean(axis=0)
    errors = np.sqrt(variance / (batches * batch_size))
    return Estimate(mean, errors) if mean.ndim else Estimate(float(mean), float(errors))


@jax.tree_util.register_static
class StaticTask:
    """A task that is no pytree, as part of the program that draws from it."""

    def __init__(self, task: Task):
        self.task, self.dim, self.sample = task, task.dim, task.sample

    def __hash__(self):
        return id(self.task)

    def __eq__(self, other):
        return isinstance(other, StaticTask) and self.task is other.task


# Compiled once for each kind of task and each predictor: another key, or other numbers in a task, compile nothing.
@partial(jax.jit, static_argnames=("f", "batch_size", "dtype"))
def _moments(keys, task: Task, f: Predictor, batch_size: int, dtype):
    """Of each batch, the mean of the squared errors and their variance."""
    options = {} if dtype is None else {"dtype": dtype}

    def draw(key, task) -> Batch:
        with _traceable("the task's sample"):
            batch = task.sample(key, batch_size, **options)
        check_batch(batch, batch_size, task.dim)
        return batch

    check_reads_key(draw, keys[0], task)

    def one(key):
        batch = draw(key, task)
        with _traceable("f"):
            predictions = jax.vmap(f)(batch.X, batch.y, batch.x_q)
        squares = _errors(predictions, batch.target) ** 2
        mean = jnp.mean(squares, axis=0)
        return mean, jnp.mean((squares - mean[None]) ** 2, axis=0)

    return jax.lax.map(one, keys)


def _errors(predictions, target: Float[Array, " n"]) -> Float[Array, "n ..."]:
    """By how much predictions miss their target, (n,) or (n, k)."""
    if not isinstance(predictions, jax.Array):
        raise ValueError(f"f must return a scalar, or at least two in a vector, got {_arrays.describe(predictions)}")
    if predictions.ndim > 2 or predictions.shape[1:] == (1,):
        hint = "; of a sweep take one seed, such as fits[0].seed(0).predict" if predictions.ndim == 2 else ""
        got = f"got shape {predictions.shape[1:]}{hint}"
        raise ValueError(f"f must return a scalar, or at least two in a vector, {got}")
    return _difference(predictions, jnp.expand_dims(target, tuple(range(1, predictions.ndim))))


# Predictions and targets may come in any types: half precision would not hold their squares.
_difference = partial(_arrays.promoted, least=np.float32)(lambda predictions, target: predictions - target)


@contextmanager
def _traceable(what: str):
    """Explain errors of functions that need the values of tracers, as functions of NumPy and PyTorch do."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ValueError) or "racer" not in f"{type(error).__name__} {error}":
            raise
        raise ValueError(
            f"{what} must be made of JAX's operations, got one that needs known values; with a predictor of NumPy or "
            "PyTorch, draw batch = task.sample(key, n) and average the squared errors of its predictions"
        ) from error


def check_reads_key(draw: Callable, key: PRNGKeyArray, task, where: str = "") -> None:
    """Refuse a task whose ``draw(key, task)`` gives the same batch for every key, as NumPy's draws do when compiled."""
    read = lambda key, task: [getattr(draw(key, task), name) for name in ("X", "y", "x_q", "target")]
    if not reads_key(read, key, task):
        got = f"a {type(task.task if isinstance(task, StaticTask) else task).__name__}{where}"
        raise ValueError(f"task must draw from the key in sample(key, n), got {got} with one batch for all keys")


def check_batch(batch: Batch, n: int, dim: int) -> None:
    """The shapes of what a task has drawn."""
    if missing := [name for name in ("X", "y", "x_q", "target") if not hasattr(batch, name)]:
        got = f"a {type(batch).__name__} without {', '.join(missing)}"
        raise ValueError(f"the task's sample must return a Batch, got {got}")
    _validate.shape("the X of the task's sample", batch.X, (n, "C", dim))
    for name, shape in {"y": batch.X.shape[:2], "x_q": (n, dim), "target": (n,)}.items():
        _validate.shape(f"the {name} of the task's sample", getattr(batch, name), shape)


@_promote_data
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
    _validate.context(X, y, x_q)
    return jnp.abs(_scalar("f", f, X, y, x_q) - _scalar("g", g, X, y, x_q))


@_promote_data
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


@_promote_data
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
    _validate.context(X, y, x_q)
    return jax.grad(lambda x_q: _scalar(name, f, X, y, x_q))(x_q)


def _scalar(name: str, f: Predictor, X, y, x_q) -> Scalar:
    """A prediction that would otherwise be broadcast."""
    prediction = _function(name, f)(X, y, x_q)
    if jnp.shape(prediction) != ():
        raise ValueError(f"{name} must return a scalar, got shape {jnp.shape(prediction)}")
    return prediction


def _function(name: str, f) -> Callable:
    if not callable(f):
        raise ValueError(f"{name} must be a function of (X, y, x_q), got {_arrays.describe(f)}")
    try:
        hash(f)
    except TypeError:
        return f.__call__  # a method, by which JAX can look up its program: a model of arrays has no hash
    return f
