"""The minimum risk of few heads: exact, by weights that have it."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from refusals import refusals
from theory_reference import (
    BIAS,
    GUESS,
    TASKS,
    dense_risk,
    lifted,
    moments_of,
)

from lsalib.attention import effective, from_effective
from lsalib.theory import (
    few_heads_weights,
    least_risk,
    optimal_risk,
    population_risk,
)

PLAIN, SCALED = TASKS["isotropic"], TASKS["isotropic, noisy"]
GENERAL, NOISY = TASKS["general"], TASKS["general, noisy"]
FLAT = TASKS["singular features"]
# Task, heads, guess, bias.
EXACT = {
    "a right guess": (NOISY, 1, NOISY.prior_mean, 0.0),
    "d heads": (GENERAL, 3, GUESS, BIAS),
    "a right slope and a bias": (GENERAL, 3, GENERAL.prior_mean, BIAS),
    "d + 1 heads with noise": (NOISY, 4, GUESS, BIAS),
    "singular features": (FLAT, 4, GUESS, BIAS),
    "more than enough": (NOISY, 9, None, 0.0),
    "isotropic": (PLAIN, 2, None, 0.0),
    "isotropic, one head": (PLAIN, 1, GUESS, 0.0),
    "isotropic, noise, bias": (SCALED, 2, GUESS, BIAS),
}


def slope(params, *given):
    """The largest slope of the risk by an entry of the effective heads."""
    risk = lambda pair: population_risk(from_effective(*pair), *given)
    return max(abs(part).max() for part in jax.grad(risk)(effective(params)))


@pytest.mark.claim("few-heads-optimum", "sharp-head-count", "exact-multihead-risk")
@pytest.mark.parametrize("name", EXACT)
def test_what_is_proved_is_exact(name, x64):
    """Weights attain the risk, no gradient is left, and weights that are a little off
    have another one.
    """
    task, heads, guess, bias = EXACT[name]
    least = least_risk(task, heads, guess, bias)
    assert isinstance(least.risk, float) and least.params.W_Q.dtype == np.float64
    assert len(least.params.W_K) <= heads
    moments = moments_of(next(n for n in TASKS if TASKS[n] is task))
    given = np.zeros(3) if guess is None else guess
    risk = lambda params: dense_risk(lifted(params), task, given, bias, moments)
    assert_allclose(least.risk, risk(least.params), rtol=1e-10)
    isotropic = name.startswith("isotropic")
    assert (least.risk / optimal_risk(task, guess, bias) - 1 > 1e-3) == isotropic
    off = jax.tree.map(lambda W: 1.01 * W, least.params)
    assert risk(off) > least.risk + 1e-5
    assert slope(least.params, task, guess, bias) < 1e-6


@pytest.mark.claim("few-heads-optimum", "sharp-head-count")
def test_d_heads_are_enough_and_a_right_guess_needs_one(x64):
    """One head fewer falls short, and one head with a guess that is a little wrong."""
    of = lambda heads, guess: population_risk(
        few_heads_weights(PLAIN, heads, guess), PLAIN, guess
    )
    right = PLAIN.prior_mean
    for heads, guess, off in ((3, GUESS, GUESS), (1, right, right + 0.1)):
        least = optimal_risk(PLAIN, guess)
        assert of(heads, guess) == pytest.approx(least, rel=1e-12)
        assert of(max(1, heads - 1), off) > optimal_risk(PLAIN, off) + 1e-3
    # The best mixture is far from one to one.
    far = right + np.array([1e3, 0, 0])
    least = least_risk(PLAIN, 2, far)
    assert slope(least.params, PLAIN, far) < 1e-6 * least.risk


def test_noise_far_above_the_signal_keeps_the_digits():
    """Then H heads predict no weight; of the constant they miss 1 / (1 + C H / 2)."""
    of = lambda noise: least_risk(replace(PLAIN, noise_std=noise), 2, GUESS, BIAS).risk
    u = PLAIN.prior_mean - GUESS
    limit = 3 + (u @ u + BIAS**2) / (1 + PLAIN.context_size)
    assert_allclose(of(1e20), limit, rtol=1e-12)
    assert limit - of(10.0) > 0.1


NEARLY = replace(PLAIN, feature_cov=np.diag([1.0, 1.0, 1.0 + 1e-6]))
test_bad_input_is_refused = refusals(
    (
        "task must have covariances that are multiples of the identity",
        few_heads_weights,
        NEARLY,
        1,
    ),
    ("heads must be at most d = 3, got 4", few_heads_weights, PLAIN, 4),
    ("identity; training.minimize searches", least_risk, GENERAL, 2),
)
