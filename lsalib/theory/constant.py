"""The best prediction of the constant 1 from a context's second moments."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from lsalib import _arrays, _validate
from lsalib._arrays import float_if_known
from lsalib.tasks import GaussianTask
from lsalib.theory._task_arrays import Number, checks_task, full_precision, pseudo_inverse, rank, task_arrays

__all__ = ["ConstantRegression", "constant_regression"]


class ConstantRegression(NamedTuple):
    """The ``features`` (d, d) and ``residual`` of the combination closest to 1, and its mean squared ``error``."""

    features: Float[np.ndarray | Array, "d d"]
    residual: Number
    error: Number


@checks_task
@full_precision
def constant_regression(task: GaussianTask, *, noise_cumulant: Number = 0.0) -> ConstantRegression:
    r"""Least squares for the constant 1 on a context's second moments, attention's substitute for a constant.

    .. math:: \min_{F, \varphi} E \big( \langle F, S \rangle + \varphi q - 1 \big)^2 = e
       = \Big( 1 + \frac{C k}{2} + \frac{\sigma^4}{V} \Big)^{-1}, \qquad
       F = e \Big( \frac{C}{2} \Lambda^+ - \frac{\sigma^2}{V} \Psi \Big), \qquad \varphi = \frac{e \sigma^2}{V}

    `S` and `q` are the averages of `x x^\top` and `r^2`, with `r` the residual label `y - w_\star^\top x`, and
    `k` is the rank of `\Lambda`. Of whitened features the average squared length has mean 1 and variance
    `2/(C k)`. The part of `q` that `S` does not explain has mean `\sigma^2` and variance
    `V = 2 \tau_2 + 2 ((\tau_1 + \sigma^2)^2 + \tau_2) / C + \kappa_4 / C` with
    `\tau_k = \mathrm{tr} (\Lambda \Psi)^k`: it measures the label noise. Both combine by
    adding their squared means over variances. Nothing here reads the query.

    Args:
        task: the task distribution, its covariances singular or not. The rank counts the eigenvalues that are not
            zero up to rounding, under ``jax.jit`` as well; no gradient goes through it.
        noise_cumulant: `\kappa_4 = E[\nu^4] - 3 \sigma^4`, the fourth cumulant of the label noise `\nu`, for noise that
            is not Gaussian: `-2 \sigma^4` of random signs, `3 \sigma^4` of Laplace noise. Its mean is zero.

    Returns:
        A ``ConstantRegression``; its residual is 0 and its error `2/(C k + 2)` without label noise.

    Raises:
        ValueError: if ``noise_cumulant`` is not finite, below `-2 \sigma^4`, or not 0 where there is no noise.

    Example:
        >>> task = GaussianTask([2.0, 2.0], 5, noise_std=2.0)
        >>> [round(constant_regression(task, noise_cumulant=n * 2.0**4).error, 4) for n in (0, -2, 3)]
        [0.1463, 0.1379, 0.1525]
    """
    xp, _, L, P, s, C, extra = task_arrays(task, task.context_size, _cumulant(task, noise_cumulant))
    spread, square = xp.trace(L @ P), xp.trace(L @ P @ L @ P)
    V = 2 * square * (1 + 1 / C) + 2 * spread * (spread + 2 * s**2) / C + (2 * s**4 + extra) / C
    by_features = 1 + C * rank(xp, L) / 2
    # Random signs as noise on labels that are known otherwise have V = 0, and their square is the constant itself.
    total = V * by_features + s**4
    error, residual = (V / total, s**2 / total) if task.noisy else (1 / by_features, 0 * s)
    return ConstantRegression(
        error * C / 2 * pseudo_inverse(xp, L) - residual * P, float_if_known(xp, residual), float_if_known(xp, error)
    )


def _cumulant(task: GaussianTask, value: Number) -> Number:
    """One that the noise can have, as far as its strength is known."""
    value = _validate.number("noise_cumulant", value)
    if _arrays.traced((value, task.noise_std)):
        return value
    least = -2 * float(np.asarray(task.noise_std)) ** 4
    if value < least * (1 + 1e-9) or (value and not task.noisy):
        expected = f"at least -2 noise_std^4 = {least:g}" if task.noisy else "0 for a task without label noise"
        raise ValueError(f"noise_cumulant must be {expected}, got {value:g}")
    return value
