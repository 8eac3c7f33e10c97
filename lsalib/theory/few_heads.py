"""The best weights of at most d heads, for isotropic covariances.

In the coordinates white features xi and residual label ``r = y - w*.x``, with v_1 along
``u = w* - guess``, H heads have the value vectors v_2..v_H, which read features, and
``cos(a) v_1 + sin(a) r``, which reads a mixture and takes the gradient steps of all the
directions that are left. What it pays is crosstalk between v_1 and these.

By rotations that fix u, the minimum risk for given value vectors depends on the space
that they leave out through its angle to r and to u alone; that it is best turned
towards u leaves a single number, the angle of the mixture.
"""

from typing import Any, NamedTuple

import numpy as np

from lsalib import _check
from lsalib._arrays import Vector
from lsalib.attention import LSAParams, from_effective
from lsalib.tasks import GaussianTask
from lsalib.theory._shared import Number, arrays, check_isotropic, guess_vector


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
    check_isotropic(task, "least_risk takes any")
    if _check.count("heads", heads) > task.dim:
        raise ValueError(
            f"heads must be at most d = {task.dim}, got {heads}; "
            "optimal_weights has as many as needed"
        )
    guess, bias = guess_vector(task, guess), _check.number("bias", bias)
    (_, w, L, P, s), guess, bias = arrays(task, guess, bias)
    # Whatever the task is, white features, and labels that one feature gives variance
    # 1.
    features, weights = np.sqrt(L[0, 0]), np.sqrt(P[0, 0])
    unit = features * weights
    off = (w - guess) / weights
    b, A = _white_heads(off, heads, task.context_size, (s / unit) ** 2, bias / unit)
    inverse = np.eye(task.dim) / features
    return from_effective(*own_coordinates(b, A, inverse, w, guess, unit))


def own_coordinates(b, A, inverse, w: Vector, guess: Vector, unit):
    """Heads for tokens and queries as they are, from those for [xi; (y - w.x)/unit] and
    [xi_q; (y_q - guess.x_q)/unit].

    ``inverse`` is that of U in ``x = U xi``.
    """
    token, query = (
        np.block([[inverse, np.zeros((len(w), 1))], [-v[None] / unit, 1 / unit]])
        for v in (w, guess)
    )
    return unit * b @ token, np.einsum("mi,hmn,nk->hik", token, A, query)


def _white_heads(u, heads, context_size, noise_var, bias):
    """The heads b and A for white features and prior covariance I."""
    d, length = len(u), np.sqrt(u @ u)
    v = _basis(u / length if length > 0 else np.eye(d)[0])
    fit = lambda tau: _least_squares(
        tau, d, heads, context_size, noise_var, length, bias
    )
    best = fit(_scan(lambda tau: fit(tau).risk))
    v, label = np.pad(v, ((0, 0), (0, 1))), np.eye(d + 1)[-1]
    c, s = best.mixture
    b = np.concatenate([(c * v[0] + s * label)[None], v[1:heads]])
    k = np.outer(best.weights, v[0]) - np.outer(best.constant, label)
    first = np.outer(v[0], k[1]) + np.outer(label, k[2])
    # the mixture takes the gradient steps of all directions that are left
    first += best.gamma * v[heads:].T @ v[heads:]
    others = np.einsum("hm,n->hmn", b[1:], k[0])
    others += best.step * np.einsum("m,hn->hmn", label, b[1:])
    return b, np.concatenate([first[None], others])


class _Fit(NamedTuple):
    """Least squares for one mixture: coefficients of the three squared lengths for the
    weight and for the constant, and the steps of the pure and of the mixed head.
    """

    risk: Any
    mixture: Any
    weights: Any
    constant: Any
    step: Any
    gamma: Any


def _least_squares(tau, d, heads, C, noise_var, length, bias) -> _Fit:
    """The minimum risk for the mixture (c, s) = (1, tau)/|(1, tau)|, and the
    coefficients that attain it.

    Along v_1, ``length + eps_1`` is predicted from T, the squared lengths along
    v_2..v_H, from ``c S_11 + s s_1`` and from ``c s_1 + s q``, for S, s, q the averages
    of ``x x^T``, ``r x``, ``r^2``; so is the constant that stands for the bias. Less
    ``s T`` the third is uncorrelated with T, and C, D, W are the covariances of the
    last two.
    """
    m, level, inverse_step = heads - 1, d + noise_var, 1 + (d + 1 + noise_var) / C
    c, s = 1 / np.sqrt(1 + tau**2), tau / np.sqrt(1 + tau**2)
    rest = 2 * d + 2 * (level**2 + 2 * d - m) / C  # the variance of q - T
    first, mixed = 2 * c**2 / C + s**2 * inverse_step, c * s * (2 / C + inverse_step)
    second = c**2 * inverse_step + s**2 * rest
    # first * second - mixed^2, without what cancels.
    between = (4 / C) * (d - 1 + (level**2 + d - noise_var - m - 2) / C)
    determinant = (
        2 * c**4 * inverse_step / C + c**2 * s**2 * between + s**4 * rest * inverse_step
    )
    solve = lambda x, y: (
        (second * x - mixed * y) / determinant,
        (first * y - mixed * x) / determinant,
    )
    mean, step = (c, s * (level - m)), (s, c)
    p, q = solve(*mean), solve(*step)
    error = 1 / (1 + m * C / 2 + mean[0] * p[0] + mean[1] * p[1])
    missing = error * (length - mean[0] * q[0] - mean[1] * q[1])
    gamma = s / (s**2 * inverse_step + c**2 / C)
    risk = 1 - s * q[0] - c * q[1] + missing**2 / error + error * bias**2
    risk = risk + m * (1 - 1 / inverse_step) + (d - heads) * (1 - s * gamma)
    coefficients = lambda x, y, z: np.stack([x - s * z, y, z])
    weights = coefficients(
        missing * C / 2, q[0] + missing * p[0], q[1] + missing * p[1]
    )
    constant = coefficients(error * C / 2, error * p[0], error * p[1])
    return _Fit(risk, (c, s), weights, constant, 1 / inverse_step, gamma)


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


def _basis(first):
    """Orthonormal rows, the given unit vector first: a reflection."""
    sign = -1.0 if first[0] < 0 else 1.0
    normal = first + sign * np.eye(len(first))[0]
    return sign * (
        np.outer(normal, normal) / (1 + sign * first[0]) - np.eye(len(first))
    )
