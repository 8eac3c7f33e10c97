"""Several layers of linear attention: searches for the minimum risk among all weights,
on the exact risk, for two features.

A layer that writes labels maps the labels of all tokens, including the query's, to
affine functions of themselves.
"""

from functools import cache, partial, reduce
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.optimize import least_squares
from scipy.special import roots_genlaguerre, roots_hermitenorm

from studies.experiments.experiment import Experiment

DIM, LENGTHS, DEPTHS, ERRORS = 2, (3, 6, 12, 24, 1), (1, 2, 3), (0.0, 1.0, 4.0)
STARTS, STEPS, SCALE = 24, 300, 0.5
# Layers that scale features: the context length, and the length of the prior mean.
FEATURES_LENGTH, PRIOR_MEANS = 24, (0.0, 1.0)


def chi_square(k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a Gauss rule, as ``normal``."""
    if k == 0:
        return np.zeros(1), np.ones(1)
    x, weights = roots_genlaguerre(n, k / 2 - 1)
    return 2 * x, weights / weights.sum()


def normal(n: int) -> tuple[np.ndarray, np.ndarray]:
    x, weights = roots_hermitenorm(n)
    return x, weights / weights.sum()


def rule(
    dim: int, context_size: int, degree: int, of_eps: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """S, eps and weights: exact for squares of what has these degrees in S = T T'/C (T
    triangular) and in eps.
    """
    below = np.tril_indices(dim, -1)
    axes = [chi_square(context_size - i, degree + 1) for i in range(dim)]
    axes += [normal(2 * degree + 1)] * len(below[0]) + [normal(of_eps + 1)] * dim
    nodes, weights = zip(*axes, strict=True)
    x = np.stack(np.meshgrid(*nodes, indexing="ij"), -1).reshape(-1, len(axes))
    T = np.zeros((len(x), dim, dim))
    T[:, range(dim), range(dim)] = np.sqrt(x[:, :dim])
    T[:, *below] = x[:, dim:-dim]
    S = T @ T.swapaxes(1, 2) / context_size
    return S, x[:, -dim:], reduce(np.multiply.outer, weights).ravel()


def errors(layers, S, eps, u):
    """The errors of the prediction's coefficients; residual labels are phi.x in the
    context and psi.x_q at the query.

    A layer (scale, add, read) adds <S, scale> of itself to a label, and add(S).x +
    (read S phi).x.
    """
    phi, psi = eps, jnp.broadcast_to(-u, eps.shape)
    for scale, add, read in zip(*layers, strict=True):
        own = jnp.einsum("nij,ij->n", S, scale)[:, None]
        both = jnp.einsum("nij,kij->nk", S, add) + jnp.einsum(
            "ki,nij,nj->nk", read, S, phi
        )
        phi, psi = phi + own * phi + both, psi + own * psi + both
    return psi - eps


def shapes(dim: int, depth: int) -> list[tuple[int, ...]]:
    """Of the three parts of ``layers``."""
    return [(depth, dim, dim), (depth, dim, dim, dim), (depth, dim, dim)]


def labels(flat, S, eps, weights, size):
    """The vector whose squared length is the risk, for a guess that is off by ``size``
    in one entry.
    """
    depth = len(flat) // (DIM**2 * (DIM + 2))
    _, layers = ravel_pytree([*map(jnp.zeros, shapes(DIM, depth))])
    error = errors(layers(flat), S, eps, size * jnp.eye(DIM)[0])
    return (jnp.sqrt(weights)[:, None] * error).ravel()


def features(flat, values, weights, prior_mean):
    """The same for layers that also scale features by S and t, and a guess of zero;
    everything in eigenvalues of S.

    A layer adds read S phi + own t y + (move t + turn S) u to a label, and stretch S +
    widen t of themselves to features, with |u| = 1. The prior mean is a multiple of u.
    """
    X = of_eps = jnp.ones_like(values)
    of_u, q_eps, q_u = prior_mean * X, 0 * X, 0 * X
    for read, own, move, turn, stretch, widen in flat.reshape(-1, 6):
        S = X * X * values
        t = S.mean(1, keepdims=True)
        scale, step, add = 1 + own * t, read * S, X * (move * t + turn * S)
        q_eps, of_eps = scale * q_eps + step * of_eps, (scale + step) * of_eps
        q_u, of_u = scale * q_u + step * of_u + add, (scale + step) * of_u + add
        X = X * (1 + stretch * S + widen * t)
    parts = jnp.stack([q_eps - 1, (q_u - prior_mean) / jnp.sqrt(2.0)])
    return (jnp.sqrt(weights)[None, :, None] * parts).ravel()


@cache
def compiled(vector):
    """A function and its Jacobian by its first argument."""
    return jax.jit(vector), jax.jit(jax.jacfwd(vector))


def search(vector, size: int, given: tuple, scales: np.ndarray) -> list[float]:
    """Least squares from random starts, one for each scale (starts, 1): the risks."""
    value, slope = compiled(vector)
    begin = scales * np.random.default_rng(size).normal(size=(len(scales), size))
    search_from = partial(
        least_squares,
        value,
        jac=slope,
        args=given,
        x_scale="jac",
        max_nfev=STEPS,
        ftol=1e-13,
        xtol=1e-13,
        gtol=1e-13,
    )
    return [2 * search_from(start).cost for start in begin]


def run(lengths=LENGTHS, depths=DEPTHS, sizes=ERRORS, more=True) -> dict:
    """Where the searches end: by context length, depth, size of the guess's error and
    start; with features by prior mean and start.
    """
    scales = np.full((STARTS, 1), SCALE)
    with jax.enable_x64(True):
        risks = [
            search(
                labels, depth * DIM**2 * (DIM + 2), (*rule(DIM, C, depth), size), scales
            )
            for C, depth, size in product(lengths, depths, sizes)
        ]
        kept = {"risk": np.reshape(risks, (*map(len, (lengths, depths, sizes)), -1))}
        if more:
            S, _, weights = rule(DIM, FEATURES_LENGTH, 4)
            nodes = np.maximum(np.linalg.eigvalsh(S), 0), weights
            kept["features"] = np.array(
                [search(features, 12, (*nodes, mean), scales) for mean in PRIOR_MEANS]
            )
    return kept


EXPERIMENT = Experiment(
    "what several layers reach, with a right and a wrong guess",
    run,
    partial(run, LENGTHS[:2], DEPTHS[:2], ERRORS[:2], more=False),
    rtol=1e-6,
    atol=1e-5,
)
