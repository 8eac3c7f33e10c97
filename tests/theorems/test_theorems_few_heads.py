"""The minimum risk of few heads, and where the risk has bad local minima.

A value vector ``(p; tau)``, in features and residual label, reads ``S p + tau s`` of
the features and ``p.s + tau q`` of the label. With a trained guess the minimum risk of
H heads is a function of one number: X, the squared length of p over that of tau.
"""

from functools import cache

import numpy as np
import pytest
import sympy
from book_task import GD_STEP, NOISY_STEP, S, a, b, dot, loop, paired, q, s
from dense import gaussian, least, linear_guess
from symbolic import C, certify, d, eps, mean, same, sigma2, trace, without_noise
from sympy import Function, Matrix, Symbol
from theory_reference import dense_risk, lifted, listed_moments

from lsalib.tasks import GaussianTask
from lsalib.theory import few_heads_weights

tau, m, v, across, M = (
    Symbol("tau"),
    Symbol("m"),
    Function("v"),
    Function("u"),
    Function("M"),
)
# v and u are orthogonal unit vectors, M a projector on m other directions.
UNIT = {mean(dot(v, v)): 1, mean(dot(across, across)): 1, mean(dot(v, across)): 0}
UNIT |= {trace("M"): m, trace("MM"): m, Symbol("(v|M|v)"): 0, Symbol("(v|MM|v)"): 0}
X, k, more = sympy.symbols("x k more", positive=True)
STEP = 1 / NOISY_STEP


@pytest.mark.claim("few-heads-optimum", kind="brute force")
def test_few_heads_optimum():
    """No value vectors are better than H - 1 features and a mixture of the label and
    the feature along the error u.
    """
    rng = np.random.default_rng(0)
    for dim, size, H, bias, noise in (
        (1, 3, 1, 0.7, 0.5),
        (2, 2, 1, 0.5, 1),
        (3, 5, 1, 0.3, 0),
        (3, 2, 2, 1, 0.8),
    ):
        given, u = gaussian(dim, size, noise), rng.normal(size=dim)
        query, toward = linear_guess(np.eye(dim), u, bias), u / np.linalg.norm(u)
        aligned, first = (
            np.vstack([toward, np.linalg.svd(toward[None])[2][1:]]),
            np.eye(dim)[0, :H],
        )

        def risk(directions, share, given=given, query=query, first=first):
            return least(
                given, query, np.column_stack([directions[: len(first)], share * first])
            )

        for share in 10 ** rng.uniform(-1, 1, 20):
            turned = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
            cosine, along, against = (
                turned[0] @ toward,
                risk(aligned, share),
                risk(aligned, -share),
            )
            # The cost of a direction is linear in its cosine with u; the mixture
            # towards u costs least.
            assert risk(turned, share) == pytest.approx(
                (along + against + cosine * (along - against)) / 2, abs=1e-9
            )
            assert along < against - 1e-9
        scanned = np.linspace(-7, 7, 201)
        near = scanned[np.argmin([risk(aligned, np.exp(share)) for share in scanned])]
        best = min(risk(aligned, np.exp(near + share)) for share in scanned / 100)
        task = GaussianTask(u, size, noise_std=noise)
        stated = lifted(few_heads_weights(task, H, bias=float(bias)))
        found = dense_risk(stated, task, 0 * u, bias, listed_moments(task))
        assert found == pytest.approx(best, rel=1e-5)
        assert (
            min(least(given, query, rng.normal(size=(H, dim + 1))) for _ in range(100))
            > best - 1e-6
        )
        # The control: a mixture with a feature across u is worse.
        assert (
            dim == 1
            or min(risk(aligned[::-1], np.exp(share)) for share in scanned)
            > best + 1e-6
        )


def signs(coefficients, sizes):
    """Of each coefficient, whether all of its terms are positive, or all negative; zero
    where they are mixed.
    """
    found = []
    for each in coefficients:
        polynomial = each.subs(sizes)
        symbols = [*{k, *polynomial.free_symbols}]
        ring = sympy.ring(symbols, sympy.QQ)[0]
        terms = ring.from_expr(polynomial).coeffs()
        found.append(all(term > 0 for term in terms) - all(term < 0 for term in terms))
    return found


