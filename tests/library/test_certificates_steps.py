"""Certificates for gradient steps: yq-LSA, the linear transformer block, other features, debiased steps.

As in test_certificates.py, each test is named by its claim, for symbolic d and C.
"""

from itertools import pairwise

import pytest
import sympy
from symbolic import GENERAL, C, Law, d, eps, fresh, mean, noise, query, sigma2, trace, x
from symbolic_task import (
    GD_RISK,
    GD_STEP,
    MISSED,
    NOISY_STEP,
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
    paired,
    q,
    s,
    same,
    target,
    w,
    without_noise,
    y,
)
from sympy import Function
from theory_reference import make_task

from lsalib import theory

eta, kurtosis = sympy.symbols("eta kurtosis")
wa, wj = mean(w(a)), mean(w(j))


def step_error(step=eta):
    """The error of one gradient step from the prior mean."""
    return step * dot(query, s) - dot(query, eps)


@pytest.mark.certificate(
    "exact-gd-risk",
    "The risk of one gradient step, for all covariances and label noise; its best step and minimum for "
    "identity covariances.",
)
def test_exact_gd_risk():
    """With label noise; the step's general risk for any covariances L and P, as ``theory.gd_risk`` states it."""
    risk = mean(step_error() * step_error())
    certify(risk, d * (1 - 2 * eta + eta**2 / NOISY_STEP), d * (1 - 2 * eta + eta**2 / GD_STEP))
    certify(without_noise(risk).subs(eta, GD_STEP), GD_RISK, d * d / (C + d))
    assert same(sympy.solve(risk.diff(eta), eta)[0], NOISY_STEP)
    squares = (1 + 1 / C) * trace("LLLP") + (trace("LP") + sigma2) * trace("LL") / C
    general = trace("LP") - 2 * eta * trace("LLP") + eta**2 * squares
    certify(mean(step_error() * step_error(), GENERAL), general, general + eta**2 * trace("LLLP") / C)


def gd_gradient(step):
    """Half the gradient at the weights of a gradient step from w, by both parts of b, of a_j, of a_{d+1}, and by v."""

    def valued(entry, last):
        return step * (last - dot(entry, w))

    error = lambda: dot(w, query) + dot(query, lambda c: valued(lambda e: S(c, e), Gxy(c))) - target()
    by_b = dot(lambda c: S(a, c), query), dot(Gxy, query)
    by_key = valued(lambda c: S(a, c), Gxy(a)), valued(Gxy, Gyy())
    directions = [*by_b, *(query(j) * part for part in by_key), *(dot(w, query) * part for part in by_key), query(j)]
    return [mean(error() * direction) for direction in directions]


def residual(step, kappa):
    """What the page says of it, halved."""
    by_key = [step * kappa * part for part in (delta(a, j), wj, wa, W)]
    return [0, d * kappa, *by_key, 0]


def differences(left, right):
    return [one - other for one, other in zip(left, right, strict=True)]


@pytest.mark.certificate(
    "thm4-stationary",
    "The gradient at the weights of one gradient step, with respect to b, a_j, a_{d+1} and v, for every "
    "step size and label noise.",
)
@pytest.mark.certificate(
    "exact-stationarity",
    "For identity covariances without noise, the gradient with respect to b, a_j, a_{d+1} and v is zero "
    "at the best gradient step.",
)
@pytest.mark.certificate(
    "thm4-residual-order",
    "At step size 1 the gradient is (d+1)/C times a constant, and zero in the guess.",
)
def test_the_gradient_at_a_gradient_step():
    """With label noise, whose best step is C / (C + d + 1 + sigma^2); without it at the best step, another, and 1."""
    gradient = gd_gradient(eta)
    assert all_zero(differences(gradient, residual(eta, eta / NOISY_STEP - 1)))
    assert not all_zero(differences(gradient, residual(eta, eta / GD_STEP - 1)))
    assert all_zero(entry.subs(eta, NOISY_STEP) for entry in gradient)
    at = lambda step: [without_noise(entry).subs(eta, step) for entry in gradient]
    assert all_zero(at(GD_STEP)) and not all_zero(at(C / (C + d)))
    assert all_zero(differences(at(1), residual(1, (d + 1) / C))) and at(1)[-1] == 0
    assert not all_zero(differences(at(1), residual(1, d / C)))


