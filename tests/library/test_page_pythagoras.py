"""The right triangle for random Gaussian tasks, by exact moments and by the library, and for sampled other tasks."""

import jax
import numpy as np
import pytest
from theory_reference import exact_sides, make_params, make_task

from lsalib import attention, tasks, theory

SIZES = [(1, 1), (1, 7), (3, 2), (4, 9), (4, 3), (3, 30)]


def layer(seed):
    """A random Gaussian task, and the weights of one to five random heads for it."""
    d, C = SIZES[seed % len(SIZES)]
    task = make_task(seed, d, C, noise_std=np.random.default_rng(seed).uniform(0, 2))
    return task, make_params(100 + seed, d, 1 + seed % 5)


@pytest.mark.claim("pythagoras-general", "conjecture-global-optimum")
@pytest.mark.parametrize("seed", range(12))
def test_the_risk_is_the_sum_of_two_squares(seed, x64):
    """Random heads and tasks: exact moments for any query's token, and the library's numbers for a linear guess."""
    (task, params), rng = layer(seed), np.random.default_rng(200 + seed)
    M, Z, bias = np.asarray(attention.lift(params)), rng.normal(size=(task.dim + 1, task.dim + 2)), 0.8
    risk, best, away = exact_sides(task, M, Z @ Z.T)
    np.testing.assert_allclose(risk, best + away, rtol=1e-12)
    # Controls: half the step; and where there are several features, the best plain step.
    wrong = [theory.optimal_preconditioner(task) / 2] + [theory.optimal_step(task) * np.eye(task.dim)] * (task.dim > 1)
    for N in wrong:
        _, _, other = exact_sides(task, M, Z @ Z.T, N)
        assert abs((best + other) / risk - 1) > 1e-6
    guess = rng.normal(size=task.dim)
    reads = np.vstack([np.eye(task.dim), guess])
    query = reads @ task.feature_cov @ reads.T
    query[-1, -1] += bias**2
    away = exact_sides(task, M, query)[2]
    step = theory.yq_optimal_weights(task), task, guess, task.prior_mean
    risk = float(theory.population_risk(params, task, guess, bias))
    np.testing.assert_allclose(risk, theory.yq_risk(task) + away, rtol=1e-12)
    np.testing.assert_allclose(theory.squared_distance(params, *step, bias), away, rtol=1e-12)
    # The control: the distance without the offset.
    assert abs(float(theory.squared_distance(params, *step)) / away - 1) > 1e-6


@jax.jit
def predictions(params, E):
    return jax.vmap(attention.lsa, (None, 0))(params, E)


def cross_term(seed, kurtosis, d=3, C=4, count=2**16, sigma=0.8):
    """The sampled mean of (f - f*)(f* - target), in standard errors."""
    rng = np.random.default_rng(700 + seed)
    X, noise = rng.laplace(size=(count, C, d)) / 2**0.5, sigma * rng.laplace(size=(count, C)) / 2**0.5
    eps, x_q = rng.uniform(-(3**0.5), 3**0.5, size=(count, d)), rng.exponential(size=(count, d))
    r, w_star = np.einsum("ncd,nd->nc", X, eps) + noise, np.array([1.0, 2.0, -1.0])
    E = np.zeros((count, d + 1, C + 1))
    E[:, :-1, :-1], E[:, -1, :-1] = X.transpose(0, 2, 1), r + X @ w_star
    E[:, :-1, -1], E[:, -1, -1] = x_q, np.linalg.norm(x_q, axis=1)
    f = np.asarray(predictions(make_params(seed, d, 2, scale=1 / 6), E))
    eta = C / (C + d + kurtosis - 2 + sigma**2)
    step = np.sum(x_q * (w_star + eta * np.einsum("nc,ncd->nd", r, X) / C), axis=1)
    terms = (f - step) * (step - np.sum(x_q * (w_star + eps), axis=1))
    return terms.mean() / terms.std() * count**0.5


@pytest.mark.claim("pythagoras-general")
@pytest.mark.parametrize("seed", range(4))
def test_the_short_sides_are_orthogonal_in_samples_that_are_not_gaussian(seed, x64):
    """Laplace features and noise, uniform weights, an exponential query with its length as guess, by full matrices."""
    assert abs(cross_term(seed, kurtosis=6.0)) < 5
    # The control: the best step for normal features.
    assert abs(cross_term(seed, kurtosis=3.0)) > 5


@pytest.mark.claim("pythagoras-general")
@pytest.mark.parametrize("d, C", SIZES)
def test_half_the_step_gains_three_quarters(d, C):
    """Half of the best step has three quarters of its gain over the bare guess, as Exercise 1 says."""
    task = tasks.GaussianTask([2.0] * d, C)
    share = lambda part: (d - theory.gd_risk(task, part * theory.optimal_step(task))) / (d - theory.yq_risk(task))
    assert share(0.5) == pytest.approx(0.75, rel=1e-12)
    assert abs(share(0.4) - 0.75) > 0.1


@pytest.mark.claim("pythagoras-general")
@pytest.mark.parametrize("seed", range(6))
def test_an_average_of_two_layers_gains_a_quarter_of_their_squared_distance(seed, x64):
    """The excess of an average is the mean excess minus a quarter of the layers' squared distance, as in Exercise 2."""
    task, one = layer(seed)
    other, guess = make_params(400 + seed, task.dim, 2), np.random.default_rng(seed).normal(size=task.dim)
    both = [np.concatenate(pair) / 2 for pair in zip(*map(attention.effective, (one, other)), strict=True)]
    average = attention.from_effective(2 * both[0], both[1])
    risk, *risks = (float(theory.population_risk(each, task, guess)) for each in (average, one, other))
    apart = float(theory.squared_distance(one, other, task, guess, guess))
    assert risk == pytest.approx(np.mean(risks) - apart / 4, rel=1e-11)
    assert abs(np.mean(risks) - risk) > 1e-6 * risk