def explained():
    """Numerator and denominator of what is explained along the mixture, beside heads
    that value other features.
    """
    V = 2 * d + 2 * ((d + sigma2) ** 2 + 2 * d - m) / C
    return V - 4 * X / C + 2 * X**2 / C, (STEP + 2 * X / C) * (X * STEP + V) - X * (
        STEP + 2 / C
    ) ** 2


@cache
def slope():
    """The risk's derivative for m + 1 heads over a square: coefficients of a polynomial
    in X, the highest first.
    """
    (along, width), beside = explained(), STEP + X / C
    numerator = (d - m - 1) / C * width**2 - (
        along.diff(X) * width - along * width.diff(X)
    ) * beside**2
    return sympy.Poly(sympy.expand(C**6 * numerator), X).all_coeffs()


def positive_roots(features, tokens, heads, noise=0):
    """How many positive roots this polynomial has."""
    at = {d: features, C: tokens, m: heads - 1, sigma2: noise}
    return sympy.Poly([each.subs(at) for each in slope()], X).count_roots(0, None)


@pytest.mark.claim("trained-guess-landscape", "one-head-landscape", kind="certificate")
def test_trained_guess_landscape():
    """What H heads explain follows from the moments of G; the signs of its derivative's
    coefficients exclude traps.
    """
    features = lambda: paired(M, S)
    first = lambda: paired(lambda c, e: v(c) * v(e), S) + tau * dot(v, s)
    read = features, first, lambda: dot(v, s) + tau * q()
    second = Matrix(
        3, 3, lambda row, column: mean(read[row]() * read[column]()).subs(UNIT)
    )
    average = Matrix([mean(entry()).subs(UNIT) for entry in read])
    wanted = Matrix([mean(entry() * dot(v, eps)).subs(UNIT) for entry in read])
    spread = second - average * average.T  # a constant is free
    found = (wanted.T * spread.adjugate() * wanted)[0] / spread.det()
    along, width = explained()
    certify(found, (along / width).subs(X, 1 / tau**2))
    # Across the mixture: the variance of what is read, and the covariance with eps.
    beside = lambda: paired(lambda c, e: across(c) * v(e), S) + tau * dot(across, s)
    certify(mean(beside() * beside()).subs(UNIT), tau**2 * STEP + 1 / C)
    certify(mean(beside() * dot(across, eps)).subs(UNIT), tau)
    # H <= d - 2: the risk grows with X. H = d: it rises, then falls to its value at X =
    # 0, that of the step.
    heads = {m: Symbol("n", nonnegative=True), C: 1 + more}
    assert signs([each.subs(d, m + 3 + k) for each in slope()], heads) == [1] * 5
    assert signs([each.subs(d, m + 1) for each in slope()], heads) == [-1, -1, -1, 1, 1]
    certify((along / width).subs(X, 0), NOISY_STEP)
    certify(along.coeff(X, 2) / sympy.expand(width).coeff(X, 2), NOISY_STEP)
    # H = d - 1: it falls in the end where this is negative.
    leading = (C + 1 + sigma2) ** 2 - (d + sigma2) ** 2 - sigma2**2 - 2
    certify(slope()[0].subs(m, d - 2), 4 * C * leading)
    # Without noise and for C >= d: the first three coefficients are a quadratic without
    # a root, except for d = C = 2.
    for sizes in ({d: 3 + k, C: 3 + k + more}, {d: 2, C: 3 + more}):
        at = [each.subs(m, d - 2).subs(sizes | {sigma2: 0}) for each in slope()]
        assert signs(at, {}) == [1, -1, 1, 1, 1] and signs(
            [4 * at[0] * at[2] - at[1] ** 2], {}
        ) == [1]
    for features, tokens, roots in (
        (2, 1, 1),
        (2, 2, 2),
        (2, 3, 0),
        (3, 2, 1),
        (3, 3, 0),
        (10, 9, 1),
        (10, 10, 0),
    ):
        assert positive_roots(features, tokens, features - 1) == roots


