"""Certificates beyond one layer with a fixed guess: a guess that is trained jointly, and layers one after the other.

For the trained guess the least risk of H heads is a function of one number: X, the squared length of what the mixed
value vector reads of the features, over that of the residual label. As in test_certificates.py, a test is named by
its claim.
"""

from functools import cache

import numpy as np
import pytest
import sympy
from symbolic import C, d, eps, fresh, mean, sigma2
from symbolic_task import GD_STEP, NOISY_STEP, S, all_zero, certify, dot, loop, paired, same
from sympy import Matrix, Symbol, binomial, prod
from sympy.polys.matrices import DomainMatrix
from test_certificates_few_heads import UNIT, least_of_one_head, m, read_features, read_first, read_label, signs, tau, v

from lsalib import tasks, theory

X, k, more = sympy.symbols("x k more", positive=True)
STEP = 1 / NOISY_STEP


def explained(others=m):
    """Numerator and denominator of what is explained along the mixture's direction, as the page states it."""
    V = 2 * d + 2 * ((d + sigma2) ** 2 + 2 * d - others) / C
    return V - 4 * X / C + 2 * X**2 / C, (STEP + 2 * X / C) * (X * STEP + V) - X * (STEP + 2 / C) ** 2


def least(others=m):
    """What the page states of H = others + 1 heads."""
    along, width = explained(others)
    return d - others * NOISY_STEP - (d - others - 1) / (STEP + X / C) - along / width


@cache
def slope():
    """The coefficients of the numerator of its derivative, a polynomial in x, over a square; the highest first."""
    (along, width), across = explained(), STEP + X / C
    numerator = (d - m - 1) / C * width**2 - (along.diff(X) * width - along * width.diff(X)) * across**2
    return sympy.Poly(sympy.expand(C**6 * numerator), X).all_coeffs()


@pytest.mark.certificate(
    "trained-guess-landscape",
    "What H heads with a trained guess can explain, as a function of one number, for every number of heads.",
)
def test_what_the_heads_read_along_the_mixture_explains_so_much():
    """By Gaussian moments, with m heads that value features across it: a constant is free, so covariances count."""
    read = read_features, read_first, read_label
    second = Matrix(3, 3, lambda row, column: mean(read[row]() * read[column]()).subs(UNIT))
    average = Matrix([mean(entry()).subs(UNIT) for entry in read])
    target = Matrix([mean(entry() * dot(v, eps)).subs(UNIT) for entry in read])
    spread = second - average * average.T
    found = (target.T * spread.adjugate() * target)[0] / spread.det()
    stated, other = (along / width for along, width in (explained(), explained(m + 1)))
    certify(found, *(each.subs(X, 1 / tau**2) for each in (stated, other)))
    certify(least(0), least_of_one_head(), least_of_one_head() + 1)


@pytest.mark.certificate(
    "trained-guess-landscape",
    "The signs of the derivative’s coefficients, for all d, C, H and Gaussian label noise.",
)
def test_trained_guess_landscape():
    """From two features more than heads on it grows, with any noise; with as many it rises, then falls to its start."""
    heads = {m: Symbol("n", nonnegative=True), C: 1 + more}
    assert signs([each.subs(d, m + 3 + k) for each in slope()], heads) == [1] * 5
    assert signs([each.subs(d, m + 1) for each in slope()], heads) == [-1, -1, -1, 1, 1]
    certify(least().subs(X, 0), d * (1 - NOISY_STEP), d)
    # With one feature more than heads it falls in the end where this is negative.
    leading = (C + 1 + sigma2) ** 2 - (d + sigma2) ** 2 - sigma2**2 - 2
    certify(slope()[0].subs(m, d - 2), 4 * C * leading, 4 * C * (leading + 1))


@pytest.mark.certificate(
    "trained-guess-landscape",
    "One head fewer than features, without noise: for C ≥ d the derivative has no root, except for d = C = 2.",
)
def test_one_head_less_than_features_without_noise():
    """From as many tokens as features on the first three coefficients are a quadratic without a root, times x^2."""
    coefficients = [sympy.expand(each.subs({m: d - 2, sigma2: 0})) for each in slope()]
    first, second, third, *_ = coefficients
    for sizes in ({d: 3 + k, C: 3 + k + more}, {d: 2, C: 3 + more}):
        assert signs(coefficients, sizes) == [1, -1, 1, 1, 1]
        assert signs([4 * first * third - second**2], sizes) == [1]
    for features, tokens, roots in ((3, 2, 1), (3, 3, 0), (2, 1, 1), (2, 2, 2), (10, 9, 1), (10, 10, 0)):
        quartic = sympy.Poly([each.subs({d: features, C: tokens}) for each in coefficients], X)
        assert quartic.count_roots(0, None) == roots


