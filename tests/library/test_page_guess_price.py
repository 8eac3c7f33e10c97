"""The price of a guess by brute force: all outcomes of a token and of a task, without a formula of the page."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from theory_reference import listed_moments, make_params, root, three_values

from lsalib import attention, tasks, theory, training

NORMAL = 3.0


def listed(task, kurtosis=NORMAL, noise=NORMAL, change=lambda x, chance: (x, chance)):
    """Three moments of the Gram matrix, for features and noise with these fourth moments."""
    x, chance = change(*three_values(*np.broadcast_to(kurtosis, task.dim)))
    n, of_noise = three_values(noise)
    return listed_moments(task, (x @ root(task.feature_cov, task.dim).T, chance), (task.noise_std * n[:, 0], of_noise))


def least_risk(task, query, moments):
    """The minimum over all lifted matrices, for a query's token with these second moments."""
    size = (task.dim + 1) ** 2
    mean, second, cross = (part.reshape(-1, *[size] * (n > 0)) for n, part in zip((0, 1, 1), moments, strict=True))
    inverse = lambda A: np.linalg.pinv(A, rcond=1e-12, hermitian=True)
    mixed = query[:, :-1] @ cross - np.outer(query[:, -1], mean)
    gain = np.vdot(inverse(query) @ mixed @ inverse(second), mixed)
    w, R = task.prior_mean, root(task.prior_cov, task.dim)
    square = np.vdot(query[:-1, :-1], R @ R.T + np.outer(w, w))
    return square - 2 * w @ query[:-1, -1] + query[-1, -1] - gain


def covariance_of(task):
    return root(task.feature_cov, task.dim) @ root(task.feature_cov, task.dim).T


def linear(task, guess, bias=0.0):
    """E[z_q z_q'] for a linear guess."""
    reads = np.vstack([np.eye(task.dim), guess])
    query = reads @ covariance_of(task) @ reads.T
    query[-1, -1] += bias**2
    return query


def one_bit(task, guess, bias):
    """The sign of the prior mean's prediction, times the best constant."""
    L, w, query = covariance_of(task), task.prior_mean, linear(task, guess)
    query[-1, :-1] = query[:-1, -1] = 2 / np.pi * L @ w
    query[-1, -1] = 2 / np.pi * w @ L @ w
    return query


def cube(task, guess, bias):
    """The cube of a linear function, over its variance."""
    L, query = covariance_of(task), linear(task, guess)
    query[-1, :-1] = query[:-1, -1] = 3 * L @ guess
    query[-1, -1] = 15 * guess @ L @ guess
    return query


def squared_error(task, query):
    off = np.append(task.prior_mean, -1.0)
    return off @ query @ off


def gap(task, query, **laws):
    """The minimum risk with this guess less that with the right one."""
    moments = listed(task, **laws)
    return least_risk(task, query, moments) - least_risk(task, linear(task, task.prior_mean), moments)


def random_cov(rng, d, rank=None):
    """Random axes; eigenvalues zero but for so many."""
    axes, size = np.linalg.qr(rng.normal(size=(d, d)))[0], rng.uniform(0.3, 2, d)
    return (axes[:, :rank] * size[:rank]) @ axes[:, :rank].T


def random_case(seed, d=None):
    """A task with covariances of any rank (of full rank for a given d), and a linear guess."""
    rng, ranks = np.random.default_rng(seed), (None, None)
    if d is None:
        d = 1 + seed % 4
        ranks = rng.integers(1, d + 1, size=2)
    covs = [random_cov(rng, d, rank) for rank in ranks]
    task = tasks.GaussianTask(rng.normal(size=d), int(rng.integers(1, 31)), *covs)
    return task, rng.normal(size=d), rng.uniform(0.5, 1.5)


@jax.jit
def predictions(params, E):
    return jax.vmap(attention.lsa, (None, 0))(params, E)


