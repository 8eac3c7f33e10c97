"""Stationary points in the limit of the paper's Theorem 2, and the gap at finite context sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsalib import attention, tasks, theory, training

ENDLESS = 10**16  # 1/C below rounding
MEANS = [[1.0, 2.0, -1.0], [0.0, 0.0, 0.0], [2.0] * 10]


def risk_and_gradient(params, task, guess=None, bias=0.0):
    """The exact risk, and the largest entry of its gradient with respect to the four matrices."""
    risk = lambda params: theory.population_risk(params, task, guess, bias)
    value, slope = jax.value_and_grad(risk)(jax.tree.map(jnp.asarray, params))
    return float(value), max(np.abs(np.asarray(W)).max() for W in slope)


def one_head(b, columns):
    """One head with the value b, and columns[j] = a_j, the others zero."""
    A = np.zeros((len(b), len(b)))
    for j, a in columns.items():
        A[:, j] = a
    return attention.from_effective(np.array([b]), A[None])


def read_label(d, m=1.0):
    e = np.eye(d + 1)
    return one_head(e[-1], {i: m * e[i] for i in range(d)})


@pytest.mark.claim("thm2-no-stationary-point")
@pytest.mark.parametrize("w_star", MEANS)
def test_two_heads_are_exact_for_every_guess(w_star, x64):
    """In the limit two heads have risk and gradient zero, for constant and linear guesses; one of them has not."""
    task = tasks.GaussianTask(w_star, ENDLESS)
    d, e = task.dim, np.eye(task.dim + 1)
    parts = [attention.effective(params) for params in (read_label(d), one_head(e[0], {d: -e[0]}))]
    both = attention.from_effective(*(np.concatenate(pair) for pair in zip(*parts, strict=True)))
    for guess in (np.zeros(d), np.ones(d)):
        assert max(risk_and_gradient(both, task, guess, 1.3)) < 1e-10
        assert min(risk_and_gradient(read_label(d), task, guess, 1.3)) > 1e-3


@pytest.mark.claim("thm2-no-stationary-point")
@pytest.mark.parametrize("w_star", MEANS)
@pytest.mark.parametrize("beta", [1.3, 0.0])
def test_one_head_is_exact_unless_the_guess_has_an_offset(w_star, beta, x64):
    """One head is exact for a linear guess; with an offset its risk tends to zero while its weights diverge."""
    task, g = tasks.GaussianTask(w_star, ENDLESS), np.arange(len(w_star)) / 2
    d, e = task.dim, np.eye(task.dim + 1)
    if not beta:
        exact = one_head(np.append(-g, 1.0), {i: e[i] for i in range(d)})
        assert max(risk_and_gradient(exact, task, g)) < 1e-10
        assert min(risk_and_gradient(read_label(d), task, g)) > 1e-3
        return
    u = task.prior_mean - g
    fourth = (u @ u + d) ** 2 + 4 * u @ u + 2 * d  # E |w - g|^4
    for r in (0.1, 0.03, 0.01):
        # In the labels y - g.x: b, a_1, ... a_d, a_{d+1} of the appendix; T takes them to the labels y.
        columns = {0: e[d]} | {i: e[i] / r for i in range(1, d)}
        T, last = np.eye(d + 1), -e[0] + r * e[d]
        T[-1, :-1] = -g
        b, A = T.T @ (e[0] + r * e[d]), np.zeros((d + 1, d + 1))
        for i, a in columns.items():
            A[:, i] = T.T @ a - g[i] * T.T @ last
        A[:, d] = T.T @ last
        params = attention.from_effective(b[None], A[None])
        risk = risk_and_gradient(params, task, g, beta)[0]
        assert risk == pytest.approx((r**2 + beta**2 * r**4) * fourth, rel=1e-6)
        assert max(np.abs(columns[1])) > 0.9 / r


@pytest.mark.claim("thm2-no-stationary-point")
def test_one_feature_needs_one_head_for_every_guess(x64):
    """For d = 1 the head with b = e_1, a_1 = e_2, a_2 = -e_1 is exact in the limit, for any guess."""
    e, task = np.eye(2), tasks.GaussianTask([2.0], ENDLESS)
    params = one_head(e[0], {0: e[1], 1: -e[0]})
    assert max(risk_and_gradient(params, task, [0.6], 1.3)) < 1e-11
    assert min(risk_and_gradient(one_head(e[0], {0: e[1]}), task, [0.6], 1.3)) > 1e-3


@pytest.mark.claim("thm2-no-stationary-point")
@pytest.mark.parametrize("w_star", MEANS[:2])
@pytest.mark.parametrize("y_q", [0.0, 1.3])
def test_a_head_that_reads_one_feature_rests_where_the_lift_does_not(w_star, y_q, x64):
    """Its risk is d - 1 and its weights' gradient zero, while the lifted gradient is not."""
    task, e = tasks.GaussianTask(w_star, ENDLESS), np.eye(4)
    params = one_head(e[0], {0: e[3], 1: w_star[1] * e[0], 2: w_star[2] * e[0], 3: -e[0]})
    np.testing.assert_allclose(risk_and_gradient(params, task, None, y_q), [2.0, 0.0], atol=1e-11)
    lifted = theory.lifted_risk(task, None, y_q).gradient(np.asarray(attention.lift(params)))
    assert np.linalg.norm(lifted) > 1


