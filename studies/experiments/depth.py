"""Several layers of linear attention: searches for the minimum risk among all weights,
on the exact risk.

A layer that writes labels maps the labels of all tokens, including the query's, to
affine functions of themselves.
"""

from functools import cache, partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import least_squares

from studies.experiments.experiment import Experiment

DIMS, LENGTHS, DEPTHS, ERRORS = (2, 1), (3, 6, 12, 24, 1), (1, 2, 3), (0.0, 1.0, 4.0)
SIGNS = (1, -1)  # of the answer when it is read, and of the guess when it is written
# prior mean and guess, times each length but zero
TASKS = ((0, 0), (1, 1), (1, 0), (0, 1))
STARTS, STEPS, SCALE = 24, 300, 0.5


def gauss(diagonal, beside) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the Gauss rule whose recurrence has these coefficients."""
    x, V = np.linalg.eigh(
        np.diag(diagonal) + np.diag(np.sqrt(beside), 1) + np.diag(np.sqrt(beside), -1)
    )
    return x, V[0] ** 2


def chi_square(k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    i = np.arange(float(n))
    x, weights = gauss(2 * i + k / 2, i[1:] * (i[1:] + k / 2 - 1))
    return 2 * x, weights


def rule(
    dim: int, context_size: int, degree: int, of_eps: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """S, eps and weights: exact for squares of what has these degrees in S = T T'/C (T
    triangular) and in eps.
    """
    below = list(zip(*np.tril_indices(dim, -1), strict=True))
    axes = [chi_square(context_size - i, degree + 1) for i in range(dim)]
    normal = lambda n: gauss(np.zeros(n), np.arange(1.0, n))
    axes += [normal(2 * degree + 1)] * len(below) + [normal(of_eps + 1)] * dim
    x = np.stack(
        [
            part.ravel()
            for part in np.meshgrid(*(nodes for nodes, _ in axes), indexing="ij")
        ],
        axis=-1,
    )
    weights = np.prod(
        np.stack(np.meshgrid(*(w for _, w in axes), indexing="ij")), axis=0
    ).ravel()
    T = np.zeros((len(x), dim, dim))
    T[:, np.arange(dim), np.arange(dim)] = np.sqrt(x[:, :dim])
    for place, (i, j) in enumerate(below):
        T[:, i, j] = x[:, dim + place]
    return T @ T.swapaxes(1, 2) / context_size, x[:, -dim:], weights


def errors(layers, S, eps, u, sign=1):
    """The errors of the prediction's coefficients; residual labels are phi.x in the
    context and psi.x_q at the query.

    A layer (scale, add, read) adds <S, scale> of itself to a label, and add(S).x +
    (read S phi).x.
    """
    phi, psi = eps, jnp.broadcast_to(-sign * u, eps.shape)
    for scale, add, read in zip(*layers, strict=True):
        own = jnp.einsum("nij,ij->n", S, scale)[:, None]
        both = jnp.einsum("nij,kij->nk", S, add) + jnp.einsum(
            "ki,nij,nj->nk", read, S, phi
        )
        phi, psi = phi + own * phi + both, psi + own * psi + both
    return sign * psi - eps


def shapes(dim: int, depth: int) -> list[tuple[int, ...]]:
    """Of the three parts of ``layers``."""
    return [(depth, dim, dim), (depth, dim, dim, dim), (depth, dim, dim)]


def labels(flat, nodes, u, sign, *, dim: int, depth: int):
    """The vector whose squared length is the risk."""
    S, eps, weights = nodes
    sizes = np.cumsum([np.prod(shape) for shape in shapes(dim, depth)])
    parts = zip(jnp.split(flat, sizes[:-1]), shapes(dim, depth), strict=True)
    error = errors(tuple(part.reshape(shape) for part, shape in parts), S, eps, u, sign)
    return (jnp.sqrt(weights)[:, None] * error).ravel()


def features(flat, nodes, size, task, *, depth: int):
    """The same for two features and layers that also scale features by S and t;
    everything in eigenvalues of S.

    A layer adds read S phi + own t y + (move t + turn S) u to a label, and stretch S +
    widen t of themselves to features. Prior mean and guess are multiples of u.
    """
    values, weights = nodes
    X = of_eps = jnp.ones_like(values)
    of_u, q_eps, q_u = task[0] * X, 0 * X, task[1] * X
    for read, own, move, turn, stretch, widen in flat.reshape(depth, 6):
        S = X * X * values
        t = S.mean(1, keepdims=True)
        scale, step, add = 1 + own * t, read * S, X * (move * t + turn * S)
        q_eps, of_eps = scale * q_eps + step * of_eps, (scale + step) * of_eps
        q_u, of_u = scale * q_u + step * of_u + add, (scale + step) * of_u + add
        X = X * (1 + stretch * S + widen * t)
    parts = jnp.stack([q_eps - 1, (q_u - task[0]) * size / jnp.sqrt(2.0)])
    return (jnp.sqrt(weights)[None, :, None] * parts).ravel()


@cache
def compiled(which, **shape):
    """A function of (flat, given) and its Jacobian."""
    value = lambda flat, given: which(flat, *given, **shape)
    return jax.jit(value), jax.jit(jax.jacfwd(value))


def search(which, shape: dict, size: int, given, count: int, scale=SCALE) -> np.ndarray:
    """Least squares from random starts: the risks, and the largest entries of their
    gradients.
    """
    options = {
        "x_scale": "jac",
        "max_nfev": STEPS,
        "ftol": 1e-13,
        "xtol": 1e-13,
        "gtol": 1e-13,
    }
    value, slope = (
        lambda flat, f=f: np.asarray(f(flat, given)) for f in compiled(which, **shape)
    )
    begin = scale * np.random.default_rng(size).normal(size=(count, size))
    ends = [least_squares(value, start, slope, **options) for start in begin]
    return np.array([(2 * end.cost, 2 * np.abs(end.grad).max()) for end in ends]).T


def of_labels(dim, length, depth, size, sign, count) -> np.ndarray:
    u = size * np.eye(dim)[0]
    numbers = sum(int(np.prod(shape)) for shape in shapes(dim, depth))
    return search(
        labels,
        {"dim": dim, "depth": depth},
        numbers,
        (rule(dim, length, depth), u, float(sign)),
        count,
    )


def of_features(length, size, task, count) -> np.ndarray:
    S, _, weights = rule(2, length, 4)
    nodes = np.maximum(np.linalg.eigvalsh(S), 0), weights
    return search(
        features, {"depth": 2}, 12, (nodes, size, np.array(task, float)), count
    )


def run(
    dims=DIMS,
    lengths=LENGTHS,
    depths=DEPTHS,
    sizes=ERRORS,
    signs=SIGNS,
    count=STARTS,
    more=True,
) -> dict:
    """Where the searches end: by dimension, context length, depth, size of the guess's
    error, sign and start.
    """
    grid = dims, lengths, depths, sizes, signs
    with jax.enable_x64(True):
        ends = np.reshape(
            [of_labels(*cell, count) for cell in product(*grid)],
            (*map(len, grid), 2, -1),
        )
        kept = {"risk": ends[..., 0, :], "gradient": ends[..., 1, :]}
        if more:
            cells = [
                of_features(*cell, count) for cell in product(lengths, sizes[1:], TASKS)
            ]
            ends = np.reshape(cells, (len(lengths), len(sizes) - 1, len(TASKS), 2, -1))
            kept["features"] = ends[..., 0, :]
    return kept


GRID = {
    "dims": DIMS,
    "lengths": LENGTHS,
    "depths": DEPTHS,
    "errors": ERRORS,
    "signs": SIGNS,
    "tasks": TASKS,
}
EXPERIMENT = Experiment(
    "what several layers reach, with a right and a wrong guess",
    run,
    partial(
        run,
        DIMS[:1],
        LENGTHS[:2],
        DEPTHS[:2],
        ERRORS[:2],
        SIGNS[:1],
        STARTS,
        more=False,
    ),
    GRID | {"starts": STARTS, "steps": STEPS, "scale": SCALE, "dtype": "float64"},
    rtol=1e-6,
    atol=1e-5,
)
