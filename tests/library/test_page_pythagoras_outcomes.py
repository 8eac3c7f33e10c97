"""The right triangle for tasks that are not Gaussian, by a sum over all their outcomes."""

import numpy as np
import pytest
from outcomes import NORMAL, OFF_CENTER, SIGNS, SKEWED, ZERO, contexts, outcomes
from theory_reference import make_params

from lsalib import attention

LINE = np.array([[1.0, 0.0], [2.0, 0.0]])
SYMMETRIC = {
    "one feature, three examples": lambda: contexts(1, 3),
    "random signs, more features than examples": lambda: contexts(3, 2, x=SIGNS),
    "skewed features off center": lambda: contexts(2, 3, x=OFF_CENTER),
    "noise that grows with a feature": lambda: contexts(2, 3, x=SKEWED, level=lambda X: np.abs(X[..., 0])),
    "features on a line": lambda: contexts(2, 3, x=SIGNS, U=LINE),
    "weights on a line": lambda: contexts(2, 3, x=SIGNS, T=LINE),
    "examples of a common size": lambda: contexts(2, 3, x=SIGNS, size=OFF_CENTER),
    "weights and noise with a common sign": lambda: contexts(2, 3, x=SIGNS, eps=SKEWED, noise=SKEWED, flip=SIGNS),
    "skewed noise, centered features": lambda: contexts(2, 3, x=SKEWED, noise=SKEWED),
}
BROKEN = {
    "skewed weights": lambda: contexts(2, 3, eps=SKEWED, noise=ZERO),
    "skewed noise, features off center": lambda: contexts(2, 3, x=OFF_CENTER, noise=SKEWED, level=2.0),
    "weights off the prior mean": lambda: contexts(2, 3, x=SIGNS, eps=((-0.5, 1.5), (0.5, 0.5))),
}


def any_query(rng, here):
    """Queries that are skewed, correlated and off center, and the chance of each with each context."""
    d = here.X.shape[2]
    x_q, chance = outcomes(((-1.0, 0.3, 2.0), (0.2, 0.5, 0.3)), d)
    return 1 + x_q @ rng.normal(size=(d, d)), np.outer(here.chance, chance)


def an_example(rng, here):
    """The query is the first example's features."""
    x_q, which = np.unique(here.X[:, 0], axis=0, return_inverse=True)
    return x_q, here.chance[:, None] * (which.reshape(-1, 1) == range(len(x_q)))


def squares(chance, f, step, target):
    """R(f), R(f*) and E (f - f*)^2."""
    return [np.sum(chance * (a - b) ** 2) for a, b in ((f, target), (step, target), (f, step))]


def sides(here, w_star, M, x_q, y_q, chance, part=1.0):
    """The squares for the layer with the lift M, over all pairs of context and query; f* takes part of the step."""
    z_q = np.concatenate([x_q, y_q[:, None]], axis=1)
    heads = np.einsum("nij,kij->nk", here.grams(w_star), M)
    step, target = ((w_star + vector) @ x_q.T for vector in (part * here.step(), here.eps))
    return squares(chance, y_q + heads @ z_q.T, step, target)


def broken_angle(here, seed, query=any_query, part=1.0):
    """|R(f) / (R* + E (f - f*)^2) - 1| for one to five random heads and a guess that is not linear in the query."""
    d, rng = here.X.shape[2], np.random.default_rng(400 + seed)
    x_q, chance = query(rng, here)
    w_star, guess = rng.normal(size=(2, d))
    y_q = 0.5 + x_q @ guess + np.sin(x_q[:, 0]) * x_q[:, -1]
    M = np.asarray(attention.lift(make_params(seed, d, 1 + seed % 5)))
    risk, best, away = sides(here, w_star, M, x_q, y_q, chance, part)
    return abs(risk / (best + away) - 1)


def least_squares(here, known):
    """The minimum risk of predictions that are linear in what is known of a context, for a white query."""
    mixed = (here.chance * known.T) @ here.eps
    fit = known @ (np.linalg.pinv((here.chance * known.T) @ known, rcond=1e-10, hermitian=True) @ mixed)
    return here.chance @ ((here.eps - fit) ** 2).sum(1)


def entries(here):
    """The constant and all different entries of G, one row for each outcome."""
    G = here.grams()
    return np.column_stack([np.ones(len(G)), G[:, *np.triu_indices(G.shape[1])]])


