"""The constant 1, as well as what is even in a context can predict it."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from lsalib._arrays import scalar
from lsalib.tasks import GaussianTask
from lsalib.theory._numbers import Number, numbers, precise

__all__ = ["ConstantRegression", "constant_regression"]


class ConstantRegression(NamedTuple):
    """The ``features`` (d, d) and ``residual`` of the combination closest to 1, and its mean squared ``error``."""

    features: Float[np.ndarray | Array, "d d"]
    residual: Number
    error: Number


@precise
def constant_regression(task: GaussianTask) -> ConstantRegression:
    r"""Least squares for the constant 1 on a context's second moments: what attention has where a constant is missing.

    .. math:: \min_{F, \kappa} E \big( \langle F, S \rangle + \kappa q - 1 \big)^2 = e
       = \Big( 1 + \frac{Cd}{2} + \frac{\sigma^4}{K} \Big)^{-1}, \qquad
       F = e \Big( \frac{C}{2} \Lambda^{-1} - \frac{\sigma^2}{K} \Psi \Big), \qquad \kappa = \frac{e \sigma^2}{K}

    `S` and `q` are the averages of `x x^\top` and `r^2`, with `r` the residual label `y - w_\star^\top x`. Of whitened
    features the average squared length has mean 1 and variance `2/(Cd)`. What `S` leaves of `q` has mean `\sigma^2`
    and variance `K = 2 \tau_2 + 2 ((\tau_1 + \sigma^2)^2 + \tau_2) / C` with `\tau_k = \mathrm{tr} (\Lambda \Psi)^k`:
    it sees the label noise. Squared means over variances add up.

    Args:
        task: the task distribution.

    Returns:
        A ``ConstantRegression``; its residual is 0 and its error `2/(Cd+2)` without label noise.

    Example:
        >>> round(constant_regression(GaussianTask([2.0] * 10, context_size=10)).error, 4)
        0.0196
    """
    xp, _, L, P, s = numbers(task)
    C, spread, square = task.context_size, xp.trace(L @ P), xp.trace(L @ P @ L @ P)
    K = 2 * square + 2 * ((spread + s**2) ** 2 + square) / C
    error = 1 / (1 + C * task.dim / 2 + s**4 / K)
    features = error * (C / 2 * xp.linalg.inv(L) - s**2 / K * P)
    return ConstantRegression(features, scalar(xp, error * s**2 / K), scalar(xp, error))
