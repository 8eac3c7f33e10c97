"""The table of results: formulas for any covariances, by all outcomes of small tasks and exact moments of large ones.

Among the tasks are one feature, one example, fewer examples than features, features or weights on a line, and noise.
"""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from theory_reference import listed_moments, root, three_values

from lsalib import attention, tasks, theory
from lsalib.book import stored

# d, C, the ranks of both covariances, and the kurtosis of the label noise: signs, Gaussian, Laplace; 0 without noise.
SMALL = [
    *[(1, 1, 1, 1, 3), (1, 3, 1, 1, 6), (2, 1, 2, 2, 1), (2, 2, 2, 2, 3), (3, 1, 3, 3, 3), (2, 3, 2, 2, 1)],
    *[(3, 2, 3, 3, 0), (1, 1, 1, 1, 0), (2, 3, 1, 2, 3), (3, 2, 1, 3, 0), (2, 2, 2, 1, 6), (3, 2, 2, 1, 0)],
    *[(1, 6, 1, 1, 1), (3, 5, 2, 1, 6), (3, 5, 3, 2, 3), (3, 2, 2, 3, 0)],
]
LARGE = [(10, C, 10, 10, 3) for C in (1, 4, 10, 30)] + [(10, 10, 4, 10, 3), (7, 12, 7, 7, 0)]
sizes = pytest.mark.parametrize("size", SMALL + LARGE, ids=lambda size: "-".join(map(str, size)))


def make(size):
    """A random task; eigenvalues are zero or within a factor of five, so that rounding stays small."""
    d, C, *ranks, noise = size
    rng = np.random.default_rng([d, C, *ranks])
    axes = [np.linalg.qr(rng.normal(size=(d, rank)))[0] for rank in ranks]
    covs = [U * rng.uniform(0.4, 2.0, U.shape[1]) @ U.T for U in axes]
    return tasks.GaussianTask(rng.normal(size=d), C, *covs, rng.uniform(0.5, 1.5) if noise else 0.0)


def moments(size, weights=None):
    """E[G x G], E[G] and E[eps G], with residual labels in G, and E[eps eps']: by outcomes where they are few."""
    task = make(size)
    at_zero = replace(task, prior_mean=0 * task.prior_mean)
    if task.dim > 3:
        found = theory.gram_moments(at_zero)
        return found.second, found.mean, found.cross, task.prior_cov
    n, chance = three_values(size[-1] or 3)
    mean, second, cross = listed_moments(at_zero, noise=(task.noise_std * n[:, 0], chance), weights=weights)
    if weights is None:
        return second, mean, cross, task.prior_cov
    eps = weights[0] @ root(task.prior_cov, task.dim).T
    return second, mean, cross, (weights[1] * eps.T) @ eps


def step_risk(given, L, N):
    """The risk of w* + N s, from the moments of s."""
    square, _, cross, P = given
    V, mixed = square[:-1, -1, :-1, -1], cross[:, :-1, -1]
    return np.trace(L @ (P - N @ mixed.T - mixed @ N.T + N @ V @ N.T))


def second_moment(task, extra=1.0, noise=1.0, P=None):
    """V of the page; without the 1/C of equal pairs (extra = 0), or with another noise."""
    L, P, C = task.feature_cov, task.prior_cov if P is None else P, task.context_size
    return (1 + extra / C) * L @ P @ L + (np.trace(L @ P) + noise * task.noise_std**2) / C * L


def parabola(task, eta, P=None, **broken):
    L, P = task.feature_cov, task.prior_cov if P is None else P
    V = second_moment(task, P=P, **broken)
    return np.trace(L @ P) - 2 * eta * np.trace(L @ L @ P) + eta**2 * np.trace(L @ V)


def best_step(task, V=None):
    """N of the page."""
    V = second_moment(task) if V is None else V
    return task.prior_cov @ task.feature_cov @ np.linalg.pinv(V, rcond=1e-12, hermitian=True)


def minimum(task):
    L, P = task.feature_cov, task.prior_cov
    return np.trace(L @ (P - best_step(task) @ L @ P))


