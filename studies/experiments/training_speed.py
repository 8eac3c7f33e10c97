"""How many steps Adam needs to reach the best risk when the guess is a weight, and when it is a product of weights.

Training on the exact risk with one head; the prior mean is the same number in every coordinate.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lsalib import attention, tasks, theory
from studies.experiments.experiment import Experiment

LEARNING_RATE, WITHIN, MOST = 5e-4, 1.01, 20_000
SETTINGS = ((10, 10, 0.1), (10, 10, 0.03), (10, 10, 0.2), (5, 15, 0.1))  # d, C, the initial weights' deviation
LEVELS = (0.25, 0.5, 1.0, 2.0, 4.0)  # each entry of the prior mean
WIDTHS = (1, 2, 4, 8, 16, 32, 64)
RATES = (1, 4, 20)  # of the guess alone, in learning rates
SEEDS = 8


def start(seed: int, width: int, dim: int, scale: float) -> tuple:
    """One head, and the two factors of a row; all widths cut theirs from one table of numbers, in float32."""
    key_head, key_mlp = jax.random.split(jax.random.key(seed))
    head = attention.init(key_head, dim, 1, scale, dtype=jnp.float32)
    table = np.float32(scale) * np.asarray(jax.random.normal(key_mlp, (max(WIDTHS), dim + 2), jnp.float32))
    kept = np.where(np.arange(max(WIDTHS))[:, None] < width, table, np.float32(0))  # rows of zeros stay zero
    return jax.device_get(head), kept[:, :-1], kept[:, -1]


def yq(weights, standard):
    """The exact risk of yq-LSA, and its guess: ``rate`` times a trained weight."""
    head, guess, rate = weights
    return _risk(head, jax.lax.stop_gradient(rate) * guess, standard)


def product(weights, standard):
    """The same with the guess as a product."""
    head, W, u = weights
    return _risk(head, u @ W[:, :-1], standard)


def block(weights, standard):
    """The exact risk of the linear transformer block, whose guess is part of the row that its MLP reads."""
    head, W, u = weights
    row, (_, A) = u @ W, attention.effective(head)
    b = jnp.einsum("m,hmi,hin->hn", row, head.W_P, head.W_V)
    form = theory.standard_form(b, A, jnp.zeros_like(row), row.at[-1].set(0), standard)
    return theory.standard_risk(*form, standard), row[:-1]


def _risk(head, guess, standard):
    y_q = jnp.append(guess, jnp.float32(0))
    b, A = attention.effective(head)
    form = theory.standard_form(b, A, y_q, y_q, standard)
    return theory.standard_risk(*form, standard), guess


@partial(jax.jit, static_argnames="risk")
def arrivals(risk, starts, standard, least):
    """For each run: the first step within 1% of the minimum risk, and the first with half of the guess's error."""
    adam, target = optax.adam(LEARNING_RATE), standard.prior_mean
    each = jax.vmap(jax.value_and_grad(risk, has_aux=True), (0, None))

    def step(carry):
        t, weights, state, there, half = carry
        (loss, guess), gradient = each(weights, standard)
        there = jnp.where((there == MOST) & (loss < WITHIN * least), t, there)
        error = jnp.linalg.norm(guess - target[None], axis=-1) / jnp.linalg.norm(target)
        half = jnp.where((half == MOST) & (error < 0.5), t, half)
        with jax.numpy_dtype_promotion("standard"):  # Adam raises a float to the power of its integer count
            updates, state = adam.update(gradient, state)
        return t + 1, optax.apply_updates(weights, updates), state, there, half

    none = jnp.full(len(starts[1]), MOST)
    more = lambda carry: (carry[0] < MOST) & (jnp.maximum(carry[3], carry[4]).max() == MOST)
    return jax.lax.while_loop(more, step, (0, starts, adam.init(starts), none, none))[3:]


def in_setting(setting, levels, widths, rates, seeds) -> dict[str, np.ndarray]:
    """Steps to within 1% of the minimum risk, and to half the guess's error: (levels, widths or rates, seeds)."""
    dim, context_size, scale = setting
    by_width = [start(seed, width, dim, scale) for width in widths for seed in range(seeds)]
    zero = np.zeros(dim, np.float32)
    by_rate = [(start(seed, 1, dim, scale)[0], zero, np.float32(rate)) for rate in rates for seed in range(seeds)]
    least = np.float32(theory.yq_risk(tasks.GaussianTask(np.zeros(dim), context_size)))
    means = [np.full(dim, level, np.float32) for level in levels]
    noise_std, length = np.array([0, context_size], np.float32)
    standards = [tasks.StandardTask(mean, None, None, noise_std, length) for mean in means]
    kept: dict[str, np.ndarray] = {}
    for risk, starts in ((yq, by_rate), (product, by_width), (block, by_width)):
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *starts)
        ends = np.array([arrivals(risk, stacked, standard, least) for standard in standards], np.int32)
        there, half = ends.reshape(len(levels), 2, -1, seeds).swapaxes(0, 1)
        kept |= {risk.__name__: there, f"{risk.__name__}_half": half}
    return kept


def run(settings=SETTINGS, levels=LEVELS, widths=WIDTHS, rates=RATES, seeds=SEEDS) -> dict[str, np.ndarray]:
    """The same for all settings, along the first axis."""
    each = [in_setting(setting, levels, widths, rates, seeds) for setting in settings]
    return {name: np.stack([one[name] for one in each]) for name in each[0]}


GRID = {"settings": SETTINGS, "levels": LEVELS, "widths": WIDTHS, "rates": RATES, "seeds": SEEDS}
EXPERIMENTS = {
    "training_speed": Experiment(
        "steps to the best risk, by prior mean and width",
        run,
        partial(run, SETTINGS[:1], LEVELS[:2], WIDTHS[:2], RATES[:1], 2),
        GRID | {"learning_rate": LEARNING_RATE, "within": WITHIN, "most": MOST, "dtype": "float32"},
        rtol=0.01,
        atol=5,
    )
}
