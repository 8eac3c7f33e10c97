"""Certificates for few heads: the library's least squares, the map of d heads, and where a single head gets stuck.

A value vector ``(p; tau)``, in features and residual label, reads ``h = S p + tau s`` and ``k = p.s + tau q``.
"""

from functools import cache
from types import SimpleNamespace

import pytest
import sympy
from symbolic import C, d, eps, fresh, mean, sigma2, trace
from symbolic_task import (
    GD_STEP,
    NOISY_STEP,
    S,
    a,
    all_zero,
    b,
    certify,
    delta,
    dot,
    j,
    loop,
    paired,
    q,
    s,
    without_noise,
)
from sympy import Function, Matrix, Symbol

from lsalib.theory import few_heads

tau, m, v, M = Symbol("tau"), Symbol("m"), Function("v"), Function("M")
# v is a unit vector, M a projector on m directions orthogonal to it.
UNIT = {mean(dot(v, v)): 1, trace("M"): m, trace("MM"): m, Symbol("(v|M|v)"): 0, Symbol("(v|MM|v)"): 0}


def read_features():
    """T, the squared lengths along the m features that other heads value."""
    return paired(M, S)


def read_first():
    """What the mixture of v and the residual label reads along v, with tau the share of the label."""
    return paired(lambda c, e: v(c) * v(e), S) + tau * dot(v, s)


def read_label():
    return dot(v, s) + tau * q()


@pytest.mark.certificate(
    "few-heads-optimum",
    "The library’s least squares for fewer heads than d solve the normal equations, for every number of "
    "heads and Gaussian label noise of any strength.",
)
def test_few_heads_optimum():
    """``few_heads`` solves the normal equations of its three unknowns, along v for eps, and for the constant."""
    read = read_features, read_first, read_label
    second = Matrix(3, 3, lambda row, column: mean(read[row]() * read[column]()).subs(UNIT))
    average = Matrix([mean(entry()).subs(UNIT) for entry in read])
    target = Matrix([mean(entry() * dot(v, eps)).subs(UNIT) for entry in read])
    unscaled = SimpleNamespace(sqrt=lambda _: 1, stack=list)  # the value vector's length changes nothing
    given = d, m + 1, C, sigma2, 0, 0
    _, _, fit, constant, steps = few_heads._least_squares(unscaled, tau, *given)
    assert all_zero(second * Matrix(constant) - average) and all_zero(second * Matrix(fit) - target)
    assert not all_zero(second.subs(m, m + 1) * Matrix(constant) - average)
    certify(steps[1], tau / (tau**2 / NOISY_STEP + 1 / C), tau / (tau**2 / NOISY_STEP + 2 / C))


# One head: by the size of the value vector, tau = 1; by rotations only X, the squared length of p, is left.
p, X = Function("p"), Symbol("x", positive=True)
ACROSS = 1 / NOISY_STEP + X / C
VARIANCE = 2 * d + 2 * (d * (d + 2) + 2 * d * sigma2 + sigma2**2) / C


def read_vector(c):
    e = fresh()
    return S(c, e) * p(e) + s(c)


def read_number():
    return dot(p, s) + q()


def covariance(one, other):
    return mean(one() * other()) - mean(one()) * mean(other())


def least_of_one_head():
    """Least squares for eps by a constant, h and k: across p one unknown, along p two, with covariances as checked."""
    along = ACROSS + X / C, sympy.sqrt(X) * (1 / NOISY_STEP + 2 / C), X / NOISY_STEP + VARIANCE
    (first, mixed, second), x = along, X
    explained = (second - 2 * sympy.sqrt(x) * mixed + x * first) / (first * second - mixed**2)
    return d - (d - 1) / ACROSS - explained


@cache
def slope_signs():
    """The coefficients of the numerator of its derivative, a polynomial in x, over a square; the highest first."""
    numerator, denominator = sympy.fraction(sympy.cancel(least_of_one_head().diff(X)))
    assert all(power % 2 == 0 for base, power in sympy.factor_list(denominator)[1] if base.has(X))
    return sympy.Poly(numerator, X).all_coeffs()