@pytest.mark.certificate(
    "conjecture-global-optimum",
    "The error of the best gradient step is orthogonal to all that a guess and any heads can add, with "
    "label noise too.",
)
def test_conjecture_global_optimum():
    """The step's error is orthogonal to all that guess and heads could add: Pythagoras, with label noise, too."""
    added = [lambda: query(j), lambda: query(j) * S(a, b), lambda: query(j) * s(a), lambda: query(j) * q()]
    assert all_zero(mean(step_error(NOISY_STEP) * part()) for part in added)
    assert not all_zero(mean(step_error(GD_STEP) * part()) for part in added)
    risk = mean(step_error(NOISY_STEP) * step_error(NOISY_STEP))
    certify(risk, d * (1 - NOISY_STEP), GD_RISK)


@pytest.mark.certificate(
    "lemma2-nonconvex",
    "The risk of the midpoint exceeds the risk of the two points by dC/(C+d+1).",
)
def test_lemma2_nonconvex():
    """Half-way between the step and the same with both signs turned is the guess alone: worse by d times the step."""
    above = mean(dot(query, eps) * dot(query, eps)) - without_noise(mean(step_error(GD_STEP) * step_error(GD_STEP)))
    certify(above, d * GD_STEP, 0)


def chain(letters):
    """The product of these matrices, from the free label a to b."""
    labels = [a, *(fresh() for _ in letters[1:]), b]
    entries = zip(letters, pairwise(labels), strict=True)
    return mean(sympy.Mul(*(Function(letter)(*pair) for letter, pair in entries)))


@pytest.mark.certificate(
    "preconditioned-optimum",
    "The normal equations of the preconditioner, for all covariances and label noise.",
)
def test_preconditioned_optimum():
    """E[(N s - eps) s^T] = 0 for the symmetric N whose inverse is (1 + 1/C) L + tau P^{-1} / C."""
    tau, N = trace("LP") + sigma2, Function("N")
    left = mean((dot(lambda c: N(a, c), s) - eps(a)) * s(b), GENERAL)
    # N times its inverse, times P L, less P L.
    formula = (1 + 1 / C) * chain("NLPL") + tau / C * chain("NL") - chain("PL")
    certify(left, formula, formula - chain("NLPL") / C)


# Along a direction in which L P has the eigenvalue p, with tau for tr(L P) + sigma^2.
p, tau = sympy.symbols("p tau", positive=True)
SHARE = C * p / ((C + 1) * p + tau)


@pytest.mark.certificate(
    "ltb-optimum",
    "The risk of one step with any preconditioner and prior covariance, and its minimum along each direction.",
)
@pytest.mark.certificate(
    "ltb-newton",
    "The share of a Newton step that the optimum takes, its limit, and its value for identity covariances.",
)
def test_the_best_step_along_each_direction():
    """Features are white without loss of generality: the risk of any step N, its least along one, and the share."""
    N, law = Function("N"), Law(prior="P")
    error = lambda: paired(N, lambda c, e: query(c) * s(e)) - dot(query, eps)
    squares = (1 + 1 / C) * trace("NNP") + (trace("P") + sigma2) * trace("NN") / C
    risk = squares - 2 * trace("NP") + trace("P")
    certify(mean(error() * error(), law), risk, risk + trace("NNP") / C)
    along = (1 + 1 / C) * eta**2 * p + tau * eta**2 / C - 2 * eta * p + p
    certify(sympy.solve(along.diff(eta), eta)[0], SHARE, C * p / (C * p + tau))
    least = along.subs(eta, SHARE)
    certify(least, p * (p + tau) / ((C + 1) * p + tau), p * tau / ((C + 1) * p + tau))
    certify(least.subs({p: 1, tau: d}) * d, GD_RISK, d)
    certify(at_infinity(SHARE), 1, GD_STEP)
    certify(SHARE.subs({p: 1, tau: d}), GD_STEP, C / (C + d))


