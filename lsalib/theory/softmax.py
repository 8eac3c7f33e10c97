"""Risks behind softmax attention: exact for debiased gradient descent, approximate for a few numbers a head.

As in all of ``theory``, risks are against the noise-free target; He et al. (arXiv 2503.12734) add the noise variance.
"""

from dataclasses import replace

import numpy as np
from jaxtyping import Array, Float

from lsalib import _arrays, _validate
from lsalib.tasks import GaussianTask
from lsalib.theory._task_arrays import (
    Number,
    check_query,
    checks_task,
    full_precision,
    isotropic,
    pseudo_inverse,
    task_arrays,
)
from lsalib.theory.closed_forms import gd_risk, optimal_step

__all__ = ["centred_task", "debiased_risk", "debiased_step", "softmax_output", "softmax_risk"]


@checks_task
def centred_task(task: GaussianTask) -> GaussianTask:
    r"""A task whose features and labels are centered, which is the same task with C - 1 examples.

    .. math:: \sum_{i \le C} (z_i - \bar z)(z_i - \bar z)^\top \overset{d}{=} \sum_{i < C} z_i z_i^\top

    A rotation turns C centered examples into C - 1 independent ones, with the same sums of products.

    Args:
        task: the task distribution, with at least two examples.

    Returns:
        A ``GaussianTask``.

    Raises:
        ValueError: if the context is known to hold one example. If JAX traces the context size, no value is refused.

    Example:
        >>> centred_task(GaussianTask([0.0], context_size=40)).context_size
        39

    Source: new here; ``softmax-one-example-less`` in the ledger.
    """
    if not _arrays.traced(task.context_size) and task.context_size < 2:
        raise ValueError(f"task must have a context_size of at least 2 to be centered, got {task.context_size}")
    return replace(task, context_size=task.context_size - 1)


@checks_task
def debiased_risk(task: GaussianTask, step_size: Number | None = None) -> Number:
    r"""Risk of ``estimators.debiased_gd`` from the prior mean: that of plain GD on one example less.

    .. math:: \mathcal R^\mathrm{debiased}_C(\eta) = \mathcal R^\mathrm{GD}_{C-1} \big( \tfrac{C-1}{C}\, \eta \big)

    The centered sums are divided by C, not by C - 1.

    Args:
        task: the task distribution, with at least two examples.
        step_size: `\eta`, as in ``debiased_gd``; None means the best, ``debiased_step(task)``.

    Returns:
        The risk; NaN where JAX traces a context size of 1.

    Raises:
        ValueError: if the context is known to hold one example, or ``step_size`` is not a finite number.

    Example:
        >>> task = GaussianTask([0.0] * 10, context_size=11)
        >>> round(debiased_risk(task), 4)  # one_step_gd with ten examples
        5.2381

    Source: new here; ``softmax-one-example-less`` in the ledger.
    """
    step = debiased_step(task) if step_size is None else _validate.number("step_size", step_size)
    shorter = centred_task(task)
    return gd_risk(shorter, step * shorter.context_size / task.context_size)


@checks_task
def debiased_step(task: GaussianTask) -> Number:
    r"""The best step size of ``estimators.debiased_gd``: that of plain GD on one example less, scaled.

    .. math:: \eta^\mathrm{debiased}_C = \tfrac{C}{C-1}\, \eta^\star_{C-1}

    Args:
        task: the task distribution, with at least two examples.

    Returns:
        The step size; NaN where JAX traces a context size of 1.

    Raises:
        ValueError: if the context is known to hold one example.

    Example:
        >>> round(debiased_step(GaussianTask([0.0] * 10, context_size=11)), 4)  # 11/21
        0.5238
    """
    shorter = centred_task(task)
    return optimal_step(shorter) * task.context_size / shorter.context_size


@checks_task
@full_precision
def softmax_risk(task: GaussianTask, omega, mu=None) -> Number:
    r"""He et al.'s approximate risk of ``attention.reduced_softmax``, without the noise variance of their target.

    .. math:: t \Big( 1 - 2 \mu^\top \omega + \mu^\top \Big[ \omega \omega^\top + \frac{1 + \sigma^2/t}{C}
       \exp(d\, \omega \omega^\top) \Big] \mu \Big), \qquad t = \mathrm{tr}\, \Psi

    The exponential is taken entry by entry; t is the variance of a noise-free label. The formula replaces `|x_q|^2` by
    d and averages numerators and denominators of the softmax separately. Compare it with samples
    (``metrics.sampled_risk``) to see its error.

    Args:
        task: prior mean zero, identity features, also the query's, prior covariance a multiple of the identity. This is
            not checked for values that JAX traces.
        omega: `\omega`, the heads' scales, (H,).
        mu: `\mu`, their output weights, (H,); None means the best, ``softmax_output(task, omega)``.

    Returns:
        The approximate risk.

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
    xp, signal, second, omega, mu = _approximation(task, omega, mu)
    return _arrays.float_if_known(xp, signal * (1 - 2 * mu @ omega + mu @ second @ mu))


@checks_task
@full_precision
def softmax_output(task: GaussianTask, omega) -> Float[np.ndarray | Array, " H"]:
    r"""The output weights that are best for given scales in ``softmax_risk``.

    .. math:: \mu = \Big[ \omega \omega^\top + \frac{1 + \sigma^2/t}{C} \exp(d\, \omega \omega^\top) \Big]^+ \omega

    Heads with the same scale are the same function of the context, so only the sum of their weights counts: the
    pseudo-inverse gives them equal weights.

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
    xp, _, second, omega = _approximation(task, _validate.vector("omega", omega))
    return pseudo_inverse(xp, second) @ omega


def _approximation(task: GaussianTask, omega, *more):
    """The module that computes, the variance of a noise-free label, the matrix of the approximate risk, the vectors."""
    check_query(task, "softmax attention")
    centred = _arrays.traced(task.prior_mean) or not np.any(task.prior_mean)
    if not (centred and isotropic(task.feature_cov, 1.0) and isotropic(task.prior_cov)):
        raise ValueError(
            "task must have prior mean zero, identity features and a multiple of the identity as prior covariance"
        )
    xp, _, _, P, s, C, omega, *more = task_arrays(task, task.context_size, omega, *more)
    signal, products = xp.trace(P), xp.outer(omega, omega)
    second = products + (1 + s**2 / signal) / C * xp.exp(task.dim * products)
    return xp, signal, second, omega, *more
