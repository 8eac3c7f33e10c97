"""The steps of the proof of the paper's Theorem 2, and what is true instead."""

import numpy as np
import pytest
import sympy
from book_task import (
    GD_STEP,
    Gxy,
    Gyy,
    S,
    W,
    a,
    b,
    delta,
    dot,
    j,
    loop,
    paired,
    q,
    s,
    target,
    w,
)
from dense import moments, three_values
from symbolic import (
    C,
    all_zero,
    at_infinity,
    certify,
    d,
    eps,
    fresh,
    mean,
    query,
    same,
    trace,
    without_noise,
)
from sympy import Function, Matrix, Symbol

from lsalib.tasks import GaussianTask
from lsalib.theory import lifted_risk

wa, wb, wj = mean(w(a)), mean(w(b)), mean(w(j))


@pytest.mark.claim("eq18-decomposition", "eq19-gradients", kind="brute force")
def test_eqs_18_to_20(x64):
    """Risk and gradients, by a sum over all contexts, tasks and queries, are eqs. 18 to
    20 for a constant guess.

    For a guess that is linear in the query they are not; the library has both.
    """
    w_star, size = np.array([0.5, -1.0]), 2
    x, chance = three_values(3.0, 3.0)
    *context, e, asked = np.indices([9] * 4).reshape(4, -1)
    probability = np.prod(chance[[*context, e, asked]], axis=0)
    weight = w_star + x[e]
    tokens = np.stack([np.c_[x[t], np.sum(x[t] * weight, 1)] for t in context], 1)
    G = np.einsum("ntm,ntp->nmp", tokens, tokens) / size
    M = np.random.default_rng(0).normal(size=(3, 3, 3)) / 3
    # Only G's moments enter the formulas, by a sum over single tokens.
    known = moments(size, (x, chance), (w_star + x, chance))
    for guess, holds in ([0.0, 0.0], True), ([0.7, 0.2], False):
        y_q = 1.3 + x[asked] @ guess
        read = np.einsum("nj,nmp->njmp", np.c_[x[asked], y_q], G)
        error = y_q + np.tensordot(read, M, 3) - np.sum(weight * x[asked], 1)
        risk = probability @ error**2
        gradient = 2 * np.tensordot(probability * error, read, 1)
        square = probability @ y_q**2
        # Eq. 18, a term for each coordinate of the query and one for its guess; eqs. 19
        # and 20.
        image = np.einsum("mnpq,jpq->jmn", known.second, M)
        features = np.trace(known.prior) + np.vdot(M[:2], image[:2] - 2 * known.cross)
        last = square * (1 + np.vdot(M[2], 2 * known.mean + image[2]))
        assert (abs(features + last - risk) < 1e-10) == holds
        by_guess = square * (known.mean + image[2])
        formula = 2 * np.stack([*(image[:2] - known.cross), by_guess])
        assert (np.abs(gradient - formula).max() < 1e-10) == holds
        stated = lifted_risk(GaussianTask(w_star, size), guess, 1.3)
        np.testing.assert_allclose(stated.value(M), risk, rtol=1e-10)
        np.testing.assert_allclose(stated.gradient(M), gradient, atol=1e-10)


@pytest.mark.claim("eq23-independence", kind="certificate")
def test_eq23_independence():
    """In the limit entries of G keep a covariance: none for features, the identity and
    4|w⋆|² + 2d for labels.
    """
    k = Symbol("k")
    assert at_infinity(mean(S(a, b) * S(j, k)) - mean(S(a, b)) * mean(S(j, k))) == 0
    certify(
        at_infinity(mean(Gxy(a) * Gxy(b)) - mean(Gxy(a)) * mean(Gxy(b))), delta(a, b)
    )
    certify(at_infinity(mean(Gyy() * Gyy()) - mean(Gyy()) ** 2), 4 * W + 2 * d)


