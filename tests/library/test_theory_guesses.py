"""The best guess for given weights, mixtures of tasks, and the minimum of the lifted quadratic."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusals
from theory_reference import (
    TASKS,
    exact_sides,
    largest_z,
    lsa_errors,
    make_guess,
    make_params,
    make_task,
    z_bound,
)

from lsalib.attention import from_lift, gd_weights, lift
from lsalib.mixtures import MixtureTask
from lsalib.tasks import GaussianTask
from lsalib.theory import (
    gram_moments,
    lifted_risk,
    optimal_guess,
    optimal_risk,
    optimal_weights,
    population_risk,
    squared_distance,
)


def modes(context_size=6, other_cov=False):
    """Three modes with two shapes and noises; one may have features of its own."""
    one, two, three = (
        make_task(0, 3, context_size, 0.6),
        make_task(1, 3, context_size),
        make_task(2, 3, context_size, 1.0),
    )
    tasks = [one, *(GaussianTask(3 * t.prior_mean, context_size, None, t.prior_cov, t.noise_std) for t in (two, three))]
    tasks[0] = one if other_cov else GaussianTask(one.prior_mean, context_size, None, one.prior_cov, one.noise_std)
    return MixtureTask(tasks, [0.2, 0.5, 0.3])


@pytest.mark.parametrize("name", TASKS)
def test_the_best_guess_is_the_ratio_of_moments(name, x64):
    """By the formula from the dense moments; at other guesses the risk is larger by a quadratic."""
    task = TASKS[name]
    params = make_params(0, task.dim, 2)
    M, (mean, second, cross) = np.asarray(lift(params)), gram_moments(task)
    m, v = M[-1], M[:-1]
    on = lambda A, B: np.einsum("...mn,mnpq,pq->...", A, second, B)
    square = 1 + 2 * np.vdot(m, mean) + on(m, m)
    w_part = task.prior_mean + np.einsum("imn,mn->i", cross, m)
    exact = (w_part - np.einsum("jmn,mn->j", v, mean) - on(v, m)) / square
    guess = optimal_guess(params, task)
    np.testing.assert_allclose(guess, exact, rtol=1e-9, atol=1e-11)
    risk, away = (lambda g, bias=0.0: population_risk(params, task, g, bias)), make_guess(task)
    L = np.eye(task.dim) if task.feature_cov is None else task.feature_cov
    np.testing.assert_allclose(risk(exact + away) - risk(exact), square * away @ L @ away, rtol=1e-8)
    assert risk(exact) < risk(exact, 0.1) and risk(exact) < risk(task.prior_mean) * (1 - 1e-5)
    np.testing.assert_allclose(optimal_guess(optimal_weights(task), task), task.prior_mean, atol=1e-8)


def test_the_best_guess_has_the_smallest_sampled_risk():
    """On samples of a mixture: the means of regression give the same guess; the mixture's mean is another one."""
    mixture, params = modes(), make_params(3, 3, 2, scale=0.4)
    guess, batch = np.asarray(optimal_guess(params, mixture)), mixture.sample(jax.random.key(0), 50_000)[:4]
    errors = lambda g: np.asarray(lsa_errors((params, jnp.asarray(g, jnp.float32), 0.0), *batch))
    assert largest_z(errors(guess), population_risk(params, mixture, guess)) < z_bound(5)
    # The derivative by each entry of the guess vanishes; the risk is a quadratic, so differences are exact.
    slopes = lambda g: np.stack([errors(g + e) - errors(g - e) for e in np.eye(3)], 1)
    assert largest_z(slopes(guess), 0) < z_bound(5)
    mean = np.average([t.prior_mean for t in mixture.tasks], axis=0, weights=mixture.weights)
    assert largest_z(slopes(mean), 0) > z_bound(5), "the control"


def test_a_mixture_is_its_components(x64):
    """Risks and moments are means over them, equal components are one task, and every program takes one."""
    mixture, params, guess = modes(other_cov=True), make_params(1, 3, 2), np.array([0.3, -1.0, 0.5])
    each = [population_risk(params, task, guess, 0.7) for task in mixture.tasks]
    risk = population_risk(params, mixture, guess, 0.7)
    np.testing.assert_allclose(risk, mixture.weights @ np.array(each), rtol=1e-12)
    assert abs(risk / np.mean(each) - 1) > 1e-2, "the control: equal weights"
    task = mixture.tasks[0]
    twice = MixtureTask([task, task])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), gram_moments(twice), gram_moments(task))
    there = squared_distance(params, make_params(2, 3, 1), mixture, guess)
    np.testing.assert_allclose(
        there, mixture.weights @ [squared_distance(params, make_params(2, 3, 1), t, guess) for t in mixture.tasks]
    )
    slope = jax.jit(jax.grad(lambda mixture: population_risk(params, mixture, guess)))(mixture)
    np.testing.assert_allclose(slope.weights, [population_risk(params, t, guess) for t in mixture.tasks], rtol=1e-10)


