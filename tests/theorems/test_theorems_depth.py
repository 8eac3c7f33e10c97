"""Several layers: the best descent, the stand-in for the constant, products of labels,
and the floor of all layers.
"""

from functools import cache

import numpy as np
import pytest
import sympy
from book_task import GD_STEP, MISSED, S, dot, loop, number
from scipy.optimize import minimize
from symbolic import C, all_zero, certify, d, fresh, mean, same
from sympy import Function, Matrix, Symbol, binomial, factorial2, prod
from sympy.polys.matrices import DomainMatrix
from theory_reference import GUESS, TASKS, gauss_hermite

from lsalib.tasks import GaussianTask
from lsalib.theory import depth_price, depth_risk

# t is the mean square of the features, s stands for S
t, s, c, f, m, nu = sympy.symbols("t s c f m nu", positive=True)
K = C * d / 2  # t K has the density of Gamma(K)
D = C**2 + (d + 3) * C + (d - 1) * (d + 4)
BEST = 2 * GD_STEP, 2 * GD_STEP * C * d / D, -(C**2) / D  # of S, t S and S^2
# The best stand-in for the constant misses it by this.
MISSING = 1 - 2 * K * t / (K + 1) + K**2 * t**2 / ((K + 1) * (K + 2))
FLAT = GaussianTask([1.0] * 3, 5, TASKS["singular features"].feature_cov)
LEAST = d * ((d**2 + 3 * d + 4) * C + (d - 1) * (d + 1) * (d + 4)) / ((C + d + 1) * D)


def power(k: int):
    """tr S^k"""
    at = [fresh() for _ in range(k)]
    return prod(S(at[i], at[(i + 1) % k]) for i in range(k)) if k else d


def rise(j: int, k: int = 0):
    """E t^j h(S) / E h(S) for forms h of degree k, as S / t is independent of t."""
    return prod([1 + i / K for i in range(k, j + k)])


@cache
def moment(j: int, k: int):
    """E t^j tr S^k"""
    return sympy.factor(mean(power(k)) * rise(j, k))


def mean_of(polynomial):
    """E tr p(t, S)"""
    return sympy.Add(
        *(
            factor * moment(j, k)
            for (j, k), factor in sympy.Poly(polynomial, t, s).terms()
        )
    )


@pytest.mark.claim("depth-gap", kind="certificate")
def test_depth_gap():
    """The best descent and stand-in of two layers: normal equations, minimum values,
    and layers that have them.
    """
    of = sympy.symbols("a b e")
    best = dict(zip(of, BEST, strict=True))
    error = 1 - of[0] * s - of[1] * t * s - of[2] * s**2
    left = [mean_of(error * part) for part in (s, t * s, s**2)]
    assert all_zero(each.subs(best) for each in left) and not all_zero(
        each.subs(best | {of[1]: 0}) for each in left
    )
    certify(mean_of(error).subs(best), LEAST)
    assert all_zero(mean_of(MISSING * part) for part in (t, t**2))
    price = 8 / ((C * d + 2) * (C * d + 4))
    certify(mean_of(MISSING) / d, price)
    task = TASKS["isotropic"]
    stated = number(LEAST + MISSED * price, task, GUESS)
    assert depth_risk(task, 2, GUESS) == pytest.approx(stated, rel=1e-12)
    # The recursion of the labels: whatever c and f are; where c1 < 0 < c2, f1 and f2
    # have every positive product.
    c1, c2, f1, f2, linear = sympy.symbols("c1 c2 f1 f2 linear")
    of_eps, q_eps, of_u, q_u = 1, 0, 0, -1
    for read, own, more in ((c1, f1, 0), (c2, f2, (f1 + f2 + linear) * t)):
        q_eps, of_eps = (
            (1 + own * t) * q_eps + read * s * of_eps,
            (1 + own * t + read * s) * of_eps,
        )
        q_u, of_u = (
            (1 + own * t) * q_u + read * s * of_u + more,
            (1 + own * t + read * s) * of_u + more,
        )
    assert same(q_eps, (c1 + c2) * s + (c1 * f2 + c2 * f1) * t * s + c1 * c2 * s**2)
    certify(q_u, -(1 - linear * t + f1 * f2 * t**2))
    assert sympy.Poly(f2 * (m - c1 * f2) / c2, f2).all_coeffs() == [-c1 / c2, m / c2, 0]


