"""The minimum risk of few heads: exact where that is proved, elsewhere a search that
says how it ended.
"""

from dataclasses import replace

import jax
import numpy as np
import pytest
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
from lsalib.tasks import GaussianTask, standardize
from lsalib.theory import (
    few_heads_weights,
    least,
    least_risk,
    optimal_risk,
    population_risk,
)
from lsalib.theory.least import _risk_and_gradient, _search

PLAIN, SCALED = TASKS["isotropic"], TASKS["isotropic, noisy"]
GENERAL, NOISY = TASKS["general"], TASKS["general, noisy"]
FLAT = TASKS["singular features"]
# All searches have one shape: two heads, three features.
SEARCH = {"starts": 16, "steps": 150}
# Task, heads, guess, bias: where the answer is proved.
EXACT = {
    "a right guess": (NOISY, 1, NOISY.prior_mean, 0.0),
    "d heads": (GENERAL, 3, GUESS, BIAS),
    "a right slope and a bias": (GENERAL, 3, GENERAL.prior_mean, BIAS),
    "d + 1 heads with noise": (NOISY, 4, GUESS, BIAS),
    "singular features, noise: rank + 1 heads": (FLAT, 3, GUESS, BIAS),
    "more than enough": (NOISY, 9, None, 0.0),
    "isotropic": (PLAIN, 2, None, 0.0),
    "isotropic, one head": (PLAIN, 1, GUESS, 0.0),
    "isotropic, noise, bias": (SCALED, 2, GUESS, BIAS),
}


@pytest.mark.claim("few-heads-optimum", "sharp-head-count", "exact-multihead-risk")
@pytest.mark.parametrize("name", EXACT)
def test_what_is_proved_is_exact(name, x64):
    """It names the page of the proof, its weights attain the risk, and no gradient is
    left.
    """
    task, heads, *guess = EXACT[name]
    least = least_risk(task, heads, *guess)
    isotropic = name.startswith("isotropic")
    assert (
        least.exact
        and ("page few_heads" if isotropic else "page heads") in least.reason
    )
    assert len(least.params.W_K) <= heads and least.gradient < 1e-6
    moments, given = (
        moments_of(next(n for n in TASKS if TASKS[n] is task)),
        (np.zeros(3), 0.0),
    )
    found = dense_risk(
        lifted(least.params), task, *(guess if guess[0] is not None else given), moments
    )
    np.testing.assert_allclose(least.risk, found, rtol=1e-10)
    assert (least.risk / optimal_risk(task, *guess) - 1 > 1e-3) == isotropic
    off = lifted(jax.tree.map(lambda W: 1.01 * W, least.params))
    assert (
        dense_risk(off, task, *(guess if guess[0] is not None else given), moments)
        > least.risk + 1e-5
    )


@pytest.mark.claim("few-heads-optimum", "exact-multihead-risk")
def test_a_forced_search_finds_what_is_proved(x64):
    """Without a formula: the minimum risk of two heads; the bound for a right guess,
    where it calls itself exact.
    """
    for task, guess, bias, attains in (
        (SCALED, GUESS, BIAS, False),
        (GENERAL, GENERAL.prior_mean, 0.0, True),
    ):
        params, exact, reason = _search(2, task, guess, bias, 16, 150, 0)
        found = float(population_risk(params, task, guess, bias))
        np.testing.assert_allclose(
            found, least_risk(task, 2, guess, bias).risk, rtol=1e-9
        )
        assert exact == attains and ("attains" in reason) == attains


def test_a_search_says_how_it_ended(x64, monkeypatch):
    """Agreement of its ends, the norm of its gradient over all weights, and that
    another seed has other starts.
    """
    end = least_risk(NOISY, 2, GUESS, BIAS, **SEARCH)
    assert (
        not end.exact
        and "of which agree to nine digits" in end.reason
        and end.gradient < 1e-6
    )
    assert isinstance(end.risk, float) and end.params.W_Q.dtype == np.float64
    # A step along the gradient of weights that are a little off lowers their risk by
    # its squared norm.
    b, A = effective(jax.tree.map(lambda W: 1.01 * W, end.params))
    risk = lambda pair: population_risk(from_effective(*pair), NOISY, GUESS, BIAS)
    norm = _risk_and_gradient(
        from_effective(b, A), np.append(GUESS, BIAS), standardize(NOISY)
    )[1]
    slopes = jax.grad(risk)((b, A))
    after = risk((b - 1e-6 * slopes[0], A - 1e-6 * slopes[1]))
    assert (
        float(risk((b, A)) - after) == pytest.approx(1e-6 * float(norm) ** 2, rel=1e-2)
        and norm > 1e-3
    )
    # Another seed has other starts; the program for 150 steps serves all.
    search, seen = least._lowest, []
    spy = lambda *args: seen.append(args[3:]) or search(*args[:4], 150)
    monkeypatch.setattr(least, "_lowest", spy)
    for seed in (0, 0, 1):
        least_risk(NOISY, 2, GUESS, BIAS, starts=16, steps=7, seed=seed)
    (first, steps), (again, _), (other, _) = seen
    assert steps == 7 and first.shape == (16, 4, 2)
    assert np.array_equal(first, again) and np.abs(first - other).min() > 0


def test_ends_that_differ_by_rounding_agree_in_any_unit(monkeypatch, x64):
    """Ends that are apart by 1e-12 of a label's variance agree, and by 1e-7 do not;
    only the bound itself is exact.
    """
    found, unit = least._lowest, 1e4
    cov, P = NOISY.feature_cov, NOISY.prior_cov
    large = GaussianTask(
        unit * NOISY.prior_mean,
        NOISY.context_size,
        cov,
        unit**2 * P,
        unit * NOISY.noise_std,
    )
    for task, scale in ((NOISY, 1.0), (large, unit)):
        for off, agree in (
            ([0.0, 1e-12, -1e-12, 1e-3], 3),
            ([0.0, 1e-7, 2e-7, 1e-12], 2),
        ):

            def ends(*args, off=off):
                *layer, values = found(*args)
                return *layer, np.asarray(values).min() + np.array(off + 12 * [1.0])

            monkeypatch.setattr(least, "_lowest", ends)
            reason = _search(2, task, scale * GUESS, scale * BIAS, 16, 150, 0)[2]
            assert (
                reason
                == f"the lowest of 16 searches, {agree} of which agree to nine digits"
            )
    monkeypatch.setattr(
        least, "_lowest", lambda *args: (*found(*args)[:2], np.full(16, 1e-4))
    )
    assert not _search(2, NOISY, GUESS, BIAS, 16, 150, 0)[1]


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
    far = least_risk(PLAIN, 2, right + np.array([1e3, 0, 0]))
    assert far.exact and far.gradient < 1e-6 * far.risk, (
        "the best mixture is far from one to one"
    )


NEARLY = replace(PLAIN, feature_cov=np.diag([1.0, 1.0, 1.0 + 1e-6]))
test_bad_input_is_refused = refusals(
    (
        lambda: few_heads_weights(GENERAL, 1),
        "task must have covariances that are multiples of the identity",
    ),
    (
        lambda: few_heads_weights(NEARLY, 1),
        "task must have covariances that are multiples of the identity",
    ),
    (lambda: few_heads_weights(PLAIN, 4), "heads must be at most d = 3, got 4"),
    (lambda: least_risk(FLAT, 2), "task must have a positive definite feature_cov"),
)
