"""How many steps Adam needs to reach the best risk when the guess is a weight, and when
it is a product of weights.

Training on the exact risk with one head. The prior mean is the same number in every
coordinate, or one of a few uneven shapes.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lsalib import attention, tasks, theory, training
from lsalib.theory.risk import standard_form, standard_risk
from studies.experiments.experiment import Experiment

LEARNING_RATE, WITHIN, MOST = 5e-4, 1.01, 20_000
# d, C, the initial weights' deviation
SETTINGS = ((10, 10, 0.1), (10, 10, 0.03), (10, 10, 0.2), (5, 15, 0.1))
LEVELS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)  # each entry of the prior mean
WIDTHS = (1, 2, 4, 8, 16, 32, 64)
SEEDS = 8
# Uneven prior means in the first setting: a shape times its largest entry.
SHAPES = {
    "one entry": [1.0] + [0.0] * 9,
    "half": [1.0] * 5 + [0.0] * 5,
    "rising": [0.1 * k for k in range(1, 11)],
}
LARGEST, UNEVEN_WIDTHS = (0.5, 1.0, 2.0, 4.0), (1, 2, 4, 16)
PRODUCTS_AT = 2.0  # the level at which both products are tried


class Weights(NamedTuple):
    """One head, a guess, and two rows that are products; a model leaves some unused."""

    head: attention.LSAParams
    guess: np.ndarray
    row: tuple[np.ndarray, np.ndarray]
    values_row: tuple[np.ndarray, np.ndarray]


def start(setting, width: int, seed: int) -> Weights:
    dim, _, scale = setting
    head = attention.init(jax.random.split(jax.random.key(seed))[0], dim, 1, scale)
    return Weights(
        jax.device_get(head),
        np.zeros(dim, np.float32),
        factors(setting, width, seed),
        factors(setting, width, SEEDS + seed),
    )


def factors(setting, width: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Those of a row; all widths cut theirs from one table of numbers, in float32."""
    dim, _, scale = setting
    key, shape = jax.random.split(jax.random.key(seed))[1], (max(WIDTHS), dim + 2)
    table = np.float32(scale) * np.array(jax.random.normal(key, shape, jnp.float32))
    table[width:] = 0  # rows of zeros stay zero
    return table[:, :-1], table[:, -1]


def risk(model: str, weights, standard):
    """The exact risk of ``yq``, yq-LSA with a weight as its guess; of ``product``, the
    same with a product as its guess; of ``both``, in which the head's values, too, pass
    through a row that is a product; or of ``block``, the linear transformer block: one
    row is its guess and multiplies its head's values.
    """
    row, values_row = (u @ W for W, u in (weights.row, weights.values_row))
    b, A = attention.effective(weights.head)
    if model in ("both", "block"):
        through, head = row if model == "block" else values_row, weights.head
        b = jnp.einsum("m,hmi,hin->hn", through, head.W_P, head.W_V)
    guess = weights.guess if model == "yq" else row[:-1]
    added = jnp.append(guess, jnp.float32(0))
    # The query's label in the block is zero.
    y_q = jnp.zeros_like(added) if model == "block" else added
    return standard_risk(*standard_form(b, A, y_q, added, standard), standard)


def steps(model: str, setting, means, widths) -> np.ndarray:
    """Steps to within 1% of the minimum risk: (means, widths, seeds)."""
    dim, context_size, _ = setting
    least = theory.yq_risk(tasks.GaussianTask(np.zeros(dim), context_size))
    starts = [start(setting, width, seed) for width in widths for seed in range(SEEDS)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *starts)
    noise_std, length = np.array([0, context_size], np.float32)
    each, ends = jax.vmap(partial(risk, model), (0, None)), []
    for mean in np.array(means, np.float32):
        standard = tasks.StandardTask(mean, None, None, noise_std, length)
        losses = training.train(
            lambda weights, key, standard=standard: each(weights, standard),
            stacked,
            jax.random.key(0),  # nothing is drawn
            steps=MOST,
            optimizer=optax.adam(LEARNING_RATE),
        ).losses
        near = losses < np.float32(WITHIN * least)
        ends.append(np.where(near.any(0), near.argmax(0), MOST))
    return np.reshape(np.array(ends, np.int32), (len(means), len(widths), SEEDS))


def run(
    settings=SETTINGS, levels=LEVELS, widths=WIDTHS, few=UNEVEN_WIDTHS
) -> dict[str, np.ndarray]:
    """Prior means with equal entries by setting, level, width and seed; in the first
    setting also both products, and uneven means.
    """

    def each(model, widths):
        equal = lambda setting: np.multiply.outer(levels, np.ones(setting[0]))
        ends = [steps(model, setting, equal(setting), widths) for setting in settings]
        return np.stack(ends)

    first, at = settings[0], np.full((1, settings[0][0]), PRODUCTS_AT)
    uneven = [top * np.array(shape) for shape in SHAPES.values() for top in LARGEST]
    return {
        "yq": each("yq", [1]),
        "product": each("product", widths),
        "block": each("block", widths),
        "both": steps("both", first, at, widths),
        "uneven_yq": steps("yq", first, uneven, [1]),
        "uneven_block": steps("block", first, uneven, few),
    }


EXPERIMENT = Experiment(
    "steps to the best risk, by prior mean and width",
    run,
    partial(run, SETTINGS[:1], LEVELS[:2], WIDTHS[:2], UNEVEN_WIDTHS[:2]),
    rtol=0.01,
    atol=5,
)
