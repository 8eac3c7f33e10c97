"""Weights that attain the least risks exactly.

With ``rho = [-w*; 1]``, which reads the residual label ``y - w*.x`` off a token, and
directions ``v_h`` that whiten the features, the optimum predicts

    y_q + (w*.x_q - y_q) t + x_q^T N X^T (y - X w*) / C,

a preconditioned gradient step plus a correction of the initial guess, in which t, the best
imitation of the constant 1 that the context allows, stands where 1 is meant.
"""

import jax
import numpy as np

from lsalib import _validate
from lsalib.attention import LSAParams, from_effective
from lsalib.tasks import GaussianTask
from lsalib.theory.closed_forms import optimal_preconditioner
from lsalib.tasks import standardize
from lsalib.theory.standard import imitate_constant

__all__ = ["optimal_weights", "yq_optimal_weights"]


def optimal_weights(task: GaussianTask, guess=None, bias: float = 0.0) -> LSAParams:
    """Weights with ``population_risk(weights, task, guess, bias) == optimal_risk(task, guess, bias)`` (ledger: sharp-head-count).

    Head h has ``b_h = v_h`` and ``A_h = -f_h v_h rho^T + N rho v_h^T`` with the f_h of
    ``imitate_constant`` and N the optimal step along v_h; with label noise one more head has ``b = rho``
    and ``A = -f rho rho^T``. Nothing in them depends on the guess, which decides only
    whether a correction is needed at all: if not, one head is enough.

    Args:
        task: the task distribution.
        guess: weights of the initial guess ``y_q = guess.x_q + bias``, (d,); None means zero.
        bias: its constant part.

    Returns:
        ``LSAParams`` with d heads; d+1 with label noise; one if ``guess`` is the prior mean and ``bias`` is 0.

    Raises:
        ValueError: if ``guess`` does not have shape (d,) or ``bias`` is not finite.

    Example:
        >>> task = GaussianTask([2.0, 2.0, 2.0], context_size=5)
        >>> optimal_weights(task).W_K.shape, optimal_weights(task, guess=[2.0, 2.0, 2.0]).W_K.shape
        ((3, 4, 4), (1, 4, 4))
    """
    guess = np.zeros(task.dim) if guess is None else _validate.vector("guess", guess, task.dim)
    rho = np.append(-task.prior_mean, 1.0)
    if not _validate.number("bias", bias) and np.array_equal(guess, task.prior_mean):
        step = np.pad(optimal_preconditioner(task), (0, 1))
        return from_effective(*map(jax.device_put, (rho[None], step[None])))
    _, basis, p, noise, C = standardize(task)
    features, residual, _ = imitate_constant(task)
    steps = p / (p * (1 + 1 / C) + (p.sum() + noise) / C)
    v = np.eye(task.dim, task.dim + 1) if basis is None else np.pad(np.linalg.inv(basis), ((0, 0), (0, 1)))
    A = steps[:, None, None] * np.einsum("m,hn->hmn", rho, v) - np.einsum("h,hm,n->hmn", features, v, rho)
    if noise:
        v, A = np.vstack([v, rho]), np.concatenate([A, -residual * np.outer(rho, rho)[None]])
    return from_effective(*map(jax.device_put, (v, A)))


def yq_optimal_weights(task: GaussianTask) -> LSAParams:
    """The one head of optimal yq-LSA, whose initial guess is ``w*.x_q``: a preconditioned step from w* (ledger: preconditioned-optimum).

    ``population_risk(weights, task, guess=task.prior_mean)`` is ``yq_risk(task)``. For identity
    covariances this head does what ``attention.gd_weights`` with the optimal step does.

    Args:
        task: the task distribution.

    Returns:
        ``LSAParams`` with one head.

    Example:
        >>> yq_optimal_weights(GaussianTask([2.0], context_size=2)).W_Q.tolist()
        [[[0.5, 0.0], [0.0, 0.0]]]
    """
    return optimal_weights(task, guess=task.prior_mean)
