"""How many steps Adam needs to reach the best risk when the guess is a weight, and when
it is a product of weights.

Training on the exact risk with one head. The prior mean is the same number in every
coordinate, or one of a few uneven shapes.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lsalib import attention, tasks, theory
from lsalib.theory.risk import standard_form, standard_risk
from studies.experiments.experiment import Experiment

LEARNING_RATE, WITHIN, MOST = 5e-4, 1.01, 20_000
# d, C, the initial weights' deviation
SETTINGS = ((10, 10, 0.1), (10, 10, 0.03), (10, 10, 0.2), (5, 15, 0.1))
LEVELS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)  # each entry of the prior mean
WIDTHS = (1, 2, 4, 8, 16, 32, 64)
RATES = (1, 4, 20)  # of the guess alone, in learning rates
SEEDS = 8
# Uneven prior means in the first setting: a shape times its largest entry.
SHAPES = {
    "one entry": [1.0] + [0.0] * 9,
    "half": [1.0] * 5 + [0.0] * 5,
    "rising": [0.1 * k for k in range(1, 11)],
}
LARGEST, UNEVEN_WIDTHS = (0.5, 1.0, 2.0, 4.0), (1, 2, 4, 16)
PRODUCTS_AT = 2.0  # the level at which the two products are taken apart


def start(seed: int, width: int, dim: int, scale: float) -> tuple:
    """One head, and the two factors of a row; all widths cut theirs from one table of
    numbers, in float32.
    """
    key_head, key_mlp = jax.random.split(jax.random.key(seed))
    head = attention.init(key_head, dim, 1, scale)
    table = np.float32(scale) * np.asarray(
        jax.random.normal(key_mlp, (max(WIDTHS), dim + 2), jnp.float32)
    )
    # rows of zeros stay zero
    kept = np.where(np.arange(max(WIDTHS))[:, None] < width, table, np.float32(0))
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
    """The exact risk of the linear transformer block: one row is its guess and
    multiplies its head's values.
    """
    head, W, u = weights
    row = u @ W
    return _row_risk(head, row, jnp.zeros_like(row), row.at[-1].set(0), standard), row[
        :-1
    ]


def values(weights, standard):
    """yq-LSA with a weight as its guess; the head's values pass through a row that is a
    product.
    """
    head, guess, W, u = weights
    y_q = jnp.append(guess, jnp.float32(0))
    return _row_risk(head, u @ W, y_q, y_q, standard), guess


def both(weights, standard):
    """yq-LSA with two products: one for the guess, and another for the row that the
    values pass through.
    """
    head, W, u, W_row, u_row = weights
    return values((head, u @ W[:, :-1], W_row, u_row), standard)


def _row_risk(head, row, y_q, offset, standard):
    b = jnp.einsum("m,hmi,hin->hn", row, head.W_P, head.W_V)
    return standard_risk(
        *standard_form(b, attention.effective(head)[1], y_q, offset, standard), standard
    )


def _risk(head, guess, standard):
    y_q = jnp.append(guess, jnp.float32(0))
    return standard_risk(
        *standard_form(*attention.effective(head), y_q, y_q, standard), standard
    ), guess


@partial(jax.jit, static_argnames="risk")
def arrivals(risk, starts, standard, least):
    """For each run: the first step within 1% of the minimum risk, and the first with
    half of the guess's error.
    """
    adam, target = optax.adam(LEARNING_RATE), standard.prior_mean
    each = jax.vmap(jax.value_and_grad(risk, has_aux=True), (0, None))

    def step(carry):
        t, weights, state, there, half = carry
        (loss, guess), gradient = each(weights, standard)
        there = jnp.where((there == MOST) & (loss < WITHIN * least), t, there)
        error = jnp.linalg.norm(guess - target[None], axis=-1) / jnp.linalg.norm(target)
        half = jnp.where((half == MOST) & (error < 0.5), t, half)
        # Adam raises a float to the power of its integer count
        with jax.numpy_dtype_promotion("standard"):
            updates, state = adam.update(gradient, state)
        return t + 1, optax.apply_updates(weights, updates), state, there, half

    none = jnp.full(len(starts[1]), MOST)
    more = lambda carry: (
        (carry[0] < MOST) & (jnp.maximum(carry[3], carry[4]).max() == MOST)
    )
    return jax.lax.while_loop(more, step, (0, starts, adam.init(starts), none, none))[
        3:
    ]


def _ends(risks, setting, means, seeds) -> dict[str, np.ndarray]:
    """Steps to within 1% of the minimum risk, and to half the guess's error: (means,
    starts / seeds, seeds).
    """
    dim, context_size, _ = setting
    least = np.float32(theory.yq_risk(tasks.GaussianTask(np.zeros(dim), context_size)))
    noise_std, length = np.array([0, context_size], np.float32)
    standards = [
        tasks.StandardTask(np.asarray(mean, np.float32), None, None, noise_std, length)
        for mean in means
    ]
    kept: dict[str, np.ndarray] = {}
    for risk, starts in risks:
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *starts)
        ends = np.array(
            [arrivals(risk, stacked, standard, least) for standard in standards],
            np.int32,
        )
        there, half = ends.reshape(len(means), 2, -1, seeds).swapaxes(0, 1)
        kept |= {risk.__name__: there, f"{risk.__name__}_half": half}
    return kept


def _starts(setting, widths, seeds) -> list[tuple]:
    dim, _, scale = setting
    return [start(seed, width, dim, scale) for width in widths for seed in range(seeds)]


def in_setting(setting, levels, widths, rates, seeds) -> dict[str, np.ndarray]:
    """Prior means with equal entries: (levels, widths or rates, seeds)."""
    dim, _, scale = setting
    zero = np.zeros(dim, np.float32)
    by_rate = [
        (start(seed, 1, dim, scale)[0], zero, np.float32(rate))
        for rate in rates
        for seed in range(seeds)
    ]
    by_width = _starts(setting, widths, seeds)
    risks = [(yq, by_rate), (product, by_width), (block, by_width)]
    return _ends(risks, setting, [np.full(dim, level) for level in levels], seeds)


def two_products(setting, widths, seeds) -> dict[str, np.ndarray]:
    """The products of the block one by one, at one level: (1, widths, seeds)."""
    dim, _, scale = setting
    zero = np.zeros(dim, np.float32)
    firsts = _starts(setting, widths, seeds)
    rows = [
        start(SEEDS + seed, width, dim, scale)[1:]
        for width in widths
        for seed in range(seeds)
    ]
    risks = [
        (
            values,
            [(head, zero, *row) for (head, *_), row in zip(firsts, rows, strict=True)],
        ),
        (both, [(*first, *row) for first, row in zip(firsts, rows, strict=True)]),
    ]
    return _ends(risks, setting, [np.full(dim, PRODUCTS_AT)], seeds)


def uneven(setting, shapes, largest, widths, seeds) -> dict[str, np.ndarray]:
    """Uneven prior means: (shapes times largest entries, widths, seeds)."""
    by_width = _starts(setting, widths, seeds)
    plain = [
        (head, np.zeros(setting[0], np.float32), np.float32(1))
        for head, *_ in by_width[:seeds]
    ]
    means = [top * np.array(shape) for shape in shapes for top in largest]
    ends = _ends([(yq, plain), (block, by_width)], setting, means, seeds)
    return {f"uneven_{name}": array for name, array in ends.items()}


def run(
    settings=SETTINGS,
    levels=LEVELS,
    widths=WIDTHS,
    rates=RATES,
    seeds=SEEDS,
    shapes=None,
) -> dict:
    """All settings along the first axis; in the first one also the products one by one,
    and uneven means.
    """
    each = [in_setting(setting, levels, widths, rates, seeds) for setting in settings]
    more = two_products(settings[0], widths, seeds)
    more |= uneven(
        settings[0],
        list(SHAPES.values())[:shapes],
        LARGEST,
        UNEVEN_WIDTHS[: len(widths)],
        seeds,
    )
    return {name: np.stack([one[name] for one in each]) for name in each[0]} | more


GRID = {
    "settings": SETTINGS,
    "levels": LEVELS,
    "widths": WIDTHS,
    "rates": RATES,
    "seeds": SEEDS,
}
GRID |= {
    "shapes": SHAPES,
    "largest": LARGEST,
    "uneven_widths": UNEVEN_WIDTHS,
    "products_at": PRODUCTS_AT,
}
EXPERIMENT = Experiment(
    "steps to the best risk, by prior mean and width",
    run,
    partial(run, SETTINGS[:1], LEVELS[:2], WIDTHS[:2], RATES[:1], 2, 1),
    GRID
    | {
        "learning_rate": LEARNING_RATE,
        "within": WITHIN,
        "most": MOST,
        "dtype": "float32",
    },
    rtol=0.01,
    atol=5,
)
