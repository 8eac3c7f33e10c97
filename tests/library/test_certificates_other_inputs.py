"""Certificates for other inputs: the constant's stand-in, a constant coordinate, any symmetric law, uniform features.

As in test_certificates.py, each test is named by its claim. Where features have any law, each moment is a symbol.
"""

from collections import Counter
from functools import partial
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
import sympy
from symbolic import C, Law, d, eps, mean, query, sigma2
from symbolic_task import S, a, all_zero, b, certify, dot, j, loop, q, s, same, without_noise

kurtosis, cumulant = sympy.symbols("kurtosis cumulant")


def moment(*labels) -> sympy.Expr:
    """E of a product of features; those with the same letter are a group, centred and independent of the others."""
    groups = Counter(label[0] for label in labels)
    parts = ("".join(sorted(label for label in labels if label[0] == group)) for group in groups)
    return sympy.Integer(0) if 1 in groups.values() else sympy.Mul(*map(sympy.Symbol, parts))


def best_stand_in(labels):
    """The products of two features, their second moments, and entries of the best M, which give their means."""
    forms = list(combinations_with_replacement(labels, 2))
    second = sympy.Matrix(len(forms), len(forms), lambda m, n: moment(*forms[m], *forms[n]))
    M = sympy.Matrix([sympy.Symbol("M" + "".join(form)) for form in forms])
    return forms, second, M


def share(e_1, size=C):
    return e_1 / (e_1 + size * (1 - e_1))


@pytest.mark.parametrize("labels", [["a0"], ["a0", "a1"], ["a0", "a1", "a2"]])
@pytest.mark.claim("kurtosis-family")
def test_kurtosis_family(labels):
    """For every law of up to three features, the share that C tokens leave follows from one token’s share."""
    _, second, M = best_stand_in(labels)
    first, explained = second * M, sympy.Symbol("explained")
    every = (second + (C - 1) * first * first.T) / C
    multiple = C / (1 + (C - 1) * explained)
    off = lambda multiple: every * M * multiple.subs(explained, (M.T * first)[0]) - first
    assert all_zero(off(multiple)) and not all_zero(off(multiple.subs(C, C + 1)))
    certify(1 - multiple * explained, share(1 - explained), share(1 - explained, C + 1))


@pytest.mark.certificate("kurtosis-family", "The share for independent coordinates of any kurtosis, for all d.")
def test_the_kurtosis_law_follows():
    """For all d: the share of independent coordinates, and that of one token."""
    law, listed = Law(kurtosis=kurtosis), (kurtosis - 1) / (C * d + kurtosis - 1)
    left = lambda m: 1 - m / (C * d + kurtosis - 1) * loop(S)
    entry = lambda m: mean(left(m) * S(a, b), law)
    assert same(entry(C), 0) and not same(entry(C - 1), 0)
    certify(mean(left(C), law), listed, listed.subs(kurtosis, 3))
    certify(share(listed.subs(C, 1)), listed, listed.subs(C, C + 1))


@pytest.mark.parametrize("groups", [[["a0"], ["b0"]], [["a0", "a1"], ["b0"]], [["a0", "a1"], ["b0", "b1"]]])
@pytest.mark.claim("kurtosis-family")
def test_numbers_of_independent_groups_add_up(groups):
    """The numbers of independent groups of features add up, for groups of up to two features."""
    alone = [best_stand_in(group) for group in groups]
    known = {moment(*form): entry for own, F, M in alone for form, entry in zip(own, F * M, strict=True)}
    wanted = {form: entry for own, _, M in alone for form, entry in zip(own, M, strict=True)}
    explained = [(M.T * F * M)[0] for _, F, M in alone]
    parts, multiples = sympy.symbols("t0 t1"), sympy.symbols("multiple0 multiple1")
    forms, second, _ = best_stand_in([*groups[0], *groups[1]])
    M = sympy.Matrix([multiples["ab".index(form[0][0])] * wanted.get(form, 0) for form in forms])
    first = sympy.Matrix([moment(*form) for form in forms])
    # Each row of the group k is its mean times (multiple_k + multiple_l t_l - 1), l the other group.
    rest = [multiples[k] + multiples[1 - k] * explained[1 - k] - 1 for k in range(2)]
    factor = sympy.Matrix([rest["ab".index(form[0][0])] for form in forms])
    off = (second * M - first).subs(known) - first.subs(known).multiply_elementwise(factor)
    assert all_zero(off) and not all_zero((second * M - first).subs(known))
    solved = sympy.solve([multiples[k] + multiples[1 - k] * parts[1 - k] - 1 for k in range(2)], multiples)
    odds = lambda explained: 1 / (1 - explained) - 1
    found = sum(solved[multiple] * part for multiple, part in zip(multiples, parts, strict=True))
    certify(odds(found), odds(parts[0]) + odds(parts[1]), odds(parts[0]))


