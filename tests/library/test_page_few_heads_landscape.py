"""Where the risk of d heads and of d + 1 heads has local minima: the price of a missing direction, traps, saddles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from few_heads_reference import best_keys, hessian, least_of_all, off_by, orthogonal, price, problem, search
from theory_reference import make_task

from lsalib import attention, tasks, theory, training

SIZES = [(1, 1), (1, 4), (2, 1), (2, 5), (3, 4), (4, 2), (5, 6)]


def at_direction(z, given):
    """Excess, largest slope and curvatures at the best layer whose value vectors miss z."""
    value, A = best_keys(orthogonal(z), given)
    gradient, curvature = hessian(orthogonal(z), A, given)
    return value - least_of_all(given), np.abs(gradient).max(), np.linalg.eigvalsh(curvature)


def trap(u, C, bias):
    """The direction with the lowest price, up to 3/2 of the one that is free without an offset."""
    d, length, low, high = len(u), np.linalg.norm(u), 0.0, 1.5
    for _ in range(4):
        near = np.linspace(low, high, 301)
        slopes = near * length * (C + d + 1) / (C * d + 2)
        lines = [np.append(-u / length, slope) for slope in slopes]
        k = np.argmin([price(z, u, C, bias) for z in lines])
        low, high = near[max(k - 1, 0)], near[min(k + 1, 300)]
    return lines[k]


@pytest.mark.claim("training-wants-d-plus-one")
@pytest.mark.parametrize("size", SIZES)
def test_the_price_of_a_random_direction(size, x64):
    """Least squares for all keys; not the formula without the offset."""
    d, C = size
    rng = np.random.default_rng(10 * d + C)
    z, u = rng.normal(size=d + 1), rng.normal(size=d)
    given = off_by(u, C, 0.7)
    measured = best_keys(orthogonal(z), given)[0] - least_of_all(given)
    np.testing.assert_allclose(measured, price(z, u, C, 0.7), atol=1e-11)
    assert abs(measured - price(z, u, C)) > 1e-8


@pytest.mark.claim("training-wants-d-plus-one")
@pytest.mark.parametrize("size", SIZES)
def test_an_offset_makes_a_trap(size, x64):
    """8 beta^2 < |u|^2: a stationary point above the minimum without a way down; an idle head opens one."""
    d, C = size
    u, bias = 2 * np.eye(d)[0], 0.7
    given, z = off_by(u, C, bias), trap(u, C, bias)
    height, slope, curvatures = at_direction(z, given)
    assert height > 1e-4 and slope < 1e-6 and curvatures[0] > -1e-9
    b, A = orthogonal(z), best_keys(orthogonal(z), given)[1]
    spare = np.vstack([b, 0 * b[:1]]), np.concatenate([A, 0 * A[:1]])
    assert np.linalg.eigvalsh(hessian(*spare, given)[1])[0] < -1e-4


@pytest.mark.claim("training-wants-d-plus-one")
def test_the_bound_for_traps_is_sharp_far_away():
    """A guess far away: the price rises somewhere 1 % within the bound, and nowhere 1 % beyond it."""
    C, far = 4, 1000 * np.eye(3)[0]
    slopes = np.linspace(1e-3, 1.5, 3000) * 1000 * (C + 4) / (3 * C + 2)
    lines = [np.append(-np.eye(3)[0], slope) for slope in slopes]

    def rise(share):
        return np.diff(np.log([price(z, far, C, 1000 * share / 8**0.5) for z in lines])).max()

    assert rise(0.99) > 1e-6 and rise(1.01) < 0


@pytest.mark.claim("training-wants-d-plus-one")
@pytest.mark.parametrize("length", [0.0, 0.3, 1.8])
@pytest.mark.parametrize("size", SIZES)
def test_without_an_offset_every_local_minimum_of_the_price_is_zero(size, length):
    """On the half circle, also for a right guess; with an offset one is above zero."""
    d, C = size
    angles = np.linspace(-np.pi / 2, np.pi / 2, 20_001)
    u = length * np.eye(d)[0]

    def minima(bias):
        row = np.array([price(np.append(np.sin(a) * -np.eye(d)[0], np.cos(a)), u, C, bias) for a in angles])
        padded = np.append(row, row[1])  # the half circle closes
        at = (padded[1:-1] <= padded[:-2]) & (padded[1:-1] <= padded[2:])
        return padded[1:-1][at]

    assert 1 <= len(minima(0.0)) <= 2 and minima(0.0).max() < 1e-6
    assert length == 0 or minima(length / 3).max() > 1e-5


@pytest.mark.claim("training-wants-d-plus-one")
@pytest.mark.parametrize("size", [(2, 3), (2, 1), (3, 4), (3, 2), (4, 2), (5, 6)])
def test_the_saddle_where_d_heads_wait(size, x64):
    """All features but one across u, and the label: stationary, one negative curvature. Not with u itself left out."""
    d, C = size
    given = off_by(1.8 * np.eye(d)[0], C)
    _, slope, curvatures = at_direction(np.eye(d + 1)[1], given)
    assert slope < 1e-11 and (curvatures < -1e-8).sum() == 1
    assert at_direction(np.eye(d + 1)[0], given)[1] > 1e-3


@pytest.mark.claim("training-wants-d-plus-one")
def test_searches_with_one_head_more_than_features_all_arrive(x64):
    """Random covariances, noise, slopes and offsets; d heads end in the trap of an offset."""
    general = make_task(11, 3, 2, noise_std=1.5)
    given = [problem(make_task(12, 3, 4, noise_std=0.8), None, 0.8), problem(general, 0.3 * general.prior_mean, 2.0)]
    ends = search(given, (4,), starts=12, scale=0.1, steps=400)
    assert ends.gradient.max() < 1e-4
    np.testing.assert_allclose(
        ends.value[:, 0], np.array([[least_of_all(each)] for each in given]) * np.ones(12), rtol=1e-8
    )
    caught = off_by(1.8 * np.eye(3)[0], 4, 0.8)
    assert search([caught], (3,), starts=4, scale=0.1).value.max() > least_of_all(caught) + 1e-3


def trained_guess(task, heads, bias, train_bias, starts=6):
    """Where L-BFGS over b, A, the guess's slope and, if asked for, its offset comes to rest."""
    rng, d = np.random.default_rng(0), task.dim
    b, A = 0.3 * rng.normal(size=(starts, heads, d + 1)), 0.3 * rng.normal(size=(starts, heads, d + 1, d + 1))
    slope, offset = 0.3 * rng.normal(size=(starts, d)), np.full(starts, bias)

    def risk(theta):
        b, A, slope, offset = theta
        return theory.population_risk(attention.from_effective(b, A), task, slope, offset if train_bias else bias)

    run = lambda start: training.minimize(risk, start, steps=600)
    ends = jax.jit(jax.vmap(run))((b, A, slope, offset))
    # A search that is still on its way in a flat valley says nothing about minima.
    rests = np.asarray(ends.gradient) < 1e-6
    assert rests.sum() >= starts / 2
    return np.asarray(ends.value)[rests]


