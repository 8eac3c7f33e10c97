"""Certificates for layers with a state: what one example does to an error, for all d, and the shift of a state.

A context of one example, C = 1, is one step. As in test_certificates.py, each test is named by its claim.
"""

import pytest
import sympy
from symbolic import C, d, eps, mean, x
from symbolic_task import UU, UW, S, W, certify, dot, g, loop, same, w
from sympy import Matrix, Symbol

beta, alpha, gate = sympy.symbols("beta alpha gate")
RHO = 1 - 2 * beta + beta**2 * (d + 2)


def one(f):
    """The mean over one example."""
    return mean(f).subs(C, 1)


def after(v, direction=None, step=beta):
    """``v - step x (x.direction)``, with the same example at every call; the direction is v unless given."""
    i = Symbol("i")
    return lambda label: v(label) - step * x(i, label) * dot(lambda c: x(i, c), direction or v)


@pytest.mark.certificate(
    "delta-rule-law", "One step multiplies the mean square of any error by rho, and the best step."
)
def test_what_a_step_leaves():
    """For all d: of a fixed error and of a random one, in any direction; the best step and its rate."""
    certify(one(dot(after(w), after(w))), RHO * W, (RHO - beta**2) * W)
    certify(one(dot(after(eps), after(eps))), RHO * d, (RHO - beta**2) * d)
    best = sympy.solve(RHO.diff(beta), beta)[0]
    certify(best, 1 / (d + 2), 1 / (d + 1))
    certify(RHO.subs(beta, best), 1 - 1 / (d + 2), 1 - 1 / (d + 1))


@pytest.mark.certificate("delta-rule-law", "No direction of a step is better than that of the delta rule.")
def test_the_best_use_of_one_example():
    """For all d: |eta - x x.zeta|^2 is rho |eta|^2 plus a square that vanishes at the best step of the delta rule."""
    used = one(dot(after(w, g, 1), after(w, g, 1)))
    best = 1 - 1 / (d + 2)
    square = lambda width: UU - 2 * UW / width + W / width**2  # |zeta - eta / width|^2
    certify(used, best * W + (d + 2) * square(d + 2), best * W + (d + 2) * square(d + 1))


@pytest.mark.certificate("delta-rule-law", "The recursion of drifting weights gives rho^C d without drift.")
def test_the_drift_s_recursion():
    """For all d and C: the closed form of m_i satisfies the recursion and begins with d."""
    memory, rho, n = sympy.symbols("memory rho n", positive=True)
    limit = rho * (1 - memory**2) * d / (1 - rho * memory**2)
    closed = lambda power: limit + power * (d - limit)
    power = (rho * memory**2) ** n
    step = lambda m, factor: factor * (memory**2 * m + (1 - memory**2) * d)
    certify(closed(power * rho * memory**2), step(closed(power), rho), step(closed(power), rho**2))
    certify(closed(1), d, d + 1)
    certify(closed(rho**n).subs(memory, 1), rho**n * d, rho ** (n + 1) * d)


@pytest.mark.certificate("which-layers-need-a-guess", "What a quadratic in one example leaves of the constant 1.")
def test_the_floor_of_one_example():
    """For all d: the best multiple of the squared length, and the 2/(d+2) that it leaves; the constant writer's 2/3."""
    left = lambda: 1 - alpha * loop(S)
    missed = one(left() * left())
    best = sympy.solve(missed.diff(alpha), alpha)[0]
    certify(best, 1 / (d + 2), 1 / d)
    certify(missed.subs(alpha, best), 2 / (d + 2), 2 / (d + 1))
    certify(missed.subs(d, 1), 1 - 2 * alpha + 3 * alpha**2, 1 - 2 * alpha + 2 * alpha**2)
    certify(missed.subs({d: 1, alpha: sympy.Rational(1, 3)}), sympy.Rational(2, 3), sympy.Rational(1, 2))


@pytest.mark.certificate("which-layers-need-a-guess", "In long contexts two delta heads lose their relative price.")
def test_the_relative_price():
    """For all d: the price of linear attention over its risk has a positive limit; (2/3)/rho is below 1 from d = 2."""
    t, risk = Symbol("t"), d * (d + 1) / (C + d + 1)
    relative = sympy.cancel((2 / (C * d + 2) / risk).subs(C, 1 / t)).subs(t, 0)
    certify(relative, 2 / (d**2 * (d + 1)), 2 / (d * (d + 1)))
    base = sympy.Rational(2, 3) / (1 - 1 / (d + 2))
    certify(1 - base, (d - 1) / (3 * (d + 1)), d / (3 * (d + 1)))


@pytest.mark.parametrize("entries", [1, 2, 3])
@pytest.mark.claim("delta-rule-trained-state")
def test_a_shift_of_the_state(entries):
    """Two tokens, keys of up to three entries, any steps: it fails with the old values, and with a gate."""
    vector = lambda name: Matrix(sympy.symbols(f"{name}:{entries}"))
    start, a, keys = vector("s"), vector("a"), [vector("k"), vector("l")]
    values, steps = sympy.symbols("v0 v1"), sympy.symbols("b0 b1")

    def last(s, values, decay=1):
        for k, value, step in zip(keys, values, steps, strict=True):
            s = decay * s + step * (value - decay * k.dot(s)) * k
        return s

    shifted = [value - a.dot(k) for k, value in zip(keys, values, strict=True)]
    off = lambda after, before: [same(entry, 0) for entry in after + a - before]
    assert all(off(last(start - a, shifted), last(start, values)))
    assert not any(off(last(start - a, values), last(start, values)))
    assert not any(off(last(start - a, shifted, gate), last(start, values, gate)))
