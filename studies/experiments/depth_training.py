"""Several layers, trained by Adam on sampled tasks at the paper's scale.

Everything is in residual labels, y - w*.x, which does not change what layers can do.
``labels`` are the layers of ``experiments.depth``; ``features`` have full matrices and
as many heads as can be useful.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lsalib import tasks, theory
from studies.experiments import depth
from studies.experiments.experiment import Experiment, constants, on_new_tasks

DIM, LENGTH, DEPTHS, SEEDS = 10, 10, (1, 2, 3), 2
ERRORS = (0.0, 2.0)  # of the guess, in each entry
# prior mean and guess, in each entry, of three layers that write features, too
TASKS = ((0.0, 0.0), (2.0, 2.0), (2.0, 0.0), (0.0, 2.0))
BATCH, LEARNING_RATE, SCALE, TESTS = 256, 3e-3, 0.02, 200_000
STEPS = {"labels": 20_000, "features": 5000}


def sample(key, count: int):
    """S and eps."""
    key_x, key_eps = jax.random.split(key)
    X = jax.random.normal(key_x, (count, LENGTH, DIM), jnp.float32)
    return jnp.einsum("nci,ncj->nij", X, X) / LENGTH, jax.random.normal(
        key_eps, (count, DIM), jnp.float32
    )


def labels(layers, S, eps, setting):
    """The squared error of each task, for layers that write labels; ``setting`` is the
    guess's error in an entry.
    """
    u = jnp.full(DIM, setting[0], jnp.float32)
    return jnp.square(depth.errors(layers, S, eps, u)).sum(1)


def features(layers, S, eps, setting):
    """The same for layers that are linear maps from the Gram matrix to matrices, for a
    prior mean and a guess.
    """
    mean, guess = setting
    s = jnp.einsum("nij,nj->ni", S, eps)
    G = jnp.concatenate([S, s[:, None]], 1)
    G = jnp.concatenate(
        [G, jnp.append(s, jnp.einsum("ni,ni->n", s, eps)[:, None], axis=1)[..., None]],
        2,
    )
    seen = B = jnp.broadcast_to(jnp.eye(DIM + 1, dtype=jnp.float32), G.shape)
    for layer in layers:
        upper = G[:, *np.triu_indices(DIM + 1)]
        step = seen + jnp.einsum("nk,kij->nij", upper, layer)
        B, G = step @ B, step @ G @ step.swapaxes(1, 2)
    # The query's features have moved, and with them the difference between a label and
    # its residual.
    last = B[:, -1] + mean * (B - seen)[:, :-1].sum(1)
    return jnp.square(last[:, :-1] + last[:, -1:] * (guess - mean) - eps).sum(1)


def starts(risk, layers: int):
    """Small random numbers, with the seeds in front."""
    entries = (DIM + 1) * (DIM + 2) // 2  # of a Gram matrix, without its lower half
    shapes = (
        depth.shapes(DIM, layers)
        if risk is labels
        else [(entries, DIM + 1, DIM + 1)] * layers
    )
    each = [np.random.default_rng([layers, seed]) for seed in range(SEEDS)]
    return [
        np.array([SCALE * rng.normal(size=shape) for rng in each], np.float32)
        for shape in shapes
    ]


@partial(jax.jit, static_argnames=("risk", "steps"))
def train(risk, layers, setting, key, steps: int):
    """Adam on new tasks, the same for all seeds."""
    adam = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adam(optax.cosine_decay_schedule(LEARNING_RATE, steps)),
    )

    def one(t, carry, key):
        layers, state = carry
        S, eps = sample(jax.random.fold_in(key, t), BATCH)
        gradient = jax.grad(lambda layers: risk(layers, S, eps, setting).mean())(layers)
        # Adam raises a float to the power of its integer count
        with jax.numpy_dtype_promotion("standard"):
            updates, state = adam.update(gradient, state)
        return optax.apply_updates(layers, updates), state

    begin = jax.vmap(adam.init)(layers)
    step = lambda t, carry: jax.vmap(one, (None, 0, None))(t, carry, key)
    return jax.lax.fori_loop(0, steps, step, (layers, begin))[0]


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


@partial(jax.jit, static_argnames="risk")
def tested(risk, layers, setting, key):
    S, eps = sample(key, 10_000)
    errors = lambda layers: risk(layers, S, eps, setting)
    return jax.vmap(errors, out_axes=1)(layers), known(S, eps)


def evaluate(risk, layers, setting) -> np.ndarray:
    """Risk and standard error of each seed, on the same tasks, by regression on the
    control variates.
    """
    test = partial(tested, risk, layers, setting)
    losses, variates = on_new_tasks(test, TESTS // 10_000)
    beside = np.column_stack([np.ones(TESTS), variates - means()])
    fit = np.linalg.lstsq(beside, losses, rcond=None)[0]
    return np.stack([fit[0], (losses - beside @ fit).std(0) / np.sqrt(TESTS)], 1)


def trained(risk, layers: int, settings) -> list[np.ndarray]:
    """The evaluation of each setting, (seeds, 2)."""
    key, steps = jax.random.key(0), STEPS[risk.__name__]
    ends = []
    for setting in np.array(settings, np.float32).reshape(len(settings), -1):
        end = train(risk, starts(risk, layers), setting, key, steps)
        ends.append(evaluate(risk, end, setting))
    return ends


def run(depths=DEPTHS, more=True) -> dict[str, np.ndarray]:
    """``labels`` (depths, errors, seeds, 2), ``features`` (tasks, seeds, 2)."""
    kept = {"labels": np.array([trained(labels, n, ERRORS) for n in depths])}
    return kept | ({"features": np.array(trained(features, 3, TASKS))} if more else {})


EXPERIMENT = Experiment(
    "several layers, trained at the paper's scale",
    run,
    partial(run, DEPTHS[:1], more=False),
    constants(globals()),
    rtol=2e-3,
    atol=1e-3,
)