@pytest.mark.parametrize("name", TASKS)
def test_the_minimum_of_the_lifted_risk_is_the_optimum(name, x64):
    """Of a Gaussian task with any guess, with the gradient of the formula; the lift found is stationary."""
    task, guess = TASKS[name], make_guess(TASKS[name])
    risk = lifted_risk(task, guess, 1.3)
    np.testing.assert_allclose(risk.minimum(), optimal_risk(task, guess, 1.3), rtol=1e-9)
    M = jnp.asarray(risk.minimizer())
    assert np.abs(risk.gradient(M)).max() < 1e-9 < 1e-3 < np.abs(risk.gradient(1.01 * M)).max()
    np.testing.assert_allclose(risk.value(M), risk.minimum(), rtol=1e-12)
    of_lift, of_formula = (lambda g: lifted_risk(task, g, 1.3).minimum()), (lambda g: optimal_risk(task, g, 1.3))
    np.testing.assert_allclose(jax.jit(jax.grad(of_lift))(guess), jax.grad(of_formula)(guess), rtol=1e-7)


def by_normal_equations(risk) -> float:
    """The minimum, from the slope and the curvature at zero that automatic differentiation finds."""
    zero = jnp.zeros(64)
    value = lambda z: risk.value(z.reshape(4, 4, 4))
    slope, curvature = np.asarray(jax.grad(value)(zero)), np.asarray(jax.hessian(value)(zero))
    return value(zero) - slope @ np.linalg.pinv(curvature, rcond=1e-13, hermitian=True) @ slope / 2


def test_the_minimum_of_two_modes(x64):
    """By normal equations, and by weights that have it; a guess at one mode, or the best guess there, is no better."""
    mixture = modes()
    of_guess = lambda g: lifted_risk(mixture, g).minimum()
    for guess in (np.zeros(3), mixture.tasks[1].prior_mean):
        risk = lifted_risk(mixture, guess)
        brute = by_normal_equations(risk)
        np.testing.assert_allclose(risk.minimum(), brute, rtol=1e-8)
        found = population_risk(from_lift(jnp.asarray(risk.minimizer())), mixture, guess)
        np.testing.assert_allclose(found, brute, rtol=1e-8)
    # No layer has less risk on a mixture than the best ones of each component have there, on average.
    bound = sum(p * optimal_risk(t, t.prior_mean) for p, t in zip(mixture.weights, mixture.tasks, strict=True))
    mean = np.average([t.prior_mean for t in mixture.tasks], axis=0, weights=mixture.weights)
    assert bound < of_guess(mean) < of_guess(mixture.tasks[1].prior_mean)
    # The best guess is not the mean: from there the risk falls.
    slope = np.asarray(jax.grad(of_guess)(mean))
    assert of_guess(mean - slope) < of_guess(mean) - 0.5 * slope @ slope < of_guess(mean) - 1e-8


def test_the_query_may_have_a_covariance_of_its_own(x64):
    """Against the dense moments of z_q and G, with the optimum for such queries; the control is the examples' own."""
    task, guess, Q = TASKS["general, noisy"], make_guess(TASKS["general, noisy"]), make_task(9, 3, 1).feature_cov
    params = make_params(4, 3, 2)
    M, reads = np.asarray(lift(params)), np.vstack([np.eye(3), guess])
    task = replace(task, query_cov=Q)
    risk = lifted_risk(task, guess)
    exact, optimum, _ = exact_sides(task, M, reads @ Q @ reads.T)
    np.testing.assert_allclose(risk.value(lift(params)), exact, rtol=1e-10)
    assert abs(population_risk(params, replace(task, query_cov=None), guess) / exact - 1) > 1e-2, "the control"
    at_mean = lifted_risk(task, task.prior_mean)
    reads[-1] = task.prior_mean
    np.testing.assert_allclose(at_mean.minimum(), exact_sides(task, M, reads @ Q @ reads.T)[1], rtol=1e-9)
    assert optimum < risk.minimum() < exact
    parts = modes(other_cov=True)
    mixture = MixtureTask([replace(t, query_cov=Q) for t in parts.tasks], parts.weights)
    each = [lifted_risk(t, guess).value(lift(params)) for t in mixture.tasks]
    of_mixture = lifted_risk(mixture, guess).value(lift(params))
    np.testing.assert_allclose(of_mixture, mixture.weights @ np.array(each), rtol=1e-10)


ONE = GaussianTask([1.0, 2.0], 3)
test_bad_input_is_refused = refusals(
    (lambda: MixtureTask([]), "tasks must be a list of GaussianTasks"),
    (lambda: MixtureTask(ONE), "tasks must be a list of GaussianTasks"),
    (lambda: MixtureTask([ONE, GaussianTask([1.0, 2.0], 4)]), "tasks must have one d and one context_size"),
    (lambda: MixtureTask([ONE, ONE], [0.5, 0.6]), "weights must be probabilities"),
    (lambda: MixtureTask([ONE, ONE], [1.0]), r"weights must have shape \(2,\)"),
    (lambda: lifted_risk(MixtureTask([ONE, GaussianTask([1.0, 2.0], 3, 2 * np.eye(2))])), "must have one query_cov"),
    (lambda: replace(ONE, query_cov=np.eye(3)), r"query_cov must have shape \(2, 2\)"),
    (lambda: replace(ONE, query_cov=-np.eye(2)), "query_cov must be positive semidefinite"),
    (lambda: optimal_guess(gd_weights([1.0], 0.5), ONE), "must have shape"),
    (lambda: optimal_guess(gd_weights([1.0], 0.5), 3), "task must be a GaussianTask or a MixtureTask, got 3"),
    (lambda: optimal_risk(MixtureTask([ONE])), "task must be a GaussianTask"),
)
