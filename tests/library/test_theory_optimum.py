"""The least risks and the weights that attain them: closed form, normal equations, descent and samples."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from theory_reference import TASKS, batch_of, dense_form, dense_task, descend, largest_z, least, make_params, make_task
from theory_reference import z_bound as bound_of

from lsalib import theory
from lsalib.attention import gd_weights, gram, predict
from lsalib.estimators import bayes
from lsalib.tasks import GaussianTask

GUESS = np.array([0.5, -1.0, 2.0])
BOUND = bound_of(50)


def risk_that_ignores_the_guess(M, guess, task):
    """Of heads that cannot read it: the last component of the lift is zero."""
    return dense_form(jnp.concatenate([M.reshape(3, 4, 4), jnp.zeros((1, 4, 4))]), guess, 0.0, task)


least_that_ignore_the_guess = least(risk_that_ignores_the_guess, 3 * 4**2)
least_with_a_free_guess = least(lambda free, task: risk_that_ignores_the_guess(free[3:], free[:3], task), 3 + 3 * 4**2)


@pytest.mark.claim("preconditioned-optimum", "conjecture-global-optimum", "lemma3-inclusion")
@pytest.mark.parametrize("name", ["isotropic", "noisy", "general", "general, noisy"])
def test_yq_risk_solves_the_normal_equations(name, x64):
    """Convex once the heads cannot read the guess: least squares in guess and lift at once (Lemma 3's class)."""
    task = TASKS[name]
    np.testing.assert_allclose(theory.yq_risk(task), least_with_a_free_guess(dense_task(task)), rtol=1e-9)
    # The control: with the guess held in the wrong place the same class does worse.
    assert least_that_ignore_the_guess(GUESS, dense_task(task)) > theory.yq_risk(task) * 1.001


def steepest(slope):
    return max(np.abs(leaf).max() for leaf in jax.tree.leaves(slope))


@pytest.mark.claim("exact-multihead-risk", "thm1-saturation")
@pytest.mark.parametrize("name", TASKS)
def test_optimal_weights_attain_the_optimum(name, x64):
    """Their risk is the minimum and their gradient zero; turned around, or one head short, they miss it."""
    task = TASKS[name]
    d = task.dim
    for guess, bias in ((None, 0.0), (GUESS[:d], 1.5), (task.prior_mean, 1.5)):
        weights = theory.optimal_weights(task, guess, bias)
        assert len(weights.W_K) == d + (task.noise_std > 0)
        risk, slope = jax.value_and_grad(theory.population_risk)(weights, task, guess, bias)
        np.testing.assert_allclose(risk, theory.optimal_risk(task, guess, bias), rtol=1e-12)
        assert steepest(slope) < 1e-11
        flipped = weights._replace(W_Q=jnp.asarray(-np.asarray(weights.W_Q)))
        short = jax.tree.map(lambda W: jnp.asarray(np.asarray(W)[1:]), weights)
        for other in (flipped, short):
            assert float(theory.population_risk(other, task, guess, bias)) > float(risk) + 1e-3


@pytest.mark.claim("preconditioned-optimum", "exact-stationarity", "ltb-optimum")
@pytest.mark.parametrize("name", TASKS)
def test_yq_optimal_weights_attain_the_optimum(name, x64):
    """One head with the right guess has it, and so has any linear transformer block that knows it (Lemma 3)."""
    task = TASKS[name]
    weights, w = theory.yq_optimal_weights(task), jnp.asarray(task.prior_mean)
    assert len(weights.W_K) == 1
    risk, slope = jax.value_and_grad(theory.population_risk, argnums=(0, 2))(weights, task, w)
    np.testing.assert_allclose(risk, theory.yq_risk(task), rtol=1e-12)
    assert steepest(slope) < 1e-11
    # Any linear transformer block that knows w* gets there too (Lemma 3).
    v, last = np.append(task.prior_mean, 1.0)[None], np.eye(task.dim + 1)[-1:]
    np.testing.assert_allclose(theory.ltb_risk(weights, jnp.asarray(v), jnp.asarray(last), task), risk, rtol=1e-12)
    assert float(theory.population_risk(weights, task, task.prior_mean + 0.1)) > float(risk) + 1e-3


@pytest.mark.claim("thm4-stationary", "exact-gd-risk", "ltb-newton")
def test_gd_with_the_best_step_is_optimal_where_features_are_isotropic(x64):
    """The controls: a step of one, and features that are not isotropic."""
    task = TASKS["isotropic"]
    weights = gd_weights(jnp.asarray(task.prior_mean), theory.optimal_step(task))
    np.testing.assert_allclose(theory.population_risk(weights, task, task.prior_mean), theory.yq_risk(task), rtol=1e-12)
    np.testing.assert_allclose(theory.gd_risk(task), theory.yq_risk(task), rtol=1e-12)
    step = theory.optimal_step(task) * np.eye(3)
    np.testing.assert_allclose(theory.optimal_preconditioner(task), step, rtol=1e-12, atol=1e-15)
    other = gd_weights(jnp.asarray(task.prior_mean), 1.0)
    assert steepest(jax.grad(theory.population_risk)(other, task, task.prior_mean)) > 0.1
    assert theory.gd_risk(TASKS["general"]) > theory.yq_risk(TASKS["general"]) + 1e-3


@pytest.mark.claim("sharp-head-count", "thm1-saturation")
@pytest.mark.parametrize(("noise_std", "enough"), [(0.0, 2), (1.0, 3)])
def test_sharp_head_count(noise_std, enough, x64):
    """Two features need two heads without label noise and three with it; one fewer falls short."""
    task = make_task(7, 2, 3, noise_std)
    guess, bias = task.prior_mean + 1, 1.0
    optimum = theory.optimal_risk(task, guess, bias)
    found, short = descend(task, [(heads, guess, bias) for heads in (enough, enough - 1)])
    np.testing.assert_allclose(found, optimum, rtol=1e-8)
    assert short > optimum + 1e-4


@pytest.mark.claim("pythagoras-general", "universality", "price-general")
@pytest.mark.parametrize("name", ["isotropic", "general, noisy"])
def test_any_guess_costs_its_own_error(name, x64):
    """The same weights, and a guess that is no linear function: the gap is its squared error times one factor."""
    task = TASKS[name]
    weights, error = theory.optimal_weights(task), theory.constant_regression(task).error
    answer = jax.jit(jax.vmap(lambda X, y, x_q, y_q: predict(weights, gram(X, y), x_q, y_q)))
    excess, wrong = [], []
    for seed in range(3):
        X, y, x_q, target = batch_of(seed, task)
        y_q = 2 * np.sin(x_q[:, 0]) + x_q[:, 1] ** 2
        squares = (np.asarray(answer(X, y, x_q, y_q)) - target) ** 2
        off = (y_q - x_q @ task.prior_mean) ** 2
        excess.append(largest_z(squares - error * off, theory.yq_risk(task)))
        wrong.append(largest_z(squares, theory.yq_risk(task)))
    assert max(excess) < BOUND < max(wrong)


@pytest.mark.claim("price-general")
@pytest.mark.parametrize("name", ["isotropic", "noisy", "general, noisy"])
def test_constant_regression(name, x64):
    """The best constant that a context's moments offer misses 1 by the stated error, in samples."""
    task = TASKS[name]
    features, residual, error = theory.constant_regression(task)
    for seed in range(3):
        X, y, _, _ = batch_of(seed, task)
        r = y - X @ task.prior_mean
        t = np.einsum("bci,ij,bcj->b", X, features, X) / task.context_size + residual * (r**2).mean(1)
        assert largest_z((t - 1) ** 2, error) < BOUND
        assert largest_z((t - 1) ** 2, 2 / (task.context_size * task.dim)) > BOUND


@pytest.mark.parametrize(("dim", "context_size"), [(4, 1), (4, 3), (3, 3), (2, 5)])
def test_bayes_risk(dim, context_size, x64):
    """Zero with enough examples; otherwise what samples of the posterior mean miss."""
    task = make_task(0, dim, context_size, covariances=False)
    estimate = jax.jit(jax.vmap(bayes, (0, 0, 0, None)))
    for seed in range(3):
        X, y, x_q, target = batch_of(seed, task, 4000)
        squares = (np.asarray(estimate(X, y, x_q, task.prior_mean)) - target) ** 2
        if dim <= context_size:
            # Exact up to rounding; a square context is now and then nearly singular, hence the median.
            assert theory.bayes_risk(task) == 0 and np.median(squares) < 1e-20
        else:
            assert largest_z(squares, theory.bayes_risk(task)) < BOUND
            assert largest_z(squares, theory.bayes_risk(task) + 1) > BOUND


# Drawn as plain numbers: a strategy that builds the task itself would run the shape checks while drawing.
tasks = st.builds(
    partial,
    st.just(make_task),
    seed=st.integers(0, 10**6),
    dim=st.integers(1, 3),
    context_size=st.integers(1, 30),
    noise_std=st.sampled_from([0.0, 0.3, 2.0]),
    covariances=st.booleans(),
)
modest = settings(max_examples=25, deadline=None, derandomize=True)
numbers = st.floats(-3, 3, allow_subnormal=False)


@pytest.mark.claim("exact-multihead-risk")
@modest
@given(make=tasks, bias=numbers, seed=st.integers(0, 10**6), distance=st.sampled_from([1e-3, 0.1, 1.0]))
def test_no_weights_do_better(make, bias, seed, distance):
    """Neither random weights nor those near the optimum, and never by more than rounding."""
    task = make()
    with jax.enable_x64(True):
        best = theory.optimal_weights(task, None, bias)
        away = make_params(seed, task.dim, len(best.W_K), distance)
        near = jax.tree.map(lambda W, V: jnp.asarray(np.add(W, V)), best, away)
        near, far = (float(theory.population_risk(weights, task, None, bias)) for weights in (near, away))
    assert min(near, far) >= theory.optimal_risk(task, None, bias) * (1 - 1e-12)


@pytest.mark.claim("exact-gd-risk")
@modest
@given(make=tasks, step=numbers, shift=numbers, bias=numbers)
def test_order_of_the_risks(make, step, shift, bias):
    """A guess costs something, a step without preconditioner too, and more examples help."""
    task = make()
    slack = 1 + 1e-12
    longer = replace(task, context_size=task.context_size + 1)
    guess = task.prior_mean + shift
    assert theory.yq_risk(task) <= theory.gd_risk(task) * slack <= theory.gd_risk(task, step) * slack**2
    other_steps = [factor * theory.optimal_step(task) for factor in (0.0, 0.9, 1.1)]
    assert theory.gd_risk(task) < min(theory.gd_risk(task, other) for other in other_steps)
    assert theory.yq_risk(task) <= theory.optimal_risk(task, guess, bias) * slack
    assert theory.yq_risk(longer) < theory.yq_risk(task)
    assert theory.optimal_risk(longer, guess, bias) < theory.optimal_risk(task, guess, bias)
    assert theory.yq_risk(task) <= theory.yq_risk(replace(task, noise_std=task.noise_std + 1))


@pytest.mark.claim("price-general", "thm2-exact-gap")
@modest
@given(make=tasks, shift=numbers, bias=numbers)
def test_label_noise_only_narrows_the_gap(make, shift, bias):
    """Without noise the gap is the formula's exactly, with noise it is no larger."""
    task = make()
    u = np.full(task.dim, shift)
    L = np.eye(task.dim) if task.feature_cov is None else task.feature_cov
    law = 2 * (u @ L @ u + bias**2) / (task.context_size * task.dim + 2)
    gap = theory.optimal_risk(task, task.prior_mean + shift, bias) - theory.yq_risk(task)
    assert gap <= law + 1e-9 if task.noise_std else abs(gap - law) < 1e-9


def test_a_guess_that_is_nearly_right_is_corrected():
    """One head is enough for the right guess alone; what is off by a millionth of a percent gets all of them."""
    task = TASKS["isotropic"]
    assert len(theory.optimal_weights(task, task.prior_mean).W_K) == 1
    assert len(theory.optimal_weights(task, task.prior_mean * (1 + 1e-8)).W_K) == task.dim


@pytest.mark.claim(
    "thm2-exact-gap", "gd-strict-lower-bound", "exact-gd-risk", "fig3-linear-gap", "fig4-guess-slope", "fig4-bias-slope"
)
@settings(max_examples=50, deadline=None, derandomize=True)
@given(d=st.integers(1, 8), C=st.integers(1, 30), seed=st.integers(0, 2**16))
def test_the_laws_of_isotropic_tasks(d, C, seed):
    """The formulas of the paper's setting hold at every size from d = C = 1 on."""
    w_star, g, (bias, *_) = np.random.default_rng(seed).normal(size=(3, d))
    isotropic = GaussianTask(w_star, C)
    np.testing.assert_allclose(theory.gd_risk(isotropic), d * (d + 1) / (C + d + 1), rtol=1e-12)
    np.testing.assert_allclose(theory.yq_risk(isotropic), theory.gd_risk(isotropic), rtol=1e-10)
    gap = theory.optimal_risk(isotropic, g, bias) - theory.yq_risk(isotropic)
    np.testing.assert_allclose(gap, 2 * (np.sum((w_star - g) ** 2) + bias**2) / (C * d + 2), rtol=1e-9, atol=1e-12)
