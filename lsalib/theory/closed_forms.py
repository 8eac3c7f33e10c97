"""Risks in closed form, in float64, for one-step GD and for the best that each model can do.

Throughout, ``S = X^T X / C`` has mean Lambda, and Isserlis' theorem gives
``E[S B S] = Lambda B Lambda (1 + 1/C) + tr(B Lambda) Lambda / C`` for symmetric B.
Risks are against the noise-free target ``w.x_q``.
"""

import numpy as np

from lsalib import _validate
from lsalib.tasks import GaussianTask
from lsalib.theory.standard import imitate_constant

__all__ = ["bayes_risk", "gd_risk", "optimal_preconditioner", "optimal_risk", "optimal_step", "yq_risk"]


def gd_risk(task: GaussianTask, step_size: float | None = None) -> float:
    """Risk of one gradient step from the prior mean (ledger: exact-gd-risk).

    ``d (1 - 2 eta + eta^2 (C+d+1)/C)`` for identity covariances and no noise; in general
    ``tr(L P) - 2 eta tr(L L P) + eta^2 [tr(L L P L)(1 + 1/C) + (tr(P L) + s^2) tr(L L)/C]``
    with L = feature_cov, P = prior_cov, s = noise_std.

    Args:
        task: the task distribution.
        step_size: eta; None means the best, ``optimal_step(task)``.

    Returns:
        The risk, a float, in units of y squared.

    Raises:
        ValueError: if ``step_size`` is not a finite number.

    Example:
        >>> task = GaussianTask([2.0] * 10, context_size=10)
        >>> round(gd_risk(task), 4), gd_risk(task, step_size=0.0)
        (5.2381, 10.0)
    """
    eta = optimal_step(task) if step_size is None else _validate.number("step_size", step_size)
    linear, quadratic = _gd_coefficients(task)
    L, P = _covariances(task)
    return float(np.trace(L @ P) - 2 * eta * linear + eta**2 * quadratic)


def optimal_step(task: GaussianTask) -> float:
    """The step size with the least risk, ``C/(C+d+1)`` for identity covariances and no noise (ledger: exact-gd-risk).

    Args:
        task: the task distribution.

    Returns:
        eta*, a float.

    Example:
        >>> round(optimal_step(GaussianTask([2.0] * 10, context_size=10)), 4)
        0.4762
    """
    linear, quadratic = _gd_coefficients(task)
    return float(linear / quadratic)


def optimal_preconditioner(task: GaussianTask) -> np.ndarray:
    """The best N of ``preconditioned_gd`` from the prior mean (ledger: preconditioned-optimum).

    ``N = P L [L P L (1 + 1/C) + (tr(P L) + s^2) L / C]^{-1}``; a multiple of the identity,
    ``eta* I``, for identity covariances.

    Args:
        task: the task distribution.

    Returns:
        N, shape (d, d).

    Example:
        >>> N = optimal_preconditioner(GaussianTask([0.0, 0.0], context_size=3))
        >>> N.round(4).tolist()
        [[0.5, 0.0], [0.0, 0.5]]
    """
    L, P = _covariances(task)
    return np.linalg.solve(_second_moment(task), L @ P).T


def yq_risk(task: GaussianTask) -> float:
    """The least risk of yq-LSA, for any number of heads: that of the best preconditioned step (ledger: conjecture-global-optimum).

    ``tr(L (P - N L P))``, which is ``d (d+1)/(C+d+1)`` for identity covariances and no noise.

    Args:
        task: the task distribution.

    Returns:
        The risk, a float.

    Example:
        >>> round(yq_risk(GaussianTask([2.0] * 10, context_size=10)), 4)
        5.2381
    """
    L, P = _covariances(task)
    return float(np.trace(L @ (P - optimal_preconditioner(task) @ L @ P)))


def optimal_risk(task: GaussianTask, guess=None, bias: float = 0.0) -> float:
    """The least risk of multi-head LSA with enough heads and a *fixed* initial guess (ledger: exact-multihead-risk).

    ``yq_risk + (u^T L u + bias^2) / (1 + C d/2 + s^4/K)`` with ``u = prior_mean - guess``,
    s = noise_std and the K of ``standard.imitate_constant``: the guess is off by
    ``u.x_q - bias``, and what the correction lacks is a constant. Without label noise the
    factor is ``2 / (C d + 2)``, whatever the covariances.

    Args:
        task: the task distribution. Without label noise d heads are enough, otherwise d+1.
        guess: weights of the initial guess ``y_q = guess.x_q + bias``, (d,); None means zero.
        bias: its constant part.

    Returns:
        The risk, a float; ``optimum.optimal_weights`` attains it.

    Raises:
        ValueError: if ``guess`` does not have shape (d,) or ``bias`` is not finite.

    Example:
        >>> task = GaussianTask([2.0] * 10, context_size=10)
        >>> round(optimal_risk(task), 4), round(optimal_risk(task, guess=[2.0] * 10), 4)
        (6.0224, 5.2381)
    """
    guess = np.zeros(task.dim) if guess is None else _validate.vector("guess", guess, task.dim)
    bias = _validate.number("bias", bias)
    u = task.prior_mean - guess
    L, _ = _covariances(task)
    return yq_risk(task) + float((u @ L @ u + bias**2) * imitate_constant(task).error)


def bayes_risk(task: GaussianTask) -> float:
    """The least risk of any predictor at all, where it has a closed form: without label noise.

    With C >= d examples the task is solved exactly and the risk is 0; with fewer, for identity
    covariances, d - C directions of the weights remain unseen.

    Args:
        task: the task distribution, free of label noise; with identity covariances if C < d.

    Returns:
        The risk, a float.

    Raises:
        ValueError: where there is no closed form; average the error of ``estimators.bayes`` instead.

    Example:
        >>> bayes_risk(GaussianTask([1.0, 1.0, 1.0], context_size=2)), bayes_risk(GaussianTask([1.0], context_size=2))
        (1.0, 0.0)
    """
    if task.noise_std:
        raise ValueError(
            f"task must have noise_std 0 for the closed form, got {task.noise_std}; sample estimators.bayes"
        )
    unseen = max(task.dim - task.context_size, 0)
    if unseen and not (task.feature_cov is None and task.prior_cov is None):
        raise ValueError("task must have identity covariances when context_size < d; sample estimators.bayes")
    return float(unseen)


def _covariances(task: GaussianTask) -> tuple[np.ndarray, np.ndarray]:
    """Lambda and Psi, as matrices."""
    identity = np.eye(task.dim)
    return (
        identity if task.feature_cov is None else task.feature_cov,
        identity if task.prior_cov is None else task.prior_cov,
    )


def _second_moment(task: GaussianTask) -> np.ndarray:
    """E[r r^T] for ``r = X^T (y - X w*) / C``, what one gradient step adds up."""
    (L, P), C = _covariances(task), task.context_size
    return L @ P @ L * (1 + 1 / C) + (np.trace(P @ L) + task.noise_std**2) * L / C


def _gd_coefficients(task: GaussianTask) -> tuple[float, float]:
    """The a and b of ``risk(eta) = risk(0) - 2 a eta + b eta^2``."""
    L, P = _covariances(task)
    return float(np.trace(L @ L @ P)), float(np.trace(L @ _second_moment(task)))
