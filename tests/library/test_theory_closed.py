"""Closed forms: equal to the risk of the weights that attain them, minimal by least
squares, and the same under JAX.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
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

from lsalib.attention import gd_weights
from lsalib.tasks import GaussianTask
from lsalib.theory import (
    constant_regression,
    debiased_risk,
    delta_rule_risk,
    depth_price,
    gd_risk,
    gram_moments,
    lifted_risk,
    optimal_risk,
    optimal_step,
    optimal_weights,
    population_risk,
    yq_optimal_weights,
    yq_risk,
)

NAMES = pytest.mark.parametrize("name", TASKS)


def attained(task):
    """Each stated risk, weights that have it, and their guess and bias."""
    right = task.prior_mean, 0.0
    step = lambda size: gd_weights(task.prior_mean, size)
    yield gd_risk(task, 0.3), step(0.3), right
    yield gd_risk(task), step(optimal_step(task)), right
    yield yq_risk(task), yq_optimal_weights(task), right
    for given, guess in (
        ((), (0 * GUESS, 0.0)),
        ((GUESS, BIAS), (GUESS, BIAS)),
        ((task.prior_mean,), right),
        ((task.prior_mean, BIAS), (task.prior_mean, BIAS)),
    ):
        risk, weights = optimal_risk, optimal_weights
        yield risk(task, *given), weights(task, *given), guess


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
    longer = replace(task, context_size=task.context_size + 1)
    for (stated, weights, guess), (other, *_) in zip(
        attained(task), attained(longer), strict=True
    ):
        found = dense_risk(lifted(weights), task, *guess, moments_of(name))
        assert_allclose(stated, found, rtol=1e-10)
        assert abs(other / found - 1) > 1e-3


def test_what_rounding_decides():
    """A rank, what is inverted, a cumulant at its bound, and a guess that is nearly
    right.
    """
    task = lambda least: GaussianTask(np.ones(20), 5, np.diag([1.0] * 19 + [least]))
    left_out, counted = (constant_regression(task(least)) for least in (3e-15, 1e-12))
    assert_allclose(
        [left_out.error, counted.error], [2 / (5 * 19 + 2), 2 / (5 * 20 + 2)], rtol=1e-9
    )
    assert abs(left_out.features[-1, -1]) < 1e-6 and counted.features[-1, -1] > 1e9
    small = GaussianTask([1.0, 1.0], 5, [[1e-20, 0], [0, 1e-20]])
    assert depth_price(small, 1) == pytest.approx(1 / (1 + 5), rel=1e-12)
    signs = lambda factor: constant_regression(
        GaussianTask([1.0], 6, noise_std=0.7), noise_cumulant=factor
    )
    assert signs(-2 * 0.7**4 * (1 + 1e-12)).error == pytest.approx(
        signs(-2 * 0.7**4).error, rel=1e-9
    )
    given = make_task(0, 3, 4)
    for off, heads in ((0.0, 1), (1e-8, 3)):
        weights = optimal_weights(given, given.prior_mean * (1 + off))
        assert len(weights.W_K) == heads


def test_units_do_not_count():
    """Features and labels in any unit that fits into float32: the risk is that of the
    unit task, in units of labels.
    """
    unit = TASKS["general, noisy"]
    L, P = covs(unit)
    f = lambda t: np.array([gd_risk(t), yq_risk(t), optimal_risk(t)])
    for l, p in ((1e-28, 1.0), (1e28, 1.0), (1e-20, 1e20), (1e25, 1e-28)):
        weights, labels = np.sqrt(p), np.sqrt(l * p)
        task = GaussianTask(
            weights * unit.prior_mean, 3, l * L, p * P, labels * unit.noise_std
        )
        assert_allclose(f(task) / (l * p), f(unit), rtol=1e-10)
        assert optimal_step(task) * l == pytest.approx(optimal_step(unit), rel=1e-10)
    plain = jax.jit(lambda cov: gd_risk(GaussianTask([0.0] * 3, 4, cov)))
    for l in (1e-18, 1e-13, 1e15, 1e18):
        assert_allclose(plain(l * jnp.eye(3)) / l, 3 * 4 / 8, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ranks_follow_the_type_that_came(dtype, x64):
    """u u^T has rank one: the minimum is that of one feature with the prior mean u.w,
    in both types, known or traced; what is above the type's rounding counts.
    """
    u, w = np.array([1.0, 2.0, 3.0]) / np.sqrt(14), np.array([1.0, 2.0, 3.0])
    one = dtype(np.outer(u, u))
    expected = 1 * 2 / 9 + 14 * 2 / 9  # C = 7: d (d+1) / (C+d+1) + 2 |w|^2 / (Cd+2)
    risk = lambda cov: optimal_risk(GaussianTask(dtype(w), 7, cov))
    for got in (risk(one), jax.jit(risk)(one)):
        assert got == pytest.approx(expected, rel=1e-5)
    more = dtype(np.outer(u, u) + 1e-3 * np.eye(3))
    assert min(abs(each(more) - expected) for each in (risk, jax.jit(risk))) > 0.1


def test_nothing_cancels_in_long_contexts():
    """A billion examples, eager in float64 and traced in float32; and as many as pages
    call endless.
    """
    d, C = 3, 10**9
    known = d * (d + 1) / (C + d + 1)
    at = lambda f: lambda mean: f(GaussianTask(mean, C))
    for f in (gd_risk, yq_risk, debiased_risk):
        assert_allclose(at(f)(np.ones(3)), known, rtol=2e-9)
        assert_allclose(jax.jit(at(f))(np.ones(3)), known, rtol=1e-5)
    assert gd_risk(GaussianTask([0.0], 10**16)) == pytest.approx(0.0, abs=1e-15)
    price = at(optimal_risk)(np.ones(3)) - at(yq_risk)(np.ones(3))
    assert_allclose(price, 2 * 3 / (C * d + 2), rtol=1e-6)


FUNCTIONS = [
    lambda t: gd_risk(t, 0.3),
    gd_risk,
    optimal_step,
    yq_risk,
    lambda t: optimal_risk(t, GUESS, BIAS),
    lambda t: constant_regression(t).error,
    lambda t: lift_sum(optimal_weights(t, GUESS)),
    debiased_risk,
    lambda t: delta_rule_risk(t, 0.1, GUESS),
    lambda t: gram_moments(t).second.sum(),
    lambda t: lifted_risk(t, GUESS).slope.sum(),
    lambda t: population_risk(gd_weights([1.0, 2.0, -1.0], 0.3), t, GUESS),
]


def lift_sum(params):
    return (params.W_Q * params.W_V[:, -1:]).sum()


@pytest.mark.claim("exact-gd-risk")
def test_the_same_under_jit_vmap_and_grad(x64):
    """All functions in one program, on two tasks; their slopes by differences."""

    def numbers(seed, noise_std):
        task = make_task(seed, 3, 4, noise_std)
        names = "prior_mean", "feature_cov", "prior_cov", "noise_std"
        return {name: getattr(task, name) for name in names}

    def every(numbers):
        task = GaussianTask(context_size=4, **numbers)
        return jnp.stack([jnp.asarray(f(task)) for f in FUNCTIONS])

    at = [numbers(seed, 0.8) for seed in (0, 1)]
    # Towards other tasks, which moves all four fields.
    ways = [numbers(seed, 0.5) for seed in (2, 3)]
    stacked = [jax.tree.map(lambda *two: np.stack(two), *some) for some in (at, ways)]
    slope = lambda at, way: jax.jvp(every, (at,), (way,))
    found, slopes = jax.jit(jax.vmap(slope))(*stacked)
    assert_allclose(found, [*map(every, at)], rtol=1e-10)
    moved = lambda h: jax.tree.map(lambda leaf, way: leaf + h * way, at[0], ways[0])
    ends = [every(moved(h)) for h in (1e-5, -1e-5)]
    assert_allclose(slopes[0], np.subtract(*ends) / 2e-5, rtol=1e-5)
    assert np.abs(slopes[0]).min() > 1e-4


PLAIN = TASKS["general"]
test_bad_input_is_refused = refusals(
    (
        "context_size must be a number that is known",
        lambda: jax.jit(lambda C: gd_risk(GaussianTask([1.0], C)))(3),
    ),
    (
        "guess must hold finite numbers",
        optimal_weights,
        PLAIN,
        [1.0, np.nan, 0.0],
    ),
    (
        "noise_cumulant must be at least .*, and 0 without label noise",
        lambda: constant_regression(PLAIN, noise_cumulant=1.0),
    ),
    (
        "at least -2 noise_std",
        lambda: constant_regression(TASKS["general, noisy"], noise_cumulant=-9.0),
    ),
    (
        "context_size of at least 2 to be centered, got 1",
        lambda: debiased_risk(GaussianTask([1.0], 1)),
    ),
)
