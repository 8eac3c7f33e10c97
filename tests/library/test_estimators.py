"""One-step GD, its preconditioned form and the Bayes predictor, against algebra done another way."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsalib import estimators, metrics, tasks


def context(seed, d=4, C=6, **kwargs):
    task = tasks.GaussianTask(np.arange(1.0, d + 1), C, **kwargs)
    batch = tasks.sample(jax.random.key(seed), task, 1)
    return task, *(jnp.asarray(np.asarray(a)[0]) for a in batch[:4])


def test_preconditioned_gd_by_dense_algebra_and_in_its_special_cases(x64):
    _, X, y, x_q, _ = context(0)
    X, y, x_q, w0 = *map(np.asarray, (X, y, x_q)), np.ones(4)
    preconditioned = lambda N: estimators.preconditioned_gd(*map(jnp.asarray, (X, y, x_q, w0, N)))
    N = np.random.default_rng(0).standard_normal((4, 4))
    np.testing.assert_allclose(preconditioned(N), x_q @ (w0 + N @ X.T @ (y - X @ w0) / 6), rtol=1e-12)
    plain = np.asarray(estimators.one_step_gd(*map(jnp.asarray, (X, y, x_q, w0)), 0.3))
    np.testing.assert_allclose(preconditioned(0.3 * np.eye(4)), plain, rtol=1e-12)
    # A Newton step solves a noise-free task; the gradient step does not.
    solved = np.linalg.lstsq(X, y, rcond=None)[0] @ x_q
    np.testing.assert_allclose(preconditioned(np.linalg.inv(X.T @ X / 6)), solved, rtol=1e-9)
    assert abs(plain - solved) > 1e-3


@pytest.mark.parametrize(("C", "noise_std"), [(2, 0.0), (6, 0.0), (2, 0.5), (6, 0.5)])
def test_bayes_is_the_posterior_mean(x64, C, noise_std):
    """Against the joint Gaussian of (w, y), conditioned the slow way in weight space."""
    prior_cov = np.diag([1.0, 2.0, 0.5, 1.5])
    task, X, y, x_q, _ = context(1, C=C, prior_cov=prior_cov, noise_std=noise_std)
    noise = max(noise_std, 1e-4)  # the noise-free posterior is the limit of small noise
    got = estimators.bayes(X, y, x_q, jnp.asarray(task.prior_mean), jnp.asarray(prior_cov), noise_std)
    X, y, x_q = map(np.asarray, (X, y, x_q))
    precision = np.linalg.inv(prior_cov) + X.T @ X / noise**2
    mean = np.linalg.solve(precision, np.linalg.solve(prior_cov, task.prior_mean) + X.T @ y / noise**2)
    np.testing.assert_allclose(got, x_q @ mean, rtol=1e-4 if noise_std == 0 else 1e-10)


def test_metrics_tell_two_predictors_apart(x64):
    _, *example, _ = context(2)
    X, y, x_q = map(np.asarray, example)

    @jax.jit
    def compare(first, second):
        f, g = (lambda *x, step=step: estimators.one_step_gd(*x, jnp.ones(4), step) for step in (first, second))
        compared = metrics.prediction_difference, metrics.gradient_difference, metrics.gradient_cosine
        return [metric(f, g, *example) for metric in compared]

    a, b = (np.ones(4) - step * X.T @ (X @ np.ones(4) - y) / len(y) for step in (0.2, 0.5))
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    np.testing.assert_allclose(compare(0.2, 0.5), [abs(x_q @ (a - b)), np.linalg.norm(a - b), cosine], rtol=1e-12)
    assert compare(0.2, 0.2)[1] == 0
    assert cosine < 0.999


def test_the_standard_error_is_the_spread_over_keys():
    """That of the mean over nine batches; a batch's own would be three times as wide."""
    task, f = tasks.GaussianTask([3.0], 1), lambda X, y, x_q: 0 * x_q[0]
    draws = [metrics.sampled_risk(jax.random.key(n), task, f, batches=9, batch_size=100) for n in range(64)]
    off = [(mean - 10) / standard_error for mean, standard_error in draws]
    assert 0.7 < np.std(off) < 1.4
