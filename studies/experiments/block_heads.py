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

from studies.experiments import real_block
from studies.experiments.experiment import Experiment

DIM, LENGTH, PRIOR_MEAN, SEEDS = 5, 5, real_block.PRIOR_MEAN, 12
STEPS, LEARNING_RATE = 5000, real_block.LEARNING_RATE
BATCH, TESTS = 512, 400 * 512


class Setting(NamedTuple):
    """How many heads, and the guess in each entry."""

    heads: int
    guess: float


SETTINGS = [
    Setting(1, PRIOR_MEAN),
    Setting(2, 0.0),
    Setting(2, PRIOR_MEAN),
    Setting(1, 0.0),
]


def start(setting: Setting, key) -> dict[str, jax.Array]:
    """One row of weights for each head."""
    keys = jax.random.split(key, setting.heads)
    return jax.vmap(lambda each: real_block.start(each, DIM))(keys)


def errors(setting: Setting, params, key):
    """Squared errors on new tasks."""
    X, labels = real_block.draw(key, DIM, LENGTH, BATCH)
    # Queries and gates do not read the last entry: the guess has no place there.
    tokens = [*jnp.concatenate([X, labels.at[-1].set(0.0)[:, None]], 1)]
    params = params | {name: params[name].at[..., -1].set(0.0) for name in "QG"}
    predicted = setting.guess * X[-1].sum(0)
    for place in range(setting.heads):
        own = jax.tree.map(lambda leaf, place=place: leaf[place], params)
        predicted += real_block.head(lambda piece: True, own, tokens)
    return jnp.square(predicted - labels[-1])


def built(length: float = 10.0) -> dict[str, jax.Array]:
    """The proposition's head, which adds ``u.x_q`` for the prior mean u; its output
    gates have this length.
    """
    zeros = jax.tree.map(jnp.zeros_like, real_block.start(jax.random.key(0), DIM))
    u = jnp.append(jnp.full(DIM, PRIOR_MEAN), 0.0)
    # The norm leaves ((DIM + 1)/2)^½ in both entries.
    size = length * ((DIM + 1) / 2) ** 0.5
    return zeros | {
        "K": zeros["K"].at[0].set(u),
        "Q": zeros["Q"].at[0].set(u),
        "V": zeros["V"].at[:2].set(u),
        "G": zeros["G"].at[0].set(length * u).at[1].set(-length * u),
        "p": zeros["p"].at[:2].set(1.0) / size,
        "taps": zeros["taps"].at[:, 0].set(1.0),
        "eta": jnp.array(0.5),
        "dt": jnp.array(-4.0),
    }


def trained(setting: Setting, seeds: int, steps: int = STEPS) -> list:
    """The last weights of each seed."""
    init = partial(start, setting)
    return real_block.trained(partial(errors, setting), init, seeds, steps)


def tested(setting: Setting, ends: list) -> list[list[float]]:
    """The risk of each seed on new tasks, and its standard error."""
    return real_block.tested(partial(errors, setting), ends, TESTS // BATCH)


def again() -> dict[str, np.ndarray]:
    """The first setting's first seeds."""
    return {"risk": np.array([tested(SETTINGS[0], trained(SETTINGS[0], 2))])}


def run() -> dict[str, np.ndarray]:
    """``risk`` (settings, seeds, 2); ``built`` (2,): the best head with a right guess,
    and beside it the built head in place of the guess; ``longer`` (2, seeds, 2): the
    first two settings with twice the steps.
    """
    ends = [trained(setting, SEEDS) for setting in SETTINGS]
    risks = np.array([*map(tested, SETTINGS, ends)])
    best = ends[0][risks[0, :, 0].argmin()]
    pair = jax.tree.map(lambda own, added: jnp.stack([own[0], added]), best, built())
    longer = [tested(each, trained(each, SEEDS, 2 * STEPS)) for each in SETTINGS[:2]]
    return {
        "risk": risks,
        "built": np.array(tested(Setting(2, 0.0), [pair])[0]),
        "longer": np.array(longer),
    }


EXPERIMENT = Experiment(
    "the whole block with one and two heads, with the right guess and a guess of zero",
    run,
    again,
    rtol=5e-2,
)
