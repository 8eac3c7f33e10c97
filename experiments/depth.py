"""Layers of linear attention that write labels, one after the other: searches on the exact risk, and training.

The labels of all tokens, the query's included, become affine functions of what they were: no two are multiplied.
"""

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

from experiments.experiment import Experiment, versions
from lsalib import training

DIM, LENGTHS, DEPTHS, ERRORS, STARTS = 2, (3, 6, 12), (1, 2, 3), (0.0, 1.0, 4.0), 12
STEPS, SCALE = 3000, 0.5


def gauss(diagonal, beside) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the Gauss rule whose recurrence has these coefficients."""
    x, V = np.linalg.eigh(np.diag(diagonal) + np.diag(np.sqrt(beside), 1) + np.diag(np.sqrt(beside), -1))
    return x, V[0] ** 2


def normal(n: int) -> tuple[np.ndarray, np.ndarray]:
    return gauss(np.zeros(n), np.arange(1.0, n))


def chi_square(k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    i = np.arange(float(n))
    x, weights = gauss(2 * i + k / 2, i[1:] * (i[1:] + k / 2 - 1))
    return 2 * x, weights


def rule(dim: int, context_size: int, degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """S, eps and weights: exact for squares of what has this degree in S = T T'/C (T triangular), affine in eps."""
    below = list(zip(*np.tril_indices(dim, -1), strict=True))
    axes = [chi_square(context_size - i, degree + 1) for i in range(dim)]
    axes += [normal(2 * degree + 1)] * len(below) + [normal(2)] * dim
    x = np.stack([part.ravel() for part in np.meshgrid(*(nodes for nodes, _ in axes), indexing="ij")], axis=-1)
    weights = np.prod(np.stack(np.meshgrid(*(w for _, w in axes), indexing="ij")), axis=0).ravel()
    T = np.zeros((len(x), dim, dim))
    T[:, np.arange(dim), np.arange(dim)] = np.sqrt(x[:, :dim])
    for place, (i, j) in enumerate(below):
        T[:, i, j] = x[:, dim + place]
    return T @ T.swapaxes(1, 2) / context_size, x[:, -dim:], weights


def errors(layers, S, eps, u):
    """Of the prediction's coefficients; residual labels are phi.x in the context and psi.x_q at the query.

    A layer (scale, add, read) adds <S, scale> of itself to a label, and add(S).x + (read S phi).x.
    """
    phi, psi = eps, jnp.broadcast_to(-u, eps.shape)
    for scale, add, read in zip(*layers, strict=True):
        own = jnp.einsum("nij,ij->n", S, scale)[:, None]
        both = jnp.einsum("nij,kij->nk", S, add) + jnp.einsum("ki,nij,nj->nk", read, S, phi)
        phi, psi = phi + own * phi + both, psi + own * psi + both
    return psi - eps


def risk(layers, S, eps, weights, u):
    return weights @ jnp.square(errors(layers, S, eps, u)).sum(1)


def starts(dim: int, depth: int, count: int):
    """Random layers: with a leading axis of starts."""
    rng = np.random.default_rng(depth)
    return tuple(SCALE * rng.normal(size=(count, depth, *shape)) for shape in [(dim,) * 2, (dim,) * 3, (dim,) * 2])


@jax.jit
def search(begin, S, eps, weights, u):
    """L-BFGS from every start: values and gradients."""
    loss = lambda layers: risk(layers, S, eps, weights, u)
    end = jax.vmap(lambda one: training.minimize(loss, one, steps=STEPS, patience=100))(begin)
    return end.value, end.gradient


def run(lengths=LENGTHS, depths=DEPTHS, sizes=ERRORS, count=STARTS) -> dict[str, np.ndarray]:
    """Where the searches end: (context lengths, depths, sizes of the guess's error, starts)."""
    shape = len(lengths), len(depths), len(sizes), count
    with jax.enable_x64(True):
        ends = [
            search(starts(DIM, depth, count), *rule(DIM, length, depth), np.array([size] + [0.0] * (DIM - 1)))
            for length, depth, size in product(lengths, depths, sizes)
        ]
        values, gradients = (np.reshape(part, shape) for part in zip(*jax.device_get(ends), strict=True))
    return {"risk": values, "gradient": gradients}


ABOUT = {
    "dim": DIM,
    "lengths": list(LENGTHS),
    "depths": list(DEPTHS),
    "errors": list(ERRORS),
    "starts": STARTS,
    "steps": STEPS,
    "scale": SCALE,
    "dtype": "float64",
}
EXPERIMENTS = {
    "depth": Experiment(
        "what layers after one another reach, with a right and a wrong guess",
        run,
        partial(run, LENGTHS[:1], DEPTHS[:2], ERRORS[:2], STARTS),
        ABOUT,
        partial(versions, "jax", "numpy"),
        rtol=1e-6,
        atol=1e-5,
    )
}
