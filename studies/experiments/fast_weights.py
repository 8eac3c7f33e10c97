"""Fast-weight layers, trained by Adam at the paper's scale: what replaces the guess of
the tasks' mean weights?
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lsalib import estimators, layers, tasks, theory
from studies.experiments.experiment import (
    Experiment,
    on_new_tasks,
    risk,
    trained,
)

DIM, LENGTH, PRIOR_MEAN, SEEDS = 10, 10, 2.0, 2
STEPS, BATCH, LEARNING_RATE, TESTS = 5000, 2048, 5e-3, 200_000


class Setting(NamedTuple):
    """A layer, and where it can keep the tasks' mean: the right guess, a trained
    initial state, or nowhere.
    """

    rule: str
    heads: int
    start: str

    def layer(self) -> layers.Layer:
        fixed = ("guess",) if self.start == "state" else ("guess", "state")
        return layers.Layer(self.rule, heads=self.heads, frozen=fixed)


SETTINGS = [
    Setting("delta", 1, "guess"),
    Setting("delta", 1, "state"),
    Setting("delta", 1, "none"),
    Setting("delta", 2, "none"),
    Setting("delta", 3, "none"),
    Setting("linear", 1, "state"),
]


def task() -> tasks.GaussianTask:
    return tasks.GaussianTask([PRIOR_MEAN] * DIM, LENGTH)


def loss(setting: Setting, params, key):
    batch = tasks.sample(key, task(), BATCH)
    predicted = jax.vmap(setting.layer().predict, (None, 0, 0, 0))(
        params, batch.X, batch.y, batch.x_q
    )
    return jnp.square(predicted - batch.target).mean()


def start(setting: Setting, key) -> layers.LayerParams:
    guess = PRIOR_MEAN if setting.start == "guess" else 0.0
    params = setting.layer().init(key, DIM, value_size=1)
    return params._replace(guess=jnp.full(DIM, guess, jnp.float32))


@partial(jax.jit, static_argnums=0)
def tested(setting: Setting, params, key):
    """Squared errors on new tasks, and beside them those of the descent whose risk is
    known. Both predictions are linear in the query: their slopes are weights.
    """
    batch = tasks.sample(key, task(), 10_000)
    prior_mean = jnp.full(DIM, PRIOR_MEAN, jnp.float32)
    descent = partial(estimators.delta_rule, w0=prior_mean, step_size=1 / (DIM + 2))

    def errors(predict):
        slope = jax.vmap(jax.grad(predict, argnums=2))
        weights = slope(batch.X, batch.y, jnp.zeros_like(batch.x_q))
        return jnp.square(weights - batch.w).sum(1)

    return errors(partial(setting.layer().predict, params)), errors(descent)


def evaluate(setting: Setting, params) -> list[float]:
    """Risk, and its standard error."""
    found, known = on_new_tasks(partial(tested, setting, params), TESTS // 10_000)
    mean = theory.delta_rule_risk(task(), start=task().prior_mean)
    return risk(found, [known - mean])


def run(settings=SETTINGS, seeds: int = SEEDS) -> dict[str, np.ndarray]:
    """``risk`` (settings, seeds, 2)."""
    risks = []
    for setting in settings:
        of_setting = partial(loss, setting), partial(start, setting)
        ends = trained(*of_setting, seeds, STEPS, LEARNING_RATE)
        risks.append([evaluate(setting, end) for end in ends])
    return {"risk": np.array(risks)}


EXPERIMENT = Experiment(
    "layers with a state, trained at the paper's scale with and without a guess",
    run,
    partial(run, SETTINGS[:1], 1),
    rtol=2e-2,
    atol=1e-2,
)
