"""Risks behind softmax attention: an exact one for debiased gradient descent, and an approximate one for few numbers a head.

As in all of ``theory``, risks are against the noise-free target; He et al. (arXiv 2503.12734) add the noise variance.
"""

from dataclasses import replace

import numpy as np

from lsalib import _validate
from lsalib.tasks import GaussianTask
from lsalib.theory.closed_forms import gd_risk, optimal_step

__all__ = ["debiased_risk", "debiased_step", "one_example_less", "softmax_output", "softmax_risk"]


def one_example_less(task: GaussianTask) -> GaussianTask:
    """The same task with C - 1 examples: what is left of C once features and labels are centred (ledger: softmax-one-example-less).

    A rotation turns C centred examples into C - 1 independent ones, with the same sums of products.

    Args:
        task: the task distribution, with at least two examples.

    Returns:
        A ``GaussianTask``.

    Raises:
        ValueError: if the context holds one example.

    Example:
        >>> one_example_less(GaussianTask([0.0], context_size=40)).context_size
        39
    """
    if task.context_size < 2:
        raise ValueError(f"task must have a context_size of at least 2 to be centred, got {task.context_size}")
    return replace(task, context_size=task.context_size - 1)


def debiased_risk(task: GaussianTask, step_size: float | None = None) -> float:
    """Risk of ``estimators.debiased_gd`` from the prior mean: that of plain GD on one example less (ledger: softmax-one-example-less).

    ``gd_risk(one_example_less(task), step_size (C-1)/C)``: the centred sums are divided by C as if nothing were missing.

    Args:
        task: the task distribution, with at least two examples.
        step_size: as in ``debiased_gd``; None means the best, ``debiased_step(task)``.

    Returns:
        The risk, a float.

    Raises:
        ValueError: if the context holds one example, or ``step_size`` is not a finite number.

    Example:
        >>> task = GaussianTask([0.0] * 10, context_size=11)
        >>> round(debiased_risk(task), 4)  # one_step_gd with ten examples
        5.2381
    """
    step = debiased_step(task) if step_size is None else _validate.number("step_size", step_size)
    shorter = one_example_less(task)
    return gd_risk(shorter, step * shorter.context_size / task.context_size)


def debiased_step(task: GaussianTask) -> float:
    """The best step size of ``estimators.debiased_gd``, ``optimal_step`` on one example less, times C/(C-1).

    Args:
        task: the task distribution, with at least two examples.

    Returns:
        The step size, a float.

    Raises:
        ValueError: if the context holds one example.

    Example:
        >>> round(debiased_step(GaussianTask([0.0] * 10, context_size=11)), 4)  # 11/21
        0.5238
    """
    shorter = one_example_less(task)
    return optimal_step(shorter) * task.context_size / shorter.context_size


def softmax_risk(task: GaussianTask, omega, mu=None) -> float:
    """He et al.'s approximate risk of ``attention.reduced_softmax``, less the noise of their target.

    ``t (1 - 2 mu.omega + mu^T [omega omega^T + (1 + s^2/t)/L exp(d omega omega^T)] mu)``, the exponential taken entry by
    entry, with t = d psi the variance of a noise-free label. It puts d for ``|x_q|^2`` and averages numerators and
    denominators of the softmax one by one; how far off it is, only samples tell (``metrics.sampled_risk``).

    Args:
        task: prior mean zero, identity features, prior covariance a multiple psi of the identity.
        omega: the heads' scales, (H,).
        mu: their output weights, (H,); None means the best, ``softmax_output(task, omega)``.

    Returns:
        The approximate risk, a float.

    Raises:
        ValueError: if the task is another one or a shape does not fit.

    Example:
        >>> task = GaussianTask([0.0] * 5, context_size=40, prior_cov=np.eye(5) / 5, noise_std=0.1**0.5)
        >>> round(softmax_risk(task, [5**-0.5]), 4), round(softmax_risk(task, [0.1, -0.1]), 4)
        (0.2721, 0.1209)

    Source: He et al., arXiv 2503.12734, as in their public code.
    """
    omega = _validate.vector("omega", omega)
    mu = softmax_output(task, omega) if mu is None else _validate.vector("mu", mu, omega.size)
    signal, second = _second(task, omega)
    return float(signal * (1 - 2 * mu @ omega + mu @ second @ mu))


def softmax_output(task: GaussianTask, omega) -> np.ndarray:
    """The output weights that are best for given scales in ``softmax_risk``: linear in a system of H equations.

    Args:
        task, omega: as in ``softmax_risk``.

    Returns:
        mu, (H,).

    Raises:
        ValueError: as ``softmax_risk``.

    Example:
        >>> task = GaussianTask([0.0] * 5, context_size=40, prior_cov=np.eye(5) / 5, noise_std=0.1**0.5)
        >>> softmax_output(task, [0.1, -0.1]).round(3).tolist()
        [4.395, -4.395]
    """
    omega = _validate.vector("omega", omega)
    return np.linalg.solve(_second(task, omega)[1], omega)


def _second(task: GaussianTask, omega: np.ndarray) -> tuple[float, np.ndarray]:
    """The variance of a noise-free label, and the matrix of the approximate risk."""
    d = task.dim
    psi = np.eye(d) if task.prior_cov is None else task.prior_cov
    isotropic = np.array_equal(psi, psi[0, 0] * np.eye(d)) and (
        task.feature_cov is None or np.array_equal(task.feature_cov, np.eye(d))
    )
    if not isotropic or task.prior_mean.any():
        raise ValueError(
            "task must have prior mean zero, identity features and a multiple of the identity as prior covariance"
        )
    signal, products = float(d * psi[0, 0]), np.outer(omega, omega)
    return signal, products + (1 + task.noise_std**2 / signal) / task.context_size * np.exp(d * products)
