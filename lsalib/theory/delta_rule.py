"""The delta rule: gradient steps on one example at a time, as a fast-weight layer takes
them with its state.

Each example is independent of the state that it changes, so the second moments of the
error, ``M = E[e e^T]`` with ``e = w - w_t``, have an exact linear recursion. For a
Gaussian x Isserlis' theorem gives

    E[(I - b x x^T) V (I - b x x^T)] = V - b (Lambda V + V Lambda) + b^2 (2 Lambda V
    Lambda + tr(Lambda V) Lambda),

and for a random direction n, ``E[n n^T V n n^T] = (2 V + tr(V) I) / (d (d + 2))``.
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
    task: GaussianTask,
    step_size: Number | None = None,
    start: Vector = None,
    *,
    normalized: bool = False,
    decay: Number = 1.0,
) -> Number:
    r"""The risk of ``estimators.delta_rule``: one gradient step on each example in
    turn, from a given start.

    .. math:: w_{t+1} = \lambda w_t + \eta x_t (y_t - \lambda w_t^\top x_t), \qquad f =
       w_C^\top x_q

    For identity covariances, no noise and `\lambda = 1`, with `u = w_\star - w_0`, that
    is

    .. math:: \gamma^C (d + \lVert u \rVert^2), \qquad \gamma = 1 - 2 \eta + \eta^2 (d +
       2), \quad
       \text{or normalized} \quad \gamma = 1 - (2 \eta - \eta^2) / d

    In general it is `\mathrm{tr}\, \Lambda M_C`. With `e_t = w - w_t` and `V_t = E[v
    v^\top]` for `v = \lambda e_t + (1 - \lambda) w`,

    .. math:: M_{t+1} = V_t - \eta (\Lambda V_t + V_t \Lambda) + \eta^2 \big( 2 \Lambda
       V_t \Lambda
       + (\mathrm{tr}\, \Lambda V_t + \sigma^2) \Lambda \big)

    Args:
        task: the task distribution.
        step_size: `\eta`; None means the best one of `\Lambda = \sigma_x^2 I` without
            label noise and decay, `1 / (\sigma_x^2 (d + 2))`, or normalized 1.
        start: `w_0`, the first state, (d,); None means zero.
        normalized: whether each step is divided by the squared length of its example.
            Lambda must then be a multiple of the identity, which is not checked if JAX
            traces it.
        decay: `\lambda`, by which the state is multiplied before each step.

    Returns:
        The risk; infinity if it is too large for a float. The cost grows like `\log C`.

    Raises:
        ValueError: if no ``step_size`` is given and the best one has no closed form,
            and for normalized steps if Lambda is no multiple of the identity, or d < 3
            with label noise, where the risk is infinite.

    Example:
        >>> task = GaussianTask([1.0] * 5, context_size=10)
        >>> at_mean = delta_rule_risk(task, start=task.prior_mean)
        >>> round(delta_rule_risk(task), 4), round(at_mean, 4)
        (2.1406, 1.0703)

    Sources: LMS of Feuer and Weinstein (1985); normalized, the randomized Kaczmarz
    method of Strohmer and Vershynin (2009). The decay and general covariances are
    worked out here.
    """
    start, decay = guess_vector(task, start, "start"), _check.number("decay", decay)
    _check_delta(task, step_size, decay, normalized)
    d, C = task.dim, task.context_size
    best = step_size is None
    step = _check.number("step_size", 1.0 if best else step_size)
    (xp, w, L, P, s), start, decay, eta = arrays(task, start, decay, step)

    # In units of the features' variance, and of the largest weight or deviation: all
    # sums are then of numbers near 1, also in float32.
    lam = xp.trace(L) / d
    if not normalized:
        eta = xp.ones_like(lam) / (d + 2) if best else eta * lam
    size = xp.maximum(xp.sqrt(xp.trace(P)), xp.abs(xp.stack([w, start])).max())
    size = xp.where(size == 0, xp.ones_like(size), size)
    L, P, s, eta = settled(xp, L / lam, P / size / size, s / xp.sqrt(lam) / size, eta)
    w, error, noise = w / size, (w - start) / size, s**2
    M, K, W = (P + xp.outer(u, v) for u, v in ((error, error), (error, w), (w, w)))

    # Only trace(L M) is read, and L is the same at every step. So it is enough to
    # follow the diagonals in its eigenvectors, or, where these are not known, whole
    # matrices.
    one = xp.eye(d, dtype=w.dtype)
    if _check.traced(L):
        left, right = xp.kron(L, one), xp.kron(one, L)
        of = lambda matrix: matrix.ravel()
    else:
        values, vectors = np.linalg.eigh(L)
        left = right = np.diag(values)
        of = lambda matrix: np.einsum("ji,jk,ki->i", vectors, matrix, vectors)
    l, unit = of(L), xp.eye(len(left), dtype=w.dtype)
    if normalized:
        spread = (2 * unit + xp.outer(of(one), of(one))) / (d * (d + 2))
        B, A = unit - 2 * eta / d * unit + eta**2 * spread, unit - eta / d * unit
        # E[1/|x|^2] = 1 / (d - 2)
        from_noise = eta**2 * noise * of(one) / (max(d - 2, 1) * d)
    else:
        B = unit - eta * (left + right) + eta**2 * (2 * left @ right + xp.outer(l, l))
        A, from_noise = unit - eta * left, eta**2 * noise * l

    # One example, as a matrix on E[e e^T], E[e w^T] and the constant 1.
    fresh, zero = 1 - decay, 0 * unit
    ends = (fresh**2 * B @ of(W) + from_noise)[:, None], (fresh * A @ of(W))[:, None]
    step = xp.block(
        [
            [decay**2 * B, 2 * decay * fresh * B, ends[0]],
            [zero, decay * A, ends[1]],
            [zero[:1], zero[:1], xp.ones((1, 1), w.dtype)],
        ]
    )
    state = xp.concatenate([of(M), of(K), xp.ones(1, w.dtype)])
    with np.errstate(over="ignore", invalid="ignore"):
        risk = l @ (xp.linalg.matrix_power(step, C) @ state)[: len(l)]
    # A step that is too long diverges; infinity times zero would be no number.
    risk = xp.where(xp.isnan(risk), xp.full_like(risk, np.inf), risk)
    return plain(xp, lam * size * size * risk)


def _check_delta(task: GaussianTask, step_size, decay, normalized: bool) -> None:
    alike = isotropic(task.feature_cov)
    if normalized and not alike:
        raise ValueError(
            "normalized must be False where feature_cov is no multiple of the "
            "identity, got True"
        )
    if normalized and task.noisy and task.dim < 3:
        raise ValueError(
            "normalized must be False where labels are noisy and d < 3 (infinite "
            f"risk), got d = {task.dim}"
        )
    if step_size is not None:
        return
    reason = ""
    if task.noisy:
        reason = "labels are noisy"
    elif not alike:
        reason = "feature_cov is no multiple of the identity"
    elif _check.traced(decay):
        reason = "JAX traces the decay"
    elif decay != 1:
        reason = "decay is not 1"
    if reason:
        raise ValueError(f"step_size must be given where {reason}, got None")
