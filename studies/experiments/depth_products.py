"""Two layers that write labels and multiply them, for two features: searches for small
risks, on the exact risk.

A layer adds an entry of the Gram matrix times an entry of the token to a token's label:
6 times 3 numbers. The risk is quadratic in those of the last layer, so least squares
finds them; the search is over the first layer.
"""

from functools import cache
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from studies.experiments.depth import rule
from studies.experiments.experiment import Experiment

LENGTHS, ERRORS, STARTS, STEPS, SCALE = (1, 2, 3), (0.0, 1.0, 4.0), 6, 400, 0.5
# Entries of the Gram matrix by entries of a token, labels last; a layer that is affine
# in the labels has only some.
AFFINE = np.array([[1, 1, 1]] * 3 + [[1, 1, 0]] * 2 + [[0, 0, 0]], float)
ALL = np.ones((6, 3))


def gram(S, phi):
    """x1 x1, x1 x2, x2 x2, x1 y, x2 y and y y, where the context's labels are phi.x:
    (nodes, 6).
    """
    s = jnp.einsum("nij,nj->ni", S, phi)
    return jnp.stack(
        [S[:, 0, 0], S[:, 0, 1], S[:, 1, 1], s[:, 0], s[:, 1], (s * phi).sum(1)], 1
    )


def terms(entries, psi):
    """What a layer's numbers (6, 3) multiply, for a label psi.x: (nodes, 2, 6, 3)."""
    one, none = jnp.ones_like(psi[:, 0]), jnp.zeros_like(psi[:, 0])
    token = jnp.stack(
        [jnp.stack([one, none, psi[:, 0]], 1), jnp.stack([none, one, psi[:, 1]], 1)], 1
    )
    return entries[:, None, :, None] * token[:, :, None]


def two_layers(first, nodes, u, allowed):
    """The risk after this first layer, and the best last one: numbers that are not
    allowed are zero in both.
    """
    S, eps, weights = nodes
    entries, psi = gram(S, eps), jnp.broadcast_to(-u, eps.shape)
    phi, psi = (
        label + jnp.einsum("njab,ab->nj", terms(entries, label), first * allowed)
        for label in (eps, psi)
    )
    root = jnp.sqrt(weights)[:, None]
    columns = (
        root[..., None, None] * terms(gram(S, phi), psi) * allowed[None, None]
    ).reshape(eps.size, -1)
    missed = (root * (eps - psi)).ravel()
    scale = jnp.sqrt((columns**2).sum(0) + 1e-60)  # a column may be zero
    columns = columns / scale[None]
    last = jnp.linalg.solve(
        columns.T @ columns + 1e-12 * jnp.eye(len(scale)), columns.T @ missed
    )
    return ((missed - columns @ last) ** 2).sum(), (last / scale).reshape(first.shape)


@cache
def compiled():
    return jax.jit(jax.value_and_grad(two_layers, has_aux=True))


def search(
    length: int, size: float, allowed: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Where searches from random first layers end: the risks, and both layers with the
    smallest.
    """
    given = (
        tuple(map(jnp.asarray, rule(2, length, 4, 9))),
        jnp.array([size, 0.0]),
        jnp.asarray(allowed),
    )

    def value(flat):
        (risk, _), slope = compiled()(jnp.asarray(flat.reshape(6, 3)), *given)
        return float(risk), np.asarray(slope).ravel()

    begin = SCALE * np.random.default_rng(length).normal(size=(count, 18))
    ends = [
        minimize(value, start, jac=True, options={"gtol": 1e-9, "maxiter": STEPS})
        for start in begin
    ]
    risks = np.array([end.fun for end in ends])
    first = ends[int(np.argmin(risks))].x.reshape(6, 3) * allowed
    return risks, np.stack(
        [first, compiled()(jnp.asarray(first), *given)[0][1] * allowed]
    )


def run(lengths=LENGTHS, sizes=ERRORS, kinds=(AFFINE, ALL), count=STARTS) -> dict:
    """By context length, size of the guess's error, without and with products: every
    risk, and the best layers.
    """
    with jax.enable_x64(True):
        ends = [search(*cell, count) for cell in product(lengths, sizes, kinds)]
    shape = len(lengths), len(sizes), len(kinds)
    risks, layers = zip(*ends, strict=True)
    return {
        "risk": np.reshape(risks, (*shape, count)),
        "layers": np.reshape(layers, (*shape, 2, 6, 3)),
    }


EXPERIMENT = Experiment(
    "two layers that multiply labels, for two features",
    run,
    # Searches without products end in one place. With products rounding decides which
    # minimum they find.
    lambda: {"risk": run(LENGTHS[:1], ERRORS[:2], (AFFINE,))["risk"]},
    {
        "lengths": LENGTHS,
        "errors": ERRORS,
        "starts": STARTS,
        "steps": STEPS,
        "scale": SCALE,
        "dtype": "float64",
    },
    rtol=1e-5,
    atol=1e-5,
)