def test_the_height_of_the_trap():
    """Heads that value features alone, in the limit of large x: one step's share for each feature left out."""
    share = sympy.cancel(explained()[0].coeff(X, 2) / sympy.expand(explained()[1]).coeff(X, 2))
    certify(share, NOISY_STEP, STEP)
    certify(d - (d - 2) * NOISY_STEP - share - least().subs(X, 0), NOISY_STEP, 0)


K = C * d / 2  # t K has the density of Gamma(K)
D = C**2 + (d + 3) * C + (d - 1) * (d + 4)
BEST = 2 * GD_STEP, 2 * GD_STEP * C * d / D, -(C**2) / D  # of S, t S and S^2
LEAST = d * ((d**2 + 3 * d + 4) * C + (d - 1) * (d + 1) * (d + 4)) / ((C + d + 1) * D)


def power(k: int):
    """tr S^k"""
    if not k:
        return d
    at = [fresh() for _ in range(k)]
    return prod(S(at[i], at[(i + 1) % k]) for i in range(k))


def rise(j: int, k: int = 0):
    """E t^j h(S) / E h(S) for forms h of degree k, as S / t is independent of t."""
    return prod([1 + i / K for i in range(k, j + k)])


@cache
def moment(j: int, k: int):
    """E t^j tr S^k"""
    return sympy.factor(mean(power(k)) * rise(j, k))


def mean_of(polynomial, t, s):
    """E tr p(t, S)"""
    terms = sympy.Poly(polynomial, t, s).terms()
    return sympy.Add(*(factor * moment(j, k) for (j, k), factor in terms))


def two_layers(c, f, add, t, s):
    """The prediction's coefficients of eps and u, by the recursion of the labels; all of it commutes."""
    of_eps, q_eps, of_u, q_u = 1, 0, 0, -1
    for read, own, more in zip(c, f, add, strict=True):
        q_eps, of_eps = (1 + own * t) * q_eps + read * s * of_eps, (1 + own * t + read * s) * of_eps
        q_u, of_u = (1 + own * t) * q_u + read * s * of_u + more, (1 + own * t + read * s) * of_u + more
    return sympy.expand(q_eps), sympy.expand(q_u)


@pytest.mark.certificate(
    "depth-gap",
    "The best descent and stand-in of two layers: their normal equations and minimum values.",
)
def test_depth_gap():
    """Descent and stand-in of two layers: normal equations, least values, and coefficients that layers can have."""
    t, s, *of = sympy.symbols("t s a m b")
    best = dict(zip(of, BEST, strict=True))
    error = 1 - of[0] * s - of[1] * t * s - of[2] * s**2
    left = [mean_of(error * part, t, s) for part in (s, t * s, s**2)]
    assert all_zero(each.subs(best) for each in left)
    assert not all_zero(each.subs(best | {of[1]: 0}) for each in left)
    certify(mean_of(error, t, s).subs(best), LEAST, LEAST.subs(C, C + 1))
    p = 1 - of[0] * t + of[1] * t**2
    nearest = {of[0]: 2 * K / (K + 1), of[1]: K**2 / ((K + 1) * (K + 2))}
    assert all_zero(mean_of(p * part, t, s).subs(nearest) for part in (t, t**2))
    certify(mean_of(p, t, s).subs(nearest) / d, 8 / ((C * d + 2) * (C * d + 4)), 4 / (C * d + 2) ** 2)


@pytest.mark.certificate("depth-gap", "Two layers can have the coefficients of the best descent and stand-in.")
def test_two_layers_have_these_coefficients():
    """Whatever numbers c and f are; where c1 < 0 < c2 there are f1 and f2 with every positive product."""
    t, s, c1, c2, f1, f2, linear, m = sympy.symbols("t s c1 c2 f1 f2 linear m")
    of_eps, of_u = two_layers((c1, c2), (f1, f2), (0, (f1 + f2 + linear) * t), t, s)
    assert same(of_eps, (c1 + c2) * s + (c1 * f2 + c2 * f1) * t * s + c1 * c2 * s**2)
    certify(of_u, -(1 - linear * t + f1 * f2 * t**2), -(1 - linear * t + t**2))
    assert sympy.Poly(f2 * (m - c1 * f2) / c2, f2).all_coeffs() == [-c1 / c2, m / c2, 0]


