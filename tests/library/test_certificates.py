"""Certificates for a fixed guess: what its pages claim as a formula, derived for symbolic d and C.

Each test is named by its claim. It compares what follows from Gaussian moments with the page's formula and, as a
control, with a changed one. Its mark says what is derived for which claim; the ledger lists it.
"""

from functools import cache

import numpy as np
import pytest
import sympy
from symbolic import GENERAL, C, Law, d, eps, fresh, mean, query, sigma2, trace
from symbolic_task import (
    GD_RISK,
    GD_STEP,
    MISSED,
    UU,
    UW,
    Gxy,
    Gyy,
    S,
    W,
    a,
    all_zero,
    at_infinity,
    b,
    beta,
    certify,
    delta,
    dot,
    evaluated,
    heads_error,
    j,
    lift_gradient,
    loop,
    paired,
    q,
    s,
    same,
    target,
    w,
    without_noise,
    y_q,
)
from sympy import Function
from theory_reference import make_task

from lsalib import theory
from lsalib.tasks import GaussianTask

GAP = 2 * (MISSED + beta**2) / (C * d + 2)
wa, wb, wj = mean(w(a)), mean(w(b)), mean(w(j))
SIZES = [(1, 4), (2, 7), (3, 2), (4, 1)]


@cache
def least_risk():
    """The risk of the d heads."""
    return without_noise(mean(heads_error() * heads_error()))


@pytest.mark.certificate(
    "thm2-exact-gap",
    "At d explicit heads the gradient with respect to the lifted matrices is zero and the risk is the "
    "stated one, for every prior mean, guess and offset.",
)
def test_thm2_exact_gap():
    """In the lift the risk is convex: where its gradient is zero, the risk is the least of all numbers of heads."""
    assert all_zero(lift_gradient(heads_error))
    assert not all_zero(lift_gradient(lambda: heads_error(step=C / (C + d))))
    assert not all_zero(lift_gradient(lambda: heads_error(share=1 / d)))
    certify(least_risk() - GD_RISK, GAP, 2 * (MISSED + beta**2) / (C * d + 1))


@pytest.mark.certificate(
    "exact-multihead-risk",
    "Without label noise, d explicit heads have the stated risk, for every prior mean, guess and offset.",
)
@pytest.mark.certificate(
    "sharp-head-count",
    "Without label noise, d explicit heads have the minimum risk of all layers, for every prior mean, "
    "guess and offset.",
)
@pytest.mark.certificate(
    "gd-strict-lower-bound",
    "Without a guess, the minimum risk exceeds the risk of one gradient step by 2|w⋆|²/(Cd+2).",
)
@pytest.mark.certificate("fig3-linear-gap", "The slope of the minimum risk in |w⋆|² is 2/(Cd+2).")
@pytest.mark.certificate("fig4-guess-slope", "With prior mean zero, the slope of the minimum risk in |g|² is 2/(Cd+2).")
@pytest.mark.certificate("fig4-bias-slope", "The slope of the minimum risk in the squared offset is 2/(Cd+2).")
@pytest.mark.certificate(
    "lemma1-nonconvex",
    "The risk of the zero map exceeds the risk of the best heads by a sum of positive terms.",
)
def test_the_risk_of_d_heads():
    """The stated one, its slopes, what another share adds, and what half-way to the same with two signs turned adds."""
    certify(least_risk(), GD_RISK + GAP, GD_RISK + GAP.subs(C, C + 1))
    another = mean(heads_error(share=1 / d) * heads_error(share=1 / d))
    assert same(without_noise(another) - least_risk(), 2 * GAP / (C * d))
    slope, changed = 2 / (C * d + 2), 2 / (C * d + d)
    without_guess = least_risk().subs({UU: 0, UW: 0, beta: 0})
    certify(without_guess - GD_RISK, slope * W, 2 * W / (C * d))
    certify(without_guess.diff(W), slope, changed)
    certify(least_risk().subs({W: 0, UW: 0, beta: 0}).diff(UU), slope, changed)
    certify(least_risk().subs({W: 0, UW: 0, UU: 0}).coeff(beta, 2), slope, changed)
    zero_map = mean((y_q() - target()) * (y_q() - target()))
    above = d * GD_STEP + (MISSED + beta**2) * C * d / (C * d + 2)
    certify(zero_map - least_risk(), above, above - d * GD_STEP)


@pytest.mark.certificate("eq21-cross-moment", "All entries of E[w_i G] are the stated ones, with label noise too.")
def test_eq21_cross_moment():
    """With label noise, too, whose variance the last entry of E[G] has."""
    weight = w(j) + eps(j)
    certify(mean(weight * S(a, b)), wj * delta(a, b), wj)
    certify(mean(weight * Gxy(a)), wj * wa + delta(a, j), wj * wa)
    certify(mean(weight * Gyy()), wj * (W + d + sigma2) + 2 * wj, wj * (W + d + sigma2) + wj)


