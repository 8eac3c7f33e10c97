"""The minimum risks: in samples, in order, and below what any weights have."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from theory_reference import TASKS, batch_of, largest_z, make_params, make_task
from theory_reference import z_bound as bound_of

from lsalib import theory
from lsalib.estimators import bayes
from lsalib.tasks import GaussianTask

BOUND = bound_of(50)


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