@pytest.mark.parametrize("dim, length", [(1, 1), (2, 1), (3, 6), (10, 10)])
def test_the_library_has_the_certified_numbers(dim, length):
    task, at = tasks.GaussianTask([2.0] * dim, length), {d: dim, C: length}
    law = [LEAST + 4 * d * 8 / ((C * d + 2) * (C * d + 4)), 8 / ((C * d + 2) * (C * d + 4))]
    found = [theory.depth_risk(task, 2), theory.depth_price(task, 2)]
    np.testing.assert_allclose(found, [float(value.subs(at)) for value in law], rtol=1e-14)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.certificate("depth-gap", "The nearest polynomial to a constant and its mean square, up to degree four.")
def test_the_nearest_polynomial_to_a_constant(degree):
    """Laguerre's, for every C d: orthogonal to all powers but the constant; and its mean square."""
    average = lambda j: prod([loop(S) / d for _ in range(j)])
    assert all(same(mean(average(j) * power(k)), mean(power(k)) * rise(j, k)) for j, k in ((2, 0), (4, 0), (2, 2)))
    top = lambda n: sympy.expand_func(binomial(n + K, n))
    bends = [
        (-K) ** j / sympy.factorial(j) * prod([K + i for i in range(j + 1, degree + 1)]) for j in range(degree + 1)
    ]
    bends = [bend / sympy.factorial(degree - j) / top(degree) for j, bend in enumerate(bends)]
    against = lambda k: sympy.Add(*(bend * rise(j + k, 0) for j, bend in enumerate(bends)))
    assert same(bends[0], 1) and all_zero(against(k) for k in range(1, degree + 1))
    certify(against(0), 1 / top(degree), 1 / top(degree + 1))


@pytest.mark.certificate(
    "depth-products",
    "What one product of labels adds to the stand-in of the best two affine layers, for all sizes of the first layer.",
)
def test_depth_products():
    """E p q: only the cubic part of q counts, and for c, f of one sign it is that of a square."""
    t, s, c, f = sympy.symbols("t s c f")
    missed = 1 - 2 * K * t / (K + 1) + K**2 * t**2 / ((K + 1) * (K + 2))
    found = mean_of(missed * s * (1 + f * t + c * s) ** 2, t, s)
    cubic = mean_of(s * (f * t + c * s) ** 2, t, s) / rise(3)
    certify(found, 2 / K**2 * cubic, 2 / K * cubic)
    assert signs(sympy.Poly(cubic, c, f).coeffs(), {}) == [1, 1, 1]


@pytest.mark.certificate("depth-products", "A product of labels lowers the risk with the right guess, too.")
def test_a_product_helps_a_right_guess():
    """The derivative is quadratic in a free number of the first layer, and its leading coefficient has one sign."""
    t, s = sympy.symbols("t s")
    a, m, b = BEST
    error = -s + a * s**2 + m * t * s**2 + b * s**3  # (H_2 - 1) S
    leading = d * mean_of(t**3 * error, t, s) + 2 * mean_of(t**2 * s * error, t, s)
    stated = -8 * (C + 2) * (d + 2) * (2 * C * d + C + d + 17) / (C**3 * d * (C + d + 1))
    certify(leading, stated, stated * C)


@pytest.mark.certificate(
    "depth-products",
    "The share of the price of two layers that one product saves for large errors; it is positive.",
)
def test_the_stand_in_with_one_product():
    """Normal equations of t, t^2, t^3 z and t^4 z; z is independent of t, has mean 1 and the variance ``spread``."""
    nu, spread = sympy.symbols("nu spread", positive=True)
    along = lambda: paired(lambda a, b: v(a) * v(b), S)
    certify(mean(along() * along()).subs(UNIT) / rise(2), 1 + (d - 1) / (K + 1), 1 + d / (K + 1))
    power = lambda n: prod([1 + i / nu for i in range(n)])
    degrees = Matrix([1, 2, 3, 4])
    varies = lambda i, j: 1 + (spread if min(i, j) > 1 else 0)
    normal = Matrix(4, 4, lambda i, j: power(degrees[i] + degrees[j]) * varies(i, j))
    answer = degrees.applyfunc(power)
    bordered = normal.row_join(answer).col_join(answer.T.row_join(Matrix([[1]])))
    exact = lambda matrix: DomainMatrix.from_Matrix(matrix).to_field()
    least, both = (each.domain.to_sympy(each.det()) for each in map(exact, (bordered, normal)))
    above = 2 * nu * ((nu + 4) * (nu + 5) * (4 * nu**2 + 13 * nu + 15) * spread + 6 * (nu + 7))
    below = (nu + 4) * (nu + 5) ** 2 * (nu + 6) * spread**2 + 4 * (nu + 5) * (2 * nu**2 + 14 * nu + 27) * spread + 12
    share = above / (nu + 3) / (nu + 4) / below
    certify(1 - least / both * (nu + 1) * (nu + 2) / 2, share, share * nu)
    # For one feature it is the polynomial of degree four; for long contexts, 8 / (d + 7) of the price is saved.
    certify((1 - share.subs(spread, 0)) * 2 / (nu + 1) / (nu + 2), 24 / prod([nu + i for i in (1, 2, 3, 4)]), 24)
    certify(sympy.limit(share.subs(spread, (d - 1) / (nu + 1)), nu, sympy.oo), 8 / (d + 7), 8 / (d + 8))
    assert signs([sympy.expand(above)], {}) == [1]