@pytest.mark.certificate(
    "one-head-landscape",
    "The moments of what one head with a trained guess reads, for a given value vector.",
)
def test_the_moments_of_what_one_head_reads():
    length, direction = mean(dot(p, p)), (mean(p(a)), mean(p(b)))
    derived = covariance(lambda: read_vector(a), lambda: read_vector(b))
    certify(derived.subs(length, X), delta(a, b) * ACROSS + direction[0] * direction[1] / C, delta(a, b) * ACROSS)
    mixed = covariance(lambda: read_vector(a), read_number)
    certify(mixed, direction[0] * (1 / NOISY_STEP + 2 / C), direction[0] / NOISY_STEP)
    certify(covariance(read_number, read_number).subs(length, X), X / NOISY_STEP + VARIANCE, VARIANCE)
    certify(mean(eps(j) * read_vector(a)), delta(a, j), 0)
    certify(mean(eps(j) * read_number()), mean(p(j)), 0)


def signs(coefficients, sizes):
    """Of each coefficient, whether all of its terms are positive, or all negative; zero where they are mixed."""
    terms = [sympy.expand(each.subs(sizes)).as_coefficients_dict().values() for each in coefficients]
    return [all(term > 0 for term in each) - all(term < 0 for term in each) for each in terms]


@pytest.mark.certificate(
    "one-head-landscape",
    "The signs of the derivative’s coefficients, for all d ≥ 3, all C and Gaussian label noise of any strength.",
)
def test_one_head_landscape():
    """The least risk grows with x, for all d = 3 + k and C = 1 + m and with any label noise."""
    k, more = sympy.symbols("k more", positive=True)
    assert signs(slope_signs(), {d: 3 + k, C: 1 + more}) == [1] * 5
    # The control: with two features a coefficient is negative.
    assert signs(slope_signs(), {d: 2, C: 3 + more, sigma2: 0}) == [1, -1, 1, 1, 1]


@pytest.mark.certificate(
    "one-head-landscape",
    "Two features without noise: the derivative has no root from three tokens on.",
)
def test_one_head_and_two_features_can_be_stuck_with_one_or_two_tokens_only():
    """Without noise: from three tokens on the first three coefficients are a quadratic without a root, times x^2."""
    more = sympy.Symbol("more", positive=True)
    first, second, third, *_ = (each.subs({d: 2, C: 3 + more, sigma2: 0}) for each in slope_signs())
    assert signs([4 * first * third - second**2], {}) == [1]
    for tokens, noise, roots in ((1, 0, 1), (2, 0, 2), (3, 0, 0), (3, 20, 1)):
        quartic = sympy.Poly([each.subs({d: 2, C: tokens, sigma2: noise}) for each in slope_signs()], X)
        assert quartic.count_roots(0, None) == roots


@pytest.mark.certificate(
    "one-head-landscape",
    "One feature: the risk rises and then falls, between two optima, with any label noise.",
)
def test_one_head_and_one_feature_cannot_be_stuck():
    """The least risk first grows, then falls to its value at zero: both ends are the optimum, with any label noise."""
    more = sympy.Symbol("more", positive=True)
    assert signs(slope_signs(), {d: 1, C: 1 + more}) == [-1, -1, -1, 1, 1]
    certify(sympy.limit(least_of_one_head().subs(d, 1), X, sympy.oo), 1 - NOISY_STEP.subs(d, 1), 1)


def test_the_least_risk_of_one_head_is_what_is_known_at_its_ends():
    """One gradient step at x = 0; the saddle where value and key have changed their roles in the limit."""
    risk = least_of_one_head()
    certify(risk.subs(X, 0), d * (1 - NOISY_STEP), d)
    certify(sympy.limit(risk, X, sympy.oo), d - NOISY_STEP, d)


# With d heads: the line left out is that of (p, tau), and X the squared length of p; no label noise.
SHARE, U, T = C / (C * d + 2), Symbol("U", positive=True), Symbol("T", positive=True)


def price(share=SHARE):
    """What answers to a form's value at (p, tau): in the norm of G, the form that has this value as its product."""
    tall = C / 2 * (paired(lambda c, e: p(c) * p(e), S) - share * X * loop(S))
    return GD_STEP * tau * dot(p, s) + tall + GD_STEP / (2 * d) * (tau**2 - X) * (q() - loop(S))


