"""Attention and gradient steps: the literal formulas, independent ones, and what a prediction reads of the weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsalib import attention, estimators, metrics, tasks

SEEDS = range(4)


def example(seed, d=4, C=6, heads=3):
    """Weights and one embedding, float64, with a wrong guess and noisy labels: nothing is special about them."""
    params = attention.init(jax.random.key(seed), d, heads, scale=1.0)
    task = tasks.GaussianTask(np.arange(1.0, d + 1), C, noise_std=0.3)
    X, y, x_q, _, _ = (jnp.asarray(np.asarray(part)[0]) for part in tasks.sample(jax.random.key(seed + 100), task, 1))
    return params, X, y, x_q, np.random.default_rng(seed).normal()


def lsa_by_loops(params, X, y, x_q, y_q):
    """The layer in plain NumPy: loops over heads and tokens, no mask matrix."""
    z_q = np.append(x_q, y_q)
    tokens = np.column_stack([X, y])
    out = z_q.copy()
    for W_K, W_Q, W_P, W_V in zip(*map(np.asarray, params), strict=True):
        for z in tokens:
            out += W_P @ (W_V @ z) * ((W_K @ z) @ (W_Q @ z_q)) / len(tokens)
    return out[-1]


@pytest.mark.parametrize("seed", SEEDS)
def test_three_derivations_of_a_prediction(x64, seed):
    """And a control for the mask: were the query a key too, the loops with one more token would agree."""
    params, X, y, x_q, y_q = example(seed)
    literal = np.asarray(attention.lsa(params, attention.embed(X, y, x_q, y_q)))
    np.testing.assert_allclose(literal, lsa_by_loops(params, X, y, x_q, y_q), rtol=1e-12)
    np.testing.assert_allclose(literal, attention.predict(params, attention.gram(X, y), x_q, y_q), rtol=1e-12)
    seen = lsa_by_loops(params, np.vstack([X, x_q]), np.append(y, y_q), x_q, y_q) - y_q
    assert abs(seen * 7 / 6 - (literal - y_q)) > 1e-2


def test_linear_transformer_block_against_dense_algebra(x64):
    """Attention, then the MLP's two matrices, with the query's token masked."""
    params, X, y, x_q, _ = example(5)
    W_1, W_2 = map(jnp.asarray, np.random.default_rng(6).standard_normal((2, 7, 5)))
    E = np.asarray(attention.embed(X, y, x_q, 0.0))
    mask = np.diag([1.0] * len(y) + [0.0])
    heads = zip(*map(np.asarray, params), strict=True)
    layer = E + sum(P @ V @ E @ mask @ (E.T @ K.T @ Q @ E) / len(y) for K, Q, P, V in heads)
    expected = (np.asarray(W_2).T @ np.asarray(W_1) @ layer)[-1, -1]
    np.testing.assert_allclose(attention.linear_transformer_block(params, W_1, W_2, X, y, x_q), expected, rtol=1e-11)


def test_init_has_the_scale_that_it_is_given():
    """Up to sampling error, with mean zero."""
    weights = np.stack(attention.init(jax.random.key(0), dim=19, heads=25, scale=0.3))
    count = weights.size  # 40,000 entries: the standard deviation is known to 1 / sqrt(2 n).
    assert abs(weights.std() / 0.3 - 1) < 5 / (2 * count) ** 0.5
    assert abs(weights.mean()) < 5 * 0.3 / count**0.5


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