def symbols(name: str, *shape: int) -> sympy.Matrix:
    return sympy.Matrix(*shape, lambda *at: sympy.Symbol(name + "".join(map(str, at))))


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.claim("constant-coordinate")
def test_constant_coordinate(dim):
    """Two heads predict what the best step predicts, in every context, for up to three features."""
    N, w, x_q, y_q = symbols("N", dim + 1, dim + 1), symbols("w", dim, 1), symbols("x", dim, 1), sympy.Symbol("y")
    token = sympy.eye(dim + 2)  # from [x; 1; r] to [x; 1; y]
    token[-1, :dim] = w.T
    entries = sympy.Matrix(dim + 2, dim + 2, lambda m, n: sympy.Symbol(f"G{min(m, n)}{max(m, n)}"))
    rho, one, z_q = token.inv().T[:, -1], sympy.eye(dim + 2)[:, dim], sympy.Matrix([*x_q, 1, y_q])
    step = (w.T * x_q)[0] + (z_q[:-1, :].T * N * entries[:-1, -1])[0]

    def layer(constant):
        residual = entries.subs(entries[dim, dim], constant)
        heads = (rho, sympy.diag(N.T, 0)), (one, -one * rho.T)
        return y_q + sum((b.T * token * residual * token.T * A * z_q)[0] for b, A in heads)

    assert same(layer(1), step) and not same(layer(sympy.Symbol("c")), step)


@pytest.mark.claim("constant-coordinate")
def test_one_head_lacks_a_direction():
    """One head cannot imitate the step: what it offers has determinant zero, and what it needs does not."""
    v_x, v_0, c = sympy.symbols("v_x v_0 c")
    v, e_0, e_r = sympy.Matrix([v_x, v_0, 0]), sympy.Matrix([0, 1, 0]), sympy.Matrix([0, 0, 1])
    wanted = (e_r * v.T + v * e_r.T) / 2 + c * e_0 * e_0.T
    certify(wanted.det(), -(v_x**2) * c / 4, v_x**2 * c / 4)
    value, key = symbols("b", 3, 1), symbols("a", 3, 1)
    assert same((value * key.T + key * value.T).det(), 0)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.claim("constant-coordinate")
def test_what_the_mean_residual_adds(size):
    """What the mean residual adds: C E[s r] = E[x x'Px] + (C - 1) L P E[x], with two features of any law."""
    x, P = symbols("x", size, 2), sympy.Matrix(2, 2, lambda m, n: sympy.Symbol(f"P{min(m, n)}{max(m, n)}"))
    token = lambda powers: sympy.Symbol("m{}{}".format(*powers)) if any(powers) else sympy.Integer(1)
    of_all = lambda powers: sympy.Mul(*(token(powers[2 * i : 2 * i + 2]) for i in range(size)))
    average = lambda f: sympy.Add(*(factor * of_all(powers) for powers, factor in sympy.Poly(f, *x).terms()))
    of = lambda *labels: token((labels.count(0), labels.count(1)))
    rest = sympy.Matrix(2, 2, of) * P * sympy.Matrix([of(0), of(1)])
    own = sympy.Matrix([sum(P[k, l] * of(k, l, n) for k, l in product(range(2), repeat=2)) for n in range(2)])
    S, average_x = x.T * x / size, x.T * sympy.ones(size, 1) / size
    found = (size * S * P * average_x).applyfunc(average)
    assert all_zero(found - own - (size - 1) * rest)
    assert not all_zero(found - own - size * rest)


@pytest.mark.certificate(
    "predecessor-uniform",
    "The best step and its risk for all d and C; its error is orthogonal to all that a layer can add.",
)
def test_predecessor_uniform():
    """Features uniform in [-1, 1]: their length is 1/sqrt 3 of those with variance one, their kurtosis 9/5."""
    law, eta = Law(kurtosis=sympy.Rational(9, 5)), sympy.Symbol("eta")
    error = lambda step: (step * dot(query, s) / 3 - dot(query, eps)) / sympy.sqrt(3)
    average = lambda f: without_noise(mean(f, law))
    fifth = sympy.Rational(1, 5)
    step, risk = 3 * C / (C + d - fifth), d * (d - fifth) / (C + d - fifth) / 3
    derived = average(error(eta) * error(eta))
    certify(sympy.solve(derived.diff(eta), eta)[0], step, 3 * C / (C + d + 1))
    certify(derived.subs(eta, step), risk, d * (d + 1) / (C + d + 1) / 3)
    parts = [lambda: query(j), lambda: query(j) * S(a, b), lambda: query(j) * s(a), lambda: query(j) * q()]
    products = lambda step: [average(error(step) * part()) for part in parts]
    assert all_zero(products(step)) and not all_zero(products(3 * C / (C + d + 1)))