@pytest.mark.certificate(
    "eq23-independence",
    "In the limit, entries of G keep a covariance: 0 between features, the identity between the label’s "
    "products with features, and 4|w⋆|² + 2d for squared labels.",
)
def test_eq23_independence():
    """The limit's covariance is zero for features, not for labels: the control is the paper's limit."""
    k = sympy.Symbol("k")
    assert at_infinity(mean(S(a, b) * S(j, k)) - mean(S(a, b)) * mean(S(j, k))) == 0
    labels = at_infinity(mean(Gxy(a) * Gxy(b)) - mean(Gxy(a)) * mean(Gxy(b)))
    certify(labels, delta(a, b), 0)
    squares = at_infinity(mean(Gyy() * Gyy()) - mean(Gyy()) ** 2)
    certify(squares, 4 * W + 2 * d, 0)


def step_from_zero(m=1):
    """The error of the head b = m e_{d+1}, A = diag(I, 0), without a guess."""
    return m * dot(query, Gxy) - target()


@pytest.mark.certificate(
    "thm2-no-stationary-point",
    "The risk and the gradient of the counterexample, at every C; both tend to zero as C grows.",
)
def test_thm2_no_stationary_point():
    """Risk and gradient of the counterexample; the gradient's limit is zero, and by the paper's eq. 25 it is not."""
    m = sympy.Symbol("m")
    risk = without_noise(mean(step_from_zero(m) * step_from_zero(m)))
    certify(risk, (d + W) * (1 - 2 * m + m**2 / GD_STEP), (d + W) * (1 - 2 * m + m**2))
    certify(risk.subs(m, 1), (d + 1) * (d + W) / C, (d + 1) * d / C)
    entries = dot(lambda c: S(a, c), query), dot(Gxy, query), query(j) * Gxy(a), query(j) * Gyy()
    gradient = [without_noise(mean(step_from_zero() * entry)) for entry in entries]
    by_value = [wa * (d + 1) / C, (d + W) * (d + 1) / C]
    by_key = [(delta(a, j) * (W + d + 1) + wa * wj) / C, 2 * wj * (W + d + 2) / C]
    assert all_zero(map(sympy.Add, gradient, [-entry for entry in by_value + by_key]))
    assert all_zero(map(at_infinity, gradient))
    certify(at_infinity(gradient[2]), 0, -delta(a, j))


@pytest.mark.certificate(
    "a3-finite-context",
    "E[⟨G, M⟩ G] is the limit over tasks plus the stated term of order 1/C and nothing else, in all "
    "three blocks, for every symmetric M and prior mean.",
)
def test_a3_finite_context():
    """E[<G, M> G] in its three blocks, for any symmetric M of blocks A, m and alpha."""
    A, m, alpha = Function("A"), Function("m"), sympy.Symbol("alpha")
    weight = lambda c: w(c) + eps(c)
    # Omega = (I; w^T)^T (I; w^T) sees of M the matrix A + m w^T + w m^T + alpha w w^T.
    seen = lambda c, e: A(c, e) + m(c) * weight(e) + weight(c) * m(e) + alpha * weight(c) * weight(e)
    c, e = fresh(), fresh()
    read = lambda: paired(A, S) + 2 * dot(m, Gxy) + alpha * Gyy()
    blocks = [
        (S(a, b), delta(a, b) * mean(loop(seen)), mean(seen(a, b))),
        (Gxy(a), mean(loop(seen) * weight(a)), mean(seen(a, c) * weight(c))),
        (Gyy(), mean(loop(seen) * dot(weight, weight)), mean(weight(c) * seen(c, e) * weight(e))),
    ]
    for entry, limit, correction in blocks:
        certify(without_noise(mean(read() * entry)), limit + 2 * correction / C, limit + correction / C)


@pytest.mark.certificate(
    "a4-hessian",
    "The curvature of the risk is a sum of squares with positive weights; on traceless matrices of features it is 4/C.",
)
def test_a4_hessian():
    """The curvature is a sum of squares with positive weights; the least of them, on traceless A, is 4/C."""
    A, v = Function("A"), Function("v")
    alpha, level = sympy.symbols("alpha level")
    # In residual labels: V has the blocks A + (level - alpha d)/d I with a traceless A, v, and alpha.
    read = lambda: paired(A, S) + (level - alpha * d) / d * loop(S) + 2 * dot(v, s) + alpha * q()
    curvature = without_noise(2 * mean(read() * read())).subs(trace("A"), 0)
    features = 2 * level**2 * (1 + 2 / (C * d)) + 4 * trace("AA") / C
    labels = 8 * mean(dot(v, v)) / GD_STEP + 4 * alpha**2 * d * (C + d + 1) / C
    certify(curvature, features + labels, features - 2 * trace("AA") / C + labels)