@pytest.mark.certificate(
    "kurtosis-law",
    "For independent coordinates of any fourth moment: the gradient with respect to the lifted matrices "
    "is zero, and the step, the risk and the gap are the stated ones.",
)
def test_kurtosis_law():
    """The d heads with other constants: the gradient by the lift is zero, and the risk is the law's."""
    law, step, share = Law(kurtosis=kurtosis), C / (C + d + kurtosis - 2), C / (C * d + kurtosis - 1)
    symbols = sympy.symbols("step share")  # so that less is multiplied out
    constants = dict(zip(symbols, (step, share), strict=True))
    gaussian = {symbol: value.subs(kurtosis, 3) for symbol, value in constants.items()}
    gradient = list(lift_gradient(lambda: heads_error(*symbols), law))
    assert all_zero(entry.subs(constants) for entry in gradient)
    assert not all_zero(entry.subs(gaussian) for entry in gradient)
    risk = without_noise(mean(heads_error(*symbols) * heads_error(*symbols), law)).subs(constants)
    gap = (kurtosis - 1) * (MISSED + beta**2) / (C * d + kurtosis - 1)
    certify(risk, d * (1 - step) + gap, GD_RISK + gap)
    certify(gap.subs(kurtosis, 3), 2 * (MISSED + beta**2) / (C * d + 2), 0)
    assert gap.subs(kurtosis, 1) == 0


@pytest.mark.certificate(
    "softmax-one-example-less",
    "The risk of a step on centered features is that of a plain step on one fewer example, for all "
    "covariances, prior means and noise variances.",
)
def test_softmax_one_example_less():
    """The risk of a step from zero on centred features, for any covariances, prior mean and label noise."""

    def label():
        i = fresh()
        return y(i) / C

    def average(c):
        i = fresh()
        return x(i, c) / C

    plain = lambda: eta * C * dot(query, Gxy) - target()
    debiased = lambda: eta * C * (dot(query, Gxy) - dot(query, average) * label()) - target()
    on_all = mean(plain() * plain(), GENERAL)
    certify(mean(debiased() * debiased(), GENERAL), on_all.subs(C, C - 1), on_all)


@pytest.mark.certificate(
    "softmax-guess-floor",
    "The two moments in the proof at any weights; a linear head without a guess has the orthogonality of the bound.",
)
def test_softmax_guess_floor():
    """The moments of g at given weights w, and its product with what scales as layers without a guess do."""

    def label(i):
        return dot(lambda c: x(i, c), w) + noise(i)

    def white():
        """The squared length of the numbers behind the context, less its mean, and that of the query's."""
        i, k, c = fresh(), fresh(), fresh()
        return x(i, c) * x(i, c) + noise(k) * noise(k) / sigma2 - C * (d + 1) - dot(query, query) + d

    def linear():
        """One linear head, which takes a gradient step; twice the tokens and half the query double it."""
        i = fresh()
        return dot(query, lambda c: x(i, c)) * label(i) / C

    g = lambda: dot(w, query) * white()
    certify(mean(dot(w, query) * g()), -2 * W, -W)
    certify(mean(g() * g()), W * (2 * C * (d + 1) + 2 * d + 8), W * (2 * C * (d + 1) + 2 * d))
    certify(mean(linear() * g()), 0, 1)
    assert not same(mean(linear() * dot(w, query) * (white() + dot(query, query) - d)), 0)


@pytest.mark.parametrize(("dim", "size"), [(1, 4), (3, 2), (4, 1), (2, 9)])
def test_the_derived_risk_of_a_step_is_the_library_s(dim, size):
    task = make_task(dim, dim, size, noise_std=0.5)
    derived = mean(step_error() * step_error(), GENERAL)
    sizes = {d: dim, C: size, sigma2: 0.25, eta: 0.3}
    number = evaluated(derived, sizes, {"L": task.feature_cov, "P": task.prior_cov})
    assert number == pytest.approx(theory.gd_risk(task, 0.3), rel=1e-12)
    assert number != pytest.approx(theory.gd_risk(task, 0.31), rel=1e-4)
