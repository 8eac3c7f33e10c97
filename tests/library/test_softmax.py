"""Softmax attention, debiased gradient descent and their risks: each derived twice, with a control."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusals

from lsalib import attention, estimators, metrics, tasks, theory

SEEDS = range(4)
TASK = tasks.GaussianTask(np.zeros(5), 40, prior_cov=np.eye(5) / 5, noise_std=0.1**0.5)


def example(seed, d=4, L=7, heads=3):
    key_params, key_task = jax.random.split(jax.random.key(seed))
    params = attention.init_softmax(key_params, d, heads)
    task = tasks.GaussianTask(np.arange(1.0, d + 1), L, noise_std=0.3)
    X, y, x_q, _, _ = (jnp.asarray(np.asarray(part)[0]) for part in tasks.sample(key_task, task, 1))
    return params, X, y, x_q


def softmax_by_loops(params, X, y, x_q, y_q):
    """The layer in plain NumPy: keys, queries and values one by one, the exponentials normalized by hand."""
    tokens, z_q = np.column_stack([X, y]), np.append(x_q, y_q)
    out = float(y_q)
    for W_K, W_Q, W_V, W_O in zip(*map(np.asarray, params), strict=True):
        scores = [np.exp((W_K @ z) @ (W_Q @ z_q) / np.sqrt(len(z_q))) for z in tokens]
        out += sum(score * (W_O @ (W_V @ z))[0] for score, z in zip(scores, tokens, strict=True)) / sum(scores)
    return out


@pytest.mark.claim("softmax-guess-floor")
@pytest.mark.parametrize("seed", SEEDS)
def test_layer_by_loops_by_its_circuits_and_reduced(x64, seed):
    """Loops in NumPy, the circuits and the layer of two numbers a head agree; guess and query count as they should."""
    params, X, y, x_q = example(seed)
    of = lambda params, scale=1.0, y_q=0.7: float(
        attention.softmax_attention(params, scale * X, scale * y, x_q / scale, y_q)
    )
    np.testing.assert_allclose(of(params), softmax_by_loops(params, X, y, x_q, 0.7), rtol=1e-12)
    same = attention.from_effective_softmax(*attention.effective_softmax(params))
    np.testing.assert_allclose(of(same), of(params), rtol=1e-12)
    # Controls: the guess is read, and the query is not attended to.
    assert abs(softmax_by_loops(params, X, y, x_q, 0.0) - of(params)) > 1e-3
    assert abs(softmax_by_loops(params, np.vstack([X, x_q]), np.append(y, 0.7), x_q, 0.7) - of(params)) > 1e-3
    # Without a guess, longer tokens and a shorter query only scale, which bounds all layers without one.
    np.testing.assert_allclose(of(params, 1.7, 0.0), 1.7 * of(params, 1.0, 0.0), rtol=1e-12)
    assert abs(of(params, 1.7, 0.4) - 1.7 * of(params, 1.0, 0.4)) > 1e-3

    omega, mu = np.random.default_rng(seed + 10).standard_normal((2, 3))
    A, b = omega[:, None, None] * np.diag([1.0] * 4 + [0.0]), mu[:, None, None] * np.eye(5)[-1]
    layer = of(attention.from_effective_softmax(*map(jnp.asarray, (b, A))), y_q=0.0)
    reduced = attention.reduced_softmax(*map(jnp.asarray, (omega, mu)), X, y, x_q)
    np.testing.assert_allclose(reduced, layer, rtol=1e-12)


@pytest.mark.claim("softmax-linear-heads")
def test_two_small_opposite_heads_take_a_debiased_step(x64):
    """The error falls like omega^2. Control: heads of equal sign do not, and plain GD is another predictor."""
    _, X, y, x_q = example(3)
    step = float(estimators.debiased_gd(X, y, x_q, jnp.zeros(4), 0.8))
    heads = lambda omega, sign: np.array([[omega, -omega], [0.4 / omega, 0.4 / omega * sign]])
    pair = lambda omega, sign: float(attention.reduced_softmax(*map(jnp.asarray, heads(omega, sign)), X, y, x_q))
    errors = [abs(pair(omega, -1.0) - step) for omega in (1e-2, 1e-3)]
    assert errors[1] < 1e-4 * abs(step) and 80 < errors[0] / errors[1] < 120
    assert abs(pair(1e-3, 1.0) - step) > 1.0
    assert abs(float(estimators.one_step_gd(X, y, x_q, jnp.zeros(4), 0.8)) - step) > 1e-2


@jax.jit
@jax.grad
def centred_gradient(w, X, y):
    residual = X @ w - y
    return jnp.sum((residual - residual.mean()) ** 2) / (2 * len(y))


@pytest.mark.claim("softmax-one-example-less")
@pytest.mark.parametrize("seed", SEEDS)
def test_debiased_gd_by_three_independent_derivations(x64, seed):
    """Autodiff of the centred loss; plain GD on the rotated C - 1 examples; the library."""
    _, X, y, x_q = example(seed)
    w0, eta, C = jnp.ones(4), 0.7, len(y)
    by_grad = np.dot(x_q, w0 - eta * np.asarray(centred_gradient(w0, X, y)))
    rotation = np.linalg.qr(np.column_stack([np.ones(C), np.eye(C)[:, 1:]]))[0][:, 1:].T
    shorter = estimators.one_step_gd(jnp.asarray(rotation @ X), jnp.asarray(rotation @ y), x_q, w0, eta * (C - 1) / C)
    debiased = float(estimators.debiased_gd(X, y, x_q, w0, eta))
    np.testing.assert_allclose([debiased, shorter], by_grad, rtol=1e-12)
    higher = jnp.asarray(np.asarray(y) + 5.0)
    np.testing.assert_allclose(estimators.debiased_gd(X, higher, x_q, w0, eta), debiased, rtol=1e-12)
    assert abs(float(estimators.one_step_gd(X, higher, x_q, w0, eta)) - debiased) > 1e-2


@pytest.mark.claim("softmax-one-example-less")
def test_debiased_risk_against_samples():
    """For the best step, a short and a long one, on the same tasks; one example more and half the noise are caught."""
    task = tasks.GaussianTask([1.0, -1.0, 0.5], 5, noise_std=2.0)
    steps, w0 = (theory.debiased_step(task), 0.4, 1.3), jnp.asarray(np.float32(task.prior_mean))
    f = lambda X, y, x_q: jnp.stack([estimators.debiased_gd(X, y, x_q, w0, eta) for eta in steps])
    risk = metrics.sampled_risk(jax.random.key(5), task, f, batches=2)
    off = lambda exact, task: np.abs(risk.mean - [exact(task, eta) for eta in steps]) / risk.standard_error
    assert (off(theory.debiased_risk, task) < 5).all()
    assert (off(theory.gd_risk, task) > 5).all()
    assert (off(theory.debiased_risk, replace(task, noise_std=1.0)) > 5).all()
    of = lambda eta=None: theory.debiased_risk(task, eta)
    assert of() == of(steps[0]) < of(steps[0] + 0.05)


def test_approximate_risk_in_its_special_cases():
    """One head and two opposite heads have closed forms; a grid over mu is a third derivation."""
    noise = (1 + 0.1) * 5 / 40
    one = 5**-0.5
    np.testing.assert_allclose(theory.softmax_risk(TASK, [one]), 1 - 1 / (1 + np.e * noise), rtol=1e-12)
    assert all(theory.softmax_risk(TASK, [one * factor]) > theory.softmax_risk(TASK, [one]) for factor in (0.9, 1.1))
    for omega in (0.05, 0.3):
        pair = 1 / (1 + noise / 5 * np.sinh(5 * omega**2) / omega**2)
        np.testing.assert_allclose(theory.softmax_risk(TASK, [omega, -omega]), 1 - pair, rtol=1e-9)
        np.testing.assert_allclose(theory.softmax_output(TASK, [omega, -omega]) * 2 * omega, [pair, -pair], rtol=1e-9)
    grid = [theory.softmax_risk(TASK, [0.3], [mu]) for mu in np.linspace(0, 5, 20001)]
    np.testing.assert_allclose(min(grid), theory.softmax_risk(TASK, [0.3]), atol=1e-7)


def test_approximate_risk_is_approximate():
    """Right for a long context, however loud the noise; too low for a short one."""
    omega, mu = (jnp.asarray(np.float32([number])) for number in (0.3, 2.2))
    f = lambda X, y, x_q: attention.reduced_softmax(omega, mu, X, y, x_q)
    off = lambda risk, task: (risk.mean - theory.softmax_risk(task, [0.3], [2.2])) / risk.standard_error
    assert off(metrics.sampled_risk(jax.random.key(6), TASK, f, batches=2), TASK) > 5
    long = replace(TASK, context_size=1000, noise_std=3.0)
    risk = metrics.sampled_risk(jax.random.key(7), long, f, batches=8, batch_size=2**10)
    assert abs(off(risk, long)) < 5 < off(risk, replace(long, noise_std=1.5))


@pytest.mark.claim("softmax-guess-floor")
@pytest.mark.parametrize("d, L", [(1, 1), (1, 2), (2, 3), (5, 8)])
def test_a_function_that_no_layer_without_a_guess_sees(d, L):
    """Its product with a random head has mean zero; with the target it has not, and neither has its first half."""
    rng = np.random.default_rng(d)
    N, noise = 100_000, 0.6
    w, q = 1 + rng.normal(size=(N, d)), rng.normal(size=(N, d))
    X, eps = rng.normal(size=(N, L, d)), rng.normal(size=(N, L))
    target = (w * q).sum(1)
    Z = np.concatenate([X, np.einsum("nld,nd->nl", X, w)[..., None] + noise * eps[..., None]], 2)
    scores = np.einsum("nli,ij,nj->nl", Z, 0.5 * rng.normal(size=(d + 1, d)), q)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    head = np.einsum("nl,nli,i->n", weights / weights.sum(1, keepdims=True), Z, rng.normal(size=d + 1))
    n, white = L * (d + 1), (X**2).sum((1, 2)) + (eps**2).sum(1)
    g = target * (white - n - (q**2).sum(1) + d)
    error = lambda values: abs(values.mean()) / values.std() * N**0.5
    assert error(head * g) < 5 < error(target * g)
    assert L == 1 or error(head * target * (white - n)) > 5
    signal = 2 * d  # the mean of |w|^2
    assert error(target * g + 2 * signal) < 5 and error(g**2 - signal * (2 * n + 2 * d + 8)) < 5


def test_init_has_its_bounds(x64):
    """Each matrix is drawn on its own, uniformly up to the bound of its size, in the type that is asked for."""
    params = attention.init_softmax(jax.random.key(0), 15, 9, outputs=2, dtype=jnp.float32)
    assert {leaf.dtype.name for leaf in params} == {"float32"}
    for name, bound in (("W_K", 17**-0.5), ("W_Q", 17**-0.5), ("W_V", 17**-0.5), ("W_O", (17 * 9) ** -0.5)):
        largest = np.abs(getattr(params, name)).max()
        assert 0.95 * bound < largest <= bound
    square = np.stack([np.ravel(W) for W in params[:3]])
    # 2601 entries each: correlations have a standard error of 1/51.
    assert np.abs(np.corrcoef(square) - np.eye(3)).max() < 5 / 51


def test_the_approximate_risk_is_in_units_of_labels_squared():
    """Labels and their noise twice as large: four times the risk. Half of that is seen."""
    twice = replace(TASK, prior_cov=4 * TASK.prior_cov, noise_std=2 * TASK.noise_std)
    for given in ([[0.3]], [[0.3, -0.1], [1.0, 2.0]]):
        np.testing.assert_allclose(
            theory.softmax_risk(twice, *given), 4 * theory.softmax_risk(TASK, *given), rtol=1e-12
        )
    louder = replace(TASK, noise_std=2 * TASK.noise_std)
    assert theory.softmax_risk(louder, [0.3]) > 1.01 * theory.softmax_risk(TASK, [0.3])


def one_head(outputs=1):
    """A layer for two features."""
    D = 2 + outputs
    return attention.SoftmaxParams(*(jnp.asarray(np.ones(shape)) for shape in ((1, D, D),) * 3 + ((1, outputs, D),)))


test_bad_input_is_named = refusals(
    (lambda: attention.softmax_heads(one_head(), jnp.ones((4, 2)), jnp.ones(3)), "Z"),
    (lambda: attention.softmax_attention(one_head(outputs=2), jnp.ones((4, 2)), jnp.ones(4), jnp.ones(2)), "W_O"),
    (lambda: attention.reduced_softmax(jnp.ones(2), jnp.ones(3), jnp.ones((4, 2)), jnp.ones(4), jnp.ones(2)), "mu"),
    (lambda: attention.from_effective_softmax(jnp.ones((1, 1, 3)), jnp.ones((1, 2, 2))), "A"),
    (lambda: theory.debiased_risk(tasks.GaussianTask([0.0], 1)), "context_size"),
    (lambda: theory.softmax_risk(replace(TASK, prior_mean=np.ones(5)), [0.1]), "prior mean zero"),
    (lambda: theory.softmax_risk(replace(TASK, feature_cov=2 * np.eye(5)), [0.1]), "identity features"),
    (lambda: theory.softmax_risk(replace(TASK, prior_cov=np.diag([2.0, 1, 1, 1, 1])), [0.1]), "multiple of the identi"),
    (lambda: theory.softmax_risk(TASK, [0.1], [0.1, 0.2]), "mu"),
)


@pytest.mark.parametrize("omega", [[0.1, 0.1], [0.3, -0.2, 0.3, 0.3, -0.2], [0.0, 0.0]])
def test_heads_that_are_the_same_share_one_weight(omega, x64):
    """Equal heads are one function of the context, so copies of a head do not change the minimum risk."""
    each, place, count = np.unique(omega, return_inverse=True, return_counts=True)
    shared = (theory.softmax_output(TASK, each) / count)[place]
    least = theory.softmax_risk(TASK, each)
    np.testing.assert_allclose(theory.softmax_output(TASK, omega), shared, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(theory.softmax_risk(TASK, omega), least, rtol=1e-9)
    np.testing.assert_allclose(jax.jit(theory.softmax_risk)(TASK, np.array(omega)), least, rtol=1e-9)
    # The control: other weights are worse, if heads do anything at all.
    assert (theory.softmax_risk(TASK, omega, 1.01 * shared) > least * (1 + 1e-6)) == any(omega)
