"""Fewer heads than features: explicit weights, and descent over all weights."""

import numpy as np
import pytest
from theory_reference import descend

from lsalib.tasks import GaussianTask
from lsalib.theory import (
    constant_regression,
    few_heads_weights,
    optimal_risk,
    optimal_step,
    population_risk,
    yq_risk,
)

TASK = GaussianTask([1.0, 2.0, -1.0], context_size=5)
GUESS = np.array([0.5, -1.0, 2.0])


def risk_of(heads, guess=None):
    return float(population_risk(few_heads_weights(TASK, heads, guess), TASK, guess))


def test_no_search_finds_better(x64):
    """With one head and with two, without a guess and with one."""
    cases = [(heads, guess) for heads in (1, 2) for guess in (None, GUESS)]
    found = descend(TASK, [(*case, 0.0) for case in cases], starts=8)
    np.testing.assert_allclose([risk_of(*case) for case in cases], found, rtol=1e-7)
    # The control: one head more is something else.
    assert (found > np.array([risk_of(heads + 1, guess) for heads, guess in cases]) + 1e-3).all()


@pytest.mark.parametrize("guess", [None, GUESS], ids=["no guess", "guess"])
def test_with_d_heads_it_is_the_optimum(guess, x64):
    np.testing.assert_allclose(risk_of(3, guess), optimal_risk(TASK, guess), rtol=1e-12)
    assert risk_of(2, guess) > optimal_risk(TASK, guess) + 1e-3


def test_units_do_not_count(x64):
    """Features times 3 and task weights times 2: the risk times 36. The bias is in units of labels, as the noise is."""
    plain = GaussianTask(TASK.prior_mean, 5, noise_std=0.7)
    scaled = GaussianTask(2 * TASK.prior_mean, 5, 9 * np.eye(3), 4 * np.eye(3), noise_std=6 * 0.7)
    risks = [
        float(population_risk(few_heads_weights(task, 2, unit * GUESS, bias), task, unit * GUESS, bias))
        for task, unit, bias in ((plain, 1, 0.5), (scaled, 2, 3.0), (scaled, 2, 0.5))
    ]
    np.testing.assert_allclose(risks[1], 36 * risks[0], rtol=1e-12)
    assert risks[2] < risks[1] * (1 - 1e-3)


@pytest.mark.parametrize(("share", "enough"), [(0.98, True), (1.02, False)])
@pytest.mark.parametrize(("d", "C", "noise_std"), [(2, 4, 2**0.5), (3, 5, 1.0), (4, 9, 0.6)])
def test_with_label_noise_d_heads_are_enough_up_to_a_distance(share, enough, d, C, noise_std, x64):
    """|w* - g| <= eta*/(2 sqrt(f kappa)) for f tr S + kappa q, the regression of the constant 1."""
    centre = GaussianTask(np.zeros(d), C, noise_std=noise_std)
    constant = constant_regression(centre)
    distance = share * optimal_step(centre) / (2 * np.sqrt(constant.features[0, 0] * constant.residual))
    task = GaussianTask(distance * np.eye(d)[0], C, noise_std=noise_std)
    excess = float(population_risk(few_heads_weights(task, d), task)) - optimal_risk(task)
    assert (excess < 1e-13) == enough and (excess > 1e-6) == (not enough)


def test_a_right_guess_needs_one_head(x64):
    risks = [risk_of(heads, TASK.prior_mean) for heads in (1, 2, 3)]
    np.testing.assert_allclose(risks, yq_risk(TASK), rtol=1e-14)
    assert risk_of(1, TASK.prior_mean + 0.1) > yq_risk(TASK) + 1e-3


def test_only_the_distance_of_the_guess_counts(x64):
    """A turned prior mean, a moved guess: the same risk. A tiny error of the guess costs next to nothing."""
    turned = GaussianTask([0.0, np.sqrt(6.0), 0.0], context_size=5)
    np.testing.assert_allclose(population_risk(few_heads_weights(turned, 2), turned), risk_of(2), rtol=1e-10)
    near = TASK.prior_mean + np.array([1e-4, 0.0, 0.0])
    np.testing.assert_allclose(risk_of(1, near), yq_risk(TASK), atol=1e-6)
    assert risk_of(1, near + 1.0) > yq_risk(TASK) + 0.1
