"""The certificate for Pythagoras: tasks of any law with the symmetry, and steps for any d and C.

As in test_certificates.py, the test is named by its claim.
"""

from functools import partial

import numpy as np
import pytest
import sympy
from symbolic import C, Law, d, eps, mean, query, sigma2
from symbolic_task import S, a, all_zero, b, certify, dot, j, q, s, same

kurtosis, cumulant = sympy.symbols("kurtosis cumulant")
BEST = C / (C + d + kurtosis - 2 + sigma2)


class Tasks:
    """C = ``size`` examples with ``dim`` features: every moment is a symbol of its own, those odd in (eps, n) are 0."""

    def __init__(self, dim: int, size: int, symmetric: bool = True):
        self.x = sympy.Matrix(size, dim, lambda i, k: sympy.Symbol(f"x{i}{k}"))
        self.eps = sympy.Matrix(dim, 1, lambda k, _: sympy.Symbol(f"eps{k}"))
        self.noise = sympy.Matrix(size, 1, lambda i, _: sympy.Symbol(f"n{i}"))
        self.query = sympy.Matrix(dim, 1, lambda k, _: sympy.Symbol(f"query{k}"))
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
    N, P = (sympy.Matrix(*tasks.S.shape, lambda i, k, name=name: sympy.Symbol(f"{name}{i}{k}")) for name in "NP")
    p = sympy.Matrix(*tasks.s.shape, lambda k, _: sympy.Symbol(f"p{k}"))
    layer = sympy.Symbol("c") + (P * tasks.S).trace() + (p.T * tasks.s)[0] + sympy.Symbol("pi") * tasks.q
    step, target = (tasks.query.T * N * tasks.s)[0], (tasks.query.T * tasks.eps)[0]
    known = tasks.normal_equations(N) if best else {}
    square = lambda error: tasks.mean(error**2).subs(known)
    return square(layer - target), square(step - target) + square(layer - step)


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
def test_the_two_squares_are_the_risk_for_every_symmetric_law(dim, size):
    """Whatever the joint law of features, weights and noise, as long as (eps, n) is symmetric given the features."""
    tasks = Tasks(dim, size)
    assert same(*sides(tasks))
    assert not same(*sides(tasks, best=False))
    assert not same(*sides(Tasks(dim, size, symmetric=False)))