@pytest.mark.claim("one-head-fewer-noise", kind="certificate")
def test_one_head_fewer_with_noise():
    """With d - 1 heads the derivative has the signs of Δ, -, +, +, +: at most two
    roots, and one where Δ <= 0.
    """
    leading, *rest = (each.subs(m, d - 2) for each in slope())
    assert signs(rest, {d: 2 + k, C: 1 + more}) == [-1, 1, 1, 1]
    # Δ has both signs: it is zero at one positive noise if C >= d, and negative for
    # shorter contexts.
    assert signs([leading], {d: 2 + k, C: 1 + more}) == [0]
    assert signs([leading], {C: 1 + more, d: 2 + more + k}) == [-1]
    ahead, last = C + 1 - d, (C + 1) ** 2 - d**2 - 2
    certify(leading, 4 * C * (ahead**2 + last - (sigma2 - ahead) ** 2))
    assert signs([last], {C: d + more, d: 2 + k}) == [1]
    # Just below that noise there are two roots, an interior trap; not with less noise,
    # and above it there is one root.
    edge = float((ahead + sympy.sqrt(ahead**2 + last)).subs({d: 3, C: 3}))
    roots = [
        positive_roots(3, 3, 2, sympy.Rational(noise))
        for noise in (0, edge - 0.8, edge - 1e-3, edge + 1e-3)
    ]
    assert roots == [0, 0, 2, 1]


# With d heads: the direction left out is that of (p, tau); no label noise.
p, SHARE, U, T = (
    Function("p"),
    C / (C * d + 2),
    Symbol("U", positive=True),
    Symbol("T", positive=True),
)


def price(share=SHARE):
    """The form whose product with G is a form's value at (p, tau), in the norm of G."""
    tall = C / 2 * (paired(lambda c, e: p(c) * p(e), S) - share * X * loop(S))
    return (
        GD_STEP * tau * dot(p, s)
        + tall
        + GD_STEP / (2 * d) * (tau**2 - X) * (q() - loop(S))
    )


def signs_in_T(expression):
    """Of the numerator's coefficients, highest first; the denominator is positive."""
    numerator, denominator = sympy.fraction(
        sympy.cancel(expression.subs({d: 2 + k, C: 1 + more}))
    )
    assert signs([denominator], {}) == [1]
    return signs(sympy.Poly(numerator, T).all_coeffs(), {})


@pytest.mark.claim("training-wants-d-plus-one", kind="certificate")
def test_training_wants_d_plus_one():
    """The price of a direction that d heads leave out, and the signs of its derivative
    along the error of the guess.
    """
    product = lambda entry, *share: without_noise(mean(price(*share) * entry())).subs(
        mean(dot(p, p)), X
    )
    corner = lambda *share: product(lambda: S(a, b), *share)
    certify(corner(), mean(p(a) * p(b)))
    assert not same(corner(1 / d), corner())
    assert same(product(lambda: s(a)), tau * mean(p(a))) and same(product(q), tau**2)
    width = (
        GD_STEP * tau**2 * X
        + C / 2 * (1 - SHARE) * X**2
        + GD_STEP / (2 * d) * (tau**2 - X) ** 2
    )
    certify(product(price), width)
    # On the half circle: where the derivative can vanish without an offset.
    D = GD_STEP * T**2 + C / 2 * (1 - SHARE) + GD_STEP / (2 * d) * (T**2 - 1) ** 2
    excess = (SHARE * U - GD_STEP * T) ** 2 / D
    rest = (
        C / 2 * (1 - SHARE)
        + GD_STEP / (2 * d) * (1 - T**4)
        + SHARE * U * ((1 - 1 / d) * T + T**3 / d)
    )
    outer = 2 * GD_STEP * (GD_STEP * T - SHARE * U) / D**2
    certify(excess.diff(T), outer * rest)
    # One change of sign: one positive root. With one feature it is one in the other
    # direction, too.
    assert signs_in_T(rest) == [-1, 1, 0, 1, 1]
    one_feature = rest.subs(d, 1)
    assert signs_in_T(one_feature) == [-1, 1, 0, 0, 1] and signs_in_T(
        one_feature.subs(U, -U)
    ) == [-1, -1, 0, 0, 1]
    # With an offset: the width D grows less than T^4 does, which makes a trap; not less
    # than T^3 (the control).
    assert signs_in_T(4 * D - T * D.diff(T)) == [1, 0, 1]
    assert -1 in signs_in_T(3 * D - T * D.diff(T))
