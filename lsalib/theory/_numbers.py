"""What the exact results share: a task's numbers as arrays of one type, and products in full precision. Internal."""

from functools import wraps

import jax
import numpy as np
from jaxtyping import Array, Float

from lsalib import _arrays, _validate
from lsalib.tasks import GaussianTask

__all__ = ["Number", "inverse", "isotropic", "numbers", "precise", "rank"]

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
    """Whether a covariance is this multiple of the identity, or any, as far as can be seen: a tracer's is not known."""
    if cov is None or _arrays.traced(cov):
        return True
    return np.array_equal(cov, (cov[0, 0] if scale is None else scale) * np.eye(len(cov)))


def precise(function):
    """On a GPU the default may shorten the factors of a product, which would not do for an exact result."""

    @wraps(function)
    def with_full_products(*args, **options):
        with jax.default_matmul_precision("highest"):
            return function(*args, **options)

    return with_full_products
