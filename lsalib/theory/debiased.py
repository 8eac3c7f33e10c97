"""Debiased gradient descent, which centers its examples: what softmax attention with
two heads approximates.
"""

from dataclasses import replace

from lsalib import _check
from lsalib.tasks import GaussianTask, check_task
from lsalib.theory._shared import Number
from lsalib.theory.closed import gd_risk, optimal_step


def centered_task(task: GaussianTask) -> GaussianTask:
    r"""A task whose features and labels are centered, which is the same task with C - 1
    examples.

    .. math:: \sum_{i \le C} (z_i - \bar z)(z_i - \bar z)^\top \overset{d}{=} \sum_{i <
       C} z_i z_i^\top

    Example:
        >>> centered_task(GaussianTask([0.0], context_size=40)).context_size
        39

    Source: new here; ``softmax-one-example-less`` in the ledger.
    """
    check_task(task)
    if task.context_size < 2:
        raise ValueError(
            "task must have a context_size of at least 2 to be centered, "
            f"got {task.context_size}"
        )
    return replace(task, context_size=task.context_size - 1)


def debiased_risk(task: GaussianTask, step_size: Number | None = None) -> Number:
    r"""The risk of ``estimators.debiased_gd`` from the prior mean: that of plain GD on
    one example less.

    .. math:: \mathcal R^\mathrm{debiased}_C(\eta) = \mathcal R^\mathrm{GD}_{C-1} \big(
       \tfrac{C-1}{C}\, \eta \big)

    The centered sums are divided by C, not by C - 1. A ``step_size`` of None means the
    best, ``debiased_step(task)``.

    Example:
        >>> task = GaussianTask([0.0] * 10, context_size=11)
        >>> round(debiased_risk(task), 4)  # one_step_gd with ten examples
        5.2381

    Source: new here; ``softmax-one-example-less`` in the ledger.
    """
    shorter = centered_task(task)
    if step_size is not None:
        share = shorter.context_size / task.context_size
        step_size = _check.number("step_size", step_size) * share
    return gd_risk(shorter, step_size)


def debiased_step(task: GaussianTask) -> Number:
    r"""The best step size of ``estimators.debiased_gd``, `\eta^\mathrm{debiased}_C =
    \tfrac{C}{C-1} \eta^\star_{C-1}`.

    Example:
        >>> round(debiased_step(GaussianTask([0.0] * 10, context_size=11)), 4)  # 11/21
        0.5238
    """
    shorter = centered_task(task)
    return optimal_step(shorter) * (task.context_size / shorter.context_size)
