"""The minimum risk of any task and heads: exact where that is proved, elsewhere a search that says how it ended."""

from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest
from few_heads_reference import problem, search
from theory_reference import make_task

from lsalib.attention import effective, from_effective
from lsalib.tasks import GaussianTask
from lsalib.theory import least as searching
from lsalib.theory import least_risk, optimal_risk, population_risk
from lsalib.theory.least import _search, _starts

PLAIN, GENERAL, NOISY = (GaussianTask([1.0, 2.0, -1.0], 5), make_task(2, 3, 4), make_task(3, 3, 3, noise_std=1.1))
SCALED = GaussianTask([1.0, 2.0, -1.0], 5, 2 * np.eye(3), 0.3 * np.eye(3), noise_std=0.7)
SMALL = make_task(5, 2, 3, noise_std=0.6)
GUESS, BIAS = np.array([0.5, -1.0, 2.0]), 0.8

# Task, heads, guess, bias: where the answer is proved.
EXACT = {
    "a right guess": (NOISY, 1, NOISY.prior_mean, 0.0),
    "d heads": (GENERAL, 3, GUESS, BIAS),
    "d + 1 heads with noise": (NOISY, 4, GUESS, BIAS),
    "more than enough": (NOISY, 9, None, 0.0),
    "isotropic": (PLAIN, 2, None, 0.0),
    "isotropic, one head": (PLAIN, 1, GUESS, 0.0),
    "isotropic, noise, bias": (SCALED, 2, GUESS, BIAS),
}


@pytest.mark.claim("few-heads-optimum", "sharp-head-count", "exact-multihead-risk")
@pytest.mark.parametrize("name", EXACT)
def test_what_is_proved_is_exact(name, x64):
    """It names the page of the proof, its weights attain the risk, and no gradient is left."""
    task, heads, *guess = EXACT[name]
    least = least_risk(task, heads, *guess)
    page = "page few_heads" if name.startswith("isotropic") else "page heads"
    assert least.exact and page in least.reason and len(least.params.W_K) <= heads
    assert least.gradient < 1e-6
    np.testing.assert_allclose(least.risk, population_risk(least.params, task, *guess), rtol=1e-12)
    assert least.risk >= optimal_risk(task, *guess) * (1 - 1e-12)
    attained = bool(abs(least.risk / optimal_risk(task, *guess) - 1) < 1e-9)
    assert attained == (not name.startswith("isotropic"))
    # The control: the gradient tells weights that are a little off.
    off = jax.tree.map(lambda W: 1.01 * W, least.params)
    assert float(population_risk(off, task, *guess)) > least.risk + 1e-5


@pytest.mark.claim("few-heads-optimum", "exact-multihead-risk")
@pytest.mark.parametrize("name", ["isotropic, noise, bias", "isotropic", "d heads"])
def test_a_forced_search_finds_what_is_proved(name, x64):
    """It knows neither formula: the least risk of two heads, and of d heads the bound, where it calls itself exact."""
    task, heads, guess, bias = EXACT[name]
    guess = np.zeros(3) if guess is None else guess
    params, exact, _ = _search(heads, task, guess, bias, 16, 150, 0)
    found = float(population_risk(params, task, guess, bias))
    np.testing.assert_allclose(found, least_risk(task, heads, guess, bias).risk, rtol=1e-9)
    assert exact == (name == "d heads")


@cache
def descended():
    """Where plain descent over all weights ends with one head, and with two: one program."""
    return search([problem(SMALL, GUESS[:2], BIAS)], (1, 2), starts=12, scale=0.5).value.min(2)[0]


@pytest.mark.claim("thm1-saturation")
@pytest.mark.parametrize("heads", [1, 2])
def test_the_search_agrees_with_descent_over_all_weights(heads, x64):
    """Three seeds of the search and plain descent end at one risk; a head more has a lower one."""
    ends = [least_risk(SMALL, heads, GUESS[:2], BIAS, starts=16, steps=150, seed=seed) for seed in range(3)]
    risks = [end.risk for end in ends]
    np.testing.assert_allclose(risks, descended()[heads - 1], rtol=1e-8)
    assert max(end.gradient for end in ends) < 1e-6
    assert not ends[0].exact and "of which agree" in ends[0].reason
    # A head more helps, and nothing is below the bound: with noise and a bias it takes d + 1 heads.
    more = least_risk(SMALL, heads + 1, GUESS[:2], BIAS, starts=16, steps=150).risk
    assert optimal_risk(SMALL, GUESS[:2], BIAS) * (1 - 1e-12) <= more < risks[0] - 1e-6


