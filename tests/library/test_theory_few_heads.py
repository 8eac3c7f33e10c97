"""Fewer heads than features, by descent over all weights; several layers, by least squares."""

import numpy as np
import pytest
from few_heads_reference import problem, search

from lsalib import theory
from lsalib.tasks import GaussianTask

TASK = GaussianTask([1.0, 2.0, -1.0], context_size=5)
GUESS = np.array([0.5, -1.0, 2.0])


def risk_of(heads, guess=None):
    return float(theory.population_risk(theory.few_heads_weights(TASK, heads, guess), TASK, guess))


@pytest.mark.claim("few-heads-optimum")
def test_no_search_finds_better(x64):
    """With one head and with two, without a guess and with one."""
    found = search([problem(TASK), problem(TASK, GUESS)], (1, 2), starts=8).value.min(2)
    stated = np.array([[risk_of(heads, guess) for heads in (1, 2, 3)] for guess in (None, GUESS)])
    np.testing.assert_allclose(found, stated[:, :2], rtol=1e-7)
    # The control: one head more is something else.
    assert (found > stated[:, 1:] + 1e-3).all()


@pytest.mark.claim("few-heads-optimum", "sharp-head-count", "thm1-saturation")
def test_with_d_heads_it_is_the_optimum_and_a_right_guess_needs_one(x64):
    """One head fewer falls short, and so does one head with a guess that is a little wrong."""
    for guess in (None, GUESS):
        np.testing.assert_allclose(risk_of(3, guess), theory.optimal_risk(TASK, guess), rtol=1e-12)
        assert risk_of(2, guess) > theory.optimal_risk(TASK, guess) + 1e-3
    right = [risk_of(heads, TASK.prior_mean) for heads in (1, 2, 3)]
    np.testing.assert_allclose(right, theory.yq_risk(TASK), rtol=1e-14)
    assert risk_of(1, TASK.prior_mean + 0.1) > theory.yq_risk(TASK) + 1e-3


def test_units_do_not_count(x64):
    """Features times 3 and task weights times 2: the risk times 36. The bias is in units of labels, as the noise is."""
    plain = GaussianTask(TASK.prior_mean, 5, noise_std=0.7)
    scaled = GaussianTask(2 * TASK.prior_mean, 5, 9 * np.eye(3), 4 * np.eye(3), noise_std=6 * 0.7)
    risks = [
        float(theory.population_risk(theory.few_heads_weights(task, 2, unit * GUESS, bias), task, unit * GUESS, bias))
        for task, unit, bias in ((plain, 1, 0.5), (scaled, 2, 3.0), (scaled, 2, 0.5))
    ]
    np.testing.assert_allclose(risks[1], 36 * risks[0], rtol=1e-12)
    assert risks[2] < risks[1] * (1 - 1e-3)


@pytest.mark.claim("few-heads-optimum")
def test_only_the_distance_of_the_guess_counts(x64):
    """A turned prior mean, a moved guess: the same risk. A tiny error of the guess costs next to nothing."""
    turned = GaussianTask([0.0, np.sqrt(6.0), 0.0], context_size=5)
    np.testing.assert_allclose(
        theory.population_risk(theory.few_heads_weights(turned, 2), turned), risk_of(2), rtol=1e-10
    )
    near = TASK.prior_mean + np.array([1e-4, 0.0, 0.0])
    np.testing.assert_allclose(risk_of(1, near), theory.yq_risk(TASK), atol=1e-6)
    assert risk_of(1, near + 1.0) > theory.yq_risk(TASK) + 0.1


FLAT = GaussianTask([1.0, 2.0, -1.0], 4, feature_cov=np.diag([2.0, 0.5, 0.0]))


def nearest(order, degree):
    """The least mean square of a polynomial with p(0) = 1, of a gamma variable with mean 1: by its moments."""
    power = np.cumprod(np.append(1, 1 + np.arange(2 * degree) / order))
    i = np.arange(1, degree + 1)
    return 1 - power[i] @ np.linalg.solve(power[i[:, None] + i], power[i])


@pytest.mark.claim("depth-gap", "depth-floor")
@pytest.mark.parametrize(("task", "rank"), [(GaussianTask([0.0], 3), 1), (GaussianTask([2.0] * 3, 4), 3), (FLAT, 2)])
def test_the_price_is_the_distance_from_polynomials(task, rank):
    """Of a gamma variable, for one to four layers, d = 1, singular features; half the order is seen."""
    for layers in (1, 2, 3, 4):
        order = task.context_size * rank / 2
        np.testing.assert_allclose(theory.depth_price(task, layers), nearest(order, layers), rtol=1e-8)
        assert theory.depth_price(task, layers) < 0.95 * nearest(order / 2, layers)


@pytest.mark.claim("depth-gap")
def test_one_layer_is_the_layer_of_the_other_pages():
    """With any multiples of the identity as covariances, in any unit; two layers pay less, and have less risk."""
    task = GaussianTask([1.0, -2.0, 0.5], 5, 2.0 * np.eye(3), 0.3 * np.eye(3))
    guess = [0.5, 0.0, 1.0]
    np.testing.assert_allclose(theory.depth_risk(task, 1, guess), theory.optimal_risk(task, guess), rtol=1e-13)
    np.testing.assert_allclose(theory.depth_price(FLAT, 1), theory.constant_regression(FLAT).error, rtol=1e-13)
    assert theory.depth_risk(task, 2, guess) < 0.8 * theory.depth_risk(task, 1, guess)
    # Features in other units, and labels in others: the risk is that of the white task, in units of y squared.
    u = np.array([1.0, -2.0, 0.5])
    white, scaled = GaussianTask(u, 5), GaussianTask(3 * u / 2, 5, 4.0 * np.eye(3), 9 / 4 * np.eye(3))
    for layers in (1, 2):
        np.testing.assert_allclose(theory.depth_risk(scaled, layers), 9 * theory.depth_risk(white, layers), rtol=1e-13)


@pytest.mark.claim("depth-gap", "depth-floor")
def test_one_feature_has_a_risk_at_every_depth():
    """(1 + u^2) times the price; for two layers that is what the formula for any d says."""
    task = GaussianTask([2.0], 6)
    for layers in (1, 2, 3, 7):
        np.testing.assert_allclose(theory.depth_risk(task, layers), 5 * theory.depth_price(task, layers), rtol=1e-14)
    np.testing.assert_allclose(theory.depth_risk(task, 2), 5 * 8 / (8 * 10), rtol=1e-14)
