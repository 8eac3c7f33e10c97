"""One head with a trained guess: the curve, its slopes, and searches over b, A and the guess."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from few_heads_reference import Problem, best_keys, hessian, off_by

from lsalib import tasks, theory, training


def one_head(xi, d, C, var=0.0):
    """The minimum risk of one head with a trained guess whose value vector has this ratio of squares."""
    inverse = (C + d + 1 + var) / C
    W = 2 * d + (2 * d * (d + 2) + 4 * d * var + 2 * var**2) / C
    width = (inverse + 2 * xi / C) * (xi * inverse + W) - xi * (inverse + 2 / C) ** 2
    return d - (d - 1) / (inverse + xi / C) - (W - 4 * xi / C + 2 * xi**2 / C) / width


def beside_the_best_guess(d, C, noise_std=0.0):
    """The problem of heads whose guess is at its best: covariances in place of second moments."""
    second, wanted, _, _ = off_by(np.zeros(d), C, 0.0, noise_std)
    mean = -wanted[-1]
    return Problem(second - np.multiply.outer(mean, mean), wanted[:d], np.ones(d), float(d))


CASES = [(4, 5, 0.0), (3, 2, 0.0), (6, 9, 0.0), (2, 1, 0.0), (1, 3, 0.0), (1, 2, 0.7), (3, 1, 1.3), (5, 2, 0.4)]


@pytest.mark.claim("one-head-landscape")
@pytest.mark.parametrize("case", [*CASES, (2, 4, 1.0), (10, 10, 0.0)])
def test_the_curve_is_least_squares_for_all_the_rest(case, x64):
    """For a random value vector; with noise not the formula without it."""
    d, C, noise = case
    b = np.random.default_rng(d + C).normal(size=d + 1)
    least = best_keys(b[None], beside_the_best_guess(*case))[0]
    xi = b[:-1] @ b[:-1] / b[-1] ** 2
    np.testing.assert_allclose(least, one_head(xi, d, C, noise**2), atol=1e-11)
    assert noise == 0 or abs(least - one_head(xi, d, C)) > 1e-6


@pytest.mark.claim("one-head-landscape")
def test_where_the_curve_rises():
    """From three features on with any noise; for two, from three examples on without noise, and not otherwise."""
    along = np.append(0, np.geomspace(1e-3, 1e4, 400))
    slowest = lambda d, C, var=0.0: np.diff(one_head(along, d, C, var)).min()
    assert min(slowest(d, C, var) for d in range(3, 13) for C in (1, 2, 3, 9, 80) for var in (0, 1, 9)) > 1e-12
    assert min(slowest(2, C) for C in range(3, 40)) > 1e-12
    assert max(slowest(2, 1), slowest(2, 2), slowest(2, 3, 20.0)) < 0


@pytest.mark.claim("one-head-landscape")
def test_a_slope_leads_away_from_exchanged_roles(x64):
    """A feature as value and the label as key: stationary, with a way down, but for two features and one example."""

    def lowest_curvature(d, C):
        b, given = np.eye(d + 1)[:1], beside_the_best_guess(d, C)
        gradient, curvature = hessian(b, best_keys(b, given)[1], given)
        assert np.abs(gradient).max() < 1e-12
        return np.linalg.eigvalsh(curvature)[0]

    assert max(lowest_curvature(*size) for size in [(10, 10), (3, 1), (4, 7), (2, 2), (2, 3)]) < -1e-6
    assert lowest_curvature(2, 1) > -1e-6


@jax.jit
@jax.vmap
def descend(C, start):
    """L-BFGS over all b, A and the guess v, two features, by the exact risk."""
    standard = tasks.StandardTask(jnp.array([1.0, 0.5]), None, None, 0.0, C)

    def loss(theta):
        b, A, v = theta
        guess = jnp.append(v, 0.0)
        return theory.standard_risk(*theory.standard_form(b, A, guess, guess, standard), standard)

    return training.minimize(loss, start, steps=400, patience=50)


def balanced(theta):
    """The same functions, without what no prediction reads of the weights."""
    b, A, v = map(np.array, theta)
    A[..., :2] += A[..., 2:] * v[:, None, None]
    A[..., 2] = 0.0
    of_b, of_A = np.linalg.norm(b, axis=2), np.linalg.norm(A, axis=(2, 3))
    scale = np.sqrt((of_A + 1e-300) / (of_b + 1e-300))[..., None]
    return b * scale, A / scale[..., None], v


@pytest.mark.claim("one-head-landscape", "training-wants-d-plus-one")
def test_searches_end_at_the_minimum_or_in_the_trap(x64):
    """Two features: with one example and with two some are stuck; with three, or with three heads, none is."""
    lengths = np.repeat([1.0, 2.0, 3.0, 1.0], 12)
    guesses = np.tile(0.3 * np.random.default_rng(0).normal(size=(12, 2)), (4, 1))
    heads = 0.3 * np.random.default_rng(1).normal(size=(48, 3, 12))
    heads[12:36] = np.tile(heads[:12], (2, 1, 1))
    heads[:36, 1:] = 0.0  # one head
    ends = descend(lengths, (heads[..., :3], heads[..., 3:].reshape(48, 3, 3, 3), guesses))
    # Some run off where the risk does not change: they go on from where they stood.
    ends = descend(lengths, balanced(ends.params))
    *above, several = (np.asarray(ends.value) - 6 / (lengths + 3)).reshape(4, 12)
    inner = one_head(np.geomspace(20, 30, 20001), 2, 2).min() - 6 / 5
    for ends, place in zip(above, (2 - 1 / 4 - 6 / 4, inner, 0.0), strict=True):
        assert np.minimum(np.abs(ends), np.abs(ends - place)).max() < 1e-8
    assert above[0].max() > 0.1 and above[1].max() > 0.1 and np.abs(above[2]).max() < 1e-8
    assert np.abs(several).max() < 1e-8
