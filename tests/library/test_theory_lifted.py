"""The risk as a quadratic of the lift: against the risk of the weights, autodiff of it, samples and a dense form."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from theory_reference import TASKS, gauss_hermite, make_guess, make_params, make_task

from lsalib.attention import embed, from_lift, lsa
from lsalib.tasks import GaussianTask
from lsalib.theory import lifted_risk, optimal_risk, population_risk, squared_distance
from lsalib.theory._task_arrays import pseudo_inverse, scaled_inverse

BIAS = 1.3


def make_lift(seed, dim, scale=0.5):
    return jnp.asarray(scale * np.random.default_rng(seed).normal(size=(dim + 1,) * 3))


@pytest.mark.claim("eq19-gradients", "a4-hessian")
@pytest.mark.parametrize("name", TASKS)
def test_derivatives_equal_autodiff_through_the_weights(name, x64):
    """Gradient and curvature are those that JAX computes; a reversed direction is seen."""
    task = TASKS[name]
    guess = make_guess(task)
    risk = lifted_risk(task, guess, BIAS)
    M, V = make_lift(0, task.dim), make_lift(1, task.dim)
    slope = jax.grad(lambda M: population_risk(from_lift(M), task, guess, BIAS))
    (exact, bend), mine = jax.jit(lambda M, V: (jax.jvp(slope, (M,), (V,)), jax.grad(risk.value)(M)))(M, V)
    # The risk of weights reads the symmetric part of each M_j, and so does its gradient.
    np.testing.assert_allclose(risk.gradient(M), exact, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(risk.curvature(V), bend, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(risk.gradient(M), mine, rtol=1e-11, atol=1e-11)
    assert np.abs(np.asarray(risk.curvature(jnp.asarray(np.asarray(V)[::-1]))) - bend).max() > 1e-2


@pytest.mark.claim("kurtosis-law", "predecessor-uniform")
@pytest.mark.parametrize("kurtosis", [1.0, 1.8, 6.0])
def test_the_kurtosis_law_is_the_least_value_for_such_fourth_moments(kurtosis):
    """From random signs to heavy tails, by a pseudo-inverse of the lifted risk."""
    d, C, w = 3, 5, np.array([1.0, 2.0, -1.0])
    task, eye, fourth = GaussianTask(w, C), np.eye(d), np.zeros((d,) * 4)
    fourth[(np.arange(d),) * 4] = kurtosis - 3
    for axes in ((0, 1, 2, 3), (0, 2, 1, 3), (0, 2, 3, 1)):
        fourth += np.multiply.outer(eye, eye).transpose(axes)
    risk = lifted_risk(task, fourth=fourth)
    slope, second = risk.slope.reshape(d + 1, -1), risk.second.reshape((d + 1) ** 2, -1)
    inverse = partial(np.linalg.pinv, rcond=1e-12, hermitian=True)
    lowest = risk.constant - np.vdot(inverse(risk.query) @ slope @ inverse(second), slope) / 4
    law = d * (d + kurtosis - 2) / (C + d + kurtosis - 2) + (kurtosis - 1) * (w @ w) / (C * d + kurtosis - 1)
    assert lowest == pytest.approx(law, rel=1e-12)
    assert abs(optimal_risk(task) / lowest - 1) > 0.05, "the control: Gaussian features"


@jax.jit
@partial(jax.vmap, in_axes=(None, 0, 0, 0))
def predictions(layer, X, y, x_q):
    params, guess, bias = layer
    return lsa(params, embed(X, y, x_q, guess @ x_q + bias))


@pytest.mark.parametrize("d, C", [(1, 1), (1, 2), (2, 1)])
def test_the_distance_of_two_layers_is_that_of_their_matrices(d, C, x64):
    """Three nodes for each normal variable integrate the squared difference exactly."""
    task = make_task(d, d, C, noise_std=0.7)
    guess, one, other = make_guess(task), make_params(0, d, 2), make_params(1, d, 3)
    points, weights = gauss_hermite(C * d + C + 2 * d)
    X, noise, eps, x_q = np.split(points, [C * d, C * d + C, C * d + C + d], axis=1)
    U, T = np.linalg.cholesky([task.feature_cov, task.prior_cov])
    X, x_q = X.reshape(-1, C, d) @ U.T, x_q @ U.T
    y = np.einsum("ncd,nd->nc", X, task.prior_mean + eps @ T.T) + 0.7 * noise
    f, g = (predictions(layer, X, y, x_q) for layer in ((one, guess, BIAS), (other, -2 * guess, 0.4)))
    exact = weights @ (np.asarray(f) - np.asarray(g)) ** 2
    distance = lambda *layers: float(squared_distance(one, other, task, *layers))
    np.testing.assert_allclose(distance(guess, -2 * guess, BIAS, 0.4), exact, rtol=1e-11)
    # The controls: a guess left out, the guesses exchanged, the biases exchanged.
    wrong = [(guess, None, BIAS, 0.4), (-2 * guess, guess, BIAS, 0.4), (guess, -2 * guess, 0.4, BIAS)]
    assert min(abs(distance(*layers) / exact - 1) for layers in wrong) > 1e-3


def test_the_distance_is_one_of_functions():
    """Symmetric; zero between different weights of one function; between no layer and a guess, the guess's square."""
    task = TASKS["general, noisy"]
    guess, params = make_guess(task), make_params(0, task.dim, 2)
    rotated = params._replace(W_K=2 * params.W_K, W_Q=params.W_Q / 2)
    there = squared_distance(params, rotated, task, guess, None)
    np.testing.assert_allclose(there, squared_distance(rotated, params, task, None, guess), rtol=1e-5)
    assert float(there) > 1e-2 and float(squared_distance(params, rotated, task, guess, guess)) < 1e-5 * float(there)
    nothing = jax.tree.map(jnp.zeros_like, params)
    between = squared_distance(nothing, nothing, task, guess, None, 2.0)
    np.testing.assert_allclose(between, guess @ task.feature_cov @ guess + 4, rtol=1e-6)