@pytest.mark.claim("exact-gd-risk", "gd-in-one-head")
@sizes
def test_the_risk_of_a_plain_step(size, x64):
    """The parabola of the page, the library's risk and best step, and one head, against the moments of s."""
    task, eta = make(size), 0.37
    given, eye = moments(size), np.eye(task.dim)
    risk = step_risk(given, task.feature_cov, eta * eye)
    head = attention.gd_weights(jnp.asarray(task.prior_mean), eta)
    of_head = float(theory.population_risk(head, task, task.prior_mean))
    np.testing.assert_allclose([parabola(task, eta), theory.gd_risk(task, eta), of_head], risk, rtol=1e-10)
    at = [step_risk(given, task.feature_cov, e * eye) for e in (0, 1, -1)]
    vertex = (at[2] - at[1]) / (2 * (at[1] + at[2] - 2 * at[0]))
    np.testing.assert_allclose(theory.optimal_step(task), vertex, rtol=1e-9)
    # Controls: the 1/C of equal pairs, the noise.
    assert abs(parabola(task, eta, extra=0) / risk - 1) > 1e-6
    assert not task.noise_std or abs(parabola(task, eta, noise=0) / risk - 1) > 1e-6


@pytest.mark.claim("exact-gd-risk")
@pytest.mark.parametrize("size", SMALL[:4], ids=str)
def test_only_second_moments_of_weights_count(size):
    """Skewed weights around another point; not the covariance of the weights."""
    task = make(size)
    skewed = np.array(np.meshgrid(*[[0.0, 3.0]] * task.dim)).reshape(task.dim, -1).T
    given = moments(size, (skewed, np.where(skewed, 0.2, 0.8).prod(1)))
    mean = root(task.prior_cov, task.dim) @ np.full(task.dim, 0.6)
    risk = step_risk(given, task.feature_cov, 0.37 * np.eye(task.dim))
    np.testing.assert_allclose(parabola(task, 0.37, given[3]), risk, rtol=1e-10)
    assert abs(parabola(task, 0.37, given[3] - np.outer(mean, mean)) / risk - 1) > 1e-3


def least_squares(given, L, offset=None):
    """The minimum risk of all that is affine in G, or with a fixed guess that is off by offset'[x_q; 1]."""
    square, mean, cross, P = given
    i, j = np.triu_indices(len(mean))
    square, mean, cross = square[i, j][:, i, j], mean[i, j], cross[:, i, j]
    solved = lambda square, mixed: mixed @ np.linalg.pinv(square, rcond=1e-11, hermitian=True) @ mixed.T
    if offset is None:  # the constant is free
        return np.trace(L @ (P - solved(square - np.outer(mean, mean), cross)))
    second, query = np.outer(offset, offset), np.pad(L, (0, 1))
    second[:-1, :-1] += P
    query[-1, -1] = 1
    wanted = np.vstack([cross, 0 * mean]) + np.outer(offset, mean)
    return np.trace(query @ (second - solved(square, wanted)))


@pytest.mark.claim("preconditioned-optimum", "conjecture-global-optimum", "lemma3-inclusion", "ltb-optimum")
@pytest.mark.claim("pythagoras-general", "exact-stationarity")
@sizes
def test_the_best_preconditioned_step_is_the_minimum_with_a_trained_guess(size, x64):
    """Least squares on a constant and all of G finds nothing better; library, head and block have the step's risk."""
    task = make(size)
    given, L, least, w = moments(size), task.feature_cov, minimum(task), task.prior_mean
    p = np.linalg.eigvals(task.prior_cov @ L).real
    tau = p.sum() + task.noise_std**2
    np.testing.assert_allclose(np.sum(p * (p + tau) / ((task.context_size + 1) * p + tau)), least, rtol=1e-9)
    np.testing.assert_allclose(step_risk(given, L, best_step(task)), least, rtol=1e-10)
    np.testing.assert_allclose(least_squares(given, L), least, rtol=1e-8)
    np.testing.assert_allclose(theory.yq_risk(task), least, rtol=1e-9)
    np.testing.assert_allclose(theory.optimal_preconditioner(task), best_step(task), rtol=1e-8, atol=1e-10)
    head, block = theory.yq_optimal_weights(task), (np.append(w, 1.0)[None], np.eye(task.dim + 1)[-1:])
    assert len(head.W_K) == 1
    np.testing.assert_allclose(theory.population_risk(head, task, w), least, rtol=1e-9)
    np.testing.assert_allclose(theory.ltb_risk(head, *map(jnp.asarray, block), task), least, rtol=1e-9)
    # Controls: the step without its 1/C, the inverse covariance, the best plain step, another guess.
    for V in (second_moment(task, extra=0), L @ task.prior_cov @ L):
        assert step_risk(given, L, best_step(task, V)) > least * (1 + 1e-7)
    if np.linalg.matrix_rank(L @ task.prior_cov) > 1:
        assert theory.gd_risk(task) > least * (1 + 1e-7)
    assert float(theory.population_risk(head, task, w + 0.1)) > least * (1 + 1e-6)