@pytest.mark.claim("depth-floor")
def test_depth_floor():
    """One layer has degree 1 in the Gram matrix and two have degree 4, for one feature and random heads."""
    x, xy, y = entries = sympy.symbols("x xy y")
    G = Matrix([[x, xy], [xy, y]])
    rng, seen, degrees = np.random.default_rng(0), sympy.eye(2), []
    for _ in range(2):
        P, Q = (Matrix(rng.integers(1, 5, (2, 2))) for _ in range(2))
        seen = (seen + P * seen * G * seen.T * Q * seen).expand()
        degrees.append(max(sympy.Poly(entry, *entries).total_degree() for entry in seen))
        assert seen.subs(dict.fromkeys(entries, 0)) == sympy.eye(2)
    assert degrees == [1, 4] != [1, 2]


@pytest.mark.certificate(
    "depth-floor-attained", "When two layers that are linear in the labels have these coefficients."
)
def test_depth_floor_attained():
    """A critical point r of Q = (1 - p) / S is enough: Q - Q(r) has the factor (1 - S/r)^2. It exists up to nu = 5."""
    s, r, e1, e3, e4, nu = sympy.symbols("s r e1 e3 e4 nu", positive=True)
    for factor in (3, 4):
        Q = e1 - (2 * e3 * r - factor * e4 * r**2) * s + e3 * s**2 - e4 * s**3
        assert (sympy.rem(Q - Q.subs(s, r), (1 - s / r) ** 2, s) == 0) == (factor == 3)
    _, two, three, four = [binomial(4, k) * nu**k / prod([nu + i for i in range(1, k + 1)]) for k in range(1, 5)]
    sign = lambda factor: 16 * (nu + 4) - 6 * factor * (nu + 3)
    scale = nu**6 / ((nu + 1) * (nu + 2) * (nu + 3)) ** 2 / (nu + 4)
    certify(three**2 - 3 * two * four, scale * sign(3), scale * sign(4))
    assert sympy.solve(sign(3), nu) == [5] and sign(3).subs(nu, 4) > 0 > sign(3).subs(nu, 6)


@pytest.mark.certificate("depth-floor-attained", "What two layers with products predict, as a large number grows.")
def test_two_layers_with_products():
    """Token by token; the coefficients are those of 1 - p where r is a root of Q - 2 e_4 s^2 / e_1."""
    s, w, c, b, beta, eta, f, r = sympy.symbols("s w c b beta eta f r")
    features, labels = 1 + eta * s * w / c, w + c * s + f * s * w
    xx, xy, yy = s * features**2, s * features * labels, s * labels**2
    found = c * s - c * xx + b * (xy - c * s * xx) + beta / c * (yy - c * s * xy)
    limit = w * s * ((b + beta * s) * (1 + f * s - eta * s**2) - 2 * eta * s)
    rest = sympy.Poly(sympy.expand(found - limit), 1 / c, w)
    assert rest.monoms() == [(1, 2)] and sympy.degree(sympy.expand(found - limit), s) == 4
    e1, e2, e3, e4 = sympy.symbols("e1:5")
    numbers = {b: e1, beta: -e1 / r, eta: -e4 * r / e1, f: (-2 * e4 * r / e1 - e2 + e1 / r) / e1}
    Q = e1 - e2 * s + e3 * s**2 - e4 * s**3
    off = sympy.cancel((limit / (w * s)).subs(numbers) - Q)
    root = (Q - 2 * e4 * s**2 / e1).subs(s, r)
    certify(off, -root * s**2 / r**2, -(root + e4 * r**2 / e1) * s**2 / r**2)
