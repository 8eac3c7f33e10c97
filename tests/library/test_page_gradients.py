"""The steps of the proof of the paper's Theorem 2, one by one, for random tasks: the page shows one task."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from theory_reference import make_guess

from lsalib import attention, tasks, theory

SIZES = [(1, 4), (3, 10), (5, 2), (3, 29)]
SEEDS = range(len(SIZES))


def case(seed):
    """A task, lifted matrices, the slope of a guess and its offset, at random."""
    rng, (d, C) = np.random.default_rng(seed), SIZES[seed]
    M = rng.normal(size=(d + 1,) * 3) / (d + 1)
    return tasks.GaussianTask(rng.normal(size=d), C), M, rng.normal(size=d), rng.uniform(0.5, 2)


def parts(M, task, y_q):
    """The d + 1 terms of the paper's eq. 18, for a constant guess."""
    mean, second, cross = theory.gram_moments(task)
    square = np.einsum("jmn,mnpq,jpq->j", M, second, M)
    with_w = np.einsum("imn,imn->i", M[:-1], cross)
    last = y_q**2 * (1 + 2 * np.vdot(mean, M[-1]) + square[-1])
    return np.append(square[:-1] - 2 * with_w + task.prior_mean**2 + 1, last)


def eq21(task, keep=1.0):
    """The paper's formula for E[w_i G]; ``keep=0`` drops the covariance."""
    w, d = task.prior_mean, task.dim
    mean = np.block([[np.eye(d), w[:, None]], [w[None], np.array([[w @ w + d]])]])
    covariance = np.zeros((d, d + 1, d + 1))
    covariance[:, :-1, -1] = covariance[:, -1, :-1] = np.eye(d)
    covariance[:, -1, -1] = 2 * w
    return np.multiply.outer(w, mean) + keep * covariance


def gradient(M, task, y_q, g=0.0, cross=None):
    """The paper's eqs. 19 and 20, with the coupling by a guess g.x_q + y_q."""
    mean, second, exact = theory.gram_moments(task)
    image = np.einsum("mnpq,jpq->jmn", second, M)
    g, with_guess = g * np.ones(task.dim), mean + image[-1]
    first = image[:-1] - (exact if cross is None else cross) + np.multiply.outer(g, with_guess)
    return 2 * np.append(first, [np.tensordot(g, first, 1) + y_q**2 * with_guess], axis=0)


@pytest.mark.claim("eq18-decomposition")
@pytest.mark.parametrize("seed", SEEDS)
def test_the_risk_splits_for_a_constant_guess(seed, x64):
    """The terms of eq. 18 add up to the risk of the weights; for a guess linear in the query they do not."""
    task, M, g, y_q = case(seed)
    params = attention.from_lift(jnp.asarray(M))
    assert parts(M, task, y_q).sum() == pytest.approx(float(theory.population_risk(params, task, None, y_q)), rel=1e-12)
    linear = float(theory.population_risk(params, task, g, y_q))
    printed = parts(M, task, np.sqrt(y_q**2 + g @ g)).sum()
    assert abs(printed / linear - 1) > 1e-3


@pytest.mark.claim("eq19-gradients")
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("linear", [0.0, 1.0])
def test_gradients_of_the_lift_and_of_the_heads(seed, linear, x64):
    """Formula, library and chain rule agree with autodiff of the exact risk, for constant and linear guesses."""
    task, M, g, y_q = case(seed)
    g = linear * g
    by_lift = jax.grad(lambda M: theory.population_risk(attention.from_lift(M), task, g, y_q))(jnp.asarray(M))
    slope, size = gradient(M, task, y_q, g), np.abs(by_lift).max()
    np.testing.assert_allclose(slope, by_lift, atol=1e-11 * size)
    np.testing.assert_allclose(theory.lifted_risk(task, g, y_q).gradient(M), by_lift, atol=1e-11 * size)

    b, A = (np.asarray(part) for part in attention.effective(attention.from_lift(M)))
    risk = lambda b, A: theory.population_risk(attention.from_effective(b, A), task, g, y_q)
    by_b, by_A = jax.grad(risk, (0, 1))(b, A)
    np.testing.assert_allclose(np.einsum("jmn,hnj->hm", slope, A), by_b, atol=1e-11 * np.abs(by_b).max())
    np.testing.assert_allclose(np.einsum("jmn,hm->hnj", slope, b), by_A, atol=1e-11 * np.abs(by_A).max())
    # Controls: no covariance of w with G; and for a linear guess, eqs. 19 and 20 with the mean of its square.
    wrong = [gradient(M, task, y_q, g, cross=eq21(task, keep=0.0))]
    wrong += [gradient(M, task, np.sqrt(y_q**2 + g @ g))] * bool(linear)
    assert min(np.abs(other - by_lift).max() for other in wrong) > 1e-3 * size


