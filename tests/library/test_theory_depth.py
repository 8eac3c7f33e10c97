"""Layers one after the other: the price against least squares, and the risks where they must meet others."""

import numpy as np
import pytest

from lsalib import theory
from lsalib.tasks import GaussianTask

FLAT = GaussianTask([1.0, 2.0, -1.0], 4, feature_cov=np.diag([2.0, 0.5, 0.0]))


def nearest(order, degree):
    """The least mean square of a polynomial with p(0) = 1, of a gamma variable with mean 1: by its moments."""
    power = np.cumprod(np.append(1, 1 + np.arange(2 * degree) / order))
    i = np.arange(1, degree + 1)
    return 1 - power[i] @ np.linalg.solve(power[i[:, None] + i], power[i])


@pytest.mark.parametrize(("task", "rank"), [(GaussianTask([0.0], 3), 1), (GaussianTask([2.0] * 3, 4), 3), (FLAT, 2)])
def test_the_price_is_the_distance_from_polynomials(task, rank):
    for layers in (1, 2, 3, 4):
        order = task.context_size * rank / 2
        np.testing.assert_allclose(theory.depth_price(task, layers), nearest(order, layers), rtol=1e-8)
        assert theory.depth_price(task, layers) < 0.95 * nearest(order / 2, layers)


def test_one_layer_is_the_layer_of_the_other_pages():
    """With any multiples of the identity as covariances; two layers pay less, and have less risk."""
    task = GaussianTask([1.0, -2.0, 0.5], 5, 2.0 * np.eye(3), 0.3 * np.eye(3))
    guess = [0.5, 0.0, 1.0]
    np.testing.assert_allclose(theory.depth_risk(task, 1, guess), theory.optimal_risk(task, guess), rtol=1e-13)
    np.testing.assert_allclose(theory.depth_price(FLAT, 1), theory.constant_regression(FLAT).error, rtol=1e-13)
    assert theory.depth_risk(task, 2, guess) < 0.8 * theory.depth_risk(task, 1, guess)


@pytest.mark.parametrize("layers", [1, 2])
def test_units_do_not_matter(layers):
    """Features in other units, and labels in others: the risk is that of the white task, in units of y squared."""
    u = np.array([1.0, -2.0, 0.5])
    white, scaled = GaussianTask(u, 5), GaussianTask(3 * u / 2, 5, 4.0 * np.eye(3), 9 / 4 * np.eye(3))
    np.testing.assert_allclose(theory.depth_risk(scaled, layers), 9 * theory.depth_risk(white, layers), rtol=1e-13)
    assert abs(theory.depth_risk(scaled, layers) / theory.depth_risk(white, layers) - 4) > 1


def test_one_feature_has_a_risk_at_every_depth():
    """(1 + u^2) times the price; for two layers that is what the formula for any d says."""
    task = GaussianTask([2.0], 6)
    for layers in (1, 2, 3, 7):
        np.testing.assert_allclose(theory.depth_risk(task, layers), 5 * theory.depth_price(task, layers), rtol=1e-14)
    np.testing.assert_allclose(theory.depth_risk(task, 2), 5 * 8 / (8 * 10), rtol=1e-14)
