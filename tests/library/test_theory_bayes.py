"""Bayes' risk with label noise: against integrals, an identity, samples of the posterior and the estimator itself."""

from functools import partial

import jax
import numpy as np
import pytest
from refusals import refusals
from scipy import integrate, stats
from theory_reference import largest_z, make_task, z_bound

from lsalib import estimators, metrics
from lsalib.tasks import GaussianTask
from lsalib.theory import bayes_risk, yq_risk


def plain(d, C, noise_std):
    return GaussianTask(np.ones(d), C, noise_std=noise_std)


@pytest.mark.parametrize("noise_std", [1e-3, 0.3, 1.0, 30.0])
@pytest.mark.parametrize("degrees", [1, 2, 7, 200])
def test_one_feature_or_one_example_is_an_integral(degrees, noise_std):
    """E 1/(1 + s chi^2) for d = 1; for C = 1 the one direction that is seen has it, with d degrees of freedom."""
    chance = lambda t, k: np.exp(stats.chi2.logpdf(np.exp(t), k) + t)
    # The density of t is below 1e-15 outside of these ends.
    ends = lambda k: np.log(k) + np.array([-70 / k - np.sqrt(160 / k), np.sqrt(160 / k)])
    kernel = lambda t, k: chance(t, k) / (1 + np.exp(t) / noise_std**2)
    mean = lambda k: integrate.quad(kernel, *ends(k), (k,), points=[np.log(k)], limit=2000, epsabs=1e-13)[0]
    np.testing.assert_allclose(bayes_risk(plain(1, degrees, noise_std)), mean(degrees), atol=2e-10)
    np.testing.assert_allclose(bayes_risk(plain(degrees, 1, noise_std)), degrees - 1 + mean(degrees), rtol=2e-10)
    if degrees > 1:
        assert mean(degrees - 1) > bayes_risk(plain(1, degrees, noise_std)) * (1 + 1e-5), "the control: one less"


@pytest.mark.parametrize(("d", "C"), [(2, 3), (3, 10), (7, 8), (5, 40)])
def test_what_is_learned_of_a_matrix_and_its_transpose_is_equal(d, C):
    """X^T X and X X^T have the same eigenvalues but for zeros; the fractions of both differ in every number."""
    for noise_std in (1e-2, 0.7, 5.0):
        learned = lambda d, C, s=noise_std: d - bayes_risk(plain(d, C, s))
        assert learned(d, C) == pytest.approx(learned(C, d), abs=1e-8)
        assert abs(learned(d, C) - learned(C, d + 1)) > 1e-4, "the control"


@pytest.mark.parametrize(("d", "C", "noise_std"), [(4, 6, 0.5), (6, 4, 1.0), (3, 3, 0.05), (10, 10, 1.0)])
def test_within_sampling_error(d, C, noise_std):
    """The posterior's trace on samples of plain NumPy, with scales of features and prior; and the limits."""
    task = GaussianTask(np.ones(d), C, 2 * np.eye(d), 0.3 * np.eye(d), noise_std)
    X = np.sqrt(2) * np.random.default_rng(d).standard_normal((100_000, C, d))
    precision = np.eye(d) / 0.3 + np.swapaxes(X, 1, 2) @ X / noise_std**2
    draws = 2 * np.linalg.inv(precision).trace(axis1=1, axis2=2)
    assert largest_z(draws, bayes_risk(task)) < z_bound(4)
    assert largest_z(draws, bayes_risk(GaussianTask(np.ones(d), C + 1, 2 * np.eye(d), 0.3 * np.eye(d), noise_std))) > 9
    assert bayes_risk(task) < yq_risk(task) < 0.6 * d
    assert bayes_risk(plain(d, C, 1e-5)) == pytest.approx(bayes_risk(plain(d, C, 0.0)), abs=1e-4)


def test_the_estimator_has_this_risk():
    """``estimators.bayes`` on sampled tasks; with another noise in mind its risk is larger."""
    task = GaussianTask([1.0, -1.0, 0.5], 4, noise_std=0.8)

    def z(noise_std):
        predict = partial(estimators.bayes, prior_mean=task.prior_mean, noise_std=noise_std)
        found = metrics.sampled_risk(jax.random.key(0), task, predict, batches=4, batch_size=2**15)
        return (found.mean - bayes_risk(task)) / found.standard_error

    assert abs(z(0.8)) < z_bound(2) < z(0.1)


test_bad_input_is_refused = refusals(
    (lambda: bayes_risk(make_task(0, 2, 3, 0.5)), "task must have covariances that are multiples of the identity"),
    (lambda: bayes_risk(make_task(0, 3, 2)), "task must have covariances that are multiples of the identity"),
    (lambda: jax.jit(lambda C: bayes_risk(GaussianTask([1.0], C)))(3), "task must have a known context_size"),
)
