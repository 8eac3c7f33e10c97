"""The delta rule: gradient steps on one example at a time, as a fast-weight layer takes
them with its state.

Each example is independent of the state that it changes, so the second moments of the
error, ``M = E[e e^T]`` with ``e = w - w_t``, have an exact linear recursion. For a
Gaussian x Isserlis' theorem gives

    E[(I - b x x^T) M (I - b x x^T)] = M - b (Lambda M + M Lambda) + b^2 (2 Lambda M
    Lambda + tr(Lambda M) Lambda).
"""

import numpy as np

from lsalib import _check
from lsalib._arrays import Vector
from lsalib.tasks import GaussianTask
from lsalib.theory._shared import (
    Number,
    arrays,
    full_precision,
    guess_vector,
    isotropic,
    plain,
    settled,
)


@full_precision
def delta_rule_risk(
    task: GaussianTask, step_size: Number | None = None, start: Vector = None
) -> Number:
    r"""The risk of ``estimators.delta_rule``: one gradient step on each example in
    turn, from a given start.

    .. math:: w_{t+1} = w_t + \eta x_t (y_t - w_t^\top x_t), \qquad f = w_C^\top x_q

    For identity covariances and no noise, with `u = w_\star - w_0`, that is
    (:eq:`fast-law` of the book)

    .. math:: \gamma^C (d + \lVert u \rVert^2), \qquad \gamma = 1 - 2 \eta + \eta^2 (d +
       2)

    In general it is `\mathrm{tr}\, \Lambda M_C`, with `M_t = E[(w - w_t) (w -
    w_t)^\top]` and

    .. math:: M_{t+1} = M_t - \eta (\Lambda M_t + M_t \Lambda) + \eta^2 \big( 2 \Lambda
       M_t \Lambda
       + (\mathrm{tr}\, \Lambda M_t + \sigma^2) \Lambda \big)

    Args:
        task: the task distribution.
        step_size: `\eta`; None means the best one of `\Lambda = \sigma_x^2 I` without
            label noise, `1 / (\sigma_x^2 (d + 2))`.
        start: `w_0`, the first state, (d,); None means zero.

    Returns:
        The risk; infinity if it is too large for a float. The cost grows like `\log C`.

    Raises:
        ValueError: if no ``step_size`` is given and the best one has no closed form.

    Example:
        >>> task = GaussianTask([1.0] * 5, context_size=10)
        >>> at_mean = delta_rule_risk(task, start=task.prior_mean)
        >>> round(delta_rule_risk(task), 4), round(at_mean, 4)
        (2.1406, 1.0703)

    Source: LMS of Feuer and Weinstein (1985). General covariances are worked out here.
    """
    start, d = guess_vector(task, start, "start"), task.dim
    best = step_size is None
    if best and (task.noisy or not isotropic(task.feature_cov)):
        raise ValueError(
            "step_size must be given where labels are noisy or feature_cov is no "
            "multiple of the identity, got None"
        )
    step_size = _check.number("step_size", 1.0 if best else step_size)
    (xp, w, L, P, s), start, eta = arrays(task, start, step_size)

    # In units of the features' variance, and of the largest weight or deviation: all
    # sums are then of numbers near 1, also in float32.
    lam = xp.trace(L) / d
    eta = eta / (d + 2) if best else eta * lam
    size = xp.maximum(xp.sqrt(xp.trace(P)), xp.abs(xp.stack([w, start])).max())
    size = xp.where(size == 0, xp.ones_like(size), size)
    L, P, s, eta = settled(xp, L / lam, P / size / size, s / xp.sqrt(lam) / size, eta)
    error = (w - start) / size
    M, one = P + xp.outer(error, error), xp.eye(d, dtype=w.dtype)

    # Only trace(L M) is read, and L is the same at every step. So it is enough to
    # follow the diagonals in its eigenvectors, or, where these are not known, whole
    # matrices.
    if _check.traced(L):
        left, right, l, m = xp.kron(L, one), xp.kron(one, L), L.ravel(), M.ravel()
    else:
        l, vectors = np.linalg.eigh(L)
        left = right = np.diag(l)
        m = xp.einsum("ji,jk,ki->i", vectors, M, vectors)
    # One example, as a matrix on M and the constant 1.
    square = eta**2 * (2 * left @ right + xp.outer(l, l))
    on_M = xp.eye(len(l), dtype=w.dtype) - eta * (left + right) + square
    from_noise = eta**2 * s**2 * l[:, None]
    step = xp.block([[on_M, from_noise], [xp.zeros_like(l), xp.ones_like(l[:1])]])
    with np.errstate(over="ignore", invalid="ignore"):
        power = xp.linalg.matrix_power(step, task.context_size)
        risk = l @ (power @ xp.append(m, xp.ones_like(l[:1])))[:-1]
    # A step that is too long diverges; infinity times zero would be no number.
    risk = xp.nan_to_num(risk, nan=np.inf, posinf=np.inf)
    return plain(xp, lam * size * size * risk)
