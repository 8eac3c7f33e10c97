"""What the exact results share. Internal."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jaxtyping import Array, Float

from lsalib import _check
from lsalib._arrays import Vector
from lsalib.tasks import GaussianTask, check_task

F = TypeVar("F", bound=Callable)
Number = float | Float[np.ndarray | Array, ""]
Matrix = Float[np.ndarray | Array, "d d"]


def full_precision(function: F) -> F:
    """A decorator: matrix products in full precision.

    By default a GPU rounds their factors to three digits.
    """
    return jax.default_matmul_precision("highest")(function)


class TaskArrays(NamedTuple):
    """A task's w*, Lambda, Psi and sigma as arrays of ``xp``, which is NumPy or
    ``jax.numpy``.
    """

    xp: Any
    w: Any
    L: Any
    P: Any
    s: Any


class Units(NamedTuple):
    """Lambda, Psi and sigma^2 in units of ``lam``, ``psi`` and their product; and C."""

    xp: Any
    L: Any
    P: Any
    noise: Any
    lam: Any
    psi: Any
    C: int


def arrays(task: GaussianTask, *more) -> tuple:
    """The task's ``TaskArrays``, and all other arguments as arrays of the same type."""
    check_task(task)
    xp, w, L, P, s, *more = _check.namespace(
        task.prior_mean, task.feature_cov, task.prior_cov, task.noise_std, *more
    )
    one = xp.eye(task.dim, dtype=w.dtype)
    L, P = (one if cov is None else cov for cov in (L, P))
    return TaskArrays(xp, w, L, P, s), *more


def in_units(task: GaussianTask) -> Units:
    """The task's ``Units``: no product of its covariances underflows."""
    [(xp, _, L, P, s)] = arrays(task)
    lam, psi = xp.trace(L) / task.dim, xp.trace(P) / task.dim
    L, P, s = settled(xp, L / lam, P / psi, s / xp.sqrt(lam) / xp.sqrt(psi))
    return Units(xp, L, P, s**2, lam, psi, task.context_size)


def settled(xp, *arrays):
    """The arrays as they are: the compiler may move a unit out of a product of two, and
    the product of units can be too large for a float.
    """
    return arrays if xp is np else jax.lax.optimization_barrier(arrays)


def plain(xp, value):
    """A Python float if the value is known, else the tracer."""
    return float(value) if xp is np else value


def guess_vector(
    task: GaussianTask, guess: Vector, name: str = "guess"
) -> Float[np.ndarray | Array, " d"]:
    """A linear initial guess, or another start, as weights; zero for None."""
    check_task(task)
    if guess is None:
        return np.zeros(task.dim)
    return _check.vector(name, guess, task.dim)


def rank(xp, cov, source):
    """The number of a covariance's eigenvalues that are not zero up to rounding.

    The type of ``source``, the task's covariance, decides what counts as rounding: a
    tracer's own type, else that of its copy in float64, from which
    ``_check.covariance`` has removed it.
    """
    values = xp.linalg.eigvalsh(cov)
    least = _check.negligible(len(cov), (cov if source is None else source).dtype)
    return xp.sum(values > least * values[-1]).astype(cov.dtype)


def isotropic(*covs) -> bool:
    """Whether covariances are multiples of the identity; true for a tracer."""
    # Equal, not close: ``_check.covariance`` has removed what was rounding.
    return all(
        cov is None
        or _check.traced(cov)
        or np.array_equal(cov, cov[0, 0] * np.eye(len(cov)))
        for cov in covs
    )


def check_isotropic(task: GaussianTask, instead: str) -> None:
    """Refuse other covariances than multiples of the identity."""
    check_task(task)
    if not isotropic(task.feature_cov, task.prior_cov):
        raise ValueError(
            f"task must have covariances that are multiples of the identity; {instead}"
        )
