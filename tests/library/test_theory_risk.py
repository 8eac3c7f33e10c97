"""Exact risks of given weights, and moments: against brute-force moments in NumPy."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from refusals import refusals
from theory_reference import (
    BIAS,
    GUESS,
    TASKS,
    dense_distance,
    dense_risk,
    lifted,
    listed_moments,
    moments_of,
)

from lsalib.attention import (
    LSAParams,
    effective,
    from_effective,
    gd_weights,
    linear_transformer_block,
    yq_lsa,
)
from lsalib.tasks import GaussianTask
from lsalib.theory import (
    gd_risk,
    gram_moments,
    lifted_risk,
    ltb_risk,
    population_risk,
    squared_distance,
)

NAMES = pytest.mark.parametrize("name", TASKS)


def make_params(seed: int, heads: int) -> LSAParams:
    """Random weights for three features."""
    weights = np.random.default_rng(seed).normal(size=(4, heads, 4, 4))
    return LSAParams(*map(jnp.asarray, 0.5 * weights))


@pytest.mark.claim("eq21-cross-moment", "eq23-independence")
@NAMES
def test_moments_equal_brute_force(name):
    """Wick's theorem against all values of a quadrature; the controls are other fourth
    moments and a longer context.
    """
    task = TASKS[name]
    found = gram_moments(task)
    for exact, brute in zip(found, moments_of(name), strict=True):
        assert_allclose(exact, brute, rtol=1e-12, atol=1e-12 * np.abs(brute).max())
    # a table: off center and skewed
    rows = np.random.default_rng(0).exponential(size=(5, 3))
    tabled = replace(task, feature_cov=rows.T @ rows / 5)
    fourth = np.einsum("ni,nj,nk,nl->ijkl", rows, rows, rows, rows) / 5
    brute = listed_moments(tabled, features=(rows, np.full(5, 1 / 5)))[1]
    assert_allclose(
        gram_moments(tabled, fourth=fourth).second,
        brute,
        rtol=1e-11,
        atol=1e-11 * brute.max(),
    )
    assert np.abs(gram_moments(tabled).second / brute - 1).max() > 0.01
    longer = gram_moments(replace(task, context_size=9)).second
    assert np.abs(longer - found.second).max() > 1e-2


@pytest.mark.claim("eq18-decomposition")
@pytest.mark.parametrize("heads", [1, 4])
@NAMES
def test_the_risk_of_weights_is_the_dense_quadratic(name, heads, x64):
    """One head goes pair by pair, four through the lift.

    A wrong ingredient, one at a time, has another risk.
    """
    task, params = TASKS[name], make_params(0, heads)
    dense = dense_risk(lifted(params), task, GUESS, BIAS, moments_of(name))
    assert_allclose(population_risk(params, task, GUESS, BIAS), dense, rtol=1e-12)
    plain = dense_risk(lifted(params), task, 0 * GUESS, 0.0, moments_of(name))
    assert_allclose(population_risk(params, task), plain, rtol=1e-12)
    assert_allclose(
        lifted_risk(task, GUESS, BIAS).value(jnp.asarray(lifted(params))),
        dense,
        rtol=1e-12,
    )
    other = replace(task, prior_mean=-task.prior_mean)
    turned = params._replace(W_V=jnp.swapaxes(params.W_V, 1, 2))
    for wrong in (
        (params, task, -GUESS, BIAS),
        (params, task, GUESS, 0.0),
        (params, other, GUESS, BIAS),
        (turned, task, GUESS, BIAS),
    ):
        assert abs(population_risk(*wrong) / dense - 1) > 1e-3


@pytest.mark.claim("lemma3-inclusion", "ltb-optimum")
@NAMES
def test_the_block_is_an_lsa_with_a_guess_of_its_own(name, x64):
    """The MLP's last row is its guess; a head's value passes it like a token does."""
    task, params, rng = TASKS[name], make_params(0, 4), np.random.default_rng(1)
    W_1, W_2 = 0.5 * rng.normal(size=(2, 5, 4))
    v = W_2[:, -1] @ W_1
    W_Q, W_P = np.array(params.W_Q), np.array(params.W_P)
    W_Q[:, :, -1], W_P[:, -1] = 0, v @ W_P
    through = LSAParams(params.W_K, W_Q, W_P, params.W_V)
    context = rng.normal(size=(5, 3)), rng.normal(size=5), rng.normal(size=3)
    assert_allclose(
        linear_transformer_block(params, W_1, W_2, *context),
        yq_lsa(through, v[:-1], *context),
        rtol=1e-12,
    )
    stated = ltb_risk(params, W_1, W_2, task)
    exact = dense_risk(lifted(through), task, v[:-1], 0.0, moments_of(name))
    assert_allclose(stated, exact, rtol=1e-12)
    assert abs(ltb_risk(params, -W_1, W_2, task) / stated - 1) > 1e-3


@pytest.mark.claim("right-triangle", "pythagoras-general")
@NAMES
def test_the_distance_of_two_layers(name, x64):
    """From brute-force moments; zero between different weights of one function,
    symmetric, and it reads the guesses.
    """
    task, one, two = TASKS[name], make_params(0, 4), make_params(1, 4)
    exact = dense_distance(
        (lifted(one), GUESS, 0.0), (lifted(two), 0 * GUESS, 0.0), task, moments_of(name)
    )
    distance = squared_distance(one, two, task, GUESS)
    assert_allclose(distance, exact, rtol=1e-12)
    distance = squared_distance(two, one, task, None, GUESS)
    assert_allclose(distance, exact, rtol=1e-12)
    assert abs(squared_distance(one, two, task, -GUESS) / exact - 1) > 1e-3
    same = one._replace(W_K=2 * one.W_K, W_Q=one.W_Q / 2)
    assert squared_distance(one, same, task, GUESS, GUESS) < 1e-20


def test_a_large_task_is_in_reach():
    """d = 256 with four heads, which go pair by pair: the lift would hold 17 million
    numbers, the moments four billion. Two are parts of a gradient step, and two cancel.
    """
    task, step = GaussianTask(np.linspace(-1, 1, 256), 512), 0.3
    b, A = effective(gd_weights(task.prior_mean, step))
    part, other = 0.02 * np.random.default_rng(0).normal(size=(2, 1, 257, 257))
    heads = np.concatenate([part, A - part, other, -other])
    four = from_effective(np.concatenate([b, b, b[:, ::-1], b[:, ::-1]]), heads)
    risk = population_risk(four, task, task.prior_mean)
    assert_allclose(risk, gd_risk(task, step), rtol=1e-5)


def test_products_are_asked_for_in_full_precision():
    """A GPU shortens the factors of what is not; a CPU shows no difference."""
    task, params = TASKS["general"], make_params(0, 4)
    text = lambda f, *args: str(jax.make_jaxpr(f)(*args))
    for f, given in (
        (lambda cov: gd_risk(replace(task, feature_cov=cov)), task.feature_cov),
        (lambda params: population_risk(params, task), params),
    ):
        program = text(f, given)
        # for both factors
        assert 2 * program.count("dot_general[") == program.count("HIGHEST") > 0
    assert "HIGHEST" not in text(lambda x: x @ x, jnp.eye(3)), "the control"


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6])
def test_distances_and_risks_in_few_digits(size):
    """A prior mean that both layers know costs no digits, by the parabola
    of the step; and weights of two bytes are measured in four.
    """
    task, guess = GaussianTask([size] * 3, 5), np.float32([size] * 3)
    one, two = (gd_weights(guess, step) for step in (0.25, 0.5))
    apart = 0.25**2 * 3 * 9 / 5  # (eta - eta')^2 E(s.x_q)^2 = … d (C + d + 1) / C
    found = squared_distance(one, two, task, guess, guess)
    assert found == pytest.approx(apart, rel=1e-5)
    half = jax.tree.map(lambda W: W.astype(jnp.bfloat16), two)
    exact, risk = (
        population_risk(weights, task, -weights.W_V[0, -1, :-1])
        for weights in (jax.tree.map(np.float64, half), half)
    )
    assert risk.dtype == jnp.float32 and risk == pytest.approx(float(exact), rel=1e-4)


PLAIN, LAYER = TASKS["general"], make_params(0, 4)
test_bad_input_is_refused = refusals(
    (
        r"params.W_K must have shape \(H, 2, 2\), got shape",
        lambda: population_risk(LAYER, GaussianTask([1.0], 3)),
    ),
    (
        "fourth must be at least the products of feature_cov",
        lambda: gram_moments(PLAIN, fourth=np.zeros(4 * (3,))),
    ),
    (
        "fourth must be finite and symmetric",
        lambda: gram_moments(PLAIN, fourth=np.arange(81.0).reshape(4 * (3,))),
    ),
)
