"""Fast-weight layers, trained by Adam at the paper's scale: what replaces the guess of
the tasks' mean weights?
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lsalib import estimators, layers, tasks, theory, training
from studies.experiments.experiment import Experiment

DIM, LENGTH, MEAN, SEEDS = 10, 10, 2.0, 2
STEPS, BATCH, RATE, TESTS, BLOCK = 5000, 2048, 5e-3, 200_000, 50


class Setting(NamedTuple):
    """A layer, and where it can keep the tasks' mean: the right guess, a trained
    initial state, or nowhere.
    """

    rule: str
    heads: int
    start: str

    def layer(self) -> layers.Layer:
        fixed = ("guess",) if self.start == "state" else ("guess", "state")
        return layers.Layer(self.rule, heads=self.heads, value_size=1, frozen=fixed)


SETTINGS = [
    Setting("delta", 1, "guess"),
    Setting("delta", 1, "state"),
    Setting("delta", 1, "none"),
    Setting("delta", 2, "none"),
    Setting("delta", 3, "none"),
    Setting("linear", 1, "state"),
]


def task() -> tasks.GaussianTask:
    return tasks.GaussianTask([MEAN] * DIM, LENGTH)


def trained(setting: Setting, seeds: int) -> training.Trained:
    """New tasks in every step; the learning rate falls to zero along a cosine."""
    layer, drawn = setting.layer(), task()
    guess = jnp.full(DIM, MEAN if setting.start == "guess" else 0.0, jnp.float32)

    def loss(params, key):
        batch = tasks.sample(key, drawn, BATCH)
        predicted = jax.vmap(layer.predict, (None, 0, 0, 0))(
            params, batch.X, batch.y, batch.x_q
        )
        return jnp.square(predicted - batch.target).mean()

    return training.train(
        loss,
        None,
        jax.random.key(0),
        steps=STEPS,
        optimizer=optax.adam(optax.cosine_decay_schedule(RATE, STEPS)),
        init=lambda key: layer.init(key, DIM)._replace(guess=guess),
        seeds=seeds,
    )


def weights_found(layer: layers.Layer, params, X, y):
    """The prediction is linear in the query: its slope, the weights that the layer has
    found.
    """
    return jax.grad(layer.predict, argnums=3)(params, X, y, jnp.zeros(DIM, X.dtype))


@partial(jax.jit, static_argnames="layer")
def tested(layer: layers.Layer, params, key):
    """Squared errors on new tasks, and beside them those of the descent whose risk is
    known.
    """
    batch = tasks.sample(key, task(), 10_000)
    found = jax.vmap(partial(weights_found, layer, params))(batch.X, batch.y)
    start = jnp.full(DIM, MEAN, jnp.float32)
    # Both are linear in the query.
    descent = partial(estimators.delta_rule, w0=start, step_size=1 / (DIM + 2))
    known = jax.vmap(jax.grad(descent, argnums=2))(
        batch.X, batch.y, jnp.zeros_like(batch.x_q)
    )
    error = lambda each: jnp.square(each - batch.w).sum(1)
    return error(found), error(known)


def evaluate(layer: layers.Layer, end: training.Trained, seeds: int) -> np.ndarray:
    """Risk, its standard error, and the guess: weights found in a context of zeros.

    One row for each seed.
    """
    rows = []
    for place in range(seeds):
        one = jax.tree.map(lambda leaf, place=place: leaf[place], end.params)
        keys = jax.random.split(jax.random.key(1), TESTS // 10_000)
        pairs = zip(
            *(jax.device_get(tested(layer, one, key)) for key in keys), strict=True
        )
        found, known = (np.concatenate(each).astype(np.float64) for each in pairs)
        slope = np.cov(found, known)[0, 1] / known.var()
        rest = found - slope * (
            known - theory.delta_rule_risk(task(), start=task().prior_mean)
        )
        guess = weights_found(
            layer,
            one,
            jnp.zeros((LENGTH, DIM), jnp.float32),
            jnp.zeros(LENGTH, jnp.float32),
        )
        rows.append([rest.mean(), rest.std() / np.sqrt(TESTS), *guess])
    return np.array(rows)


def run(settings=SETTINGS, seeds: int = SEEDS) -> dict[str, np.ndarray]:
    """``risk`` (settings, seeds, 2), ``guess`` (settings, seeds, d), ``losses``
    (settings, seeds, blocks of steps).
    """
    kept: dict[str, list] = {"risk": [], "guess": [], "losses": []}
    for setting in settings:
        end = trained(setting, seeds)
        rows = evaluate(setting.layer(), end, seeds)
        kept["risk"].append(rows[:, :2])
        kept["guess"].append(rows[:, 2:])
        kept["losses"].append(
            np.asarray(end.losses, np.float64).reshape(seeds, -1, BLOCK).mean(2)
        )
        print(setting, rows[:, :2].round(4).tolist(), flush=True)
    return {name: np.array(each) for name, each in kept.items()}


GRID = {
    "dim": DIM,
    "length": LENGTH,
    "prior_mean": MEAN,
    "settings": [list(each) for each in SETTINGS],
}
ADAM = {
    "steps": STEPS,
    "batch": BATCH,
    "learning_rate": RATE,
    "seeds": SEEDS,
    "tests": TESTS,
    "block": BLOCK,
}
EXPERIMENT = Experiment(
    "layers with a state, trained at the paper's scale with and without a guess",
    run,
    partial(run, SETTINGS[:1], 1),
    GRID | ADAM,
    rtol=2e-2,
    atol=1e-2,
)