@pytest.mark.claim("thm2-no-stationary-point", kind="certificate")
def test_thm2_no_stationary_point():
    """Risk and gradient of the counterexample tend to zero as C grows; with one more
    head, for every guess.
    """
    # the head b = m e_{d+1}, A = diag(I, 0), without a guess
    step = lambda m=1: m * dot(query, Gxy) - target()
    m = Symbol("m")
    risk = without_noise(mean(step(m) * step(m)))
    certify(risk, (d + W) * (1 - 2 * m + m**2 / GD_STEP))
    entries = (
        dot(lambda c: S(a, c), query),
        dot(Gxy, query),
        query(j) * Gxy(a),
        query(j) * Gyy(),
    )
    gradient = [without_noise(mean(step() * entry)) for entry in entries]
    by_value = [wa * (d + 1) / C, (d + W) * (d + 1) / C]
    by_key = [(delta(a, j) * (W + d + 1) + wa * wj) / C, 2 * wj * (W + d + 2) / C]
    assert all_zero(map(sympy.Add, gradient, [-entry for entry in by_value + by_key]))
    assert all_zero(map(at_infinity, gradient))
    # by the paper's eq. 25 it is not zero
    certify(at_infinity(gradient[2]), 0)
    # In the limit G is a function of the task: two heads are exact for every task,
    # query and guess; one is not.
    weight, asked, y_q = (
        Matrix(sympy.symbols("w1:4")),
        Matrix(sympy.symbols("q1:4")),
        Symbol("y_q"),
    )
    root, one = sympy.eye(3).col_join(weight.T), sympy.eye(4)
    G, z = root * root.T, asked.col_join(Matrix([y_q]))
    label, guess = (
        (one[:, 3].T * G * sympy.diag(1, 1, 1, 0) * z)[0],
        -(one[0, :] * G * one[:, 0])[0] * y_q,
    )
    certify(y_q + label + guess, weight.dot(asked))
    assert not same(y_q + label, weight.dot(asked))


@pytest.mark.claim("a3-finite-context", kind="certificate")
def test_a3_finite_context():
    """E[⟨G, M⟩ G] is the limit over tasks plus the stated term of order 1/C, for every
    symmetric M and prior mean.
    """
    A, m, alpha = Function("A"), Function("m"), Symbol("alpha")
    weight = lambda c: w(c) + eps(c)
    # Omega = (I; w^T) (I; w^T)^T sees of M the matrix A + m w^T + w m^T + alpha w w^T.
    seen = lambda c, e: (
        A(c, e) + m(c) * weight(e) + weight(c) * m(e) + alpha * weight(c) * weight(e)
    )
    c, e = fresh(), fresh()
    read = lambda: paired(A, S) + 2 * dot(m, Gxy) + alpha * Gyy()
    blocks = [
        (S(a, b), delta(a, b) * mean(loop(seen)), mean(seen(a, b))),
        (Gxy(a), mean(loop(seen) * weight(a)), mean(seen(a, c) * weight(c))),
        (
            Gyy(),
            mean(loop(seen) * dot(weight, weight)),
            mean(weight(c) * seen(c, e) * weight(e)),
        ),
    ]
    for entry, limit, correction in blocks:
        certify(without_noise(mean(read() * entry)), limit + 2 * correction / C)


@pytest.mark.claim("a4-hessian", kind="certificate")
def test_a4_hessian():
    """The curvature of a term of the risk is a sum of squares with positive weights,
    4/C on traceless matrices.
    """
    A, v = Function("A"), Function("v")
    alpha, level = sympy.symbols("alpha level")
    # In residual labels: V has the blocks A + (level - alpha d)/d I with a traceless A,
    # v, and alpha.
    read = lambda: (
        paired(A, S) + (level - alpha * d) / d * loop(S) + 2 * dot(v, s) + alpha * q()
    )
    curvature = without_noise(2 * mean(read() * read())).subs(trace("A"), 0)
    features = 2 * level**2 * (1 + 2 / (C * d)) + 4 * trace("AA") / C
    labels = 8 * mean(dot(v, v)) / GD_STEP + 4 * alpha**2 * d * (C + d + 1) / C
    certify(curvature, features + labels)
