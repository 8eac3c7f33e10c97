"""The delta rule: against sums over all values of a Gaussian quadrature, samples, and searches for the best steps."""

from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest
from refusals import refusals
from scipy.optimize import minimize, minimize_scalar
from theory_reference import gauss_hermite, largest_z, make_task, root, z_bound

from lsalib import estimators
from lsalib.tasks import GaussianTask
from lsalib.theory import delta_rule_risk, delta_rule_step, gd_risk

START = np.array([0.5, -1.0, 2.0, 0.3])
QUERY = np.array([[3.0, -1.0, 0.5], [-1.0, 1.0, 0.0], [0.5, 0.0, 0.4]])
# Task, step sizes, decay, normalized.
CASES = {
    "plain": (GaussianTask([1.0, -2.0, 0.5], 6), 0.15, 1.0, False),
    "schedule": (replace(make_task(0, 3, 5, 0.6), query_cov=QUERY), np.array([0.05, 0.3, 0.1, 0.2, 0.15]), 1.0, False),
    "decay": (make_task(1, 3, 4, 0.6), 0.2, 0.7, False),
    "normalized": (GaussianTask([1.0, -2.0, 0.5, 1.0], 6, 2 * np.eye(4), make_task(2, 4, 1).prior_cov), 0.8, 1.0, True),
    "normalized, own query": (GaussianTask([1.0, -2.0, 0.5], 4, 2 * np.eye(3), None, 0.7, QUERY), 0.8, 0.9, True),
    "normalized, noisy, decay": (GaussianTask(np.ones(9), 6, noise_std=0.7), 0.6, 0.9, True),
}


def by_kind(steps):
    return {"schedule" if np.ndim(steps) else "step_size": steps}


def final_errors(X, noise, w, start, steps, decay, normalized):
    """w - w_C for a batch of tasks, by the rule."""
    state = np.broadcast_to(start, w.shape)
    for t, beta in enumerate(np.broadcast_to(steps, X.shape[1])):
        x, state = X[:, t], decay * state
        if normalized:
            beta = beta / (x * x).sum(1, keepdims=True)
        state = state + beta * x * ((w - state) * x).sum(1, keepdims=True) + beta * x * noise[:, t, None]
    return w - state


@pytest.mark.parametrize("d, C", [(1, 2), (1, 3), (2, 1), (2, 2)])
def test_equals_the_sum_over_a_quadrature(d, C):
    """Five nodes for each normal variable integrate C steps on general tasks exactly; the controls change one thing."""
    task, Q = make_task(10 + d, d, C, noise_std=0.8), QUERY[:d, :d]
    task, start, steps, decay = replace(task, query_cov=Q), START[:d], np.linspace(0.3, 0.1, C), 0.8
    points, weights = gauss_hermite(C * d, 5)
    other, other_weights = gauss_hermite(C + d)
    X = points.reshape(-1, C, d) @ root(task.feature_cov, d).T
    X, weights = X.repeat(len(other), 0), np.outer(weights, other_weights).ravel()
    noise, eps = np.split(np.tile(other, (len(points), 1)), [C], axis=1)
    w = task.prior_mean + eps @ root(task.prior_cov, d).T
    errors = final_errors(X, task.noise_std * noise, w, start, steps, decay, False)
    exact = weights @ np.einsum("ni,ij,nj->n", errors, Q, errors)
    risk = lambda steps, start, **options: delta_rule_risk(task, start=start, schedule=steps, **options)
    np.testing.assert_allclose(risk(steps, start, decay=decay), exact, rtol=1e-11)
    wrong = [risk(steps, -start, decay=decay), risk(steps, start), risk(1.01 * steps, start, decay=decay)]
    wrong += [risk(steps[::-1], start, decay=decay)] if C > 1 else []
    others = replace(task, noise_std=0.0), replace(task, query_cov=None)
    wrong += [delta_rule_risk(other, None, start, schedule=steps, decay=decay) for other in others]
    assert min(abs(np.array(wrong) / exact - 1)) > 1e-4