@pytest.mark.claim("pythagoras-general")
@pytest.mark.parametrize("name", SYMMETRIC | BROKEN)
def test_the_angle_is_right_for_symmetric_tasks_and_no_others(name, x64):
    """Ten random layers with any query and guess, least squares over all layers, and the three moments of the proof."""
    here, symmetric = (SYMMETRIC | BROKEN)[name](), name in SYMMETRIC
    off = [broken_angle(here, seed) for seed in range(10)]
    assert max(off) < 1e-12 if symmetric else min(off) > 1e-9
    # The control: nine tenths of the step.
    assert min(broken_angle(here, seed, part=0.9) for seed in range(10)) > 1e-9
    # The step's error t has E[t] = E[t S] = E[t q] = 0.
    t, d = here.eps - here.step(), here.X.shape[2]
    rows, columns = np.triu_indices(d)
    even = np.column_stack([np.ones(len(t)), here.grams()[:, rows, columns], here.grams()[:, -1, -1]])
    largest = np.abs((here.chance * t.T) @ even).max()
    assert largest < 1e-12 if symmetric else largest > 1e-3
    # Least squares on the constant and all entries of G knows no symmetry, and finds nothing better than the step.
    best, known = here.chance @ (t**2).sum(1), entries(here)
    least = least_squares(here, known)
    assert abs(least / best - 1) < 1e-9 if symmetric else least < (1 - 1e-7) * best
    # The control: products of two entries, which no layer has, lower the risk.
    pairs = np.einsum("ni,nj->nij", known, known).reshape(len(known), -1)
    assert least_squares(here, np.unique(pairs.round(12), axis=1)) < (1 - 1e-7) * best


@pytest.mark.claim("pythagoras-general")
def test_the_query_has_to_be_independent(x64):
    """A query that is one of the examples breaks the identity; any other query for the same tasks does not."""
    here = contexts(2, 3, x=SIGNS)
    assert min(broken_angle(here, seed, an_example) for seed in range(10)) > 1e-9
    assert max(broken_angle(here, seed) for seed in range(10)) < 1e-12, "the control"


@pytest.mark.claim("pythagoras-general")
def test_ridge_regression_is_outside_of_the_theorem():
    """Ridge regression is not affine in the Gram matrix, and its risk is not the sum of the two squares."""
    here, level = contexts(2, 3), 0.7
    S = np.einsum("nci,ncj->nij", here.X, here.X) / 3
    inverse = np.linalg.inv(S + level**2 / 3 * np.eye(2))
    for seed in range(10):
        x_q, chance = any_query(np.random.default_rng(600 + seed), here)

        def off(fit, x_q=x_q, chance=chance):
            risk, best, away = squares(chance, *(p @ x_q.T for p in (fit, here.step(), here.eps)))
            return abs(risk / (best + away) - 1)

        assert off(np.einsum("nij,nj->ni", inverse, here.s)) > 1e-9
        assert off(0.3 * here.s) < 1e-12, "the control: another gradient step"


@pytest.mark.claim("pythagoras-general")
@pytest.mark.parametrize("C", [1, 3])
def test_one_feature_without_noise_allows_skewed_weights(C, x64):
    """With one feature, skewed weights break the theorem only if there is noise, as Exercise 3 says."""
    quiet, noisy = (contexts(1, C, eps=SKEWED, noise=noise) for noise in (ZERO, SIGNS))
    assert max(broken_angle(quiet, seed) for seed in range(10)) < 1e-12
    assert min(broken_angle(noisy, seed) for seed in range(10)) > 1e-9


@pytest.mark.claim("pythagoras-general")
@pytest.mark.parametrize(
    "x, kurtosis, d, C, sigma",
    [(NORMAL, 3, 2, 2, 0.7), (NORMAL, 3, 1, 3, 0), (SIGNS, 1, 3, 2, 0.7), (SKEWED, 3.25, 2, 3, 1.5)],
)
def test_the_best_step_for_any_fourth_moment(x, kurtosis, d, C, sigma):
    """The step and its minimum risk depend on the features through their fourth moment alone (eq. general-step)."""
    here = contexts(d, C, x=x, level=sigma)
    eta = lambda kurtosis: C / (C + d + kurtosis - 2 + sigma**2)
    risk = here.chance @ ((here.eps - here.step()) ** 2).sum(1)
    np.testing.assert_allclose(here.preconditioner(), eta(kurtosis) * np.eye(d), atol=1e-10)
    np.testing.assert_allclose(risk, d * (1 - eta(kurtosis)), atol=1e-10)
    assert abs(risk - d * (1 - eta(2.0))) > 1e-3, "the control: a fourth moment of 2"
