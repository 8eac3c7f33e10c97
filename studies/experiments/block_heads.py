"""The whole block of ``real_block`` with one and two heads: does training find the
constant that a second head can build from its output norm and its output gate?

Queries and output gates read the features only, as the proposition about the second
head asks: so two heads with a guess of zero can come as close as one likes to any one
head with the right guess.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lsalib import training
from studies.experiments import real_block
from studies.experiments.experiment import Experiment

DIM, LENGTH, MEAN, SEEDS = 5, 5, 2.0, 12
STEPS, BATCH, RATE, TESTS = 5000, 512, 1e-2, 400 * 512
BUILT = 10.0  # how long the built head's output gates are


class Setting(NamedTuple):
    """How many heads, and the guess in each entry."""

    heads: int
    guess: float


SETTINGS = [Setting(1, MEAN), Setting(2, 0.0), Setting(2, MEAN), Setting(1, 0.0)]


def start(setting: Setting, key) -> dict[str, jax.Array]:
    """One row of weights for each head."""
    keys = jax.random.split(key, setting.heads)
    return jax.vmap(lambda each: real_block.start(each, DIM))(keys)


def errors(setting: Setting, params, key, count: int):
    """Squared errors on new tasks; the last axis is the fast one."""
    features, weights = jax.random.split(key)
    X = jax.random.normal(features, (LENGTH + 1, DIM, count))
    w = MEAN + jax.random.normal(weights, (DIM, count))
    labels = (X * w).sum(1)
    # Queries and gates do not read the last entry: the guess has no place there.
    tokens = [*jnp.concatenate([X, labels.at[-1].set(0.0)[:, None]], 1)]
    params = params | {name: params[name].at[..., -1].set(0.0) for name in "QG"}
    predicted = setting.guess * X[-1].sum(0)
    for place in range(setting.heads):
        own = jax.tree.map(lambda leaf, place=place: leaf[place], params)
        predicted += real_block.head(lambda piece: True, own, tokens)
    return jnp.square(predicted - labels[-1])


def built(length: float = BUILT) -> dict[str, jax.Array]:
    """The proposition's head, which adds the guess ``u.x_q`` with u = (MEAN, ...)."""
    n = DIM + 1
    u, zero = jnp.append(jnp.full(DIM, MEAN), 0.0), jnp.zeros((n, n))
    two = jnp.zeros(n).at[:2].set(1.0)
    return {
        "K": zero.at[0].set(u),
        "Q": zero.at[0].set(u),
        "V": two[:, None] * u,
        "G": zero.at[0].set(length * u).at[1].set(-length * u),
        # The norm leaves (n/2)^½ in both entries.
        "p": two / (length * (n / 2) ** 0.5),
        "taps": jnp.zeros((3 * n, real_block.TAPS)).at[:, 0].set(1.0),
    } | {
        "step": jnp.zeros(n),
        "gate": jnp.zeros(n),
        "eta": jnp.array(0.5),
        "A": jnp.array(0.0),
        "dt": jnp.array(-4.0),
    }


def tested(setting: Setting, params) -> list[float]:
    """The risk on new tasks, and its standard error."""
    test = jax.jit(lambda key: errors(setting, params, key, BATCH))
    keys = jax.random.split(jax.random.key(1), TESTS // BATCH)
    squares = np.concatenate([test(key) for key in keys]).astype(np.float64)
    return [squares.mean(), squares.std() / len(squares) ** 0.5]


def trained(setting: Setting, seeds: int, steps: int = STEPS) -> list:
    """The last weights of each seed; the learning rate falls to zero along a cosine."""
    loss = real_block.one_by_one(
        lambda params, key: errors(setting, params, key, BATCH).mean()
    )
    ends = training.train(
        loss,
        None,
        jax.random.key(0),
        steps=steps,
        optimizer=optax.adam(optax.cosine_decay_schedule(RATE, steps)),
        init=partial(start, setting),
        seeds=seeds,
    ).params
    return [jax.tree.map(lambda leaf, i=i: leaf[i], ends) for i in range(seeds)]


def longer(setting: Setting, seeds: int) -> list[list[float]]:
    """Risks of every seed after twice the steps."""
    return [tested(setting, end) for end in trained(setting, seeds, 2 * STEPS)]


def again() -> dict[str, np.ndarray]:
    """The first setting's first seeds."""
    ends = trained(SETTINGS[0], 2)
    return {"risk": np.array([[tested(SETTINGS[0], end) for end in ends]])}


def run(seeds: int = SEEDS) -> dict[str, np.ndarray]:
    """``risk`` (settings, seeds, 2); ``built`` (2,): the best head with a right guess,
    and beside it the built head in place of the guess; ``longer`` (2, seeds, 2): the
    first two settings with twice the steps.
    """
    risk, best = [], {}
    for setting in SETTINGS:
        ends = trained(setting, seeds)
        risk.append([tested(setting, end) for end in ends])
        best[setting] = ends[int(np.argmin(np.array(risk[-1])[:, 0]))]
        print(setting, np.round(np.array(risk[-1])[:, 0], 3).tolist(), flush=True)
    pair = jax.tree.map(
        lambda own, added: jnp.stack([own[0], added]), best[Setting(1, MEAN)], built()
    )
    return {
        "risk": np.array(risk),
        "built": np.array(tested(Setting(2, 0.0), pair)),
        "longer": np.array([longer(setting, seeds) for setting in SETTINGS[:2]]),
    }


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
}
EXPERIMENT = Experiment(
    "the whole block with one and two heads, with the right guess and a guess of zero",
    run,
    again,
    GRID | ADAM,
    rtol=5e-2,
)