@pytest.mark.parametrize("name", CASES)
def test_within_sampling_error(name):
    """Plain NumPy on 200,000 tasks, and the library's estimator; the controls are another start and smaller steps."""
    task, steps, decay, normalized = CASES[name]
    d, rng, count, start = task.dim, np.random.default_rng(0), 200_000, np.resize(START, task.dim)
    X = rng.standard_normal((count, task.context_size, d)) @ root(task.feature_cov, d).T
    w = task.prior_mean + rng.standard_normal((count, d)) @ root(task.prior_cov, d).T
    noise = task.noise_std * rng.standard_normal(X.shape[:2])
    query_cov = task.feature_cov if task.query_cov is None else task.query_cov
    x_q = rng.standard_normal((count, d)) @ root(query_cov, d).T
    errors = final_errors(X, noise, w, start, steps, decay, normalized)
    draws = (errors * x_q).sum(1) ** 2
    options = {"decay": decay, "normalized": normalized}
    risk = lambda steps, start: delta_rule_risk(task, **by_kind(steps), start=start, **options)
    assert largest_z(draws, risk(steps, start)) < z_bound(5)
    assert min(largest_z(draws, risk(steps, -start)), largest_z(draws, risk(steps / 5, start))) > z_bound(5)
    rule = partial(estimators.delta_rule, w0=start, step_size=steps, decay=decay, normalized=normalized)
    y = np.einsum("ncd,nd->nc", X, w) + noise
    one = lambda *arrays: rule(*arrays)
    found = jax.jit(jax.vmap(one))(*(a[:100].astype(np.float32) for a in (X, y, x_q)))
    np.testing.assert_allclose(found, ((w - errors) * x_q).sum(1)[:100], rtol=1e-3, atol=1e-3)


def test_the_stated_closed_forms():
    """Of identity covariances without noise; a single step from the prior mean is a gradient step."""
    w, start, d, C = np.array([1.0, -2.0, 0.5]), START[:3], 3, 7
    task, distance = GaussianTask(w, C), d + np.sum((w - start) ** 2)
    for beta in (0.1, 0.2, 1.3):
        for normalized, rho in ((False, 1 - 2 * beta + beta**2 * (d + 2)), (True, 1 - (2 * beta - beta**2) / d)):
            risk = delta_rule_risk(task, beta, start, normalized=normalized)
            np.testing.assert_allclose(risk, rho**C * distance, rtol=1e-12)
    assert delta_rule_step(task) == pytest.approx(1 / (d + 2)) and delta_rule_step(task, normalized=True) == 1
    one = make_task(5, 3, 1, 0.4)
    np.testing.assert_allclose(delta_rule_risk(one, 0.2, one.prior_mean), gd_risk(one, 0.2), rtol=1e-12)
    np.testing.assert_allclose(delta_rule_step(one, one.prior_mean), gd_step(one), rtol=1e-12)


def gd_step(task):
    """The best step of one example, from three values of a quadratic."""
    zero, one, two = (gd_risk(task, step) for step in (0.0, 1.0, 2.0))
    return (4 * one - 3 * zero - two) / (2 * (2 * one - zero - two)) if zero != one else 0.0


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("noise_std", [0.0, 0.5, 3.0])
def test_the_best_steps_are_those_of_a_search(noise_std, normalized):
    """Isotropic: a search over constants, and one over schedules; with noise the schedule is better than a constant."""
    task = GaussianTask([1.0, -2.0, 0.5], 5, 1.5 * np.eye(3), make_task(3, 3, 1).prior_cov, noise_std)
    options = {"normalized": normalized}
    risk = lambda steps: delta_rule_risk(task, start=START[:3], **by_kind(steps), **options)
    best, found = delta_rule_step(task, START[:3], **options), minimize_scalar(risk, (0.01, 0.2), tol=1e-12)
    assert best == pytest.approx(found.x, rel=1e-6) and delta_rule_risk(task, None, START[:3], **options) == risk(best)
    assert risk(best) < min(risk(0.9 * best), risk(1.1 * best))
    schedule = delta_rule_step(task, START[:3], schedule=True, **options)
    found = minimize(risk, np.full(5, best), tol=1e-12)
    np.testing.assert_allclose(schedule, found.x, rtol=1e-3)
    assert risk(schedule) <= found.fun * (1 + 1e-9)
    if noise_std:
        assert risk(schedule) < risk(best) * (1 - 1e-5) and np.all(np.diff(schedule) < 0)
        assert risk(schedule[::-1]) > risk(best)


