"""Several layers that rewrite the labels of all tokens: what a wrong guess costs them.

A layer writes only labels and multiplies no two of them: every token's new label is an
affine function of the old ones, ``y + <S, M> y + (M'(S) + N s).x`` with ``s`` the
average of ``y x`` and any M, N and linear map M'. Without label noise, products of
labels gain nothing in a single layer. Two layers that use products can have less risk.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

from lsalib import _check
from lsalib.tasks import GaussianTask, root
from lsalib.theory._shared import (
    Number,
    arrays,
    full_precision,
    guess_vector,
    isotropic,
    plain,
    rank,
)
from lsalib.theory.closed import optimal_risk


@full_precision
def depth_price(task: GaussianTask, layers: int) -> Number:
    r"""What a wrong guess costs layers that are affine in the labels, at the least, per
    unit of its mean squared error.

    .. math:: \binom{L + Ck/2}{L}^{-1} = \prod_{j=1}^{L} \frac{j}{j + Ck/2}

    (:eq:`depth-price` of the book) `k` is the rank of `\Lambda`. It is a lower bound,
    and the limit of large errors, for all covariances. One layer pays exactly this. So
    do two layers if `\Lambda^{1/2} \Psi \Lambda^{1/2}` is a multiple of the identity;
    otherwise small errors can cost more, see ``depth_risk``. For one feature it is
    exact at every depth. Two layers that multiply labels can pay less.

    Args:
        task: the task distribution, free of label noise.
        layers: `L`.

    Returns:
        The least mean squared error of predicting the constant 1 by a polynomial of
        degree `L` in the features' average squared length, without a constant term.

    Example:
        >>> task = GaussianTask([2.0] * 10, context_size=10)
        >>> [round(40 * depth_price(task, layers), 4) for layers in (1, 2, 3)]
        [0.7843, 0.0302, 0.0017]

    Source: new here; ``depth-gap`` in the ledger.
    """
    [(xp, _, L, _, _)] = arrays(task)
    layers = _check.count("layers", layers)
    if task.noisy:
        raise ValueError(f"task must have noise_std 0, got {task.noise_std}")
    order = task.context_size * rank(xp, L, task.feature_cov) / 2
    return plain(xp, math.prod(j / (j + order) for j in range(1, layers + 1)))


@full_precision
def depth_risk(task: GaussianTask, layers: int, guess=None) -> Number:
    r"""The minimum risk of one or two layers that are affine in the labels, or of any
    number for one feature.

    .. math:: R_L + \frac{\lVert w_\star - g \rVert^2}{\binom{L + Cd/2}{L}}, \quad
       R_1 = \frac{d (d+1)}{C+d+1}, \quad
       R_2 = d\, \frac{(d^2+3d+4)\, C + (d-1)(d+1)(d+4)}{(C+d+1) (C^2 + (d+3)\, C +
       (d-1)(d+4))}

    for identity covariances (:eq:`depth-two` of the book); for one feature `R_L =
    \binom{L + C/2}{L}^{-1}`. The prediction is the query's last label, which begins
    with the guess.

    For two layers and a `\Lambda^{1/2} \Psi \Lambda^{1/2}` that is no multiple of the
    identity, the result is the lowest risk in 32 searches over all weights of such
    layers: from sixteen random starts, and from where these end, with the layers
    swapped. There are layers that have exactly this risk; a lower minimum is not
    excluded.

    Args:
        task: the task distribution, free of label noise. Covariances that JAX traces
            are taken for multiples of the identity if there are two layers.
        layers: `L`: 1, 2, or any number if d is 1.
        guess: `g`, the weights of the initial guess, (d,); None means zero.

    Example:
        >>> task = GaussianTask([2.0] * 10, context_size=10)
        >>> [round(depth_risk(task, layers), 4) for layers in (1, 2)]
        [6.0224, 3.6765]
        >>> round(depth_risk(task, 2, guess=task.prior_mean), 4)
        3.6463

    Source: new here; ``depth-gap`` in the ledger.
    """
    price, d, C = depth_price(task, layers), task.dim, task.context_size
    if layers > 2 and d > 1:
        raise ValueError(
            f"layers must be 1 or 2 for more than one feature, got {layers}"
        )
    if layers == 1:
        return optimal_risk(task, guess)
    (xp, w, L, P, _), guess, price = arrays(task, guess_vector(task, guess), price)
    if xp is np:
        white = root(np, L)[:, -int(rank(np, L, task.feature_cov)) :]
        d, spread = white.shape[1], white.T @ P @ white
        level = np.trace(spread) / d
        if np.abs(spread - level * np.eye(d)).max() > 1e-12 * level:
            return _least_found(spread, white.T @ (w - guess), C)
    elif not isotropic(task.feature_cov, task.prior_cov):
        raise ValueError(
            "task and guess must be known numbers for two layers and covariances "
            "that are not multiples of the identity; JAX traces one of them"
        )
    least = price
    if d > 1:
        above = (d**2 + 3 * d + 4) * C + (d - 1) * (d + 1) * (d + 4)
        least = above / ((C + d + 1) * (C**2 + (d + 3) * C + (d - 1) * (d + 4)))
    return plain(xp, xp.trace(L @ P) * least + (w - guess) @ L @ (w - guess) * price)


def _least_found(P, u, C: int) -> float:
    """The lowest risk that searches find for two layers, white features, prior
    covariance P and a guess that is off by u.
    """
    d, unit = len(u), np.sqrt(np.trace(P) / len(u))
    S, R = _nodes(d, C)
    of_task = S, R, root(np, P) / unit, u / unit
    starts = np.random.default_rng(0).normal(size=(16, 2 * d * d * (d + 2))) / 2
    search = lambda x: least_squares(
        _errors,
        x,
        _slopes,
        args=of_task,
        xtol=1e-12,
        ftol=1e-12,
        gtol=1e-12,
        # more looks gain less than 1e-9, along valleys that never end
        max_nfev=200,
    )
    with jax.enable_x64(True):
        ends = [search(start) for start in starts]
        # A good descent may have its layers in the wrong order for this guess.
        ends += [search(np.roll(end.x, len(end.x) // 2)) for end in ends]
    return float(2 * unit**2 * min(end.cost for end in ends))


@jax.jit
def _errors(weights, S, R, P_root, u):
    """Numbers whose squares add up to the risk, of N_k, Theta_k and the linear maps
    M_k.

    A label is x^T A (eps, 1), and ``context`` and ``query`` are A at the nodes S.
    """
    d = len(u)
    truth = jnp.eye(d, d + 1)[None]
    context, query = truth, jnp.zeros_like(truth).at[..., -1].set(-u)
    for N, Theta, *M in weights.reshape(2, d + 2, d, d):
        scale = 1 + jnp.einsum("kij,ij->k", S, Theta)[:, None, None]
        step = N @ S @ context
        step = step.at[..., -1].add(jnp.einsum("kij,lij->kl", S, jnp.stack(M)))
        context, query = scale * context + step, scale * query + step
    error = query - truth
    sides = jnp.concatenate([error[..., :-1] @ P_root, error[..., -1:]], axis=-1)
    return (R @ sides.reshape(len(S), -1)).ravel()


_slopes = jax.jit(jax.jacfwd(_errors))


def _nodes(d: int, C: int):
    """Matrices S_k, and R with ``E f(S)^2 = |R f|^2``, f_k = f(S_k), for all f that are
    quadratic in the average S of x x^T over C white Gaussian examples.
    """
    i, j = np.tril_indices(d)
    units = np.eye(d)[i][:, :, None] * np.eye(d)[j][:, None]
    A = (units + units.swapaxes(1, 2)) / 2
    B = np.maximum(units, units.swapaxes(1, 2))  # S is I + sum of tr(A (S - I)) B
    # The cumulants of the entries S_ij = tr(A S), then their moments about the mean.
    trace = lambda text, *factors: np.einsum(text, *factors, optimize=True)
    two = 2 / C * trace("aij,bji->ab", A, A)
    three = 8 / C**2 * trace("aij,bjk,cki->abc", A, A, A)
    four = 16 / C**3 * trace("aij,bjk,ckl,dli->abcd", A, A, A, A)
    four += np.einsum("ac,bd->abcd", two, two)
    four = four + four.transpose(0, 2, 1, 3) + four.transpose(0, 1, 3, 2)
    n, nothing = len(A), np.zeros((1, len(A)))
    moments = np.block(
        [
            [np.ones((1, 1)), nothing, two.reshape(1, -1)],
            [nothing.T, two, three.reshape(n, -1)],
            [two.reshape(-1, 1), three.reshape(n, -1).T, four.reshape(n * n, -1)],
        ]
    )
    i, j = np.tril_indices(n)
    points = np.concatenate([nothing, np.eye(n), np.eye(n)[i] + np.eye(n)[j]])
    squares = (points[:, :, None] * points[:, None]).reshape(len(points), -1)
    values = np.concatenate([np.ones((len(points), 1)), points, squares], 1)
    R = root(np, moments).T @ np.linalg.pinv(values)
    return np.eye(d) + np.einsum("kn,nij->kij", points, B), R
