"""Softmax heads: one example fewer, linear heads in the limit, and the floor without a
guess.
"""

import numpy as np
import pytest
from book_task import Gxy, W, average, dot, number, target, w, y
from dense import heads, predict
from scipy import special
from symbolic import GENERAL, C, certify, d, fresh, mean, noise, query, same, sigma2, x
from sympy import Symbol, solve
from theory_reference import TASKS, covs

from lsalib import theory
from lsalib.tasks import GaussianTask

eta = Symbol("eta")


@pytest.mark.claim("softmax-one-example-less", kind="certificate")
def test_softmax_one_example_less():
    """The risk of a step on centered features is that of a plain step on one example
    fewer, for all covariances.
    """
    plain = lambda: eta * C * dot(query, Gxy) - target()
    debiased = lambda: (
        eta
        * C
        * (
            dot(query, Gxy)
            - dot(query, lambda c: average(lambda i: x(i, c))) * average(y)
        )
        - target()
    )
    fewer = mean(plain() * plain(), GENERAL).subs(C, C - 1)
    certify(mean(debiased() * debiased(), GENERAL), fewer)
    # From the prior mean; the library divides the step by the number of examples.
    given = TASKS["general, noisy"]
    size, noise = given.context_size, given.noise_std
    task = GaussianTask(np.zeros(3), size, *covs(given), noise)
    stated = number(fewer, task, eta=0.3 / size)
    assert theory.debiased_risk(task, 0.3) == pytest.approx(stated)
    best = number(solve(fewer.diff(eta), eta)[0], task)
    assert theory.debiased_step(task) == pytest.approx(size * best)
    assert theory.debiased_risk(task) == pytest.approx(number(fewer, task, eta=best))


@pytest.mark.claim("softmax-linear-heads", kind="brute force")
def test_softmax_linear_heads():
    """Softmax heads with small scores, one more of them, tend to linear heads on C - 1
    rotated examples.

    Rotated Gaussian tokens are Gaussian, so the risk is that of one example fewer.
    Without the extra head they diverge.
    """
    rng, dim, size = np.random.default_rng(0), 2, 5
    b, A = rng.normal(size=(2, dim + 1)), rng.normal(size=(2, dim + 1, dim + 1))
    Z, x_q, y_q = rng.normal(size=(size, dim + 1)), rng.normal(size=dim), 0.6
    z_q, rotation = (
        np.append(x_q, y_q),
        np.linalg.qr(np.column_stack([np.ones(size), np.eye(size)[:, 1:]]))[0][:, 1:].T,
    )
    fewer = rotation @ Z
    linear = predict(heads(b, A), fewer[:, :-1], fewer[:, -1], x_q, y_q)

    def softmax(omega, extra=1):
        values, keys = (
            np.vstack([b, -extra * b.sum(0)]) / omega * size / (size - 1),
            [*A, 0 * A[0]],
        )
        weights = [np.exp(omega * Z @ key @ z_q) for key in keys]
        return y_q + sum(
            value @ Z.T @ weight / weight.sum()
            for value, weight in zip(values, weights, strict=True)
        )

    off = [abs(softmax(omega) - linear) for omega in (1e-3, 1e-4)]
    assert off[1] < 1e-2 and 9 < off[0] / off[1] < 11
    assert abs(softmax(1e-4, extra=0) - linear) > 10


@pytest.mark.claim("softmax-guess-floor", kind="certificate")
def test_softmax_guess_floor():
    """The moments of the function g of the centered tokens that no layer without a
    guess sees, at any weights; nor does a debiased step.
    """

    def centered(entry, other):
        """The mean over tokens of a product, less the product of the means."""
        product = average(lambda i: entry(i) * other(i))
        return product - average(entry) * average(other)

    def white():
        """The squared length of the numbers behind the centered tokens, less its mean,
        and that of the query's.
        """
        a = fresh()
        square = centered(lambda i: x(i, a), lambda i: x(i, a))
        square += centered(noise, noise) / sigma2
        return C * square - (C - 1) * (d + 1) - dot(query, query) + d

    label = lambda i: dot(lambda c: x(i, c), w) + noise(i)
    # doubles as layers without a guess do
    debiased = lambda: dot(query, lambda c: centered(lambda i: x(i, c), label))
    g = lambda: dot(w, query) * white()
    certify(mean(dot(w, query) * g()), -2 * W)
    certify(mean(g() * g()), W * (2 * (C - 1) * (d + 1) + 2 * d + 8))
    certify(mean(debiased() * g()), 0)
    uncentered = dot(query, lambda c: average(lambda i: x(i, c) * label(i)))
    assert not same(mean(uncentered * g()), 0)


