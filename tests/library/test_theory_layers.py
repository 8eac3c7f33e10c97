"""Rules with several steps, and the best predictor: depth, the delta rule, and Bayes'
risk.
"""

from dataclasses import replace
from functools import partial

import jax
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from refusals import refusals
from theory_reference import (
    GUESS,
    TASKS,
    gauss_hermite,
    largest_z,
    make_task,
    root,
    z_bound,
)

from lsalib import theory
from lsalib.tasks import GaussianTask
from lsalib.theory import bayes_risk, delta_rule_risk, depth_price, depth_risk

PLAIN = TASKS["isotropic"]


@pytest.mark.claim("depth-gap", "depth-floor")
def test_the_risk_of_depth():
    """Other variances are other units; one feature has a formula at every depth."""
    scaled = GaussianTask(1.5 * PLAIN.prior_mean, 5, 4.0 * np.eye(3), 9 / 4 * np.eye(3))
    assert depth_risk(scaled, 2) == pytest.approx(9 * depth_risk(PLAIN, 2), rel=1e-13)
    # 1 / binomial(L + 3, 3), times the squared mean and the variance
    for layers, share in ((1, 4), (2, 10), (7, 120)):
        risk = depth_risk(GaussianTask([2.0], 6), layers)
        assert risk == pytest.approx(5 / share)


@pytest.mark.claim("depth-gap", "depth-unequal")
def test_depth_for_other_covariances():
    """Only the features' and weights' joint covariance counts, and the error in its
    coordinates; the formula holds where this covariance is a multiple of the identity.
    """
    general = TASKS["general"]
    assert depth_risk(general, 1, GUESS) == pytest.approx(
        theory.optimal_risk(general, GUESS), rel=1e-12
    )
    U = np.array([[1.0, 0.0], [0.5, 2.0], [-1.0, 0.3]])  # features U xi
    back = np.linalg.pinv(U)
    search = lambda psi: depth_risk(
        GaussianTask(back.T @ [0.2, 0.0], 2, U @ U.T, 3 * back.T @ np.diag(psi) @ back),
        2,
    )
    white = lambda psi: depth_risk(GaussianTask([0.2, 0.0], 2, None, np.diag(psi)), 2)
    assert search([12.0, 0.75]) == pytest.approx(white([36.0, 2.25]), rel=1e-7)
    assert search([1.0, 1.0]) == pytest.approx(white([3.0, 3.0]), rel=1e-9)


def final_errors(X, noise, w, start, beta):
    """w - w_C for a batch of tasks, by the rule."""
    state = np.broadcast_to(start, w.shape)
    for x, by in zip(X.swapaxes(0, 1), noise.T, strict=True):
        state = state + beta * x * (((w - state) * x).sum(1) + by)[:, None]
    return w - state


@pytest.mark.parametrize(("d", "C"), [(1, 3), (2, 2)])
def test_the_delta_rule_equals_the_sum_over_a_quadrature(d, C):
    """Five nodes for each normal variable integrate C steps on general tasks exactly;
    the controls change one thing.
    """
    task, start, beta = make_task(10 + d, d, C, noise_std=0.8), GUESS[:d], 0.3
    points, weights = gauss_hermite(C * d, 5)
    other, other_weights = gauss_hermite(C + d)
    X = points.reshape(-1, C, d) @ root(task.feature_cov, d).T
    X, weights = X.repeat(len(other), 0), np.outer(weights, other_weights).ravel()
    noise, eps = np.split(np.tile(other, (len(points), 1)), [C], axis=1)
    w = task.prior_mean + eps @ root(task.prior_cov, d).T
    errors = final_errors(X, task.noise_std * noise, w, start, beta)
    exact = weights @ np.einsum("ni,ij,nj->n", errors, task.feature_cov, errors)
    assert_allclose(delta_rule_risk(task, beta, start), exact, rtol=1e-11)
    wrong = [
        delta_rule_risk(task, beta, -start),
        delta_rule_risk(task, 1.01 * beta, start),
        delta_rule_risk(replace(task, noise_std=0.0), beta, start),
    ]
    assert min(abs(np.array(wrong) / exact - 1)) > 1e-4


def test_the_delta_rule_s_stated_formulas():
    """Without noise, for features of variance 4 and any prior, and the best step."""
    d, C, P = 3, 5, make_task(2, 3, 1).prior_cov
    task = GaussianTask(PLAIN.prior_mean, C, 4 * np.eye(d), P)
    distance = 4 * (np.sum((PLAIN.prior_mean - GUESS) ** 2) + np.trace(P))
    rho, best = lambda b: 1 - 8 * b + 16 * b**2 * (d + 2), 1 / 4 / (d + 2)
    for step in (0.04, None):
        stated = distance * rho(step or best) ** C
        assert delta_rule_risk(task, step, GUESS) == pytest.approx(stated, rel=1e-12)


