"""The risk of the best predictor, for identity covariances with label noise: a random continued fraction.

Bayes' predictor has the risk ``E tr Lambda V`` with V the posterior covariance. For covariances that are multiples of
the identity this is a multiple of ``E[R]``, where ``R = [(I + s X^T X)^-1]_11`` for X of C rows, d columns and standard
normal entries, and s is the signal-to-noise ratio. The inverse of a block matrix gives

    R = 1 / (1 + s x^T (I + s Y Y^T)^-1 x),   x the first column of X, Y the others.

The law of Y is that of Y rotated, so the quadratic form is |x|^2 times an entry of the matrix, which is of the same
form again: with Y^T for X. Hence

    R_{C,d} = 1 / (1 + s chi^2_C R'_{d-1,C}),   R'_{0,C} = 1,

with independent chi-squared numbers of C, d-1, C-1, d-2, ... degrees of freedom, down to zero.
"""

import numpy as np

from lsalib import _arrays
from lsalib._arrays import float_if_known
from lsalib.tasks import GaussianTask
from lsalib.theory._task_arrays import (
    Number,
    checks_task,
    full_precision,
    isotropic,
    query_cov,
    rank,
    repeat,
    task_arrays,
)

__all__ = ["bayes_risk"]

# Points of the variable, and of each chi-squared number: errors are below 1e-10 of the risk without examples.
_POINTS, _NODES = 96, 160


@checks_task
@full_precision
def bayes_risk(task: GaussianTask) -> Number:
    r"""The minimum risk of any predictor, that of ``estimators.bayes``.

    .. math:: \psi\, \mathrm{tr}\, Q\; E \big[ \big( I + s X^\top X \big)^{-1} \big]_{11}
       = \psi\, \mathrm{tr}\, Q\;
       E\, \cfrac{1}{1 + \cfrac{s \chi^2_C}{1 + \cfrac{s \chi^2_{d-1}}{1 + s \chi^2_{C-1} \cdots}}},
       \qquad s = \frac{\lambda \psi}{\sigma^2}

    for `\Lambda = \lambda I`, `\Psi = \psi I` and a query of any covariance Q: independent chi-squared numbers, of
    whose degrees of freedom the last is zero. Each is integrated by a rule that converges exponentially. Without label
    noise the risk is `\psi \max(1 - C/d, 0)\, \mathrm{tr}\, Q`: with C >= d examples the task is solved exactly,
    whatever its covariances, unless the query can leave the span of the features.

    Args:
        task: the task distribution, its ``feature_cov`` and ``prior_cov`` multiples of the identity unless the task is
            noise-free with C >= d. This is not checked for covariances that JAX traces, nor that a traced noise is not
            zero.

    Returns:
        The risk.

    Raises:
        ValueError: for other covariances, among them a singular ``feature_cov`` with a ``query_cov``; average the error
            of ``estimators.bayes`` instead. If JAX traces the context size.

    Example:
        >>> bayes_risk(GaussianTask([1.0, 1.0, 1.0], context_size=2)), bayes_risk(GaussianTask([1.0], context_size=2))
        (1.0, 0.0)
        >>> round(bayes_risk(GaussianTask([2.0] * 10, context_size=10, noise_std=0.5)), 4)
        1.6281

    Source: new here.
    """
    C, d = task.context_size, task.dim
    if not isinstance(C, int):
        raise ValueError(
            "task must have a known context_size for bayes_risk, whose fraction has as many terms as C says, got one "
            "that JAX traces"
        )
    if not task.noisy and C >= d:
        known = task.query_cov is not None and task.feature_cov is not None and not _arrays.traced(task.feature_cov)
        if known and rank(np, task.feature_cov) < d:
            raise ValueError("task must have a positive definite feature_cov where it has a query_cov")
        return 0.0
    if not (isotropic(task.feature_cov) and isotropic(task.prior_cov)):
        raise ValueError("task must have covariances that are multiples of the identity; sample estimators.bayes")
    given = query_cov(task), *_rules(_degrees(C, d)), _chebyshev(_POINTS)
    xp, _, L, P, s, Q, nodes, weights, points = task_arrays(task, *given)
    signal, scale = (xp.trace(cov) * xp.trace(P) / d**2 for cov in (L, Q))
    if not task.noisy:
        return float_if_known(xp, scale * (d - C))
    return float_if_known(xp, scale * d * _mean(xp, xp.log(signal / s**2), nodes, weights, points))


def _degrees(C: int, d: int) -> list[int]:
    """Of the chi-squared numbers, from the outermost."""
    degrees = [C]
    C, d = d - 1, C
    while C > 0:
        degrees.append(C)
        C, d = d - 1, C
    return degrees


def _rules(degrees: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for the logarithm of chi-squared numbers, (K, N) each: equal distances, cut at e^-30.

    The density of t is proportional to exp(k t / 2 - e^t / 2). It is analytic, so that the error of equal distances
    is exponentially small.
    """
    half = np.array(degrees)[:, None] / 2
    # With the mode at x = 0, the density falls as exp(-half (e^x - 1 - x)).
    ends = []
    for sign in (-1, 1):
        low, high = np.zeros_like(half), np.full_like(half, 200.0)
        for _ in range(60):
            x = (low + high) / 2
            near = half * (np.expm1(np.minimum(sign * x, 50)) - sign * x) < 30
            low, high = np.where(near, x, low), np.where(near, high, x)
        ends.append(sign * high)
    x = ends[0] + (ends[1] - ends[0]) * np.linspace(0, 1, _NODES)
    weights = np.exp(-half * (np.expm1(x) - x))
    return x + np.log(2 * half), weights / weights.sum(1, keepdims=True)


def _chebyshev(count: int) -> np.ndarray:
    return np.cos(np.pi * np.arange(count) / (count - 1))


def _mean(xp, log_s, nodes, weights, points):
    """E[R], by functions of the logarithm of s R': each is the mean of the last one over a chi-squared number.

    A function is known at Chebyshev points between the least number that can come, and s itself.
    """
    least = -xp.max(nodes) - xp.log1p(xp.exp(-log_s - xp.max(nodes)))  # log(s R) for R = 1 / (1 + s chi^2)
    grid = least + (log_s - least) * (points + 1) / 2
    signs = xp.asarray(
        np.where(np.arange(_POINTS) % 2, -1.0, 1.0) * np.where(np.arange(_POINTS) % (_POINTS - 1), 1, 0.5)
    )
    signs = signs.astype(grid.dtype)

    def after(values, rule):
        t, weight = rule
        # R = 1 / (1 + exp(grid + t)) comes next, and the function is interpolated at log(s R).
        at = log_s - xp.logaddexp(xp.zeros_like(grid)[:, None], grid[:, None] + t[None])
        away = at[..., None] - grid[None, None]
        hit = away == 0
        pull = signs[None, None] / xp.where(hit, xp.ones_like(away), away)
        pull = xp.where(xp.any(hit, -1)[..., None], hit.astype(grid.dtype), pull)
        return (pull @ values / xp.sum(pull, -1)) @ weight

    return repeat(xp, after, xp.exp(grid - log_s), (nodes, weights))[0]