BEST = C / (C + d + kurtosis - 2 + sigma2)


class Tasks:
    """C = ``size`` examples with ``dim`` features: every moment is a symbol of its own, those odd in (eps, n) are 0."""

    def __init__(self, dim: int, size: int, symmetric: bool = True):
        self.x, self.noise = symbols("x", size, dim), symbols("n", size, 1)
        self.eps, self.query = symbols("eps", dim, 1), symbols("query", dim, 1)
        self.symmetric = symmetric
        r = self.x * self.eps + self.noise
        self.s, self.S, self.q = self.x.T * r / size, self.x.T * self.x / size, (r.T * r)[0] / size

    def mean(self, polynomial) -> sympy.Expr:
        """Its expectation for one query, over features, weights and noise of whatever joint law."""
        signed = [*self.eps, *self.noise]
        terms = sympy.Poly(sympy.expand(polynomial), *signed, *self.x).terms()
        odd = lambda powers: self.symmetric and sum(powers[: len(signed)]) % 2
        return sympy.Add(*(factor * self.moment(powers) for powers, factor in terms if not odd(powers)))

    def moment(self, powers) -> sympy.Expr:
        return sympy.Symbol("m" + "".join(map(str, powers))) if any(powers) else sympy.Integer(1)

    def normal_equations(self, N) -> dict:
        """N E[s s'] = E[eps s'], solved for the one moment E[eps_k n_0 x_0l] in each of its entries."""
        off = (self.eps - N * self.s) * self.s.T
        of = {at: self.mean(self.eps[at[0]] * self.noise[0] * self.x[0, at[1]]) for at in np.ndindex(N.shape)}
        return {of[at]: sympy.solve(self.mean(off[at]), of[at])[0] for at in of}


def sides(tasks: Tasks, best: bool = True):
    """R(f), and R* + E (f - f*)^2, for a layer with any coefficients of 1, S, s and q."""
    N, P, p = symbols("N", *tasks.S.shape), symbols("P", *tasks.S.shape), symbols("p", *tasks.s.shape)
    layer = sympy.Symbol("c") + (P * tasks.S).trace() + (p.T * tasks.s)[0] + sympy.Symbol("pi") * tasks.q
    step, target = (tasks.query.T * N * tasks.s)[0], (tasks.query.T * tasks.eps)[0]
    known = tasks.normal_equations(N) if best else {}
    square = lambda error: tasks.mean(error**2).subs(known)
    return square(layer - target), square(step - target) + square(layer - step)


@pytest.mark.certificate(
    "pythagoras-general",
    "The error of the best step is orthogonal to all that a layer can add, for features of any kurtosis "
    "and noise of any fourth cumulant.",
)
def test_pythagoras_general():
    """For features of any kurtosis and noise of any fourth cumulant, the best step's error is orthogonal to a layer."""
    law, error = Law(kurtosis=kurtosis, noise_cumulant=cumulant), lambda step: step * dot(query, s) - dot(query, eps)
    parts = [lambda: query(j), lambda: query(j) * S(a, b), lambda: query(j) * s(a), lambda: query(j) * q()]
    products = lambda step: [mean(error(step) * part(), law) for part in parts]
    assert all_zero(products(BEST))
    assert not all_zero(products(BEST.subs(kurtosis, 3)))
    least = partial(mean, law=law)(error(BEST) * error(BEST))
    certify(least, d * (1 - BEST), d * (1 - BEST.subs(kurtosis, 3)))


@pytest.mark.parametrize("dim, size", [(1, 1), (1, 2), (2, 1)])
@pytest.mark.claim("pythagoras-general")
def test_the_two_squares_are_the_risk_for_every_symmetric_law(dim, size):
    """The two squares add up to the risk for every symmetric joint law, for small d and C."""
    tasks = Tasks(dim, size)
    assert same(*sides(tasks))
    assert not same(*sides(tasks, best=False))
    assert not same(*sides(Tasks(dim, size, symmetric=False)))