def lifted_gradient(given, L, N):
    """The largest entry of E[x_q (f - target) G], and of E[x_q (f - target)]."""
    square, mean, cross, _ = given
    by_heads = np.tensordot(N, square[:-1, -1], 1) - cross
    return max(np.abs(np.tensordot(L, by_heads, 1)).max(), np.abs(L @ N @ mean[:-1, -1]).max())


@pytest.mark.claim("exact-stationarity")
@sizes
def test_the_gradient_by_the_lift_is_zero_at_the_best_step(size, x64):
    """By all outcomes or exact moments; not at the best plain step, where that is another one."""
    task = make(size)
    given, L = moments(size), task.feature_cov
    scale = lifted_gradient(given, L, np.eye(task.dim))
    assert lifted_gradient(given, L, best_step(task)) < 1e-11 * scale
    if np.linalg.matrix_rank(L @ task.prior_cov) > 1:
        assert lifted_gradient(given, L, theory.optimal_step(task) * np.eye(task.dim)) > 1e-5 * scale


def steepest(slopes):
    return max(float(np.abs(np.asarray(leaf)).max()) for leaf in jax.tree.leaves(slopes))


def slope(task, N, guess):
    """The largest entry of the gradient by the four matrices and the guess: one head with N, and two idle heads."""
    D, rng = task.dim + 1, np.random.default_rng(task.context_size)
    W_K, W_Q, W_V, W_P = rng.normal(size=(4, 3, D, D)) / D**0.5
    W_K[0], W_P[0], W_Q[0] = np.eye(D), np.eye(D), np.pad(N.T, (0, 1))
    W_V[0] = np.outer(np.eye(D)[-1], np.append(-task.prior_mean, 1.0))
    W_P[1], W_Q[2] = 0, 0  # one writes nothing, one reads nothing
    params = attention.LSAParams(*map(jnp.asarray, (W_K, W_Q, W_P, W_V)))
    risk = lambda params, guess: theory.population_risk(params, task, guess)
    return steepest(jax.grad(risk, (0, 1))(params, jnp.asarray(guess)))


@pytest.mark.claim("exact-stationarity", "preconditioned-optimum")
@pytest.mark.parametrize("size", LARGE[:5], ids=str)
def test_all_weights_and_the_guess_are_stationary_beside_idle_heads(size, x64):
    """Automatic differentiation at d = 10; not at the step 1, and not with another guess."""
    task = make(size)
    N, w_star = best_step(task), task.prior_mean
    moved = slope(task, np.eye(10), w_star)
    assert slope(task, N, w_star) < 1e-11 * moved
    assert slope(task, N, w_star + 0.1) > 1e-3 * moved


def share(task, kurtosis, rank=None, one=1.0):
    """What a fixed guess pays of its squared error; with another rank, or without the 1."""
    L, P, C = task.feature_cov, task.prior_cov, task.context_size
    square, tau, noise = np.trace(L @ P @ L @ P), np.trace(L @ P) + task.noise_std**2, task.noise_std**4
    K = 2 * square + (2 * (square + tau**2) + (kurtosis - 3) * noise) / C
    rank = np.linalg.matrix_rank(L) if rank is None else rank
    return 1 / (one + C / 2 * rank + noise / K)


