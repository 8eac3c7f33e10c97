"""Certificates for layers one after the other: moments up to the eighth order, two layers, and how degrees grow.

As in test_certificates.py, a certificate is named by its claim.
"""

from functools import cache

import numpy as np
import pytest
import sympy
from symbolic import C, d, fresh, mean
from symbolic_task import S, all_zero, certify, loop, same
from sympy import Matrix, binomial, prod

from lsalib import tasks, theory

K = C * d / 2  # t K has the density of Gamma(K)
STEP, D = C / (C + d + 1), C**2 + (d + 3) * C + (d - 1) * (d + 4)
BEST = 2 * STEP, 2 * STEP * C * d / D, -(C**2) / D  # of S, t S and S^2
LEAST = d * ((d**2 + 3 * d + 4) * C + (d - 1) * (d + 1) * (d + 4)) / ((C + d + 1) * D)


def power(k: int):
    """tr S^k"""
    if not k:
        return d
    at = [fresh() for _ in range(k)]
    return prod(S(at[i], at[(i + 1) % k]) for i in range(k))


@cache
def moment(j: int, k: int):
    """E t^j tr S^k"""
    return sympy.factor(mean(prod([loop(S) / d for _ in range(j)]) * power(k)))


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
def test_the_nearest_polynomial_to_a_constant(degree):
    """Laguerre's, for every C d: orthogonal to all powers but the constant; and its mean square."""
    rise = lambda k: prod([1 + i / K for i in range(k)])
    assert all(same(moment(j, 0) / d, rise(j)) for j in range(1, 5))
    top = lambda n: sympy.expand_func(binomial(n + K, n))
    bends = [
        (-K) ** j / sympy.factorial(j) * prod([K + i for i in range(j + 1, degree + 1)]) for j in range(degree + 1)
    ]
    bends = [bend / sympy.factorial(degree - j) / top(degree) for j, bend in enumerate(bends)]
    against = lambda k: sympy.Add(*(bend * rise(j + k) for j, bend in enumerate(bends)))
    assert same(bends[0], 1) and all_zero(against(k) for k in range(1, degree + 1))
    certify(against(0), 1 / top(degree), 1 / top(degree + 1))


def test_depth_floor():
    """The degree of one layer and of two in the Gram matrix, for one feature and any heads: at most 1 and 4."""
    x, xy, y = entries = sympy.symbols("x xy y")
    G = Matrix([[x, xy], [xy, y]])
    rng, seen, degrees = np.random.default_rng(0), sympy.eye(2), []
    for _ in range(2):
        P, Q = (Matrix(rng.integers(1, 5, (2, 2))) for _ in range(2))
        seen = (seen + P * seen * G * seen.T * Q * seen).expand()
        degrees.append(max(sympy.Poly(entry, *entries).total_degree() for entry in seen))
        assert seen.subs(dict.fromkeys(entries, 0)) == sympy.eye(2)
    assert degrees == [1, 4] != [1, 2]
