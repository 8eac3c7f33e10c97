"""The best initial guess for given attention weights."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lsalib.attention import LSAParams
from lsalib.attention.layer import check_params
from lsalib.mixtures import MixtureTask, averaged
from lsalib.tasks import GaussianTask, StandardTask
from lsalib.theory._task_arrays import full_precision
from lsalib.theory.risk import _constants, _population_risk, _promote_weights

__all__ = ["optimal_guess"]


@full_precision
def optimal_guess(params: LSAParams, task: GaussianTask | MixtureTask | Any) -> Float[Array, " d"]:
    r"""The linear guess `y_q = g^\top x_q` with the smallest risk for given weights.

    .. math:: g = \frac{E[(w - v)(1 + m)]}{E[(1 + m)^2]}, \qquad m = \langle G, M_{d+1} \rangle, \quad
       v_j = \langle G, M_j \rangle

    `M_j` is the lift of the weights. The heads read the guess from the query's token, which multiplies it by `1 + m` in
    all; `v` is what they predict without it. The risk is a quadratic in the guess. A constant part of the guess only
    adds to it: the best bias is 0. For the weights of ``optimal_weights`` the best guess is the prior mean; for others,
    and for a mixture, it need not be.

    Args:
        params: the weights, (H, D, D) each, D = d+1.
        task: the task distribution, or a ``MixtureTask``.

    Returns:
        `g`, (d,), in the type of ``population_risk``; where the risk does not depend on a direction, its part there is
        zero.

    Raises:
        ValueError: if a shape does not fit the task's d.

    Example:
        >>> from lsalib.attention import gd_weights
        >>> from lsalib.theory import population_risk
        >>> task, off = GaussianTask([2.0, 2.0], context_size=3), gd_weights([1.0, 1.0], 0.5)
        >>> guess = optimal_guess(off, task)
        >>> guess.round(4).tolist()
        [1.5, 1.5]
        >>> [round(float(population_risk(off, task, g)), 4) for g in (task.prior_mean, guess)]
        [2.0, 1.5]

    Source: new here.
    """
    slope, bend = _quadratic(params, task)
    return -jnp.linalg.pinv(bend, hermitian=True) @ slope


@averaged
@_promote_weights
def _quadratic(params: LSAParams, task: GaussianTask):
    """The risk's gradient with respect to the guess, at zero, and its Hessian."""
    check_params(params, task.dim)
    return _derivatives(params, _constants(task, params.W_K.dtype))


# One program for all weights and tasks of one shape.
@jax.jit
def _derivatives(params, task: StandardTask):
    risk = lambda guess: _population_risk(params, guess, 0.0, task)
    zero = jnp.zeros_like(params.W_K, shape=task.prior_mean.shape)
    return jax.grad(risk)(zero), jax.hessian(risk)(zero)