@pytest.mark.certificate(
    "training-wants-d-plus-one",
    "The excess risk of d heads as a function of the line that they leave out.",
)
def test_the_price_of_a_line_left_out():
    """Its products with the entries of G are the entries of z z^T, so its squared norm is what the map divides by."""
    product = lambda entry, *share: without_noise(mean(price(*share) * entry())).subs(mean(dot(p, p)), X)
    corner = lambda *share: product(lambda: S(a, b), *share)
    certify(corner(), mean(p(a) * p(b)), corner(1 / d))
    certify(product(lambda: s(a)), tau * mean(p(a)), mean(p(a)))
    certify(product(q), tau**2, X)
    width = GD_STEP * tau**2 * X + C / 2 * (1 - SHARE) * X**2 + GD_STEP / (2 * d) * (tau**2 - X) ** 2
    certify(product(price), width, width + X)


def signs_in_T(expression):
    """Of the numerator's coefficients, the highest first, over a positive denominator."""
    k, more = sympy.symbols("k more", positive=True)
    numerator, denominator = sympy.fraction(sympy.cancel(expression.subs({d: 2 + k, C: 1 + more})))
    assert signs([denominator], {}) == [1]
    return signs(sympy.Poly(numerator, T).all_coeffs(), {})


@pytest.mark.certificate(
    "training-wants-d-plus-one",
    "The signs of the derivative along that line, from which traps and their absence follow.",
)
def test_training_wants_d_plus_one():
    """On the half circle: where the derivative can vanish without an offset, and that D grows less than T^4 does."""
    D = GD_STEP * T**2 + C / 2 * (1 - SHARE) + GD_STEP / (2 * d) * (T**2 - 1) ** 2
    excess = (SHARE * U - GD_STEP * T) ** 2 / D
    quartic = C / 2 * (1 - SHARE) + GD_STEP / (2 * d) * (1 - T**4) + SHARE * U * ((1 - 1 / d) * T + T**3 / d)
    slope = 2 * GD_STEP * (GD_STEP * T - SHARE * U) / D**2
    certify(excess.diff(T), slope * quartic, slope * D)
    # One change of sign: one positive root. With one feature it is one in the other direction, too.
    assert signs_in_T(quartic) == [-1, 1, 0, 1, 1]
    one_feature = quartic.subs(d, 1)
    assert signs_in_T(one_feature) == [-1, 1, 0, 0, 1] and signs_in_T(one_feature.subs(U, -U)) == [-1, -1, 0, 0, 1]
    assert signs_in_T(4 * D - T * D.diff(T)) == [1, 0, 1]
    # The control: not less than T^3 does.
    assert -1 in signs_in_T(3 * D - T * D.diff(T))


@pytest.mark.certificate(
    "few-heads-optimum",
    "The constant that the mixture gives while it takes its gradient step has one sign, for every number of heads up "
    "to d and Gaussian label noise of any strength.",
)
def test_the_mixture_is_best_towards_the_error_of_the_guess():
    """Delta m Sigma^-1 c of the proof, from the moments; as d - H = k and the bracket show, it is positive."""
    read = read_first, lambda: read_label() - tau * read_features()
    means = Matrix([mean(entry()).subs(UNIT) for entry in read])
    second = Matrix(2, 2, lambda row, column: mean(read[row]() * read[column]()).subs(UNIT))
    cross = Matrix([mean(entry() * dot(v, eps)).subs(UNIT) for entry in read])
    covariances, L = second - means * means.T, d + sigma2
    constant = (means.T * covariances.adjugate() * cross)[0]
    bracket = 2 * d + 2 * (L**2 - L + 2 * d) / C
    certify(constant, tau * (tau**2 * bracket + 2 / C * (L - m - 1)), tau * (tau**2 * bracket + 2 / C * (L - m)))
    # The squared lengths T that other heads read are uncorrelated with both, and with eps.
    for entry, average in zip(read, means, strict=True):
        certify(mean(entry() * read_features()).subs(UNIT), m * average, 0)
    # L >= 1 + k for all d = 1 + k: the bracket is a sum of positive terms.
    k = Symbol("k", positive=True)
    assert signs([sympy.expand(bracket)], {d: 1 + k}) == [1] and signs([sympy.expand(bracket)], {}) == [0]
