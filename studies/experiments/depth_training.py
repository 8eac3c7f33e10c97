"""Several layers, trained by Adam on sampled tasks at the paper's scale.

The layers are those of ``experiments.depth``. Everything is in residual labels, y -
w*.x, which does not change what layers can do.
"""

from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

from lsalib import tasks, theory
from studies.experiments import depth
from studies.experiments.experiment import (
    Experiment,
    on_new_tasks,
    risk,
    trained,
)

DIM, LENGTH, DEPTHS, SEEDS = 10, 10, (1, 2, 3), 2
ERRORS = (0.0, 2.0)  # of the guess, in each entry
STEPS, BATCH, LEARNING_RATE, SCALE, TESTS = 20_000, 256, 3e-3, 0.02, 200_000


def sample(key, count: int):
    """S and eps."""
    key_x, key_eps = jax.random.split(key)
    X = jax.random.normal(key_x, (count, LENGTH, DIM), jnp.float32)
    return jnp.einsum("nci,ncj->nij", X, X) / LENGTH, jax.random.normal(
        key_eps, (count, DIM), jnp.float32
    )


def squares(u: float, layers, S, eps):
    """The squared error of each task, for a guess that is off by u in each entry."""
    off = jnp.full(DIM, u, jnp.float32)
    return jnp.square(depth.errors(layers, S, eps, off)).sum(1)


def start(layers: int, key) -> list[jax.Array]:
    """Small random numbers."""
    shapes = depth.shapes(DIM, layers)
    keys = jax.random.split(key, len(shapes))
    return [SCALE * jax.random.normal(*each) for each in zip(keys, shapes, strict=True)]


def known(S, eps):
    """Control variates, whose means are known: errors of one step and of two layers'
    descent, |eps|^2, powers of t.
    """
    d, C = DIM, LENGTH
    step, D = C / (C + d + 1), C**2 + (d + 3) * C + (d - 1) * (d + 4)
    t, s = jnp.trace(S, axis1=1, axis2=2) / d, jnp.einsum("nij,nj->ni", S, eps)
    two = 2 * step * (1 + t * C * d / D)[:, None] * s - C**2 / D * jnp.einsum(
        "nij,nj->ni", S, s
    )
    vectors = step * s - eps, two - eps, eps
    return jnp.stack(
        [jnp.square(vector).sum(1) for vector in vectors] + [t**k for k in range(1, 5)],
        1,
    )


def means() -> np.ndarray:
    """The means of ``known``."""
    d, C = DIM, LENGTH
    powers = np.cumprod(1 + 2 * np.arange(4) / (C * d))
    right = tasks.GaussianTask(np.zeros(d), C)
    return np.array(
        [theory.depth_risk(right, 1), theory.depth_risk(right, 2), d, *powers]
    )


@jax.jit
def tested(u: float, layers, key):
    S, eps = sample(key, 10_000)
    return squares(u, layers, S, eps), known(S, eps)


def evaluate(u: float, layers) -> list[float]:
    """Risk, and its standard error."""
    found, variates = on_new_tasks(partial(tested, u, layers), TESTS // 10_000)
    return risk(found, (variates - means()).T)


def run(depths=DEPTHS) -> dict[str, np.ndarray]:
    """``labels`` (depths, errors, seeds, 2)."""
    risks = []
    for layers, u in product(depths, ERRORS):
        loss = lambda params, key, u=u: squares(u, params, *sample(key, BATCH)).mean()
        init = partial(start, layers)
        ends = trained(loss, init, SEEDS, STEPS, LEARNING_RATE, clip=1.0)
        risks.append([evaluate(u, end) for end in ends])
    return {"labels": np.reshape(risks, (len(depths), len(ERRORS), SEEDS, 2))}


EXPERIMENT = Experiment(
    "several layers, trained at the paper's scale",
    run,
    partial(run, DEPTHS[:1]),
    rtol=2e-3,
    atol=1e-3,
)
