"""The risk of the best predictor, for identity covariances: a random continued
fraction.

Bayes' predictor has the risk ``E tr Lambda V`` with V the posterior covariance. For
covariances that are multiples of the identity this is a multiple of ``E[R]``, where ``R
= [(I + s X^T X)^-1]_11`` for X of C rows, d columns and standard normal entries, and s
is the signal-to-noise ratio. The inverse of a block matrix gives

    R = 1 / (1 + s x^T (I + s Y Y^T)^-1 x),   x the first column of X, Y the others.

Y has the distribution of Y rotated, so the quadratic form is |x|^2 times an entry of
the matrix, which is of the same form again: with Y^T for X. Hence ``R_{C,d} = 1 / (1 +
s chi^2_C R'_{d-1,C})``, ``R'_{0,C} = 1``, with independent chi-squared numbers of C,
d-1, C-1, d-2, ... degrees of freedom, down to zero.
"""

import numpy as np
from numpy.polynomial import Chebyshev
from scipy.special import gammainccinv, gammaincinv

from lsalib.tasks import GaussianTask, check_task
from lsalib.theory._shared import isotropic

# Errors are below 1e-10 of the risk without examples.
DEGREE, NODES = 95, 160


def bayes_risk(task: GaussianTask) -> float:
    r"""The minimum risk of any predictor, that of ``estimators.bayes``.

    .. math:: d\, \lambda \psi\; E \big[ \big( I + s X^\top X \big)^{-1} \big]_{11} =
       d\, \lambda \psi\;
       E\, \cfrac{1}{1 + \cfrac{s \chi^2_C}{1 + \cfrac{s \chi^2_{d-1}}{1 + s
       \chi^2_{C-1} \cdots}}}, \qquad s = \frac{\lambda \psi}{\sigma^2}

    for `\Lambda = \lambda I` and `\Psi = \psi I`: independent chi-squared numbers, of
    whose degrees of freedom the last is zero. Without label noise the risk is `\lambda
    \psi \max(d - C, 0)`: with C >= d examples the task is solved exactly, whatever its
    covariances.

    Args:
        task: the task distribution, its numbers known; its covariances are multiples of
            the identity, or it is noise-free with C >= d.

    Example:
        >>> bayes_risk(GaussianTask([1.0, 1.0, 1.0], context_size=2)), bayes_risk(GaussianTask([1.0], context_size=2))
        (1.0, 0.0)
        >>> round(bayes_risk(GaussianTask([2.0] * 10, context_size=10, noise_std=0.5)), 4)
        1.6281

    Source: the formula is worked out here.
    """
    check_task(task)
    C, d = task.context_size, task.dim
    if not task.noisy and C >= d:
        return 0.0
    if not (isotropic(task.feature_cov) and isotropic(task.prior_cov)):
        raise ValueError(
            "task must have covariances that are multiples of the identity; sample estimators.bayes"
        )
    scale = float(
        np.prod(
            [
                1.0 if cov is None else np.trace(cov) / d
                for cov in (task.feature_cov, task.prior_cov)
            ]
        )
    )
    if not task.noisy:
        return scale * (d - C)
    log_s = np.log(scale) - 2 * np.log(task.noise_std)
    rules = [
        _log_chi_squared(degrees)
        for k in range(min(C, d))
        for degrees in (C - k, d - 1 - k)
        if degrees > 0
    ]
    # All functions are of u = log(s R'). The last R' is 1, and R is smallest for the
    # largest chi-squared number.
    most = max(nodes[-1] for nodes, _ in rules)
    ends = [-most - np.log1p(np.exp(-log_s - most)), log_s]
    mean = lambda u: np.exp(u - log_s)
    for nodes, weights in rules:
        # R = 1 / (1 + exp(u + t)) for every u and every logarithm t of a chi-squared
        # number.
        after = lambda u, f=mean, t=nodes, w=weights: (
            f(log_s - np.logaddexp(0, u[:, None] + t)) @ w
        )
        mean = Chebyshev.interpolate(after, DEGREE, ends)
    return scale * d * float(mean(log_s))


def _log_chi_squared(degrees: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights: at equal distances, which are exponentially accurate for a
    density that is analytic.
    """
    low, high = (
        np.log(2 * inverse(degrees / 2, 1e-13))
        for inverse in (gammaincinv, gammainccinv)
    )
    t = np.linspace(low, high, NODES)
    weights = np.exp(degrees / 2 * (t - np.log(degrees)) - (np.exp(t) - degrees) / 2)
    return t, weights / weights.sum()
