"""Softmax heads: one example fewer, linear heads in the limit, and the floor without a
guess.
"""

import numpy as np
import pytest
from book_task import Gxy, W, average, dot, target, w, y
from dense import heads, predict
from symbolic import GENERAL, C, certify, d, mean, noise, query, same, sigma2, x
from sympy import Symbol

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
    on_all = mean(plain() * plain(), GENERAL)
    certify(mean(debiased() * debiased(), GENERAL), on_all.subs(C, C - 1), on_all)


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
    """The moments of the function g that no layer without a guess sees, at any weights;
    nor does a linear head.
    """

    def white():
        """The squared length of the numbers behind the context, less its mean, and that
        of the query's.
        """
        square = average(
            lambda i: (
                dot(lambda c: x(i, c), lambda c: x(i, c)) + noise(i) * noise(i) / sigma2
            )
        )
        return C * square - C * (d + 1) - dot(query, query) + d

    label = lambda i: dot(lambda c: x(i, c), w) + noise(i)
    # doubles as layers without a guess do
    linear = lambda: dot(query, lambda c: average(lambda i: x(i, c) * label(i)))
    g = lambda: dot(w, query) * white()
    certify(mean(dot(w, query) * g()), -2 * W, -W)
    certify(
        mean(g() * g()),
        W * (2 * C * (d + 1) + 2 * d + 8),
        W * (2 * C * (d + 1) + 2 * d),
    )
    certify(mean(linear() * g()), 0, 1)
    assert not same(
        mean(linear() * dot(w, query) * (white() + dot(query, query) - d)), 0
    )