@pytest.mark.claim("depth-unequal", kind="certificate")
def test_depth_unequal():
    """Two features whose weights have the variances p and q: the best polynomial
    descent, and why no two layers have it and the best stand-in.
    """
    p, q = sympy.symbols("p q", positive=True)
    r, n, x = sympy.symbols("r n x")  # Bartlett: r^2 and x are chi-squared
    xx, xy, yy = r**2 / C, r * n / C, (n**2 + x) / C
    rising = lambda low, count: prod([low + 2 * i for i in range(count)])

    def average(polynomial):
        terms = sympy.Poly(sympy.expand(polynomial), r, n, x).terms()
        return sympy.Add(
            *(
                factor
                * rising(C, i // 2)
                * factorial2(j - 1)
                * rising(C - 1, k)
                * ((i + 1) % 2 * (j + 1) % 2)
                for (i, j, k), factor in terms
            )
        )

    # The row of the first feature: a + m11 xx + m12 yy on it, b xy on the second one.
    pairs = (xx, xy), (xx * xx, xx * xy), (yy * xx, yy * xy), (xy * xy, xy * yy)
    normal = Matrix(
        4,
        4,
        lambda i, j: average(
            sum(v * f * g for v, f, g in zip((p, q), pairs[i], pairs[j], strict=True))
        ),
    )
    target = Matrix([p * average(own) for own, _ in pairs])
    below = lambda p, q: (
        C * p * q * (C + 7) + C * (2 * p**2 + q**2) + 8 * p**2 + 12 * p * q + q**2
    )
    top = C**2 * q * (C * p + 6 * p + q) / (C + 2) / below(p, q)
    a1, b1 = 2 * C * p / (C * p + 2 * p + q), -top
    m12 = (p + q) / (C * p + 2 * p + q) * top
    m11 = m12 - C**2 * (C * p * q + 2 * p**2 + 4 * p * q + q**2) / (C + 2) / below(p, q)
    row = Matrix([a1, m11, m12, b1])
    assert all_zero(normal * row - target)
    assert not all_zero(normal * row.subs(q, 2 * q) - target)
    a2, m22, m21, b2 = (part.subs({p: q, q: p}, simultaneous=True) for part in row)
    # N_k that mix the features would need this to be zero,
    both = (C + 2) * below(p, q) * below(q, p)
    mixed = (
        2
        * C**2
        * (q**2 - p**2)
        * (2 * C * p * q + 3 * p**2 + 8 * p * q + 3 * q**2)
        * (
            C**2 * p * q
            + C * (p**2 + 8 * p * q + q**2)
            + 4 * p**2
            + 13 * p * q
            + 4 * q**2
        )
        / ((C * p + 2 * p + q) * (C * q + 2 * q + p) * both)
    )
    certify(a2 * m11 / a1 - m21 - a1 * m22 / a2 + m12, mixed)
    # and rescalings by multiples of t would need this to be zero.
    alike = 2 * C**4 * (p - q) ** 2 * (C * p * q + p**2 + 5 * p * q + q**2)
    alike /= (C + 2) * both
    certify((m11 - m12) * (m22 - m21) - b1 * b2, alike)


@pytest.mark.claim("depth-unequal")
def test_depth_unequal_numbers(x64):
    """The search against layers that keep the axes, by quadrature over both examples,
    and against the least squares of all polynomials.
    """
    nodes, weights = gauss_hermite(4, 5)
    X = nodes.reshape(-1, 2, 2)
    S = np.round(X.swapaxes(1, 2) @ X / 2, 12)  # the same for many examples
    S, which = np.unique(S, axis=0, return_inverse=True)
    weights = np.bincount(which.ravel(), weights)[:, None]
    diagonal, across, eye = np.einsum("nii->ni", S), S[:, 0, 1:], np.eye(2)

    def missed(columns, target, variances=1.0):
        """What least squares leaves of a vector in each S."""
        root = np.sqrt(weights * variances)
        A, target = (root[..., None] * columns).reshape(2 * len(S), -1), root * target
        return np.sum((target.ravel() - A @ np.linalg.lstsq(A, target.ravel())[0]) ** 2)

    def bound(psi):
        rows = [
            (S[:, i], *(diagonal.T[..., None] * S[:, i]), across * S[:, 1 - i])
            for i in (0, 1)
        ]
        return sum(missed(np.stack(row, 2), eye[i], psi) for i, row in enumerate(rows))

    psi, u = np.array([4.0, 0.25]), 0.2
    maps = np.zeros((len(S), 2, 3))
    maps[:, 0, :2], maps[:, 1, 2:] = diagonal, across

    def risk(numbers):
        n1, n2, t1, t2 = numbers.reshape(4, 2)
        scale1, scale2 = (1 + (diagonal @ t)[:, None, None] for t in (t1, t2))
        step1, step2 = (n[:, None] * S for n in (n1, n2))
        descent = scale2 * step1 + step2 @ (scale1 * eye + step1) - eye
        columns = np.concatenate([maps, (scale2 * eye + step2) @ maps], axis=2)
        start = (scale1 * scale2)[..., 0] * eye[0]
        left = np.sum(weights[..., None] * descent**2 * psi)
        return left + u**2 * missed(columns, start)

    rng = np.random.default_rng(0)
    ends = [minimize(risk, rng.normal(size=8) / 2, tol=1e-9).fun for _ in range(6)]
    of = lambda error, psi: depth_risk(
        GaussianTask([error, 0.0], 2, None, np.diag(psi)), 2
    )
    wrong, price = of(u, psi), depth_price(GaussianTask([u, 0.0], 2), 2)
    assert wrong == pytest.approx(min(ends), rel=1e-7)
    assert wrong > bound(psi) + 1.2 * price * u**2
    # Without an error all searches take many steps unless variances are close.
    close = [1.5, 1.0]
    assert of(0.0, close) == pytest.approx(bound(close), rel=1e-9)


@pytest.mark.claim("depth-products", kind="certificate")
def test_depth_products():
    """What one product of labels adds to the best two affine layers: for wrong, right
    and distant guesses.
    """
    found, cubic = (
        mean_of(MISSING * s * (1 + f * t + c * s) ** 2),
        mean_of(s * (f * t + c * s) ** 2) / rise(3),
    )
    # for c and f of one sign this is positive
    certify(found, 2 / K**2 * cubic)
    # The right guess: the derivative is quadratic in a free number, and its leading
    # coefficient has one sign.
    error = -s + BEST[0] * s**2 + BEST[1] * t * s**2 + BEST[2] * s**3
    leading = d * mean_of(t**3 * error) + 2 * mean_of(t**2 * s * error)
    stated = (
        -8 * (C + 2) * (d + 2) * (2 * C * d + C + d + 17) / (C**3 * d * (C + d + 1))
    )
    certify(leading, stated)
    # Large errors: normal equations of t, t^2, t^3 z and t^4 z; z is independent of t,
    # with mean 1 and this variance.
    spread, v = Symbol("spread", positive=True), Function("v")
    along = lambda: dot(v, lambda label: dot(v, lambda other: S(label, other)))
    certify(
        mean(along() * along()).subs(mean(dot(v, v)), 1) / rise(2),
        1 + (d - 1) / (K + 1),
    )
    power = lambda n: prod([1 + i / nu for i in range(n)])
    degrees = Matrix([1, 2, 3, 4])
    normal = Matrix(
        4,
        4,
        lambda i, j: (
            power(degrees[i] + degrees[j]) * (1 + (spread if min(i, j) > 1 else 0))
        ),
    )
    answer = degrees.applyfunc(power)
    bordered = normal.row_join(answer).col_join(answer.T.row_join(Matrix([[1]])))
    exact = lambda matrix: DomainMatrix.from_Matrix(matrix).to_field()
    least, both = (
        each.domain.to_sympy(each.det()) for each in map(exact, (bordered, normal))
    )
    above = (
        2
        * nu
        * ((nu + 4) * (nu + 5) * (4 * nu**2 + 13 * nu + 15) * spread + 6 * (nu + 7))
    )
    below = (
        (nu + 4) * (nu + 5) ** 2 * (nu + 6) * spread**2
        + 4 * (nu + 5) * (2 * nu**2 + 14 * nu + 27) * spread
        + 12
    )
    share = above / (nu + 3) / (nu + 4) / below
    certify(1 - least / both * (nu + 1) * (nu + 2) / 2, share)
    # One feature: the polynomial of degree four; long contexts: 8 / (d + 7).
    certify(
        (1 - share.subs(spread, 0)) * 2 / (nu + 1) / (nu + 2),
        24 / prod([nu + i for i in (1, 2, 3, 4)]),
    )
    certify(
        sympy.limit(share.subs(spread, (d - 1) / (nu + 1)), nu, sympy.oo), 8 / (d + 7)
    )


@pytest.mark.claim("depth-floor", kind="certificate")
def test_depth_floor():
    """The nearest polynomial of degree n to 1 leaves 1/binom(n + Cd/2, n), for n <= 4;
    L layers have (3^L - 1)/2.
    """
    average = lambda j: prod([loop(S) / d for _ in range(j)])
    assert all(
        same(mean(average(j) * power(k)), mean(power(k)) * rise(j, k))
        for j, k in ((2, 0), (4, 0), (2, 2))
    )
    top = lambda n: sympy.expand_func(binomial(n + K, n))
    # Laguerre's polynomials are orthogonal to all powers but the constant
    for n in (1, 2, 3, 4):
        laguerre = sympy.assoc_laguerre(n, K, K * t) / top(n)
        bends = sympy.Poly(laguerre, t).terms()
        against = [
            sympy.Add(*(bend * rise(i + k) for (i,), bend in bends))
            for k in range(n + 1)
        ]
        assert same(laguerre.subs(t, 0), 1) and all_zero(against[1:])
        certify(against[0], 1 / top(n))
        for task, rank in ((TASKS["general"], 3), (FLAT, 2), (GaussianTask([1], 3), 1)):
            stated = number(1 / top(n), task, d=rank)
            assert depth_price(task, n) == pytest.approx(stated, rel=1e-12)
    # One layer has degree 1 in the entries of G, and two have 4, for one feature and
    # some heads.
    entries = sympy.symbols("xx xy yy")
    G, seen = Matrix([entries[:2], entries[1:]]), sympy.eye(2)
    for P, Q, degree in (
        ([[1, 2], [3, 4]], [[2, 1], [4, 1]], 1),
        ([[3, 1], [2, 2]], [[1, 4], [3, 2]], 4),
    ):
        seen = (seen + Matrix(P) * seen * G * seen.T * Matrix(Q) * seen).expand()
        assert (
            max(sympy.Poly(entry, *entries).total_degree() for entry in seen) == degree
        )
        assert seen.subs(dict.fromkeys(entries, 0)) == sympy.eye(2)


@pytest.mark.claim("depth-floor-attained", kind="certificate")
def test_depth_floor_attained():
    """When layers linear in the labels have the floor's polynomial, and what layers
    with products predict in the limit.

    A critical point r of Q = (1 - p)/S is enough: Q - Q(r) has the factor (1 - S/r)^2.
    It exists up to C = 10.
    """
    r, e1, e2, e3, e4 = sympy.symbols("r e1:5", positive=True)
    for factor in (3, 4):
        Q = e1 - (2 * e3 * r - factor * e4 * r**2) * s + e3 * s**2 - e4 * s**3
        assert (sympy.rem(Q - Q.subs(s, r), (1 - s / r) ** 2, s) == 0) == (factor == 3)
    _, two, three, four = [
        binomial(4, k) * nu**k / prod([nu + i for i in range(1, k + 1)])
        for k in range(1, 5)
    ]
    sign = 16 * (nu + 4) - 18 * (nu + 3)
    scale = nu**6 / ((nu + 1) * (nu + 2) * (nu + 3)) ** 2 / (nu + 4)
    certify(three**2 - 3 * two * four, scale * sign)
    assert sympy.solve(sign, nu) == [5] and sign.subs(nu, 4) > 0 > sign.subs(nu, 6)
    # Layers with products, token by token, as the large number, here c, grows; r is a
    # root of Q - 2 e_4 s^2 / e_1.
    w, b, beta, eta = sympy.symbols("w b beta eta")
    features, labels = 1 + eta * s * w / c, w + c * s + f * s * w
    xx, xy, yy = s * features**2, s * features * labels, s * labels**2
    found = c * s - c * xx + b * (xy - c * s * xx) + beta / c * (yy - c * s * xy)
    limit = w * s * ((b + beta * s) * (1 + f * s - eta * s**2) - 2 * eta * s)
    assert sympy.Poly(sympy.expand(found - limit), 1 / c, w).monoms() == [(1, 2)]
    numbers = {
        b: e1,
        beta: -e1 / r,
        eta: -e4 * r / e1,
        f: (-2 * e4 * r / e1 - e2 + e1 / r) / e1,
    }
    Q = e1 - e2 * s + e3 * s**2 - e4 * s**3
    root = (Q - 2 * e4 * s**2 / e1).subs(s, r)
    off = sympy.cancel((limit / (w * s)).subs(numbers) - Q)
    certify(off, -root * s**2 / r**2)
