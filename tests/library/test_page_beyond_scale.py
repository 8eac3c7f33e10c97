"""Formulas of the book at the paper's scale, in samples that draw every token: built layers, other features, softmax.

Squared errors are averages of 2^17 tasks; deviations are in their standard errors.
"""

from functools import cache

import numpy as np
import pytest

from lsalib import tasks, theory

SIZE = CONTEXT = 10  # features, and examples
COUNT, DRAWS = 2**15, 4
W_STAR, EYE = np.full(SIZE, 2.0), np.eye(SIZE)
NEAR = 0.5 ** np.abs(np.subtract.outer(np.arange(SIZE), np.arange(SIZE)))
PLAIN = tasks.GaussianTask(W_STAR, CONTEXT, EYE, EYE)
NOISY = tasks.GaussianTask(W_STAR, CONTEXT, EYE, EYE, 1.0)
GENERAL = tasks.GaussianTask(W_STAR, CONTEXT, NEAR, np.diag(np.linspace(0.5, 1.5, SIZE)), 0.5)
FEATURES = {
    "normal": lambda rng, size: rng.standard_normal(size),
    "signs": lambda rng, size: rng.choice([-1.0, 1.0], size),
    "Laplace": lambda rng, size: rng.laplace(size=size) / 2**0.5,
}


@cache
def drawn(task, features, seed):
    """Tokens, queries, targets and Gram matrices."""
    rng, draw = np.random.default_rng(110 + seed), FEATURES[features]
    U, T = np.linalg.cholesky(task.feature_cov), np.sqrt(task.prior_cov)
    X, x_q = draw(rng, (COUNT, CONTEXT, SIZE)) @ U.T, draw(rng, (COUNT, SIZE)) @ U.T
    w = W_STAR + rng.standard_normal((COUNT, SIZE)) @ T
    y = (X @ w[..., None])[..., 0]
    y = y + task.noise_std * rng.standard_normal(y.shape)
    z = np.concatenate([X, y[..., None]], axis=2)
    return z, x_q, np.sum(w * x_q, 1), z.transpose(0, 2, 1) @ z / CONTEXT


def predict(layer, x_q, G):
    """A lift M and the weights of the guess."""
    M, guess = layer
    y_q = x_q @ guess
    return y_q + np.sum(G.reshape(COUNT, -1) @ M.reshape(SIZE + 1, -1).T * np.column_stack([x_q, y_q]), 1)


def a_step(N):
    """The step w* + N s with its right guess."""
    return np.einsum("m,nj->jmn", np.append(-W_STAR, 1.0), np.pad(N.T, (0, 1))), W_STAR


def without_guess(kurtosis, C=CONTEXT):
    """The d heads with the minimum risk at this kurtosis; the guess is zero."""
    eta, f = C / (C + SIZE + kurtosis - 2), C / (C * SIZE + kurtosis - 1)
    rho, E = np.append(-W_STAR, 1.0), np.eye(SIZE, SIZE + 1)
    A = eta * np.einsum("m,hn->hmn", rho, E) - f * np.einsum("hm,n->hmn", E, rho)
    return np.einsum("hm,hnj->jmn", E, A), 0 * W_STAR


def of_heads(params):
    """The lift of full matrices, with the guess zero."""
    W_K, W_Q, W_P, W_V = map(np.asarray, params)
    b, A = np.einsum("hi,him->hm", W_P[:, -1], W_V), np.einsum("hki,hkj->hij", W_K, W_Q)
    return np.einsum("hm,hnj->jmn", b, A), 0 * W_STAR


def off(task, features, layer, value, near=None):
    """Mean squared error, or distance from another layer, less a value, in standard errors."""
    squares = []
    for seed in range(DRAWS):
        _, x_q, target, G = drawn(task, features, seed)
        truth = target if near is None else predict(near, x_q, G)
        squares.append((predict(layer, x_q, G) - truth) ** 2)
    squares = np.concatenate(squares)
    return (squares.mean() - value) / squares.std() * squares.size**0.5


