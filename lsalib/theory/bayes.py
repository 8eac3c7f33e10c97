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
from scipy.special import gammainccinv, gammaincinv, logsumexp

from lsalib.tasks import GaussianTask
from lsalib.theory._shared import arrays, check_isotropic

# What is interpolated is analytic within about pi of the real axis, so the degree grows
# with the length of the interval; then the relative error is below 1e-9.
DEGREE, DEGREES_A_UNIT, NODES = 95, 3, 160


def bayes_risk(task: GaussianTask) -> float:
    r"""The minimum risk of any predictor, that of ``estimators.bayes``.

    .. math:: \begin{gathered}
       d\, \lambda \psi\; E \big[ \big( I + s X^\top X \big)^{-1} \big]_{11} \\
       = d\, \lambda \psi\; E\, \cfrac{1}{1 + \cfrac{s \chi^2_C}{1
       + \cfrac{s \chi^2_{d-1}}{1 + s \chi^2_{C-1} \cdots}}} , \\
       s = \frac{\lambda \psi}{\sigma^2}
       \end{gathered}

    for `\Lambda = \lambda I` and `\Psi = \psi I`: independent chi-squared numbers, of
    whose degrees of freedom the last is zero. Without label noise the risk is `\lambda
    \psi \max(d - C, 0)`: with C >= d examples the task is solved exactly, whatever its
    covariances.

    Args:
        task: the task distribution, its numbers known; its covariances are multiples of
            the identity, or it is noise-free with C >= d.

    Returns:
        The risk, with a relative error below 1e-9.

    Example:
        >>> bayes_risk(GaussianTask([1.0, 1.0, 1.0], context_size=2))
        1.0
        >>> bayes_risk(GaussianTask([1.0], context_size=2))
        0.0
        >>> task = GaussianTask([2.0] * 10, context_size=10, noise_std=0.5)
        >>> round(bayes_risk(task), 4)
        1.6281

    Source: the formula is worked out here.
    """
    [(_, _, L, P, _)] = arrays(task)
    C, d = task.context_size, task.dim
    if not task.noisy and C >= d:
        return 0.0
    check_isotropic(task, "sample estimators.bayes")
    scale = float(L[0, 0] * P[0, 0])
    if not task.noisy:
        return scale * (d - C)
    log_s = np.log(scale) - 2 * np.log(task.noise_std)
    rules = [
        _log_chi_squared(degrees, log_s)
        for k in range(min(C, d))
        for degrees in (C - k, d - 1 - k)
        if degrees > 0
    ]
    # Functions are of -log R' in [0, width]. The last R' is 1, and R is smallest for
    # the largest chi-squared number. For weak signals the width is tiny.
    most = max(nodes[-1] for nodes, _ in rules)
    width = np.logaddexp(0, log_s + most)
    degree = int(max(DEGREE, DEGREES_A_UNIT * width))
    log_mean = lambda z: -z
    for nodes, weights in rules:
        # R = 1 / (1 + s exp(t) R') for every R' and every logarithm t of a chi-squared
        # number. Logarithms keep the digits of small means.
        after = lambda z, f=log_mean, t=nodes, w=weights: logsumexp(
            f(np.logaddexp(0, log_s + t - z[:, None])), axis=1, b=w
        )
        log_mean = Chebyshev.interpolate(after, degree, [0, width])
    return scale * d * float(np.exp(log_mean(0.0)))


def _log_chi_squared(degrees: int, log_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights: at equal distances, which are exponentially accurate for a
    density that is analytic.

    For strong signals the mean is that of 1 / (s chi^2), to which rare small numbers
    add, down to 1/s for one degree of freedom or two.
    """
    inverse = lambda share: np.log(2 * gammaincinv(degrees / 2, share))
    low, high = inverse(1e-13), np.log(2 * gammainccinv(degrees / 2, 1e-13))
    spacing = (high - low) / NODES
    rare = inverse(1e-13 ** (degrees / (degrees - 2))) if degrees > 2 else -np.inf
    low = min(low, max(rare, -log_s - 50 / degrees))
    t = np.linspace(low, high, 1 + int((high - low) / spacing))
    weights = np.exp(degrees / 2 * (t - np.log(degrees)) - (np.exp(t) - degrees) / 2)
    return t, weights / weights.sum()
