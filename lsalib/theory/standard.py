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

__all__ = ["ConstantImitation", "StandardTask", "imitate_constant", "standardize"]


class StandardTask(NamedTuple):
    """What is left of a task: ``U U^T = feature_cov``, and p holds the eigenvalues of ``prior_cov feature_cov``."""

    prior_mean: Float[np.ndarray, " d"]
    basis: Float[np.ndarray, "d d"] | None  # U; None means the identity
    spectrum: Float[np.ndarray, " d"]  # p
    noise_var: float
    context_size: int


class ConstantImitation(NamedTuple):
    """The combination ``sum_h features[h] S_hh + residual q`` closest to 1, and its mean squared error.

    S is the Gram matrix of the standard features xi, q the mean of r squared; features has shape (d,).
    """

    features: Float[np.ndarray, " d"]
    residual: float
    error: float


def standardize(task: GaussianTask) -> StandardTask:
    """The change of basis of the features, and all that it leaves of the covariances.

    ``U = L R`` with ``feature_cov = L L^T`` and the eigenvectors R of ``L^T prior_cov L``.

    Args:
        task: the task distribution.

    Returns:
        A ``StandardTask``, in float64.

    Example:
        >>> standardize(GaussianTask([0.0, 0.0], context_size=3, feature_cov=[[4.0, 0.0], [0.0, 1.0]])).spectrum.tolist()
        [1.0, 4.0]
    """
    identity, spectrum, basis = np.eye(task.dim), np.ones(task.dim), None
    if task.feature_cov is not None or task.prior_cov is not None:
        L = identity if task.feature_cov is None else np.linalg.cholesky(task.feature_cov)
        spectrum, R = np.linalg.eigh(L.T @ (identity if task.prior_cov is None else task.prior_cov) @ L)
        basis = L @ R
    return StandardTask(task.prior_mean, basis, spectrum, task.noise_std**2, task.context_size)


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
    _, _, p, noise, C = standardize(task)
    K = 2 * p @ p + 2 * ((p.sum() + noise) ** 2 + p @ p) / C
    error = 1 / (1 + C * task.dim / 2 + noise**2 / K)
    return ConstantImitation(error * (C / 2 - noise * p / K), float(error * noise / K), float(error))