@pytest.mark.claim("thm2-no-stationary-point")
def test_layers_that_repeat_their_guess_can_rest(x64):
    """All weights zero, and zero values with suitable keys; with other keys the layer does not rest."""
    task = tasks.GaussianTask(MEANS[0], ENDLESS)
    slope, one, zero = np.asarray(theory.lifted_risk(task).slope), np.ones(4), np.zeros(4)
    suitable = {0: one, 1: -np.linalg.solve(slope[1], slope[0] @ one)}
    for columns in ({}, suitable):
        assert risk_and_gradient(one_head(zero, columns), task)[1] < 1e-11
    assert risk_and_gradient(one_head(zero, {0: one}), task)[1] > 1


@pytest.mark.claim("thm2-no-stationary-point")
@pytest.mark.parametrize("w_star", [*MEANS, [0.0], [0.5], [2.0]])
def test_eq_25_is_never_zero(w_star):
    """No covariance of w_i and G is a multiple of the mean of G; the ranks show it only for two features or more."""
    task = tasks.GaussianTask(w_star, 1)
    mean, _, cross = theory.gram_moments(task)
    covariance = cross - np.multiply.outer(task.prior_mean, mean)
    along = np.einsum("mn,imn->i", mean, covariance) / np.vdot(mean, mean)
    rest = covariance - np.multiply.outer(along, mean)
    assert np.linalg.norm(rest, axis=(1, 2)).min() > 0.5
    ranks = np.linalg.matrix_rank(covariance)
    assert (ranks < np.linalg.matrix_rank(mean)).all() == (task.dim > 1)


@pytest.mark.claim("fig3-linear-gap")
def test_recorded_losses_have_the_slope_of_the_gap():
    """The slope of the last losses on |w*|^2 is 2/(Cd+2), up to five standard errors and what training leaves over."""
    series = [tasks.GaussianTask([c] * 10, context_size=10) for c in (0.0, 2.0, 3.0)]
    runs = [training.Run(task, heads=11) for task in series]
    fits = training.sweep(jax.random.key(3), runs)
    squares = np.array([task.prior_mean @ task.prior_mean for task in series])
    # Every batch is fresh: blocks of 50 steps give independent slopes.
    blocks = np.array([fit.risk for fit in fits], float)[..., -1000:].reshape(len(series), -1, 50).mean(-1)
    slopes, _ = np.polyfit(squares, blocks, 1)
    error = slopes.std(ddof=1) / len(slopes) ** 0.5
    best = np.array([theory.optimal_risk(task) for task in series])
    excess = (np.array([fit.population_risk() for fit in fits]) / best[:, None] - 1).max()
    # The most that so large an excess does to the slope, wherever it falls.
    lever = (squares - squares.mean()) / (len(squares) * squares.var())
    width = 5 * error + excess * (best * np.maximum(lever, 0)).sum()
    assert abs(slopes.mean() - 2 / 102) < width
    for wrong in (0, 2 / 92, 2 / 112):  # no slope; one example fewer, or one more
        assert abs(slopes.mean() - wrong) > width
