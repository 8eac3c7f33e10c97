"""The best weights of at most d heads, for isotropic covariances.

In the coordinates white features xi and residual label ``r = y - w*.x``, with v_1 along ``u = w* - guess``, H heads
have the value vectors v_2..v_H, which read features, and ``cos(a) v_1 + sin(a) r``, which reads a mixture and takes
the gradient steps of all the directions that are left. What it pays is crosstalk between v_1 and these.

By rotations that fix u, the minimum risk for given value vectors depends on the space that they leave out through its
angle to r and to u alone; that it is best turned towards u leaves a single number, the angle of the mixture.
"""

import jax

from lsalib import _validate
from lsalib.attention import LSAParams, from_effective
from lsalib.tasks import GaussianTask
from lsalib.theory._task_arrays import (
    Number,
    checks_task,
    full_precision,
    guess_vector,
    isotropic,
    query_cov,
    task_arrays,
)

__all__ = ["few_heads_weights"]


@checks_task
def few_heads_weights(task: GaussianTask, heads: int, guess=None, bias: Number = 0.0) -> LSAParams:
    r"""Weights of `H \le d` heads with the minimum risk that H heads can have.

    .. math:: b_1 = c\, v_1 + s\, \rho, \quad A_1 = v_1 k_1^\top + \rho\, k_2^\top + \gamma \sum_{k > H} v_k v_k^\top,
       \qquad b_h = v_h, \quad A_h = v_h k_0^\top + \eta_\star \rho\, v_h^\top \quad (1 < h \le H)

    `v_1, \dots, v_d` are orthonormal, the first along `w_\star - g`; `\rho = [-w_\star; 1]` and `c^2 + s^2 = 1`. Given
    `s/c`, the rest is least squares; `s/c` is scanned over sixteen decades. The weights are a minimum, so the gradient
    of their risk, ``population_risk(few_heads_weights(task, H), task)``, with respect to the task is correct. The
    derivatives of the weights themselves leave out how the scanned number moves.

    Args:
        task: the task distribution, its covariances multiples of the identity, also that of the query. This is not
            checked for covariances that JAX traces.
        heads: H, at most d.
        guess: weights of the initial guess ``y_q = guess.x_q + bias``, (d,); None means zero.
        bias: its constant part.

    Returns:
        ``LSAParams`` with H heads.

    Raises:
        ValueError: if a covariance is no multiple of the identity, ``heads`` is not in 1..d, ``guess`` does not have
            shape (d,) or ``bias`` is not finite.

    Example:
        >>> from lsalib.theory import population_risk
        >>> task = GaussianTask([2.0] * 10, context_size=10)
        >>> [round(float(population_risk(few_heads_weights(task, h), task)), 3) for h in (1, 2, 9, 10)]
        [14.431, 9.774, 6.138, 6.022]

    Source: new here; ``few-heads-optimum`` in the ledger.
    """
    d = task.dim
    if not all(map(isotropic, (task.feature_cov, task.prior_cov, task.query_cov))):
        raise ValueError("task must have covariances that are multiples of the identity; least_risk takes any")
    if _validate.count("heads", heads) > d:
        raise ValueError(f"heads must be at most d = {d}, got {heads}; optimal_weights has as many as are needed")
    guess = guess_vector(task, guess)
    return from_effective(*map(jax.device_put, _heads(task, heads, guess, _validate.number("bias", bias))))


@full_precision
def _heads(task: GaussianTask, heads: int, guess, bias):
    """The effective heads, in the task's own coordinates."""
    xp, w, L, P, s, C, Q, guess, bias = task_arrays(task, task.context_size, query_cov(task), guess, bias)
    # Whatever the task is, white features and queries, and labels that one feature gives variance 1.
    inverse, its_inverse = (xp.eye(task.dim, dtype=w.dtype) / xp.sqrt(xp.trace(cov) / task.dim) for cov in (L, Q))
    unit, its_unit = (xp.sqrt(xp.trace(cov) * xp.trace(P)) / task.dim for cov in (L, Q))
    u = (w - guess) * xp.sqrt(task.dim / xp.trace(P))
    b, A = _white_heads(xp, u, heads, C, (s / unit) ** 2, bias / its_unit)
    return own_coordinates(xp, b, A, (inverse, w, unit), (its_inverse, guess, its_unit))


def own_coordinates(xp, b, A, tokens, queries):
    """Heads that read [xi; r/unit] and answer [xi_q; (y_q - guess.x_q)/unit], for tokens and queries as they are.

    For tokens and queries these are the inverse of U in ``x = U xi``, the weights that are subtracted from labels (w*
    or the guess), and the unit of the labels.
    """

    def change(inverse, w, unit):
        rows = xp.concatenate([inverse, xp.zeros_like(inverse[:, :1])], 1)
        return xp.concatenate([rows, xp.append(-w, xp.ones_like(w[:1]))[None] / unit])

    token, query = change(*tokens), change(*queries)
    return queries[-1] * b @ token, xp.einsum("mi,hmn,nk->hik", token, A, query)


