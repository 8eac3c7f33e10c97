"""Risks in closed form: of one-step GD, and the smallest risk of each model.

Throughout, ``S = X^T X / C`` has mean Lambda, and Isserlis' theorem gives
``E[S B S] = Lambda B Lambda (1 + 1/C) + tr(B Lambda) Lambda / C`` for symmetric B.
Risks are against the noise-free target ``w.x_q``. Q is the covariance of the query, Lambda unless the task has a
``query_cov``. An error ``v.x_q`` has the risk ``tr Q E[v v^T]``. Least squares for all entries of v at once makes
``E[v v^T]`` as small as possible in every direction, so the best weights are the same for every Q.
"""

import numpy as np
from jaxtyping import Array, Float

from lsalib import _validate
from lsalib._arrays import float_if_known
from lsalib.tasks import GaussianTask
from lsalib.theory._task_arrays import (
    Number,
    checks_task,
    full_precision,
    guess_vector,
    pseudo_inverse,
    query_cov,
    task_arrays,
)
from lsalib.theory.constant import constant_regression

__all__ = ["gd_risk", "optimal_preconditioner", "optimal_risk", "optimal_step", "yq_risk"]


@checks_task
@full_precision
def gd_risk(task: GaussianTask, step_size: Number | None = None) -> Number:
    r"""Risk of one gradient step from the prior mean.

    .. math:: \mathrm{tr}\, Q \Psi - 2 \eta\, a + \eta^2 b, \qquad a = \mathrm{tr}\, Q \Lambda \Psi, \quad
       b = \tfrac{C+1}{C}\, \mathrm{tr}\, Q \Lambda \Psi \Lambda
       + \tfrac 1C (\mathrm{tr}\, \Lambda \Psi + \sigma^2)\, \mathrm{tr}\, Q \Lambda

    Q is the covariance of the query, `\Lambda` unless the task has a ``query_cov``. For identity covariances and no
    noise that is `d (1 - 2 \eta + \eta^2 (C+d+1)/C)`.

    Args:
        task: the task distribution.
        step_size: `\eta`; None means the best, ``optimal_step(task)``.

    Returns:
        The risk, in units of y squared.

    Raises:
        ValueError: if ``step_size`` is not a finite number.

    Example:
        >>> task = GaussianTask([2.0] * 10, context_size=10)
        >>> round(gd_risk(task), 4), gd_risk(task, step_size=0.0)
        (5.2381, 10.0)

    Source: new here; ``exact-gd-risk`` in the ledger.
    """
    eta = optimal_step(task) if step_size is None else _validate.number("step_size", step_size)
    xp, _, L, P, s, C, Q, eta = task_arrays(task, task.context_size, query_cov(task), eta)
    linear, quadratic = _gd_coefficients(xp, L, P, s, C, Q)
    return float_if_known(xp, xp.trace(Q @ P) - 2 * eta * linear + eta**2 * quadratic)


@checks_task
@full_precision
def optimal_step(task: GaussianTask) -> Number:
    r"""The step size with the minimum risk.

    .. math:: \eta_\star = a / b

    a and b are those of ``gd_risk``. For identity covariances and no noise that is `C/(C+d+1)`.

    Args:
        task: the task distribution.

    Returns:
        The step size.

    Example:
        >>> round(optimal_step(GaussianTask([2.0] * 10, context_size=10)), 4)
        0.4762

    Source: new here; ``exact-gd-risk`` in the ledger.
    """
    xp, _, L, P, s, C, Q = task_arrays(task, task.context_size, query_cov(task))
    linear, quadratic = _gd_coefficients(xp, L, P, s, C, Q)
    # If no label ever deviates from the prior mean where the query is, every step size has the same risk.
    return float_if_known(xp, linear / xp.where(quadratic == 0, xp.ones_like(quadratic), quadratic))


