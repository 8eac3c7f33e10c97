"""The best that fewer than d heads are known to do.

In the coordinates features and residual label ``r = y - w*.x``, with v_1 along ``u = w* - guess``, H heads
have the value vectors v_2..v_H, which read features, and ``v_1 + tau r``, which reads a mixture and
takes the gradient steps of all the directions that are left. What it pays is crosstalk between v_1 and these.
"""

import jax
import numpy as np

from lsalib import _validate
from lsalib.attention import LSAParams, from_effective
from lsalib.tasks import GaussianTask
from lsalib.theory.closed_forms import optimal_step

__all__ = ["few_heads_weights"]


def few_heads_weights(task: GaussianTask, heads: int, guess=None) -> LSAParams:
    """Weights of ``heads <= d`` heads with the least risk that is known (ledger: sharp-head-count).

    Head h > 1 has ``b = v_h`` and ``A = a v_h v_1^T + eta rho v_h^T`` with ``rho = [-w*; 1]``; the first has ``b = v_1 + tau rho``
    and ``A = (A_0 v_1 + c rho) v_1^T + (gamma/tau) sum_(k > heads) v_k v_k^T``. Given tau, the other
    numbers solve a small least-squares problem; tau is scanned. With d heads the risk is ``optimal_risk``. That no
    weights of fewer heads do better is what every search has found, and is not proved.

    Args:
        task: the task distribution, with identity covariances and no label noise.
        heads: H, at most d.
        guess: weights of the initial guess ``y_q = guess.x_q``, (d,), other than the prior mean; None means zero.

    Returns:
        ``LSAParams`` with H heads.

    Raises:
        ValueError: if the task has covariances or noise, ``heads`` is not in 1..d, or ``guess`` does not have shape (d,) or is the prior mean.

    Example:
        >>> from lsalib.theory import population_risk
        >>> task = GaussianTask([2.0] * 10, context_size=10)
        >>> [round(float(population_risk(few_heads_weights(task, h), task)), 3) for h in (1, 2, 9, 10)]
        [14.431, 9.774, 6.138, 6.022]
    """
    d, rho = task.dim, np.append(-task.prior_mean, 1.0)
    if task.feature_cov is not None or task.prior_cov is not None or task.noise_std:
        raise ValueError("task must have identity covariances and noise_std 0")
    if _validate.count("heads", heads) > d:
        raise ValueError(f"heads must be at most d = {d}, got {heads}; optimal_weights has d of them")
    u = task.prior_mean - (np.zeros(d) if guess is None else _validate.vector("guess", guess, d))
    length = float(np.linalg.norm(u))
    if not length:
        raise ValueError("guess must not be the prior mean, for which one head is enough: see optimal_weights")
    # With d heads tau -> 0 is as good, and a scan could end there.
    tau = optimal_step(task) * (task.context_size * d + 2) / (task.context_size * length)
    if heads < d:
        tau = _scan(lambda tau: _least_squares(task, heads, length, tau)[0])
    _, (a, lead, c), gamma = _least_squares(task, heads, length, tau)
    v = np.pad(_basis(u / length), ((0, 0), (0, 1)))
    b = v[:heads].copy()
    b[0] += tau * rho
    A = a * np.einsum("hm,n->hmn", v[:heads], v[0]) + optimal_step(task) * np.einsum("m,hn->hmn", rho, v[:heads])
    A[0] = np.outer(lead * v[0] + c * rho, v[0]) + gamma / tau * v[heads:].T @ v[heads:]
    return from_effective(*map(jax.device_put, (b, A)))


def _least_squares(task: GaussianTask, heads: int, length: float, tau: float) -> tuple[float, np.ndarray, float]:
    """The risk for this tau, and the coefficients (a, A_0, c) and gamma.

    The target along v_1 is predicted from T, ``S_11 + tau s_1`` and ``s_1 + tau q``: T adds the squared lengths along
    v_2..v_H, and S, s, q are the averages of ``x x^T``, ``r x`` and ``r^2``.
    """
    d, C, m, eta = task.dim, task.context_size, heads - 1, optimal_step(task)
    # Mean and covariance of T, S_11, q and s_1.
    mean = np.array([m, 1.0, d, 0.0])
    cov = 2 / C * np.array([[m, 0, m, 0], [0, 1, 1, 0], [m, 1, d * C + d * (d + 2), 0], [0, 0, 0, C / (2 * eta)]])
    mix = np.array([[1, 0, 0, 0], [0, 1, 0, tau], [0, 0, tau, 1]])
    second, cross = mix @ (cov + np.outer(mean, mean)) @ mix.T, mix @ (length * mean + [0, 0, 0, 1])
    # In units of their own size: they grow with tau. With one head T is zero, and left alone.
    size = np.sqrt(np.maximum(second.diagonal(), np.finfo(float).tiny))
    coefficients = np.linalg.lstsq(second / np.outer(size, size), cross / size, rcond=1e-12)[0] / size
    gamma = 1 / (1 / eta + 1 / (C * tau**2))
    return length**2 + 1 - cross @ coefficients + m * (1 - eta) + (d - heads) * (1 - gamma), coefficients, gamma


def _scan(f) -> float:
    """Where f of a positive number is least: a grid over nine decades, then finer ones around its best point."""
    low, high = 1e-4, 1e5
    for count in (200, 20, 20, 20, 20, 20):
        grid = np.geomspace(low, high, count)
        best = int(np.argmin([f(point) for point in grid]))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, count - 1)]
    return float(np.sqrt(low * high))


def _basis(first: np.ndarray) -> np.ndarray:
    """Orthonormal rows, the given unit vector first."""
    rows = np.linalg.qr(np.column_stack([first, np.eye(len(first))]))[0].T
    return rows * np.sign(rows[0] @ first)
