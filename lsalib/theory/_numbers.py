"""What the exact results share: a task's numbers as arrays of one type, and products in full precision. Internal."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import TypeVar, cast

import jax
import numpy as np
from jaxtyping import Array, Float

from lsalib import _arrays, _validate
from lsalib.tasks import GaussianTask, check_task

__all__ = ["Number", "inverse", "isotropic", "numbers", "of_task", "precise", "rank"]

F = TypeVar("F", bound=Callable)

Number = float | Float[np.ndarray | Array, ""]


def numbers(task: GaussianTask, *more):
    """The module that computes, w*, Lambda, Psi and s, and whatever else is given, as its arrays of one type."""
    fields = task.prior_mean, task.feature_cov, task.prior_cov, task.noise_std
    xp, (w, L, P, s, *more) = _arrays.like(*fields, *more)
    identity = xp.eye(task.dim, dtype=w.dtype)
    return xp, w, identity if L is None else L, identity if P is None else P, s, *more


def inverse(xp, cov):
    """The pseudo-inverse of a covariance."""
    return xp.linalg.pinv(cov, _validate.negligible(cov), hermitian=True)


def rank(xp, cov):
    """How many eigenvalues a covariance has that are not zero up to rounding; no gradient goes through it."""
    values = xp.linalg.eigvalsh(cov if xp is np else jax.lax.stop_gradient(cov))
    return xp.sum(values > _validate.negligible(cov) * values[-1]).astype(cov.dtype)


def isotropic(cov, scale: float | None = None) -> bool:
    """Whether a covariance is this multiple of the identity, or any, up to rounding; a tracer is taken for one."""
    if cov is None or _arrays.traced(cov):
        return True
    known = np.asarray(cov)
    multiple = known[0, 0] if scale is None else scale
    return bool(np.abs(known - multiple * np.eye(len(known))).max() <= _validate.negligible(known) * multiple)


def of_task(function: F) -> F:
    """Refuse what is no task where the argument ``task`` is expected."""
    place = list(signature(function).parameters).index("task")

    @wraps(function)
    def with_task(*args, **options):
        # A missing argument is for the function itself to refuse.
        if place < len(args) or "task" in options:
            check_task(args[place] if place < len(args) else options["task"])
        return function(*args, **options)

    return cast(F, with_task)


def precise(function: F) -> F:
    """Compute products of full factors, which a GPU may shorten by default: an exact result needs them."""

    @wraps(function)
    def with_full_products(*args, **options):
        with jax.default_matmul_precision("highest"):
            return function(*args, **options)

    return cast(F, with_full_products)
