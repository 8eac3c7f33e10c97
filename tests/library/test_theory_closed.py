"""Closed forms: equal to the risk of the weights that attain them, minimal by least
squares, and the same under JAX.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusals
from theory_reference import (
    BIAS,
    GUESS,
    TASKS,
    covs,
    dense_risk,
    lifted,
    make_task,
    moments_of,
)

from lsalib import theory
from lsalib.attention import gd_weights
from lsalib.tasks import GaussianTask

NAMES = pytest.mark.parametrize("name", TASKS)
OFF = lambda task: (task.prior_mean, 0.0)
# The stated risk, weights that have it, and their guess and bias.
ATTAINED = {
    "a step": (
        lambda t: theory.gd_risk(t, 0.3),
        lambda t: gd_weights(t.prior_mean, 0.3),
        OFF,
    ),
    "the best step": (
        theory.gd_risk,
        lambda t: gd_weights(t.prior_mean, theory.optimal_step(t)),
        OFF,
    ),
    "yq-LSA": (theory.yq_risk, theory.yq_optimal_weights, OFF),
    "LSA": (theory.optimal_risk, theory.optimal_weights, lambda t: (0 * GUESS, 0.0)),
    "LSA with a guess": (
        lambda t: theory.optimal_risk(t, GUESS, BIAS),
        lambda t: theory.optimal_weights(t, GUESS, BIAS),
        lambda t: (GUESS, BIAS),
    ),
    "LSA with the right guess": (
        lambda t: theory.optimal_risk(t, t.prior_mean),
        lambda t: theory.optimal_weights(t, t.prior_mean),
        OFF,
    ),
    "LSA with the right slope and a bias": (
        lambda t: theory.optimal_risk(t, t.prior_mean, BIAS),
        lambda t: theory.optimal_weights(t, t.prior_mean, BIAS),
        lambda t: (t.prior_mean, BIAS),
    ),
}


@pytest.mark.claim(
    "exact-gd-risk",
    "exact-multihead-risk",
    "preconditioned-optimum",
    "sharp-head-count",
)
@NAMES
def test_weights_have_the_stated_risk(name, x64):
    """By brute-force moments; the control is the same task with one example more."""
    task = TASKS[name]
    for function, (stated, weights, guess) in ATTAINED.items():
        found = dense_risk(lifted(weights(task)), task, *guess(task), moments_of(name))
        np.testing.assert_allclose(stated(task), found, rtol=1e-10, err_msg=function)
        assert (
            abs(stated(replace(task, context_size=task.context_size + 1)) / found - 1)
            > 1e-3
        )


def test_what_rounding_decides():
    """A rank, what is inverted, a cumulant at its bound, and a guess that is nearly
    right.
    """
    task = lambda least: GaussianTask(np.ones(20), 5, np.diag([1.0] * 19 + [least]))
    left_out, counted = (
        theory.constant_regression(task(least)) for least in (3e-15, 1e-12)
    )
    np.testing.assert_allclose(
        [left_out.error, counted.error], [2 / (5 * 19 + 2), 2 / (5 * 20 + 2)], rtol=1e-9
    )
    assert abs(left_out.features[-1, -1]) < 1e-6 and counted.features[-1, -1] > 1e9
    small = GaussianTask([1.0, 1.0], 5, [[1e-20, 0], [0, 1e-20]])
    assert theory.depth_price(small, 1) == pytest.approx(1 / (1 + 5), rel=1e-12)
    signs = lambda factor: theory.constant_regression(
        GaussianTask([1.0], 6, noise_std=0.7), noise_cumulant=factor
    )
    assert signs(-2 * 0.7**4 * (1 + 1e-12)).error == pytest.approx(
        signs(-2 * 0.7**4).error, rel=1e-9
    )
    for off, heads in ((0.0, 1), (1e-8, 3)):
        assert (
            len(
                theory.optimal_weights(
                    make_task(0, 3, 4), make_task(0, 3, 4).prior_mean * (1 + off)
                ).W_K
            )
            == heads
        )


def test_units_do_not_count():
    """Features and labels in any unit that fits into float32: the risk is that of the
    unit task, in units of labels.
    """
    unit = TASKS["general, noisy"]
    (L, P), f = (
        covs(unit),
        lambda t: np.array(
            [theory.gd_risk(t), theory.yq_risk(t), theory.optimal_risk(t)]
        ),
    )
    for l, p in ((1e-28, 1.0), (1e28, 1.0), (1e-20, 1e20), (1e25, 1e-28)):
        weights, labels = np.sqrt(p), np.sqrt(l * p)
        task = GaussianTask(
            weights * unit.prior_mean, 3, l * L, p * P, labels * unit.noise_std
        )
        np.testing.assert_allclose(f(task) / (l * p), f(unit), rtol=1e-10)
        assert theory.optimal_step(task) * l == pytest.approx(
            theory.optimal_step(unit), rel=1e-10
        )
    plain = jax.jit(lambda cov: theory.gd_risk(GaussianTask([0.0] * 3, 4, cov)))
    for l in (1e-18, 1e-13, 1e15, 1e18):
        np.testing.assert_allclose(plain(l * jnp.eye(3)) / l, 3 * 4 / 8, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ranks_follow_the_type_that_came(dtype, x64):
    """u u^T has rank one: the minimum is that of one feature with the prior mean u.w,
    in both types, known or traced; what is above the type's rounding counts.
    """
    u, w = np.array([1.0, 2.0, 3.0]) / np.sqrt(14), np.array([1.0, 2.0, 3.0])
    one = dtype(np.outer(u, u))
    expected = 1 * 2 / 9 + 14 * 2 / 9  # C = 7: d (d+1) / (C+d+1) + 2 |w|^2 / (Cd+2)
    risk = lambda cov: theory.optimal_risk(GaussianTask(dtype(w), 7, cov))
    for got in (risk(one), jax.jit(risk)(one)):
        assert got == pytest.approx(expected, rel=1e-5)
    more = dtype(np.outer(u, u) + 1e-3 * np.eye(3))
    assert min(abs(each(more) - expected) for each in (risk, jax.jit(risk))) > 0.1


def test_nothing_cancels_in_long_contexts():
    """A billion examples, eager in float64 and traced in float32."""
    d, C = 3, 10**9
    known = d * (d + 1) / (C + d + 1)
    at = lambda f: lambda mean: f(GaussianTask(mean, C))
    for f in (theory.gd_risk, theory.yq_risk, lambda t: theory.debiased_risk(t)):
        np.testing.assert_allclose(at(f)(np.ones(3)), known, rtol=2e-9)
        np.testing.assert_allclose(jax.jit(at(f))(np.ones(3)), known, rtol=1e-5)
    price = at(theory.optimal_risk)(np.ones(3)) - at(theory.yq_risk)(np.ones(3))
    np.testing.assert_allclose(price, 2 * 3 / (C * d + 2), rtol=1e-6)


FUNCTIONS = {
    "gd_risk": lambda t: theory.gd_risk(t, 0.3),
    "best gd_risk": theory.gd_risk,
    "optimal_step": theory.optimal_step,
    "yq_risk": theory.yq_risk,
    "optimal_risk": lambda t: theory.optimal_risk(t, GUESS, BIAS),
    "constant": lambda t: theory.constant_regression(t).error,
    "weights": lambda t: lift_sum(theory.optimal_weights(t, GUESS)),
    "debiased": theory.debiased_risk,
    "delta": lambda t: theory.delta_rule_risk(t, 0.1, GUESS),
    "moments": lambda t: theory.gram_moments(t).second.sum(),
    "lifted": lambda t: theory.lifted_risk(t, GUESS).slope.sum(),
    "weights' risk": lambda t: theory.population_risk(
        gd_weights([1.0, 2.0, -1.0], 0.3), t, GUESS
    ),
}


def lift_sum(params):
    return (params.W_Q * params.W_V[:, -1:]).sum()


@pytest.mark.claim("exact-gd-risk")
def test_the_same_under_jit_vmap_and_grad(x64):
    """All functions in one program, on two tasks; their slopes by differences."""
    tasks = [make_task(seed, 3, 4, 0.8) for seed in (0, 1)]
    ways = [make_task(seed, 3, 4, 0.5) for seed in (2, 3)]
    every = lambda task: jnp.stack([jnp.asarray(f(task)) for f in FUNCTIONS.values()])
    fields = "prior_mean", "feature_cov", "prior_cov", "noise_std"
    numbers = lambda task: {name: getattr(task, name) for name in fields}

    def path(task, way, h):
        """Through other tasks, which moves all four fields."""
        moved = jax.tree.map(lambda leaf, by: leaf + h * by, task, way)
        return GaussianTask(context_size=4, **moved)

    slope = jax.jit(
        jax.vmap(
            lambda task, way: jax.jvp(
                lambda h: every(path(task, way, h)), (0.0,), (1.0,)
            )
        )
    )
    stack = lambda tasks: jax.tree.map(
        lambda *leaves: np.stack(leaves), *map(numbers, tasks)
    )
    found, slopes = slope(stack(tasks), stack(ways))
    known = [[float(f(task)) for f in FUNCTIONS.values()] for task in tasks]
    np.testing.assert_allclose(found, known, rtol=1e-10)
    ends = [
        [
            float(f(path(numbers(tasks[0]), numbers(ways[0]), h)))
            for f in FUNCTIONS.values()
        ]
        for h in (1e-5, -1e-5)
    ]
    np.testing.assert_allclose(slopes[0], np.subtract(*ends) / 2e-5, rtol=1e-5)
    assert np.abs(slopes[0]).min() > 1e-4


PLAIN = TASKS["general"]
test_bad_input_is_refused = refusals(
    (
        lambda: theory.gd_risk(PLAIN, np.inf),
        "step_size must be a finite number, got inf",
    ),
    (
        lambda: jax.jit(lambda C: theory.gd_risk(GaussianTask([1.0], C)))(3),
        "context_size must be a number that is known",
    ),
    (
        lambda: theory.optimal_weights(PLAIN, [1.0, np.nan, 0.0]),
        "guess must hold finite numbers",
    ),
    (
        lambda: theory.constant_regression(PLAIN, noise_cumulant=1.0),
        "noise_cumulant must be at least .*, and 0 without label noise",
    ),
    (
        lambda: theory.constant_regression(
            TASKS["general, noisy"], noise_cumulant=-9.0
        ),
        "at least -2 noise_std",
    ),
    (
        lambda: theory.debiased_risk(GaussianTask([1.0], 1)),
        "context_size of at least 2 to be centered, got 1",
    ),
)
