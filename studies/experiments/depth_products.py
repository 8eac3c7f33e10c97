"""Two layers that write labels and multiply them, for two features: searches for small
risks, on the exact risk.

A layer adds an entry of the Gram matrix times an entry of the token to a token's label:
6 times 3 numbers. The risk is quadratic in those of the last layer, so least squares
finds them; the search is over the first layer.
"""

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from studies.experiments.depth import rule
from studies.experiments.experiment import Experiment

LENGTHS, ERRORS, STARTS, STEPS, SCALE = (1, 2, 3), (0.0, 1.0, 4.0), 6, 400, 0.5


def gram(S, phi):
    """x1 x1, x1 x2, x2 x2, x1 y, x2 y and y y, where the context's labels are phi.x:
    (nodes, 6).
    """
    s = jnp.einsum("nij,nj->ni", S, phi)
    square = (s * phi).sum(1, keepdims=True)
    return jnp.concatenate([S[:, *np.triu_indices(2)], s, square], 1)


def terms(entries, psi):
    """What a layer's numbers (6, 3) multiply, for a label psi.x: (nodes, 2, 6, 3)."""
    eye = jnp.broadcast_to(jnp.eye(2), (len(psi), 2, 2))
    token = jnp.concatenate([eye, psi[..., None]], 2)
    return entries[:, None, :, None] * token[:, :, None]


@jax.jit
@jax.value_and_grad
def two_layers(first, S, eps, weights, u, allowed):
    """The risk after this first layer and the best last one: numbers that are not
    allowed are zero in both.
    """
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
    return ((missed - columns @ last) ** 2).sum()


def search(length: int, size: float, degree: int) -> list[float]:
    """The risks where searches from random first layers end; ``degree`` is the largest
    one in labels: 1 for layers that are affine in them, 3 for all.
    """
    allowed = np.add.outer([0, 0, 0, 1, 1, 2], [0, 0, 1]) <= degree
    given = *rule(2, length, 4, 9), np.array([size, 0.0]), np.float64(allowed)

    def value(flat):
        risk, slope = two_layers(flat.reshape(6, 3), *given)
        return float(risk), np.asarray(slope).ravel()

    begin = SCALE * np.random.default_rng(length).normal(size=(STARTS, 18))
    options = {"gtol": 1e-9, "maxiter": STEPS}
    return [minimize(value, start, jac=True, options=options).fun for start in begin]


def run(lengths=LENGTHS, sizes=ERRORS, degrees=(1, 3)) -> dict:
    """Every risk by context length, size of the guess's error, without and with
    products.
    """
    with jax.enable_x64(True):
        risks = [search(*cell) for cell in product(lengths, sizes, degrees)]
    return {"risk": np.reshape(risks, (*map(len, (lengths, sizes, degrees)), STARTS))}


EXPERIMENT = Experiment(
    "two layers that multiply labels, for two features",
    run,
    # Searches without products end in one place. With products rounding decides which
    # minimum they find.
    partial(run, LENGTHS[:1], ERRORS[:2], (1,)),
    rtol=1e-5,
    atol=1e-5,
)
