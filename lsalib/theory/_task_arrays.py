"""What the exact results share: a task's numbers as arrays of one type, and functions of them. Internal."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from inspect import signature
from typing import TypeVar, cast

import jax
import numpy as np
from jaxtyping import Array, Float

from lsalib import _arrays, _validate
from lsalib.mixtures import MixtureTask
from lsalib.tasks import GaussianTask, check_task

__all__ = [
    "Number",
    "check_query",
    "checks_task",
    "full_precision",
    "guess_vector",
    "isotropic",
    "pseudo_inverse",
    "query_cov",
    "rank",
    "repeat",
    "scaled_inverse",
    "task_arrays",
]

F = TypeVar("F", bound=Callable)

Number = float | Float[np.ndarray | Array, ""]


def task_arrays(task: GaussianTask, *more):
    """NumPy or ``jax.numpy``; w*, Lambda, Psi and s as its arrays of one type; then all other arguments as the same."""
    fields = task.prior_mean, task.feature_cov, task.prior_cov, task.noise_std
    xp, (w, L, P, s, *more) = _arrays.numpy_or_jax(*fields, *more)
    identity = xp.eye(task.dim, dtype=w.dtype)
    return xp, w, identity if L is None else L, identity if P is None else P, s, *more


def query_cov(task: GaussianTask) -> Float[np.ndarray | Array, "d d"]:
    """Q, the covariance of the query: that of the examples unless the task says otherwise."""
    cov = task.feature_cov if task.query_cov is None else task.query_cov
    return np.eye(task.dim) if cov is None else cast(np.ndarray, cov)


def check_query(task: GaussianTask, what: str, multiple: bool = False) -> None:
    """Refuse a query with another covariance than the examples, or than a multiple of theirs, up to rounding."""
    if task.query_cov is None:
        return
    expected = "a multiple of its feature_cov" if multiple else "its feature_cov, or None,"
    if _arrays.traced((task.query_cov, task.feature_cov)):
        raise ValueError(f"task must have a query_cov that is {expected} for {what}, got one that JAX traces")
    Q, L = query_cov(task), query_cov(replace(task, query_cov=None))
    L = L * (np.trace(Q) / np.trace(L)) if multiple else L
    if np.abs(Q - L).max() > _validate.negligible(Q) * np.abs(L).max():
        raise ValueError(f"task must have a query_cov that is {expected} for {what}, got another one")


def guess_vector(task: GaussianTask | MixtureTask, guess) -> Float[np.ndarray | Array, " d"]:
    """The weights of a linear initial guess, zero if none are given."""
    return np.zeros(task.dim) if guess is None else _validate.vector("guess", guess, task.dim)


def pseudo_inverse(xp, cov):
    """The pseudo-inverse of a covariance."""
    return xp.linalg.pinv(cov, _validate.negligible(cov), hermitian=True)


def scaled_inverse(xp, cov):
    """A generalized inverse of a covariance whose rank does not depend on the units of its variables."""
    squares = xp.diagonal(cov)[:, None]
    units = xp.sqrt(xp.where(squares > 0, squares, xp.ones_like(squares)))
    return pseudo_inverse(xp, cov / units / units.T) / units / units.T


def rank(xp, cov):
    """The number of eigenvalues of a covariance that are not zero up to rounding; it has no gradient."""
    values = xp.linalg.eigvalsh(cov if xp is np else jax.lax.stop_gradient(cov))
    return xp.sum(values > _validate.negligible(cov) * values[-1]).astype(cov.dtype)


def isotropic(cov, scale: float | None = None) -> bool:
    """Whether a covariance is a multiple of the identity, the given one if any, up to rounding; true for a tracer."""
    if cov is None or _arrays.traced(cov):
        return True
    known = np.asarray(cov)
    multiple = np.trace(known) / len(known) if scale is None else scale
    return bool(np.abs(known - multiple * np.eye(len(known))).max() <= _validate.negligible(known) * multiple)


def repeat(xp, step: Callable, state, each):
    """``state = step(state, x)`` for each x: a loop for known values, one compiled step for tracers."""
    if xp is np:
        for x in zip(*each, strict=True) if isinstance(each, tuple) else each:
            state = step(state, x)
        return state
    return jax.lax.scan(lambda state, x: (step(state, x), None), state, each)[0]


def checks_task(function: F) -> F:
    """A decorator: the argument ``task`` must be a GaussianTask."""
    place = list(signature(function).parameters).index("task")

    @wraps(function)
    def with_task(*args, **options):
        # A missing argument is for the function itself to refuse.
        if place < len(args) or "task" in options:
            check_task(args[place] if place < len(args) else options["task"])
        return function(*args, **options)

    return cast(F, with_task)


def full_precision(function: F) -> F:
    """A decorator: compute matrix products in full precision. By default a GPU may round their factors."""

    @wraps(function)
    def with_full_products(*args, **options):
        with jax.default_matmul_precision("highest"):
            return function(*args, **options)

    return cast(F, with_full_products)