def move(params, T, moved=("W_K", "W_Q", "W_V")):
    """The weights that see T E when they are shown E."""
    return params._replace(**{name: np.asarray(getattr(params, name)) @ T for name in moved})


def both_worlds(seed, moved):
    """Relative differences of the errors, example by example, and of the exact risks."""
    rng = np.random.default_rng(seed)
    d, C, H = [(2, 3, 1), (10, 7, 11)][seed % 2]
    w_star, g, m = rng.normal(size=(3, d))
    beta, theta = float(rng.normal()), make_params(seed, d, H)
    T = np.eye(d + 1)
    T[-1, :-1] = -m
    theta_T = move(theta, T, moved)
    w, x_q = w_star + rng.normal(size=(500, d)), rng.normal(size=(500, d))
    E = np.zeros((500, d + 1, C + 1))
    E[:, :-1, :-1] = X = rng.normal(size=(500, d, C))
    E[:, -1, :-1], E[:, :-1, -1], E[:, -1, -1] = np.einsum("bdc,bd->bc", X, w), x_q, x_q @ g + beta
    first = predictions(theta_T, E) - np.sum(x_q * w, 1)
    second = predictions(theta, T @ E) - np.sum(x_q * (w - m), 1)
    here, there = tasks.GaussianTask(w_star, C), tasks.GaussianTask(w_star - m, C)
    risk = float(theory.population_risk(theta_T, here, g, beta))
    other = float(theory.population_risk(theta, there, g - m, beta))
    return np.abs(first - second).max() / np.abs(second).max(), abs(risk / other - 1)


@pytest.mark.claim("universality")
@pytest.mark.parametrize("seed", range(8))
def test_a_prior_mean_is_a_guess(seed, x64):
    """Random layers have the same errors and risks in both worlds; not if the query's token is left as it was."""
    assert max(both_worlds(seed, ("W_K", "W_Q", "W_V"))) < 1e-12
    assert min(both_worlds(seed, ("W_K", "W_V"))) > 1e-6, "the control"


@pytest.mark.claim("universality", "thm2-exact-gap")
@pytest.mark.parametrize("kind", [linear, one_bit, cube])
@pytest.mark.parametrize("seed", range(8))
def test_every_guess_and_covariance_pays_the_price(kind, seed):
    """The gap over all weights is 2 delta^2/(C rank + 2) for linear guesses, one bit and cubes, singular tasks too."""
    task, guess, bias = random_case(seed)
    query, rank = kind(task, guess, bias), np.linalg.matrix_rank(task.feature_cov)
    found, price = gap(task, query), lambda rank: 2 * squared_error(task, query) / (task.context_size * rank + 2)
    assert found == pytest.approx(price(rank), rel=1e-6)
    # Controls: the number of features for a smaller rank; for a linear guess the squared length of u.
    assert rank == task.dim or abs(found / price(task.dim) - 1) > 1e-2
    length = 2 * (np.sum((task.prior_mean - guess) ** 2) + bias**2) / (task.context_size * rank + 2)
    assert kind is not linear or abs(found / length - 1) > 1e-3


def constant_feature(x, chance):
    return np.c_[x[:, :-1], np.ones(len(x))], chance


def two_sizes(x, chance):
    """Examples of the squared size 1/2 or 3/2, with even chances."""
    return np.r_[0.5**0.5 * x, 1.5**0.5 * x], np.r_[chance, chance] / 2


def a_sign_beside(x, chance):
    """Features (z, sign z, ...): functions of fewer independent numbers, and no invertible image of them."""
    return np.c_[x[:, :1], np.sign(x[:, :1]) + (x[:, :1] == 0), x[:, 2:]], chance