def _white_heads(xp, u, heads, context_size, noise_var, bias):
    """The heads b and A for white features and prior covariance I."""
    d, square = len(u), u @ u
    safe = xp.sqrt(xp.where(square > 0, square, 1.0))  # whose slope is finite
    length = xp.where(square > 0, safe, 0.0)
    v = _basis(xp, xp.where(square > 0, u / safe, xp.eye(d, dtype=u.dtype)[0]))
    given = d, heads, context_size, noise_var, length, bias
    tau = _scan(xp, lambda tau: _least_squares(xp, tau, *given)[0], u.dtype)
    _, (c, s), fit, constant, steps = _least_squares(xp, tau, *given)
    v, label = xp.concatenate([v, xp.zeros_like(v[:, :1])], 1), xp.eye(d + 1, dtype=u.dtype)[-1]
    b = xp.concatenate([(c * v[0] + s * label)[None], v[1:heads]])
    k = xp.einsum("i,n->in", fit, v[0]) - xp.einsum("i,n->in", constant, label)
    first = xp.outer(v[0], k[1]) + xp.outer(label, k[2]) + steps[1] * v[heads:].T @ v[heads:]
    others = xp.einsum("hm,n->hmn", b[1:], k[0]) + steps[0] * xp.einsum("m,hn->hmn", label, b[1:])
    return b, xp.concatenate([first[None], others])


def _least_squares(xp, tau, d, heads, C, noise_var, length, bias):
    """The minimum risk for the mixture (c, s) = (1, tau)/|(1, tau)|, and the coefficients that attain it.

    Along v_1, ``length + eps_1`` is predicted from T, the squared lengths along v_2..v_H, from ``c S_11 + s s_1`` and
    from ``c s_1 + s q``, for S, s, q the averages of ``x x^T``, ``r x``, ``r^2``; so is the constant that stands
    for the bias. Less ``s T`` the third is uncorrelated with T, and C, D, W are the covariances of the last two.
    """
    m, level, inverse_step = heads - 1, d + noise_var, 1 + (d + 1 + noise_var) / C
    c, s = 1 / xp.sqrt(1 + tau**2), tau / xp.sqrt(1 + tau**2)
    rest = 2 * d + 2 * (level**2 + 2 * d - m) / C  # the variance of q - T
    first, mixed, second = (
        2 * c**2 / C + s**2 * inverse_step,
        c * s * (2 / C + inverse_step),
        c**2 * inverse_step + s**2 * rest,
    )
    # first * second - mixed^2, without what cancels.
    between = (4 / C) * (d - 1 + (level**2 + d - noise_var - m - 2) / C)
    determinant = 2 * c**4 * inverse_step / C + c**2 * s**2 * between + s**4 * rest * inverse_step
    solve = lambda x, y: ((second * x - mixed * y) / determinant, (first * y - mixed * x) / determinant)
    mean, step = (c, s * (level - m)), (s, c)
    p, q = solve(*mean), solve(*step)
    error = 1 / (1 + m * C / 2 + mean[0] * p[0] + mean[1] * p[1])
    missing = error * (length - mean[0] * q[0] - mean[1] * q[1])
    gamma = s / (s**2 * inverse_step + c**2 / C)
    risk = 1 - s * q[0] - c * q[1] + missing**2 / error + error * bias**2
    risk = risk + m * (1 - 1 / inverse_step) + (d - heads) * (1 - s * gamma)
    coefficients = lambda x, y, z: xp.stack([x - s * z, y, z])
    fit = coefficients(missing * C / 2, q[0] + missing * p[0], q[1] + missing * p[1])
    constant = coefficients(error * C / 2, error * p[0], error * p[1])
    return risk, (c, s), fit, constant, (1 / inverse_step, gamma)


def _scan(xp, f, dtype):
    """Where f of a positive number is least: a grid over sixteen decades, then finer ones around its best point."""
    low, high = -8.0, 8.0
    for count in (161, *[21] * 7):
        grid = low + (high - low) * xp.linspace(0, 1, count, dtype=dtype)
        best = xp.argmin(f(10**grid))
        low, high = grid[xp.maximum(best - 1, 0)], grid[xp.minimum(best + 1, count - 1)]
    return 10 ** ((low + high) / 2)


def _basis(xp, first):
    """Orthonormal rows, the given unit vector first: a reflection."""
    sign = xp.where(first[0] < 0, -1.0, 1.0).astype(first.dtype)
    identity = xp.eye(len(first), dtype=first.dtype)
    normal = first + sign * identity[0]
    return sign * (xp.outer(normal, normal) / (1 + sign * first[0]) - identity)
