"""The minimum risk of H heads, and the best weights of at most d heads for isotropic
covariances.

In the coordinates white features xi and residual label ``r = y - w*.x``, with v_1 along
``u = w* - guess``, H heads have the value vectors v_2..v_H, which read features, and
``cos(a) v_1 + sin(a) r``, which reads a mixture and takes the gradient steps of all the
directions that are left. What it pays is crosstalk between v_1 and these.

By rotations that fix u, the minimum risk for given value vectors depends on the space
that they leave out through its angle to r and to u alone; that it is best turned
towards u leaves a single number, the angle of the mixture.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from lsalib import _check
from lsalib._arrays import Vector
from lsalib.attention import LSAParams, from_effective
from lsalib.tasks import GaussianTask
from lsalib.theory._shared import Number, arrays, check_isotropic, guess_vector
from lsalib.theory.closed import optimal_weights
from lsalib.theory.risk import population_risk


class LeastRisk(NamedTuple):
    """The ``risk``, and weights ``params`` that have it."""

    risk: float
    params: LSAParams


def least_risk(
    task: GaussianTask, heads: int, guess: Vector = None, bias: float = 0.0
) -> LeastRisk:
    r"""The minimum risk of H heads with the initial guess `y_q = g^\top x_q + \beta`.

    .. math:: \min_{b, A} E \Big[ \Big( y_q + \sum_{h \le H} b_h^\top G A_h z_q - w^\top
       x_q \Big)^2 \Big]

    It is that of ``optimal_weights`` if these have at most H heads, otherwise that of
    ``few_heads_weights``.

    Args:
        task: the task distribution, its numbers known. For fewer heads than those of
            ``optimal_weights`` its covariances are multiples of the identity.
        heads: `H`.
        guess, bias: as in ``optimal_risk``.

    Returns:
        A ``LeastRisk``, its weights arrays of NumPy in float64, of at most H heads.

    Example:
        >>> least = least_risk(GaussianTask([2.0] * 10, context_size=10), heads=2)
        >>> round(least.risk, 4), least.params.W_K.shape
        (9.7738, (2, 11, 11))

    Source: new here; ``sharp-head-count`` in the ledger.
    """
    with jax.enable_x64(True):
        params = optimal_weights(task, guess, bias)
        if len(params.W_K) > _check.count("heads", heads):
            params = few_heads_weights(task, heads, guess, bias)
        params = jax.tree.map(np.asarray, params)
        # Idle heads up to d + 1: one program for all numbers of heads.
        idle = max(0, task.dim + 1 - len(params.W_K))
        padded = jax.tree.map(lambda W: np.pad(W, ((0, idle), (0, 0), (0, 0))), params)
        return LeastRisk(float(population_risk(padded, task, guess, bias)), params)


def few_heads_weights(
    task: GaussianTask, heads: int, guess: Vector = None, bias: Number = 0.0
) -> LSAParams:
    r"""Weights of `H \le d` heads with the minimum risk that H heads can have (page
    few_heads).

    .. math:: b_1 = c\, v_1 + s\, \rho, \quad A_1 = v_1 k_1^\top + \rho\, k_2^\top +
       \gamma \sum_{k > H} v_k v_k^\top,
       \qquad b_h = v_h, \quad A_h = v_h k_0^\top + \eta_\star \rho\, v_h^\top \quad (1
       < h \le H)

    `v_1, \dots, v_d` are orthonormal, the first along `w_\star - g`; `\rho = [-w_\star;
    1]` and `c^2 + s^2 = 1`. Given `s/c`, the rest is least squares; `s/c` is scanned
    over sixteen decades.

    Args:
        task: the task distribution, its numbers known, its covariances multiples of the
            identity.
        heads: H, at most d.
        guess, bias: as in ``optimal_risk``.

    Example:
        >>> from lsalib.theory import population_risk
        >>> task = GaussianTask([2.0] * 10, context_size=10)
        >>> risk = lambda h: population_risk(few_heads_weights(task, h), task)
        >>> [round(float(risk(h)), 3) for h in (1, 2, 9, 10)]
        [14.431, 9.774, 6.138, 6.022]

    Source: new here; ``few-heads-optimum`` in the ledger.
    """
    check_isotropic(task, "training.minimize searches for the best few heads")
    if _check.count("heads", heads) > task.dim:
        raise ValueError(
            f"heads must be at most d = {task.dim}, got {heads}; "
            "optimal_weights has as many as needed"
        )
    guess, bias = guess_vector(task, guess), _check.number("bias", bias)
    [(_, w, L, P, s)] = arrays(task)
    # Whatever the task is, white features, and labels that one feature gives variance
    # 1.
    features, weights = np.sqrt(L[0, 0]), np.sqrt(P[0, 0])
    unit = features * weights
    u, noise_var = (w - guess) / weights, (s / unit) ** 2
    v = np.linalg.qr(u[:, None], mode="complete")[0].T
    v[0] *= np.copysign(1, v[0] @ u)
    fit = partial(
        _fit, task.dim, heads, task.context_size, noise_var, v[0] @ u, bias / unit
    )
    best = fit(_scan(lambda tau: fit(tau).risk))
    # What they read of tokens and queries as these are.
    v = np.pad(v / features, ((0, 0), (0, 1)))
    rho, rho_q = (np.append(-each, 1) / unit for each in (w, guess))
    b = unit * np.concatenate([(best.c * v[0] + best.s * rho)[None], v[1:heads]])
    k = np.outer(best.weights, v[0]) - np.outer(best.constant, rho_q)
    first = np.outer(v[0], k[1]) + np.outer(rho, k[2])
    # the mixture takes the gradient steps of all directions that are left
    first += best.gamma * v[heads:].T @ v[heads:]
    others = np.einsum("hm,n->hmn", v[1:heads], k[0])
    others += best.step * np.einsum("m,hn->hmn", rho, v[1:heads])
    return from_effective(b, np.concatenate([first[None], others]))


class _Fit(NamedTuple):
    """Least squares for one mixture: the risk, but for a constant; coefficients of the
    three squared lengths for the weight and for the constant; the steps of the pure and
    of the mixed head.
    """

    risk: Any
    c: Any
    s: Any
    weights: Any
    constant: Any
    step: Any
    gamma: Any


def _fit(d, heads, C, noise_var, length, bias, tau) -> _Fit:
    """For the mixture (c, s) = (1, tau)/|(1, tau)|.

    Along v_1, ``length + eps_1`` is predicted from T, the squared lengths along
    v_2..v_H, from ``c S_11 + s s_1`` and from ``c s_1 + s q``, for S, s, q the averages
    of ``x x^T``, ``r x``, ``r^2``; so is the constant that stands for the bias.
    """
    m, level, inverse_step = heads - 1, d + noise_var, 1 + (d + 1 + noise_var) / C
    # Of T, S_11, s_1 and q. Without other heads T is zero: any variance will do.
    mean = np.array([m, 1, 0, level])
    cov = np.diag([max(m, 1), 1, C * inverse_step / 2, C * d + level**2 + 2 * d])
    cov[:2, 3] = cov[3, :2] = m, 1
    c, s = 1 / np.sqrt(1 + tau**2), tau / np.sqrt(1 + tau**2)
    mixture = np.zeros((*np.shape(tau), 3, 4))
    mixture[..., 0, 0] = 1
    mixture[..., 1, 1] = mixture[..., 2, 2] = c
    mixture[..., 1, 2] = mixture[..., 2, 3] = s
    cov, mean = 2 / C * mixture @ cov @ mixture.swapaxes(-1, -2), mixture @ mean
    of_eps = mixture[..., 2]
    size = np.sqrt(np.diagonal(cov, axis1=-2, axis2=-1))[..., None]
    targets = np.stack([of_eps, mean], -1) / size
    answers = np.linalg.solve(cov / size / size.swapaxes(-1, -2), targets) / size
    q, p = np.moveaxis(answers, -1, 0)
    # Then least squares for what the mean leaves, which both have in common.
    error = 1 / (1 + (mean * p).sum(-1))
    missing = error * (length - (mean * q).sum(-1))
    gamma = s / (s**2 * inverse_step + c**2 / C)
    risk = missing**2 / error + error * bias**2
    risk -= (of_eps * q).sum(-1) + (d - heads) * s * gamma
    weights, constant = q + missing[..., None] * p, error[..., None] * p
    return _Fit(risk, c, s, weights, constant, 1 / inverse_step, gamma)


def _scan(f):
    """Where f of a positive number is least: a grid over sixteen decades, then finer
    ones around its best point.
    """
    low, high = -8.0, 8.0
    for count in (161, *[21] * 7):
        grid = np.linspace(low, high, count)
        best = int(np.argmin(f(10**grid)))
        low, high = grid[max(best - 1, 0)], grid[min(best + 1, count - 1)]
    return 10 ** ((low + high) / 2)
