"""The risk of a predictor on fresh tasks, and how close two predictors are (appendix
C.2).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from lsalib import _check
from lsalib._arrays import Features, Labels, Scalar, Vector
from lsalib.tasks import Task, checked_sample

__all__ = ["Comparison", "Estimate", "compare", "sampled_risk"]


class Estimate(NamedTuple):
    """A sample mean and its standard error; arrays of them, (k,), where a predictor
    makes k predictions.
    """

    mean: float | np.ndarray
    standard_error: float | np.ndarray


def sampled_risk(
    key: PRNGKeyArray,
    task: Task,
    predict: Callable,
    *,
    batches: int = 32,
    batch_size: int = 2**15,
) -> Estimate:
    r"""Monte Carlo estimate of the ICL risk (eq. 4) on fresh tasks.

    .. math:: E \big[ (f(X, y, x_q) - \mathrm{target})^2 \big]

    To compare predictors on the same tasks, write one function that returns a list of
    their predictions. It is compiled in every call, so the estimate is always that of
    the present predictor and task. On a machine with few cores, several factorizations
    of matrices (``jnp.linalg``) in one ``predict`` can block each other: measure such
    predictors in separate calls with the same key. The functions of ``estimators``
    contain no factorization.

    Args:
        key: a key of ``jax.random``.
        task: a ``GaussianTask``, or any ``tasks.Task``.
        predict: a function of (X, y, x_q) for one example, made of JAX's operations,
            that returns a number or k of them, as an array or a list.
        batches, batch_size: their product is the number of tasks; only one batch is in
            memory.

    Returns:
        An ``Estimate`` whose standard error is that of the mean over all tasks, NaN for
        a single task.

    Example:
        >>> from lsalib.tasks import GaussianTask
        >>> task = GaussianTask([1.0, 1.0], context_size=2)
        >>> predict = lambda X, y, x_q: x_q.sum()
        >>> key = jax.random.key(0)
        >>> risk = sampled_risk(key, task, predict, batches=2, batch_size=5000)
        >>> abs(risk.mean - 2.0) < 5 * risk.standard_error
        True
    """
    batches = _check.count("batches", batches)
    n = _check.count("batch_size", batch_size)
    if not callable(predict):
        raise ValueError(
            "predict must be a function of (X, y, x_q), such as fit.predict, "
            f"got {type(predict)}"
        )
    one = lambda X, y, x_q: _check.array("what predict returns", predict(X, y, x_q))

    @jax.jit
    def moments(X, y, x_q, target):
        predictions, target = _check.floats(
            predictions=jax.vmap(one)(X, y, x_q), target=target
        )
        if predictions.ndim not in (1, 2):
            raise ValueError(
                "predict must return a scalar or a vector, "
                f"got shape {predictions.shape[1:]}"
            )
        target = target if predictions.ndim == 1 else target[:, None]
        squares = (predictions - target) ** 2
        mean = squares.mean(axis=0)
        return mean, ((squares - mean[None]) ** 2).mean(axis=0)

    results = [
        jax.device_get(moments(*checked_sample(task, key, n)))
        for key in jax.random.split(_check.key(key), batches)
    ]
    means, spreads = np.array(results, np.float64).swapaxes(0, 1)
    # Deviations from each batch's own mean, and of these from the whole mean: no large
    # numbers are subtracted.
    mean = means.mean(axis=0)
    variance = spreads.mean(axis=0) + ((means - mean) ** 2).mean(axis=0)
    count = batches * n
    error = np.sqrt(variance / (count - 1 or math.nan))
    return Estimate(mean, error) if mean.ndim else Estimate(float(mean), float(error))


class Comparison(NamedTuple):
    """How far two predictors are apart: the difference of their predictions, in units
    of y, that of their gradients by the query, and the cosine between these gradients.
    """

    prediction: Scalar
    gradient: Scalar
    cosine: Scalar


def compare(
    f: Callable, g: Callable, X: Features, y: Labels, x_q: Vector
) -> Comparison:
    r"""The three metrics of appendix C.2 for one example.

    .. math:: | f - g |, \qquad \| \nabla_{x_q} f - \nabla_{x_q} g \|, \qquad \cos
       \angle \big( \nabla_{x_q} f, \nabla_{x_q} g \big)

    Args:
        f, g: functions of (X, y, x_q) that return a scalar.
        X, y, x_q: one context and query, (C, d), (C,), (d,).

    Returns:
        A ``Comparison``; its cosine is NaN where a gradient is zero.

    Example:
        >>> f, g = (lambda X, y, x_q: 3 * x_q[0]), (lambda X, y, x_q: x_q @ y)
        >>> found = compare(f, g, jnp.eye(2), [3.0, 4.0], [1.0, 2.0])
        >>> [round(float(number), 4) for number in found]
        [8.0, 4.0, 0.6]
    """
    X, y, x_q = _check.floats(X=X, y=y, x_q=x_q)
    _check.context(X, y, x_q)

    def of(name: str, predict: Callable):
        # A vector would be broadcast.
        return jax.value_and_grad(
            lambda x_q: _check.shape(f"what {name} returns", predict(X, y, x_q), ())
        )(x_q)

    (f_q, a), (g_q, b) = of("f", f), of("g", g)
    norm = jnp.linalg.norm
    return Comparison(jnp.abs(f_q - g_q), norm(a - b), a @ b / (norm(a) * norm(b)))
