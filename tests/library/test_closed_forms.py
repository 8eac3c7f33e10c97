"""The closed forms of theory against Monte Carlo, and against each other where they must meet."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsalib import estimators, metrics, tasks, theory

GENERAL = tasks.GaussianTask(
    [1.0, 2.0, -1.0],
    5,
    feature_cov=[[1.0, 0.4, 0.0], [0.4, 2.0, 0.3], [0.0, 0.3, 0.5]],
    prior_cov=[[1.5, -0.2, 0.1], [-0.2, 0.7, 0.0], [0.1, 0.0, 1.0]],
    noise_std=3.0,
)
PAPER = tasks.GaussianTask([2.0] * 10, 10)
# As loud as the signal, so that a sample hears a wrong noise.
NOISY = pytest.mark.parametrize("task", [GENERAL, replace(PAPER, noise_std=5.0)], ids=["general", "paper"])


@NOISY
def test_gd_risk_against_sampling(task):
    """For the best step, a short and a long one, on the same tasks; a context of two and half the noise are caught."""
    steps, w0 = (theory.optimal_step(task), 0.2, 0.9), jnp.asarray(np.float32(task.prior_mean))
    f = lambda X, y, x_q: jnp.stack([estimators.one_step_gd(X, y, x_q, w0, eta) for eta in steps])
    risk = metrics.sampled_risk(jax.random.key(1), task, f, batches=2)
    off = lambda task: np.abs(risk.mean - [theory.gd_risk(task, eta) for eta in steps]) / risk.standard_error
    assert (off(task) < 5).all()
    for other in (replace(task, context_size=2), replace(task, noise_std=task.noise_std / 2)):
        assert (off(other) > 5).all()


@NOISY
def test_yq_risk_is_that_of_its_preconditioner(task):
    N, w0 = np.float32(theory.optimal_preconditioner(task)), jnp.asarray(np.float32(task.prior_mean))
    three = [jnp.asarray(np.float32(factor) * N) for factor in (1.0, 0.8, 1.2)]
    f = lambda X, y, x_q: jnp.stack([estimators.preconditioned_gd(X, y, x_q, w0, N) for N in three])
    risk = metrics.sampled_risk(jax.random.key(2), task, f, batches=2)
    off = lambda task: abs(risk.mean[0] - theory.yq_risk(task)) / risk.standard_error[0]
    assert off(task) < 5 < off(replace(task, noise_std=task.noise_std / 2))
    # Common random numbers: any other preconditioner does worse on the very same tasks.
    assert (risk.mean[1:] > risk.mean[0]).all()


def test_the_paper_scale():
    np.testing.assert_allclose(theory.gd_risk(PAPER), 110 / 21, rtol=1e-14)
    np.testing.assert_allclose(theory.optimal_risk(PAPER), 110 / 21 + 80 / 102, rtol=1e-14)
    np.testing.assert_allclose(theory.optimal_step(PAPER), 10 / 21, rtol=1e-14)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(d=st.integers(1, 8), C=st.integers(1, 30), seed=st.integers(0, 2**16))
def test_the_laws_of_isotropic_tasks(d, C, seed):
    w_star, g, (bias, *_) = np.random.default_rng(seed).normal(size=(3, d))
    isotropic = tasks.GaussianTask(w_star, C)
    np.testing.assert_allclose(theory.gd_risk(isotropic), d * (d + 1) / (C + d + 1), rtol=1e-12)
    np.testing.assert_allclose(theory.yq_risk(isotropic), theory.gd_risk(isotropic), rtol=1e-10)
    gap = theory.optimal_risk(isotropic, g, bias) - theory.yq_risk(isotropic)
    np.testing.assert_allclose(gap, 2 * (np.sum((w_star - g) ** 2) + bias**2) / (C * d + 2), rtol=1e-9, atol=1e-12)
