"""Certificates for a guess that is trained along: the least risk of H heads as a function of one number, and its signs.

X is the squared length of what the mixed value vector reads of the features, over that of the residual label.
"""

from functools import cache

import sympy
from symbolic import C, d, eps, mean, sigma2
from symbolic_task import NOISY_STEP, certify, dot
from sympy import Matrix, Symbol
from test_certificates_few_heads import UNIT, least_of_one_head, m, read_features, read_first, read_label, signs, tau, v

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


def test_trained_guess_landscape():
    """From two features more than heads on it grows, with any noise; with as many it rises, then falls to its start."""
    heads = {m: Symbol("n", nonnegative=True), C: 1 + more}
    assert signs([each.subs(d, m + 3 + k) for each in slope()], heads) == [1] * 5
    assert signs([each.subs(d, m + 1) for each in slope()], heads) == [-1, -1, -1, 1, 1]
    certify(least().subs(X, 0), d * (1 - NOISY_STEP), d)
    # With one feature more than heads it falls in the end where this is negative.
    leading = (C + 1 + sigma2) ** 2 - (d + sigma2) ** 2 - sigma2**2 - 2
    certify(slope()[0].subs(m, d - 2), 4 * C * leading, 4 * C * (leading + 1))


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