@pytest.mark.parametrize("noise_std", [0.0, 0.5, 3.0, 1e3])
def test_the_best_constant_of_a_general_task_is_the_lowest_of_many(noise_std):
    """On a fine grid that reaches beyond the proved bound; in JAX it is the same number."""
    task = make_task(6, 3, 8, noise_std)
    best = delta_rule_step(task)
    grid = best * np.geomspace(0.01, 100, 401)
    risks = [delta_rule_risk(task, beta) for beta in grid]
    assert abs(np.log(grid[np.argmin(risks)] / best)) < 0.03 and delta_rule_risk(task) <= min(risks)
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.jit(delta_rule_step)(task), best, rtol=1e-9)


GENERAL, PLAIN = make_task(7, 2, 3), GaussianTask([1.0, 2.0], 3, noise_std=0.3)
SQUARE = GaussianTask([1.0, 2.0, 3.0], 3)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("noise_std", [0.0, 0.7])
def test_the_context_size_may_be_data(normalized, noise_std, x64):
    """Curves are those of steps one by one, for steps of zero, too; slopes are difference quotients."""
    task = GaussianTask([1.0, -2.0, 0.5], 6, 2 * np.eye(3), make_task(2, 3, 1).prior_cov, noise_std, 3 * np.eye(3))
    sizes, options = np.array([1.0, 2.0, 6.0]), {"start": START[:3], "normalized": normalized}
    of = lambda C, step: delta_rule_risk(replace(task, context_size=C), step, **options)
    for step in (0.0, 0.15):
        steps = [of(int(C), step) for C in sizes]
        np.testing.assert_allclose(jax.vmap(partial(of, step=step))(sizes), steps, rtol=1e-12)
        assert step == 0 or min(abs(np.diff(steps))) > 1e-3, "the control: another size"
    slope, ends = jax.grad(of)(3.5, 0.15), jax.vmap(partial(of, step=0.15))(np.array([3.5 - 1e-5, 3.5 + 1e-5]))
    np.testing.assert_allclose(slope, np.diff(ends)[0] / 2e-5, rtol=1e-7)
    assert np.isfinite(jax.grad(of, (0, 1))(3.5, 0.0)).all()


def test_an_example_of_length_zero_adds_nothing():
    """Normalized or not; an example of any other length does."""
    given = [1.0, 2.0], [1.0, 1.0], [0.5, 0.5], 0.5
    for normalized in (False, True):
        rule = partial(estimators.delta_rule, normalized=normalized)
        alone = rule([[0.0, 3.0]], [2.0], *given[1:])
        assert rule([[0.0, 0.0], [0.0, 3.0]], *given) == alone != rule([[0.0, 1.0], [0.0, 3.0]], *given)


test_bad_input_is_refused = refusals(
    (lambda: delta_rule_risk(GENERAL, 0.1, normalized=True), "normalized must be False where feature_cov"),
    (lambda: delta_rule_risk(PLAIN, 0.1, normalized=True), "normalized must be False where labels are noisy and d < 3"),
    (lambda: delta_rule_risk(PLAIN, decay=0.9), "step_size must be given where decay is not 1"),
    (lambda: delta_rule_risk(PLAIN, schedule=[0.1, 0.2]), r"schedule must have shape \(3,\), got shape \(2,\)"),
    # The start of a task with d = C was once read as a schedule.
    (lambda: delta_rule_risk(SQUARE, SQUARE.prior_mean), r"step_size must be a number, got shape \(3,\).*schedule="),
    (lambda: delta_rule_risk(PLAIN, 0.1, schedule=[0.1] * 3), "step_size must be None where schedule is given"),
    (lambda: delta_rule_risk(PLAIN, 0.1, [1.0]), r"start must have shape \(2,\)"),
    (lambda: delta_rule_risk(PLAIN, np.nan), "step_size must be a finite number"),
    (lambda: delta_rule_risk(PLAIN, 0.1, normalized=1), "normalized must be True or False"),
    (lambda: delta_rule_step(GENERAL, schedule=True), "task must have a feature_cov that is a multiple"),
    (lambda: estimators.delta_rule(np.eye(2), [1, 2], [1, 1], [0, 0], [1.0]), r"step_size must have shape \(2,\)"),
)