def test_an_unfinished_search_says_so():
    """Its gradient is the norm over all weights, and it does not call itself exact."""
    short = least_risk(SMALL, 1, GUESS[:2], BIAS, starts=1, steps=1)
    assert short.gradient > 1e-2 and not short.exact
    risk = lambda pair: population_risk(from_effective(*pair), SMALL, GUESS[:2], BIAS)
    slopes = jax.grad(risk)(effective(jax.tree.map(np.float32, short.params)))
    norm = np.sqrt(sum(np.vdot(slope, slope) for slope in map(np.asarray, slopes)))
    np.testing.assert_allclose(short.gradient, norm, rtol=1e-3)
    assert short.risk > least_risk(SMALL, 1, GUESS[:2], BIAS, starts=16, steps=150).risk + 1e-4


def test_searches_that_differ_by_rounding_agree_in_any_unit(monkeypatch):
    """Ends that are apart by 1e-12 of a label's variance agree, and by 1e-7 do not, however large labels are."""
    found, unit = searching._lowest, 1e4
    large = [unit * SMALL.prior_mean, 3, SMALL.feature_cov, unit**2 * SMALL.prior_cov, unit * SMALL.noise_std]
    for task, scale in ((SMALL, 1.0), (GaussianTask(*large), unit)):
        for off, agree in (([0.0, 1e-12, -1e-12, 1e-3], 3), ([0.0, 1e-7, 2e-7, 1e-12], 2)):

            def ends(*args, off=off):
                *layer, values = found(*args)
                return *layer, np.asarray(values).min() + np.array(off)

            monkeypatch.setattr(searching, "_lowest", ends)
            least = least_risk(task, 1, scale * GUESS[:2], scale * BIAS, starts=4, steps=20)
            assert least.reason == f"the lowest of 4 searches, {agree} of which agree to nine digits"


def test_another_seed_has_other_starts():
    """The same seed has the same."""
    first, again, other = (_starts(3, 2, 6, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).min() > 0


def test_a_search_that_ends_a_little_above_the_bound_is_not_called_exact(x64):
    """With little label noise d heads nearly do what takes d + 1."""
    quiet = replace(SMALL, noise_std=0.1)
    least, bound = least_risk(quiet, 2, GUESS[:2], BIAS, starts=16, steps=150), optimal_risk(quiet, GUESS[:2], BIAS)
    assert not least.exact and bound * (1 + 1e-8) < least.risk < bound * (1 + 1e-3)


def test_weights_are_known_in_double_precision_whatever_the_setting():
    """Also where JAX computes in float32."""
    least = least_risk(PLAIN, 2)
    assert isinstance(least.risk, float) and least.params.W_Q.dtype == np.float64
    np.testing.assert_allclose(population_risk(jax.tree.map(np.float32, least.params), PLAIN), least.risk, rtol=1e-5)


def test_the_search_under_jit_vmap_and_grad(x64):
    """The gradient is the one at the weights found: no more is needed at a minimum."""
    of = lambda task, bias: least_risk(task, 1, GUESS[:2], bias, starts=16, steps=150).risk
    biases = np.array([BIAS, 0.2])
    tasks = jax.tree.map(lambda *leaves: np.stack(leaves), SMALL, make_task(6, 2, 3, noise_std=0.6))
    program = jax.jit(jax.vmap(jax.value_and_grad(of, (0, 1))))
    risks, (by_task, by_bias) = jax.device_get(program(tasks, biases))
    np.testing.assert_allclose(risks[0], of(SMALL, BIAS), rtol=1e-9)
    slope = lambda f: (f(1e-4) - f(-1e-4)) / 2e-4
    np.testing.assert_allclose(by_bias[0], slope(lambda step: of(SMALL, BIAS + step)), rtol=1e-5)
    direction = np.array([[0.3, 0.5], [0.5, -0.2]])
    moved = lambda step: replace(SMALL, feature_cov=SMALL.feature_cov + step * direction)
    measured = slope(lambda step: of(moved(step), BIAS))
    np.testing.assert_allclose(np.vdot(by_task.feature_cov[0], direction), measured, rtol=1e-5)
    assert abs(measured) > 1e-3