@pytest.mark.claim("exact-multihead-risk", "universality", "price-general", "thm1-saturation", "a4-hessian")
@sizes
def test_the_price_of_a_fixed_guess(size, x64):
    """Least squares over all lifts and the library's formula have the page's share; its heads attain it and rest."""
    task, given, (d, _, rank, _, kurtosis) = make(size), moments(size), size
    noise = {"noise_cumulant": (kurtosis - 3) * task.noise_std**4}
    off = np.random.default_rng(70).normal(size=d + 1)
    for error in (off, np.append(task.prior_mean, 0.0), np.append(0 * task.prior_mean, 1.5)):
        guess, bias = task.prior_mean - error[:-1], -error[-1]
        delta2 = error[:-1] @ task.feature_cov @ error[:-1] + bias**2
        law = minimum(task) + delta2 * share(task, kurtosis)
        brute = least_squares(given, task.feature_cov, error)
        np.testing.assert_allclose(brute, law, rtol=1e-8)
        np.testing.assert_allclose(theory.optimal_risk(task, guess, bias, **noise), law, rtol=1e-9)
        # Controls: the trace in place of the rank, all features, the 1 below the line, Gaussian noise, none.
        paid = (brute - minimum(task)) / delta2
        broken = [share(task, kurtosis, rank=np.trace(task.feature_cov)), share(task, kurtosis, one=0.0)]
        broken += [share(task, kurtosis, rank=d)] * (rank < d)
        broken += [share(task, 3)] * (kurtosis not in (0, 3)) + [1 / (1 + size[1] * rank / 2)] * bool(kurtosis)
        assert min(abs(np.array(broken) / paid - 1)) > 1e-7  # ten times the tolerance of the law
    if kurtosis in (0, 3):  # for which the exact risk of weights is known
        guess, bias = task.prior_mean - off[:-1], -off[-1]
        heads, law = theory.optimal_weights(task, guess, bias), theory.optimal_risk(task, guess, bias)
        assert len(heads.W_K) == d + bool(kurtosis)
        risk = lambda heads: theory.population_risk(heads, task, guess, bias)
        np.testing.assert_allclose(risk(heads), law, rtol=1e-9)
        assert d > 3 or steepest(jax.grad(risk)(heads)) < 1e-9
        short = jax.tree.map(lambda W: jnp.asarray(np.asarray(W)[1:]), heads)
        others = [heads._replace(W_Q=jnp.asarray(-np.asarray(heads.W_Q)))] + [short] * (rank == d)
        assert min(float(risk(other)) for other in others) > law * (1 + 1e-6)


@pytest.mark.claim("exact-multihead-risk", "price-general")
def test_the_price_where_weights_vary_only_where_features_do_not(x64):
    """Without noise K = 0, and 0/0 counts as zero; an overlap changes the step alone, and noise lowers the price."""
    L, apart, together = np.diag([2.0, 0.5, 0.0]), np.diag([0.0, 0.0, 1.5]), np.diag([1.5, 0.0, 0.0])
    off, quiet = np.array([1.0, -2.0, 0.5, 0.7]), 2 / (2 * 2 + 2)
    delta2 = off[:-1] @ L @ off[:-1] + off[-1] ** 2

    def paid(P, noise_std):
        """By the library and by least squares over all outcomes, per unit of squared error; and the step's risk."""
        task = tasks.GaussianTask(np.zeros(3), 2, L, P, noise_std)
        n, chance = three_values(3)
        mean, second, cross = listed_moments(task, noise=(noise_std * n[:, 0], chance))
        brute = least_squares((second, mean, cross, P), L, off)
        return (np.array([theory.optimal_risk(task, -off[:-1], -off[-1]), brute]) - minimum(task)) / delta2, minimum(
            task
        )

    share, step = paid(apart, 0.0)
    np.testing.assert_allclose(share, quiet, rtol=1e-9)
    assert step == 0
    share, step = paid(together, 0.0)
    np.testing.assert_allclose(share, quiet, rtol=1e-9)
    assert step > 0.1
    share, _ = paid(apart, 1.0)
    np.testing.assert_allclose(share, 1 / (1 + 2 + 1 / (2 / 2)), rtol=1e-9)  # K = 2 / C


@pytest.mark.claim("exact-cost")
def test_the_stored_memory_of_exact_risks():
    """It does not depend on the context; in d it grows like d^3 for given heads, like d^4 for the moments of G."""
    rows = json.loads(stored.path("engine_cost.json").read_text())["rows"]
    tall = [row for row in rows if row["d"] == row["C"] >= 20]
    for name, power in (("weights", 3), ("moments", 4)):
        flat = np.array([row["bytes"][name] for row in rows if row["d"] == 10])
        np.testing.assert_allclose(flat / flat[0], 1, rtol=0.01)
        found = np.polyfit(np.log([row["d"] for row in tall]), np.log([row["bytes"][name] for row in tall]), 1)[0]
        assert abs(found - power) < 0.3 < abs(found - (power - 1))