@pytest.mark.certificate(
    "universality",
    "The normal equations of the imitated constant, for all covariances and label noise of any fourth "
    "cumulant, and the share of the error that remains.",
)
def test_universality():
    """Any covariances L and P, any label noise: least squares for the constant 1 leaves 1 / (1 + Cd/2 + sigma^4/K)."""
    extra = sympy.Symbol("kappa4")  # the fourth cumulant of label noise that is not Gaussian
    law = GENERAL._replace(noise_cumulant=extra)
    K = 2 * trace("LPLP") + 2 * ((trace("LP") + sigma2) ** 2 + trace("LPLP")) / C + extra / C
    share = 1 / (1 + C * d / 2 + sigma2**2 / K)
    e, f = sympy.symbols("e f")  # share and sigma2 / K, so that less is multiplied out
    left = lambda: 1 - e * (C / 2 * paired(Function("l"), S) + f * (q() - paired(Function("P"), S)))
    first, by_features, by_label = (mean(left() * entry, law) for entry in (1, S(a, b), q()))
    constants = {e: share, f: sigma2 / K}
    assert all_zero([by_features.subs(constants), by_label.subs(constants)])
    assert not same(by_label.subs({e: share, f: sigma2 / K.subs(extra, 0)}), 0)
    certify(first.subs(constants), share, 2 / (C * d + 2))
    certify(share.subs(sigma2, 0), 2 / (C * d + 2), 2 / (C * d))


@pytest.mark.certificate(
    "price-general",
    "The normal equations for independent coordinates of any fourth moment and label noise of any fourth "
    "cumulant; the bound on what Gaussian noise takes off the price; random signs take off all of it in "
    "the limit.",
)
def test_price_general():
    """Independent coordinates of any fourth moment, label noise of any fourth cumulant; and how much noise can do."""
    kurtosis, extra = sympy.symbols("kurtosis kappa4", positive=True)
    law = Law(kurtosis=kurtosis, noise_cumulant=extra)
    own = 2 * sigma2**2 + extra
    V = 2 * d * (C + d + kurtosis - 2) / C + 4 * sigma2 * d / C + own / C
    share = 1 / (1 + C * d / (kurtosis - 1) + sigma2**2 / V)
    e, f, m = sympy.symbols("e f m")
    left = lambda: 1 - e * (m * loop(S) + f * (q() - loop(S)))
    first, by_features, by_label = (mean(left() * entry, law) for entry in (1, S(a, b), q()))
    constants = {e: share, f: sigma2 / V, m: C / (kurtosis - 1)}
    assert all_zero([by_features.subs(constants), by_label.subs(constants)])
    assert not same(by_label.subs(constants | {f: sigma2 / V.subs(extra, 0)}), 0)
    certify(first.subs(constants), share, share.subs(kurtosis, 3))
    rank, square, spread = sympy.symbols("rank square spread", positive=True)
    V = 2 * (1 + 1 / C) * square + 2 * spread * (spread + 2 * sigma2) / C + own / C
    taken, bound = 1 - (1 + C * rank / 2) / (1 + C * rank / 2 + sigma2**2 / V), C / (C * (rank + 1) + 2)
    symbols, parts = (C, rank, square, spread, sigma2, extra), lambda f: sympy.fraction(sympy.cancel(f))
    positive = lambda f: all(c > 0 for part in parts(f) for c in sympy.Poly(part, *symbols).coeffs())
    assert positive(bound - taken) and positive(1 / (rank + 1) - bound)
    signs = taken.subs(extra, -2 * sigma2**2)
    assert not positive(bound - signs) and sympy.limit(signs, sigma2, sympy.oo) == 1
    certify(sympy.limit(taken.subs(extra, 0), sigma2, sympy.oo), bound, C / (C * (rank + 1) + 1))


@pytest.mark.parametrize(("dim", "size"), SIZES)
def test_the_derived_risk_is_the_library_s(dim, size):
    rng = np.random.default_rng(dim)
    prior_mean, guess, bias = *rng.normal(size=(2, dim)), 0.7
    derived = evaluated(least_risk(), {d: dim, C: size, beta: bias}, {"w": prior_mean, "g": guess})
    task = GaussianTask(prior_mean, size)
    assert derived == pytest.approx(theory.optimal_risk(task, guess, bias), rel=1e-12)
    assert derived != pytest.approx(theory.optimal_risk(task, guess, 0.0), rel=1e-3)


@pytest.mark.parametrize(("dim", "size"), SIZES)
def test_the_derived_second_moment_is_the_library_s(dim, size):
    """E[<G, M>^2] with random covariances and label noise."""
    task = make_task(dim, dim, size, noise_std=0.5)
    rng = np.random.default_rng(dim)
    M = rng.normal(size=(dim + 1, dim + 1))
    M += M.T
    read = lambda: paired(Function("A"), S) + 2 * dot(Function("m"), Gxy) + sympy.Symbol("alpha") * Gyy()
    arrays = {"A": M[:-1, :-1], "m": M[:-1, -1], "w": task.prior_mean, "L": task.feature_cov, "P": task.prior_cov}
    sizes = {d: dim, C: size, sigma2: 0.25, sympy.Symbol("alpha"): M[-1, -1]}
    derived = evaluated(mean(read() * read(), GENERAL), sizes, arrays)
    second = np.asarray(theory.gram_moments(task)[1])
    assert derived == pytest.approx(np.einsum("mn,mnpq,pq", M, second, M), rel=1e-10)
    assert derived != pytest.approx(np.einsum("mn,mn", M, np.asarray(theory.gram_moments(task)[0])) ** 2, rel=1e-3)