def normal(*sizes):
    """Grids of independent standard normal numbers, and their weights."""
    rules = [np.polynomial.hermite_e.hermegauss(size) for size in sizes]
    grids = np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij")
    weights = np.meshgrid(*(each / each.sum() for _, each in rules), indexing="ij")
    return [grid.ravel() for grid in grids], np.prod(weights, axis=0).ravel()


def one_feature(omega, mu, tokens, x_q):
    """Softmax heads of one feature without a guess: tokens[i] holds the features, which
    are the labels of w = 1.
    """
    tokens = np.array(tokens)
    scores = np.multiply.outer(omega, tokens * x_q)
    return mu @ (special.softmax(scores, axis=1) * tokens).sum(1)


@pytest.mark.claim("softmax-guess-floor", kind="brute force")
def test_softmax_floor_for_two_examples():
    """One feature, two examples, w = 1 known, no noise: sixteen heads come close to the
    infimum over all functions that double as heads do, and it is above the floor 1/3.

    Such a function is D g(s) with s = D x_q and the difference D of the examples, of
    variance 1. So the best g is s / E(D^2 | s), where the mean is |s| K_1 / K_0.
    """
    s = np.exp(np.linspace(-14, 4, 2000))
    ratio = special.k0e(s) / special.k1e(s)
    infimum = 1 - 2 / np.pi * np.trapezoid(s * ratio * special.k0(s) * s, np.log(s))

    points = (np.arange(200) + 0.5) / 25  # risks are even in D and x_q: positive ones
    weights = np.exp(-(points**2) / 2)
    D, x_q = (grid.ravel() for grid in np.meshgrid(points, points))
    weights = np.outer(weights, weights).ravel() / weights.sum() ** 2

    def least_risk(tokens):
        """The lowest risk of eight pairs with these scales on these tokens."""
        omega, signs = np.geomspace(0.1, 16, 8), np.array([1, -1])
        pairs = [one_feature(each * signs, signs, tokens, x_q) for each in omega]
        scale = weights**0.5
        mu = np.linalg.lstsq(scale[:, None] * np.array(pairs).T, scale * x_q)[0]
        return weights @ (mu @ pairs - x_q) ** 2

    floor = 2 / (1 + 1 + 4)
    halves = np.array([1, -1])[:, None] / 2**0.5
    assert floor < infimum == pytest.approx(least_risk(halves * D), rel=1e-4)
    # tokens of one length do not double, and supply the constant
    assert least_risk(halves * np.ones_like(D)) < 0.01 * floor


@pytest.mark.claim("softmax-guess-floor", kind="brute force")
def test_softmax_floor_with_bayes():
    """One feature, one fresh example with noise: what Bayes' predictor loses by
    doubling as heads do not, against the formula of the proof.
    """
    mean_w, psi, sigma = 1.5, 0.6, 1.5
    (x_1, n, eps, x_q), weights = normal(60, 4, 4, 60)
    w = mean_w + psi**0.5 * eps
    y = x_1 * w + sigma * n
    left = 1 / (1 / psi + x_1**2 / sigma**2)  # the posterior variance
    bayes = (mean_w + left * x_1 * (y - x_1 * mean_w) / sigma**2) * x_q
    g = w * x_q * (x_1**2 + n**2 - 2 - x_q**2 + 1)

    m, R = mean_w**2 + psi, weights @ left
    learned = weights @ (psi - left) ** 2 / psi
    assert weights @ (bayes - w * x_q) ** 2 == pytest.approx(R)
    assert weights @ (bayes * g) == pytest.approx(-2 * (mean_w**2 + learned))
    assert mean_w**2 + learned > m - 2 * R > 0
    pair = y * np.tanh(0.3 * x_1 * x_q)  # on the fresh example and its negative
    assert weights @ (pair * g) == pytest.approx(0, abs=1e-6)