FEATURES = {
    "random signs": ({"kurtosis": 1}, 0.0),
    "uniform": ({"kurtosis": 1.8}, 0.8 / (15 + 0.8)),
    "Gaussian": ({}, 2 / 17),
    "Laplace": ({"kurtosis": 6}, 5 / (15 + 5)),
    "three kinds": ({"kurtosis": [1.8, 3, 6]}, 1 / (1 + 5 * (1 / 0.8 + 1 / 2 + 1 / 5))),
    "a sign among others": ({"kurtosis": [1, 3, 6]}, 0.0),
    "Gaussian of two sizes": ({"change": two_sizes}, 1 / (1 + 5 * 3 / (2.5 + 3 / 4))),
    "Laplace, one feature always 1": ({"kurtosis": 6, "change": constant_feature}, 0.0),
    "Gaussian, and the sign of one of them": ({"change": a_sign_beside}, 0.0),
}


@pytest.mark.claim("price-general", "kurtosis-law")
@pytest.mark.parametrize("name", FEATURES)
def test_the_price_of_other_features_over_all_weights(name):
    """The share of an offset's square that all lifted matrices leave is the one of the page's table."""
    laws, share = FEATURES[name]
    task = tasks.GaussianTask([1.0, 2.0, -1.0], context_size=5)
    found = gap(task, linear(task, task.prior_mean, 1.0), **laws)
    assert found == pytest.approx(share, abs=1e-10)
    assert name == "Gaussian" or abs(found - 2 / 17) > 1e-3, "the control: Gaussian features"


def share_of(task, kurtosis, noise):
    """The theorem for a linear map of independent coordinates, with noise of this fourth moment."""
    U, C, sigma2 = root(task.feature_cov, task.dim), task.context_size, task.noise_std**2
    P = U.T @ task.prior_cov @ U
    square, spread = np.trace(P @ P), np.trace(P)
    fourth = spread**2 + 2 * square + (kurtosis - 3) @ np.diag(P) ** 2
    V = 2 * ((C - 1) * square + fourth) / C + 4 * sigma2 * spread / C + (noise - 1) * sigma2**2 / C
    return 1 / (1 + np.sum(C / (kurtosis - 1)) + sigma2**2 / V)


@pytest.mark.claim("price-general")
@pytest.mark.parametrize(
    "d, C, noise, between", [(1, 6, 1, (1.2, 2.5)), (2, 1, 6, (3.5, 7)), (3, 2, 3, (1.2, 2.5)), (3, 7, 1, (3.5, 7))]
)
def test_correlated_features_of_any_kurtosis_with_any_noise(d, C, noise, between):
    """Random kurtoses and covariances, with random signs, Gaussian and Laplace noise; the control is kurtosis three."""
    rng = np.random.default_rng(d + C)
    covs, kurtosis = [random_cov(rng, d) for _ in "xw"], rng.uniform(*between, d)
    task = tasks.GaussianTask(rng.normal(size=d), C, *covs, 1.2)
    found = gap(task, linear(task, task.prior_mean, 1.0), kurtosis=kurtosis, noise=noise)
    assert found == pytest.approx(share_of(task, kurtosis, noise), rel=1e-8)
    assert abs(found / share_of(task, np.full(d, 3.0), noise) - 1) > 1e-3


@pytest.mark.claim("universality")
def test_trained_layers_pay_the_price_for_any_covariance(x64):
    """Ten features with random covariances: exact training ends on the price, and never below it."""
    cases = [random_case(seed, d=10) for seed in range(100, 103)]
    runs = [training.Run(task, 11, guess, bias, learning_rate=2e-3) for task, guess, bias in cases]
    fits = training.sweep(jax.random.key(2), runs, objective="population", dtype=jnp.float64)
    ends = np.array([fit.risk[0, -200:].min() for fit in fits])
    floor = np.array([theory.yq_risk(task) for task, *_ in cases])
    price = [2 * squared_error(task, linear(task, *y_q)) / (10 * task.context_size + 2) for task, *y_q in cases]
    np.testing.assert_allclose(ends, floor + price, rtol=1e-3)
    assert (ends > (floor + price) * (1 - 1e-12)).all()
    assert (ends > 1.001 * floor).all(), "the control: the risk with the right guess"