@pytest.mark.claim("training-wants-d-plus-one")
@pytest.mark.parametrize(("bias", "train_bias"), [(0.8, False), (0.8, True)])
def test_enough_heads_beside_a_trained_guess_rest_at_the_minimum_only(bias, train_bias, x64):
    """Random covariances and noise, a fixed offset or a trained one."""
    task = make_task(13, 2, 2, noise_std=0.5)
    lowest = theory.optimal_risk(task, task.prior_mean, 0.0 if train_bias else bias)
    np.testing.assert_allclose(trained_guess(task, 3, bias, train_bias), lowest, rtol=1e-7)


@pytest.mark.claim("training-wants-d-plus-one")
def test_one_head_beside_a_trained_guess_can_be_stuck(x64):
    """The control: two features, one example, a trained offset."""
    short = tasks.GaussianTask([1.0, 0.5], 1)
    assert trained_guess(short, 1, 0.8, True, starts=12).max() > theory.yq_risk(short) + 1e-3


@pytest.mark.claim("training-wants-d-plus-one")
def test_ten_heads_that_arrive_keep_the_label_in_a_mixture(x64):
    """Training on the exact risk: the missing direction is the second free one, not the label."""
    task = tasks.GaussianTask([2.0] * 10, context_size=10)
    runs = [training.Run(task, heads=10, init_scale=scale) for scale in (0.03, 0.1)]
    fits = training.sweep(jax.random.key(0), runs, seeds=range(5), objective="population", dtype=jnp.float64)
    w_star, best = task.prior_mean, theory.optimal_risk(task)
    length = np.linalg.norm(w_star)
    second = np.append(-w_star / length, length * 21 / 102)
    found = []
    for fit in fits:
        for seed in np.flatnonzero(np.asarray(fit.risk)[:, -1] < best + 1e-3):
            b = np.array(attention.effective(fit.seed(int(seed)).params)[0])
            b[:, :10] += b[:, 10:] * w_star
            found.append(np.abs(np.stack([second / np.linalg.norm(second), np.eye(11)[10]]) @ orthogonal(b)[0]))
    kept, dropped = np.transpose(found)
    assert len(kept) >= 4 and kept.min() > 0.99 > dropped.max()