def scaled_task(prior_mean, noise_std, units):
    """Correlated features in these units, and a prior mean of this size."""
    units = np.broadcast_to(units, 3)
    return GaussianTask(
        prior_mean * np.array([1.0, -2.0, 0.5]),
        4,
        make_task(0, 3, 4).feature_cov * np.outer(units, units),
        None,
        noise_std,
    )


@pytest.mark.parametrize("units", [1.0, 1e-3, 1e3, (1e-3, 1.0, 1e3)], ids=str)
@pytest.mark.parametrize("noise_std", [0.0, 1e-2, 1.0, 1e4])
@pytest.mark.parametrize("prior_mean", [1e-2, 1.0, 1e2, 1e4])
def test_the_minimum_keeps_its_digits_at_every_scale(prior_mean, noise_std, units):
    """With the right guess, none and a wrong one: against the closed form, which inverts no moments of labels."""
    task = scaled_task(prior_mean, noise_std, units)
    w = np.asarray(task.prior_mean)
    for guess, bias in ((w, 0.0), (None, 0.0), (w + np.array([1.0, 2.0, -1.0]), 2.0)):
        risk = lifted_risk(task, guess, bias)
        np.testing.assert_allclose(risk.minimum(), optimal_risk(task, guess, bias), rtol=1e-10)


@pytest.mark.parametrize(
    "inverse, noise_std, size, off", [(pseudo_inverse, 1e4, 1, 0.1), (scaled_inverse, 0.0, 1e4, 1e-7)]
)
def test_moments_of_raw_labels_lose_the_minimum(inverse, noise_std, size, off):
    """The controls: without units large labels hide the features, and without residuals a large mean costs digits."""
    task = scaled_task(size, noise_std, 1.0)
    query, second, slope, constant, _ = lifted_risk(task)
    slope, second = slope.reshape(4, 16), second.reshape(16, 16)
    found = constant - np.vdot(inverse(np, query) @ slope @ inverse(np, second), slope) / 4
    assert abs(found / optimal_risk(task) - 1) > off


def test_the_minimum_at_every_scale_in_float32_and_of_singular_features():
    """Compiled, and where a direction is missing: the rank is found at every scale."""
    for size, noise_std in ((1.0, 1e-2), (1e4, 1.0), (1.0, 1e4), (1e4, 1e4)):
        w, of = size * np.array([1.0, -2.0, 0.5]), partial(GaussianTask, context_size=4, noise_std=noise_std)
        for guess in (np.zeros(3), w):
            compiled = jax.jit(lambda w, guess, of=of: lifted_risk(of(w), guess).minimum())
            found = compiled(*np.asarray([w, guess], np.float32))
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, optimal_risk(of(w), guess), rtol=1e-5)
            flat = of(w, feature_cov=np.diag([1e-6, 1e6, 0.0]))
            np.testing.assert_allclose(lifted_risk(flat, guess).minimum(), optimal_risk(flat, guess), rtol=1e-10)