SHARE, BEST, SQUARE = 2 / 102, 110 / 21, 40.0  # of a wrong guess at C = d = 10; one step; |w*|^2
BUILT = {
    "step of size 1": (PLAIN, "normal", lambda: a_step(EYE), 11.0, BEST),
    "best step": (PLAIN, "normal", lambda: a_step(10 / 21 * EYE), BEST, 110 / 20),
    "best step with noise": (NOISY, "normal", lambda: a_step(5 / 11 * EYE), 60 / 11, BEST),
    "random signs": (PLAIN, "signs", lambda: without_guess(1), 90 / 19, BEST + SQUARE * SHARE),
    "Laplace features": (PLAIN, "Laplace", lambda: without_guess(6), 35 / 6 + SQUARE / 21, BEST + SQUARE * SHARE),
}


@pytest.mark.claim("laws-at-scale", "exact-gd-risk")
@pytest.mark.parametrize("name", BUILT)
def test_built_layers_have_their_risks_in_samples(name):
    """A gradient step, and the best heads without a guess for other features; each control has one thing wrong."""
    task, features, layer, value, wrong = BUILT[name]
    assert abs(off(task, features, layer(), value)) < 5 < abs(off(task, features, layer(), wrong))


@pytest.mark.claim("laws-at-scale")
def test_one_head_is_away_from_the_best_step_by_its_excess(x64):
    """The squared distance of sampled predictions, for the best single head without a guess; not for two heads."""
    heads = [theory.few_heads_weights(PLAIN, H) for H in (1, 2)]
    one, two = (float(theory.population_risk(each, PLAIN)) - BEST for each in heads)
    far = lambda value: off(PLAIN, "normal", of_heads(heads[0]), value, near=a_step(10 / 21 * EYE))
    assert abs(far(one)) < 5 < abs(far(two))


@pytest.mark.claim("exact-stationarity")
@pytest.mark.parametrize("task", [PLAIN, GENERAL], ids=["plain", "general"])
def test_sampled_gradients_are_zero_at_the_best_step(task):
    """All entries of the gradient by the lift, in standard errors; not at the step of size 1."""

    def largest(N, seed):
        _, x_q, target, G = drawn(task, "normal", seed)
        by = (predict(a_step(N), x_q, G) - target)[:, None] * x_q
        flat = G[:, *np.triu_indices(SIZE + 1)]
        mean, square = by.T @ flat / COUNT, (by**2).T @ flat**2 / COUNT
        return np.abs(mean / np.sqrt((square - mean**2) / COUNT)).max()

    for seed in range(DRAWS):
        assert largest(theory.optimal_preconditioner(task), seed) < 6 < largest(EYE, seed)


@pytest.mark.claim("laws-at-scale")
def test_softmax_heads_without_a_guess(scale=1e-5, few=2**14):
    """Eleven softmax heads on ten examples are ten linear ones on nine; the lower bound is far below them."""
    # What they average is centered: (C - 1)/C times a Gram matrix of C - 1 examples.
    M = CONTEXT / (CONTEXT - 1) * without_guess(3, CONTEXT - 1)[0]
    squares = []
    for seed in range(DRAWS):
        z, x_q, target, _ = (part[:few] for part in drawn(PLAIN, "normal", seed))
        keys, total = np.einsum("jhn,kj->khn", M[:-1], x_q), 0  # the value e_h reads M[:, h]
        for h in range(SIZE):
            weight = np.exp(scale * np.einsum("kcn,kn->kc", z, keys[:, h]))
            weight = weight / weight.sum(1, keepdims=True) - 1 / CONTEXT
            total = total + np.sum(weight * z[..., h], 1) / scale
        squares.append((total - target) ** 2)
    squares = np.concatenate(squares)
    mean, error = squares.mean(), squares.std() / squares.size**0.5
    inside, bound = 110 / 20 + 2 * SQUARE / 92, 2 * (SIZE + SQUARE) / (CONTEXT * SIZE + SIZE + 4)
    assert abs(mean - inside) < 5 * error and mean > 3 * bound
    # The control: linear heads on all ten examples.
    assert abs(mean - (BEST + SQUARE * SHARE)) > 5 * error