@checks_task
@full_precision
def optimal_preconditioner(task: GaussianTask) -> Float[np.ndarray | Array, "d d"]:
    r"""The best N of ``preconditioned_gd`` from the prior mean.

    .. math:: N = \Psi \Lambda \Big[ \tfrac{C+1}{C}\, \Lambda \Psi \Lambda
       + \tfrac 1C (\mathrm{tr}\, \Lambda \Psi + \sigma^2)\, \Lambda \Big]^{+}

    For identity covariances that is a multiple of the identity, `\eta_\star I`. The pseudo-inverse is the inverse
    unless `\Lambda` is singular, or labels have neither noise nor a spread of tasks. N is the best for a query of any
    covariance.

    Args:
        task: the task distribution.

    Returns:
        N, shape (d, d).

    Example:
        >>> N = optimal_preconditioner(GaussianTask([0.0, 0.0], context_size=3))
        >>> N.round(4).tolist()
        [[0.5, 0.0], [0.0, 0.5]]

    Source: new here; ``preconditioned-optimum`` in the ledger.
    """
    xp, _, L, P, s, C = task_arrays(task, task.context_size)
    return (pseudo_inverse(xp, _second_moment(xp, L, P, s, C)) @ L @ P).T


@checks_task
@full_precision
def yq_risk(task: GaussianTask) -> Number:
    r"""The minimum risk of yq-LSA, for any number of heads: that of the best preconditioned step.

    .. math:: \mathrm{tr}\, Q (\Psi - N \Lambda \Psi)

    N is that of ``optimal_preconditioner``, Q the covariance of the query, `\Lambda` unless the task has a
    ``query_cov``. For identity covariances and no noise this is `d (d+1)/(C+d+1)`.

    Args:
        task: the task distribution.

    Returns:
        The risk.

    Example:
        >>> round(yq_risk(GaussianTask([2.0] * 10, context_size=10)), 4)
        5.2381

    Source: new here; ``conjecture-global-optimum`` in the ledger.
    """
    xp, _, L, P, _, N, Q = task_arrays(task, optimal_preconditioner(task), query_cov(task))
    return float_if_known(xp, xp.trace(Q @ (P - N @ L @ P)))


@checks_task
@full_precision
def optimal_risk(task: GaussianTask, guess=None, bias: Number = 0.0, *, noise_cumulant: Number = 0.0) -> Number:
    r"""The minimum risk of multi-head LSA with enough heads and a *fixed* initial guess `y_q = g^\top x_q + \beta`.

    .. math:: \mathcal R_\mathrm{yq} + \frac{u^\top Q u + \beta^2}{1 + Ck/2 + \sigma^4/V},
       \qquad u = w_\star - g

    `\mathcal R_\mathrm{yq}` and Q are those of ``yq_risk``, `k` is the rank of `\Lambda`, and `V` is that of
    ``constant_regression``. The guess is off by `u^\top x_q - \beta`, and a correction of it would need a constant,
    which attention does not have. Without label noise the factor is `2/(Ck+2)`. For a guess that is not linear in the
    query, the same factor multiplies its mean squared distance from `w_\star^\top x_q`.

    Args:
        task: the task distribution; features and task weights are Gaussian, their covariances singular or not, as in
            ``constant_regression``. Without label noise d heads are enough, otherwise d+1.
        guess: `g`, the weights of the initial guess, (d,); None means zero.
        bias: `\beta`, its constant part.
        noise_cumulant: `\kappa_4`, the fourth cumulant of label noise that is not Gaussian (``constant_regression``).

    Returns:
        The risk; the weights of ``optimal_weights`` attain it.

    Raises:
        ValueError: if ``guess`` does not have shape (d,), ``bias`` is not finite or no noise of the task's strength
            has this cumulant.

    Example:
        >>> task = GaussianTask([2.0] * 10, context_size=10)
        >>> round(optimal_risk(task), 4), round(optimal_risk(task, guess=[2.0] * 10), 4)
        (6.0224, 5.2381)

    Source: new here; ``exact-multihead-risk`` and ``price-general`` in the ledger.
    """
    guess = guess_vector(task, guess)
    error = constant_regression(task, noise_cumulant=noise_cumulant).error
    given = query_cov(task), guess, _validate.number("bias", bias), yq_risk(task), error
    xp, w, _, _, _, Q, guess, bias, attainable, error = task_arrays(task, *given)
    return float_if_known(xp, attainable + ((w - guess) @ Q @ (w - guess) + bias**2) * error)


def _second_moment(xp, L, P, s, C):
    """E[r r^T] of the gradient step ``r = X^T (y - X w*) / C``."""
    return L @ P @ L * (1 + 1 / C) + (xp.trace(P @ L) + s**2) * L / C


def _gd_coefficients(xp, L, P, s, C, Q):
    """The a and b of ``risk(eta) = risk(0) - 2 a eta + b eta^2``."""
    return xp.trace(Q @ L @ P), xp.trace(Q @ _second_moment(xp, L, P, s, C))
