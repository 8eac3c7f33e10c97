"""The price of a guess where nothing is special: singular covariances, few examples, noise that is not Gaussian."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from theory_reference import TASKS, largest_z, root, z_bound

from lsalib import theory
from lsalib.attention import gram, predict
from lsalib.tasks import GaussianTask, sample, standardize

BOUND = z_bound(50)
# E[n^4] / sigma^4 of the noise: random signs, Gaussian, Laplace.
KURTOSIS = {"signs": 1, "Gaussian": 3, "Laplace": 6}


def case(features, prior):
    """Three features and five examples, with noise, covariances of these ranks, a guess and its offset."""
    rng = np.random.default_rng(35)
    roots = [rng.normal(size=(3, rank)) / rank**0.5 for rank in (features, prior)]
    task = GaussianTask(rng.normal(size=3), 5, *(root @ root.T for root in roots), 1.5)
    return task, task.prior_mean - 3 * rng.normal(size=3), 0.7


@jax.jit
@partial(jax.vmap, in_axes=(None, 0, 0, 0, 0))
def answers(weights, X, y, x_q, y_q):
    return predict(weights, gram(X, y), x_q, y_q)


def draws(seed, task, noise, count=100_000):
    """X, y, x_q and the target of so many tasks, with this noise."""
    rng = np.random.default_rng(seed)
    U, R = root(task.feature_cov, task.dim), root(task.prior_cov, task.dim)
    X = rng.normal(size=(count, task.context_size, task.dim)) @ U.T
    x_q = rng.normal(size=(count, task.dim)) @ U.T
    w = task.prior_mean + rng.normal(size=(count, task.dim)) @ R.T
    unit = {
        "signs": lambda size: rng.choice([-1.0, 1.0], size),
        "Gaussian": lambda size: rng.normal(size=size),
        "Laplace": lambda size: rng.laplace(size=size) / 2**0.5,
    }[noise]
    labels = np.einsum("bcd,bd->bc", X, w) + task.noise_std * unit(X.shape[:2])
    return X, labels, x_q, np.einsum("bd,bd->b", x_q, w)


ONE = GaussianTask([1.0], 6, [[0.8]], [[0.3]], noise_std=1.5)
SAMPLED = [
    *((ONE, noise) for noise in KURTOSIS),
    (TASKS["isotropic"], "Gaussian"),
    (TASKS["general, noisy"], "Gaussian"),
]


@pytest.mark.claim("price-general", "pythagoras-general", "universality")
@pytest.mark.parametrize(("task", "noise"), SAMPLED)
def test_samples_pay_the_price(task, noise, x64):
    """The library's weights, and a guess that is no linear function: the gap is its squared error times the price."""
    cumulant = lambda kurtosis: (kurtosis - 3) * task.noise_std**4
    price = lambda kurtosis: theory.constant_regression(task, noise_cumulant=cumulant(kurtosis)).error
    X, y, x_q, target = draws(1, task, noise)
    y_q = 4 * np.sign(x_q[:, 0]) + x_q[:, 0] ** 2
    off = (y_q - x_q @ task.prior_mean) ** 2
    weights = theory.optimal_weights(task, noise_cumulant=cumulant(KURTOSIS[noise]))
    squares = (np.asarray(answers(weights, X, y, x_q, y_q)) - target) ** 2
    assert largest_z(squares - price(KURTOSIS[noise]) * off, theory.yq_risk(task)) < BOUND
    # The controls: no price, Gaussian noise where it is not, and for noise as strong as the signal the price without.
    without = [2 / (task.context_size * task.dim + 2)] * (task is ONE)
    for wrong in [0, *without, *([price(3)] if KURTOSIS[noise] != 3 else [])]:
        assert largest_z(squares - wrong * off, theory.yq_risk(task)) > BOUND


@pytest.mark.claim("price-general")
def test_random_signs_on_a_known_label_are_a_constant():
    """Where tasks do not vary along the features, the squared residual label is the noise's square."""
    task = GaussianTask([1.0, 2.0], 3, np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), noise_std=2.0)
    signs = theory.constant_regression(task, noise_cumulant=-2 * 2.0**4)
    assert signs.error == 0 and signs.residual == 0.25
    np.testing.assert_allclose(theory.constant_regression(task).error, 2 / (2 + 2 * 3), rtol=1e-12)
    # Without noise nothing varies: there is no best step, and none that matters.
    quiet = GaussianTask(task.prior_mean, 3, task.feature_cov, task.prior_cov)
    assert theory.optimal_step(quiet) == theory.yq_risk(quiet) == theory.gd_risk(quiet) == 0
    assert not theory.optimal_preconditioner(quiet).any()
    np.testing.assert_allclose(theory.optimal_risk(quiet), 2 / 5, rtol=1e-12)


