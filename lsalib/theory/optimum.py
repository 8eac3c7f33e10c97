"""Weights that attain the smallest risks exactly.

With ``rho = [-w*; 1]``, which reads the residual label ``y - w*.x`` off a token, the optimum predicts

    y_q + (w*.x_q - y_q) t + x_q^T N X^T (y - X w*) / C,

a preconditioned gradient step plus a correction of the initial guess. A perfect correction would have 1 in the place
of t, which is the best prediction of the constant 1 from the context.
"""

import jax
import numpy as np

from lsalib import _arrays, _validate
from lsalib.attention import LSAParams, from_effective
from lsalib.tasks import GaussianTask
from lsalib.theory._task_arrays import Number, checks_task, full_precision, guess_vector, task_arrays
from lsalib.theory.closed_forms import optimal_preconditioner
from lsalib.theory.constant import ConstantRegression, constant_regression

__all__ = ["optimal_weights", "yq_optimal_weights"]


@checks_task
def optimal_weights(task: GaussianTask, guess=None, bias: Number = 0.0, *, noise_cumulant: Number = 0.0) -> LSAParams:
    r"""Weights with ``population_risk(weights, task, guess, bias) == optimal_risk(task, guess, bias)``.

    .. math:: b_h = e_h, \qquad A_h = \rho\, (N e_h)^\top - (F e_h)\, \rho^\top, \qquad \rho = [-w_\star; 1]

    F and `\varphi` are those of ``constant_regression``, N is that of ``optimal_preconditioner``. With label noise one
    more head has `b = \rho` and `A = -\varphi \rho \rho^\top`. The weights do not depend on the guess; if it is known
    to be correct, no correction is needed and one head is enough. They are optimal for every guess, also for one that
    is not linear in the query, and for a query of any covariance.

    Args:
        task: the task distribution.
        guess: weights of the initial guess ``y_q = guess.x_q + bias``, (d,); None means zero.
        bias: its constant part.
        noise_cumulant: the fourth cumulant of label noise that is not Gaussian (``constant_regression``); the risk of
            these weights is then ``optimal_risk`` with it, and no longer ``population_risk``, whose noise is Gaussian.

    Returns:
        ``LSAParams`` with d heads; d+1 with label noise; one if ``guess`` is the prior mean and ``bias`` is 0, unless
        JAX traces one of them, and their values cannot be compared.

    Raises:
        ValueError: if ``guess`` does not have shape (d,), ``bias`` is not finite or no noise of the task's strength
            has this cumulant.

    Example:
        >>> task = GaussianTask([2.0, 2.0, 2.0], context_size=5)
        >>> optimal_weights(task).W_K.shape, optimal_weights(task, guess=[2.0, 2.0, 2.0]).W_K.shape
        ((3, 4, 4), (1, 4, 4))

    Source: new here; ``sharp-head-count`` in the ledger.
    """
    guess = guess_vector(task, guess)
    bias = _validate.number("bias", bias)
    if not _arrays.traced((task.prior_mean, guess, bias)) and not bias and np.array_equal(guess, task.prior_mean):
        return yq_optimal_weights(task)
    constant = constant_regression(task, noise_cumulant=noise_cumulant)
    return from_effective(*map(jax.device_put, _heads(task, constant)))


@full_precision
def _heads(task: GaussianTask, constant: ConstantRegression):
    """The effective heads of ``optimal_weights``, d or d+1 of them."""
    xp, w, _, _, _, N, constant = task_arrays(task, optimal_preconditioner(task), constant)
    rho = xp.append(-w, xp.ones_like(w[:1]))
    rows = lambda matrix: xp.concatenate([matrix.T, xp.zeros_like(w)[:, None]], 1)
    b, A = rows(xp.eye(task.dim, dtype=w.dtype)), xp.einsum("m,hn->hmn", rho, rows(N))
    A = A - xp.einsum("hm,n->hmn", rows(constant.features), rho)
    if task.noisy:
        last = -constant.residual * xp.outer(rho, rho)
        b, A = xp.concatenate([b, rho[None]]), xp.concatenate([A, last[None]])
    return b, A


@checks_task
def yq_optimal_weights(task: GaussianTask) -> LSAParams:
    r"""The one head of optimal yq-LSA, whose initial guess is `w_\star^\top x_q`: a preconditioned step from there.

    .. math:: b = \rho, \qquad A = \begin{pmatrix} N^\top & 0 \\ 0 & 0 \end{pmatrix}, \qquad \rho = [-w_\star; 1]

    N is symmetric unless `\Lambda` is singular. ``population_risk(weights, task, guess=task.prior_mean)`` is
    ``yq_risk(task)``, for a query of any covariance. For identity covariances of examples and task weights this head
    does what ``attention.gd_weights`` with the optimal step does.

    Args:
        task: the task distribution.

    Returns:
        ``LSAParams`` with one head.

    Example:
        >>> yq_optimal_weights(GaussianTask([2.0], context_size=2)).W_Q.tolist()
        [[[0.5, 0.0], [0.0, 0.0]]]

    Source: new here; ``preconditioned-optimum`` in the ledger.
    """
    xp, w, _, _, _, N = task_arrays(task, optimal_preconditioner(task))
    rho = xp.append(-w, xp.ones_like(w[:1]))
    return from_effective(*map(jax.device_put, (rho[None], xp.pad(N.T, (0, 1))[None])))