@pytest.mark.claim("eq19-gradients", "eq21-cross-moment")
@pytest.mark.parametrize("seed", SEEDS)
def test_samples_agree_with_eqs_19_and_21(seed, x64):
    """Gradients of single squared errors, and w_i G, have the stated means; without the covariance they do not."""
    task, _, _, y_q = case(seed)
    task = replace(task, prior_mean=task.prior_mean[:1].repeat(2), context_size=10)
    M = np.random.default_rng(50 + seed).normal(size=(3, 3, 3)) / 3
    batch = tasks.sample(jax.random.key(seed), task, 100_000)

    @jax.jit
    def each(M, X, y, x_q, target):
        def error(M, X, y, x_q, target):
            return (attention.predict(attention.from_lift(M), attention.gram(X, y), x_q, y_q) - target) ** 2

        return jax.vmap(jax.grad(error), (None, 0, 0, 0, 0))(M, X, y, x_q, target)

    slopes = np.asarray(each(jnp.asarray(M), batch.X, batch.y, batch.x_q, batch.target))
    G = np.asarray(jax.vmap(attention.gram)(batch.X, batch.y))
    products = np.einsum("si,smn->simn", batch.w, G)
    off = lambda draws, mean: np.abs((draws.mean(0) - mean) / draws.std(0)).max() * len(draws) ** 0.5
    assert off(slopes, gradient(M, task, y_q)) < 5
    assert off(products, eq21(task)) < 5
    assert off(slopes, gradient(M, task, y_q, cross=eq21(task, keep=0.0))) > 5
    assert off(products, eq21(task, keep=0.0)) > 5


@pytest.mark.claim("eq23-independence")
@pytest.mark.parametrize("C", [10, 1000, 100_000])
def test_sampled_second_moments_keep_the_covariance(C):
    """At each length, mean squares of G[1,y] and G[y,y] are the exact ones, and far above the paper's limit."""
    task, count = tasks.GaussianTask([2.0] * 10, C), 50_000
    batch = tasks.sample(jax.random.key(C), task, count, compress=C > 10, dtype=jnp.float32)
    G = np.asarray(jax.vmap(attention.gram)(batch.X, batch.y), float)[:, [0, -1], -1]
    mean, second, _ = theory.gram_moments(task)
    exact = second[0, -1, 0, -1], second[-1, -1, -1, -1]
    squares = G**2
    z = lambda expected: (squares.mean(0) - expected) / squares.std(0) * count**0.5
    assert np.abs(z(exact)).max() < 5
    assert z(mean[[0, -1], -1] ** 2).min() > 5


def reading(kind, seed, count=100_000):
    """Sampled G[1,y] and w[1] at d = C = 10, with the prior mean 2: each context has ... (see the test)."""
    rng = np.random.default_rng(seed)
    normal = lambda *shape: rng.standard_normal((count, *shape), np.float32)
    X, w = normal(10, 10), 2 + normal({"each token": 10}.get(kind, 1), 10) * (kind != "prior mean")
    of_query = 2 + normal() if kind == "each token" else w[:, 0, 0]
    return (X[..., 0] * (X * w).sum(-1)).mean(1).astype(float), of_query.astype(float)


@pytest.mark.claim("eq23-independence")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("kind", "variance", "covariance", "limit"),
    [("prior mean", 44, 0, 0), ("each token", 56, 0, 0), ("one task", 55, 1, 1)],
)
def test_three_readings_of_eq_23(kind, variance, covariance, limit, seed):
    """Each context has the task w*, a new task for each token, or one task: the variance is limit + variance/C."""
    entry, weight = reading(kind, seed)
    entry, weight = entry - 2, weight - 2

    def z(draws, expected):
        return abs(draws.mean() - expected) / max(draws.std() / len(draws) ** 0.5, 1e-12)

    assert z(entry**2, limit + variance / 10) < 5 and z(entry * weight, covariance) < 5
    # The control: the other limit.
    assert z(entry**2, 1 - limit + variance / 10) > 5


@pytest.mark.claim("eq23-independence", "thm2-no-stationary-point")
def test_the_head_that_reads_the_label_rests_in_all_three_readings(x64):
    """Its limiting gradient is zero with a given task, with a task for each token and with one task; by eq. 25 not."""
    task = tasks.GaussianTask([2.0] * 10, 10**16)
    w, mean = task.prior_mean, np.asarray(theory.gram_moments(task).mean)
    M = np.zeros((11, 11, 11))
    M[:-1, -1, :-1] = np.eye(10)
    read = lambda omega: np.multiply.outer(np.einsum("mn,imn->i", omega, M[:-1]) - w, omega)
    given = np.block([[np.eye(10), w[:, None]], [w[None], np.array([[w @ w]])]])
    shared = np.asarray(theory.lifted_risk(task).gradient(M))[:-1] / 2
    for slope in (read(given), read(mean), shared):
        assert np.abs(slope).max() < 1e-10
    covariance = eq21(task) - eq21(task, keep=0.0)
    assert np.abs(read(mean) - covariance).max() > 1


@pytest.mark.claim("eq18-decomposition")
def test_a_linear_guess_couples_the_parts():
    """The Hessian's factor is the second moment of the query's token: the identity only for a constant guess of 1."""
    task = case(1)[0]
    g = make_guess(task)
    query = np.asarray(theory.lifted_risk(task, g, 0.7).query)
    expected = np.block([[np.eye(3), g[:, None]], [g[None], np.array([[g @ g + 0.49]])]])
    np.testing.assert_allclose(query, expected, rtol=1e-12)
    assert np.abs(query[:-1, -1]).min() > 1e-3