def test_the_rank_under_transforms(x64):
    """Known values, jit and vmap agree; the gradient is that of differences which leave the rank as it is."""
    task, guess, bias = case(2, 3)
    factor = root(task.feature_cov, task.dim)[:, 1:]
    direction = np.random.default_rng(0).normal(size=factor.shape)

    def risk(t, u=guess):
        moved = factor + t * direction
        other = GaussianTask(task.prior_mean, 5, moved @ moved.T, task.prior_cov, task.noise_std)
        return theory.optimal_risk(other, u, bias, noise_cumulant=-1.0)

    value, slope = jax.jit(jax.value_and_grad(risk))(0.0)
    np.testing.assert_allclose(value, risk(0.0), rtol=1e-9)
    np.testing.assert_allclose(slope, (risk(1e-5) - risk(-1e-5)) / 2e-5, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(risk)(jnp.arange(3.0)), [risk(t) for t in range(3)], rtol=1e-9)
    full = GaussianTask(task.prior_mean, 5, task.feature_cov + 1e-6 * np.eye(3), task.prior_cov, task.noise_std)
    assert abs(theory.optimal_risk(full, guess, bias, noise_cumulant=-1.0) / value - 1) > 1e-2


@pytest.mark.claim("universality")
@pytest.mark.parametrize("unit", [1e-10, 1e10])
def test_the_rank_is_the_same_in_any_unit(unit):
    """The price depends on the rank of the covariance alone, and a larger rank is seen."""
    task, *_ = case(2, 1)
    scaled = GaussianTask(task.prior_mean, 5, unit**2 * task.feature_cov, task.prior_cov / unit**2, task.noise_std)
    plain, other = theory.constant_regression(task), theory.constant_regression(scaled)
    np.testing.assert_allclose([other.error, other.residual], [plain.error, plain.residual], rtol=1e-9)
    np.testing.assert_allclose(unit**2 * other.features, plain.features, rtol=1e-6, atol=1e-6)
    full = GaussianTask(task.prior_mean, 5, task.feature_cov + np.eye(3), task.prior_cov, task.noise_std)
    assert abs(theory.constant_regression(full).error / plain.error - 1) > 1e-2


def test_what_the_rank_does_not_count_is_not_inverted():
    """An eigenvalue of rounding's size, in twenty dimensions; a larger one is counted, and inverted."""
    task = lambda least: GaussianTask(np.ones(20), 5, np.diag([1.0] * 19 + [least]))
    left_out, counted = (theory.constant_regression(task(least)) for least in (3e-15, 1e-12))
    np.testing.assert_allclose([left_out.error, counted.error], [2 / (5 * 19 + 2), 2 / (5 * 20 + 2)], rtol=1e-9)
    assert abs(left_out.features[-1, -1]) < 1e-6 and counted.features[-1, -1] > 1e9


def test_a_cumulant_may_be_off_by_rounding():
    """That of random signs is the least there is, and three more digits than a float has are no reason to refuse it."""
    task = GaussianTask([1.0], 6, noise_std=0.7)
    least = -2 * 0.7**4
    at, near = (theory.constant_regression(task, noise_cumulant=least * factor).error for factor in (1, 1 + 1e-12))
    np.testing.assert_allclose(near, at, rtol=1e-9)
    with pytest.raises(ValueError, match="noise_cumulant must be at least"):
        theory.constant_regression(task, noise_cumulant=least * (1 + 1e-6))


def test_singular_tasks_are_drawn(x64):
    """Features stay in the space of their covariance, and have its moments."""
    task, *_ = case(2, 1)
    X, _, x_q, _, w = map(np.asarray, sample(jax.random.key(0), task, 20_000))
    assert largest_z(np.einsum("bm,bn->bmn", x_q, x_q), task.feature_cov) < BOUND
    off = w - task.prior_mean
    assert largest_z(np.einsum("bm,bn->bmn", off, off), task.prior_cov) < BOUND
    null = np.linalg.eigh(task.feature_cov)[1][:, 0]
    assert np.abs(X @ null).max() < 1e-6 < np.abs(X).max()
    U, T = standardize(task)[1:3]
    np.testing.assert_allclose(U @ U.T, task.feature_cov, atol=1e-14)
    np.testing.assert_allclose(U @ T @ T.T @ U.T, task.feature_cov @ task.prior_cov @ task.feature_cov, atol=1e-13)


def test_a_search_refuses_singular_features():
    """Where heads are fewer than needed; with enough of them the formula holds."""
    task, guess, bias = case(2, 3)
    with pytest.raises(ValueError, match="positive definite feature_cov where heads are fewer"):
        theory.least_risk(task, 2, guess, bias)
    assert theory.least_risk(task, 4, guess, bias).risk == pytest.approx(
        theory.optimal_risk(task, guess, bias), rel=1e-9
    )