def test_divided_steps_leave_the_stated_share():
    """Of a squared error, in the mean over the directions of a basis: E x x' = I / d is
    all that counts.
    """
    x = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    for beta in (0.6, 1.0):
        left = GUESS - beta * (x @ GUESS)[:, None] * x
        share = 1 - (2 * beta - beta**2) / 3
        assert np.mean(left**2) == pytest.approx(share * np.mean(GUESS**2), rel=1e-12)


def plain(d, C, noise_std):
    return GaussianTask(np.ones(d), C, noise_std=noise_std)


@pytest.mark.parametrize(("d", "C"), [(3, 10), (5, 4)])
def test_bayes_risk_is_that_of_samples(d, C):
    """The posterior's trace in NumPy, with scales of features and prior; the limit."""
    of = lambda C, s=0.7: GaussianTask(np.ones(d), C, 2 * np.eye(d), 0.3 * np.eye(d), s)
    X = np.sqrt(2) * np.random.default_rng(d).standard_normal((50_000, C, d))
    draws = 2 * np.linalg.inv(
        np.eye(d) / 0.3 + np.swapaxes(X, 1, 2) @ X / 0.7**2
    ).trace(axis1=1, axis2=2)
    assert (
        largest_z(draws, bayes_risk(of(C)))
        < z_bound(2)
        < largest_z(draws, bayes_risk(of(C + 1)))
    )
    assert bayes_risk(of(C, 1e-5)) == pytest.approx(bayes_risk(of(C, 0.0)), abs=1e-4)


@pytest.mark.parametrize("noise", [1e-10, 1e-3, 0.5, 30.0, 1e8, 1e30])
def test_bayes_risk_keeps_its_digits(noise):
    """E[1 / (1 + s chi^2_k)], an incomplete gamma function, to 30 digits: the risk of
    one feature, and that of the one direction that an example tells; then many of both.
    """
    z = mpmath.mpf(noise) ** 2 / 2
    for k in (1, 2, 5, 200):
        a = mpmath.mpf(k) / 2
        mean = (
            float(z**a * mpmath.exp(z) * mpmath.gammainc(1 - a, z)) if z < 1e9 else 1.0
        )
        ratios = (
            bayes_risk(plain(1, k, noise)) / mean,
            bayes_risk(plain(k, 1, noise)) / (k - 1 + mean),
        )
        assert_allclose(ratios, 1, rtol=1e-9)
    if noise < 1e-9:  # the Wishart distribution's mean inverse, for ten features
        inverse = 10 * noise**2 / (20 - 10 - 1)
        assert_allclose(bayes_risk(plain(10, 20, noise)), inverse, rtol=1e-9)


def test_delta_rule_risk_at_the_ends_of_its_range():
    """A billion examples as a geometric series; extreme features in float32; a step
    that is too long.
    """
    step, d, noise = 0.01, 5, 0.5
    gamma = 1 - 2 * step + step**2 * (d + 2)
    rest = step**2 * noise**2 * d / (1 - gamma)
    far = GaussianTask([1.0] * d, 10**9, noise_std=noise)
    assert delta_rule_risk(far, step) == pytest.approx(rest, rel=1e-9)
    for size in (1e-20, 1e20):
        of = lambda mean, cov: delta_rule_risk(GaussianTask(mean, 7, cov))
        mean, cov = np.ones(3), size * np.eye(3)
        expected = size * 6 * (1 - 1 / 5) ** 7
        assert_allclose(of(mean, cov), expected, rtol=1e-12)
        traced = [jax.jit(partial(of, cov=cov))(mean), jax.jit(partial(of, mean))(cov)]
        assert_allclose(traced, expected, rtol=1e-5)
    assert delta_rule_risk(GaussianTask([1.0] * d, 10**6), 5.0) == np.inf


NOISY = GaussianTask([1.0, 2.0], 3, noise_std=0.5)
test_bad_input_is_refused = refusals(
    ("task must have noise_std 0, got 0.5", depth_price, NOISY, 1),
    ("layers must be 1 or 2 for more than one feature, got 3", depth_risk, PLAIN, 3),
    (
        "task and guess must be known numbers for two layers and covariances",
        lambda: jax.jit(lambda g: depth_risk(TASKS["general"], 2, g))(GUESS),
    ),
    ("step_size .* where labels are noisy", delta_rule_risk, NOISY),
    (
        "step_size .* or feature_cov is no multiple of the identity",
        delta_rule_risk,
        TASKS["general"],
    ),
    (
        "task must have covariances that are multiples of the identity",
        bayes_risk,
        TASKS["general, noisy"],
    ),
)
