"""A Gaussian task in the coordinates where it is simple.

Subtract the prior mean from the labels and whiten the features, ``x = U xi`` and ``r = y - w*.x``,
with U chosen so that ``eps = U^T (w - w*)`` has a diagonal covariance, ``diag(p)``. Then

    xi ~ N(0, I),    eps ~ N(0, diag(p)),    r = eps.xi + noise,

whatever the task was: only the spectrum p, the noise level and C are left of it.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lsalib.tasks import GaussianTask

__all__ = ["ConstantImitation", "imitate_constant"]


class ConstantImitation(NamedTuple):
    """The combination ``sum_h features[h] S_hh + residual q`` closest to 1, and its mean squared error.

    S is the Gram matrix of the standard features xi, q the mean of r squared; features has shape (d,).
    """

    features: Float[np.ndarray, " d"]
    residual: float
    error: float


def imitate_constant(task: GaussianTask) -> ConstantImitation:
    """The best imitation of the constant 1 by what is even in the context: squared lengths and squared labels.

    ``tr(S)/d`` has mean 1 and variance ``2/(C d)``. ``q - sum_h p_h S_hh`` is uncorrelated with
    S, has mean ``s^2`` and variance ``K = 2|p|^2 + 2((sum(p) + s^2)^2 + |p|^2)/C``: it sees the
    label noise s. Squared signal over variance adds up, ``C d/2 + s^4/K``, and the error is ``1/(1 + C d/2 + s^4/K)``.

    Args:
        task: the task distribution.

    Returns:
        A ``ConstantImitation``; its residual is 0 and its error ``2/(C d + 2)`` without label noise.

    Example:
        >>> round(imitate_constant(GaussianTask([2.0] * 10, context_size=10)).error, 4)
        0.0196
    """
    L, P = (np.eye(task.dim) if cov is None else cov for cov in (task.feature_cov, task.prior_cov))
    p, noise, C = np.linalg.eigvals(L @ P).real, task.noise_std**2, task.context_size
    K = 2 * p @ p + 2 * ((p.sum() + noise) ** 2 + p @ p) / C
    error = 1 / (1 + C * task.dim / 2 + noise**2 / K)
    return ConstantImitation(error * (C / 2 - noise * p / K), float(error * noise / K), float(error))
