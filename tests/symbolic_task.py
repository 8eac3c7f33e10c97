"""The book's regression task and layer for ``symbolic.mean``: a call makes the entry anew, with labels of its own."""

import re
from functools import reduce

import numpy as np
import sympy
from symbolic import WHITE, C, Law, d, eps, fresh, inner, mean, noise, query, sigma2, x
from sympy import Expr, Function, Symbol

# The prior mean, the weights of a guess and its offset; free labels.
w, g, beta = Function("w"), Function("g"), Symbol("beta")
a, b, j = map(Symbol, "abj")
W, UW, UU = inner("w", "", "w"), inner("g", "", "w"), inner("g", "", "g")
MISSED = W - 2 * UW + UU  # the squared length of w - g
GD_STEP, GD_RISK = C / (C + d + 1), d * (d + 1) / (C + d + 1)
NOISY_STEP = C / (C + d + 1 + sigma2)


def dot(left, right) -> Expr:
    """The product of two vectors, each a function of one label."""
    a = fresh()
    return left(a) * right(a)


def paired(left, right) -> Expr:
    """The product <.,.> of two matrices, each a function of two labels."""
    a, b = fresh(), fresh()
    return left(a, b) * right(a, b)


def loop(matrix) -> Expr:
    """The trace of a matrix."""
    a = fresh()
    return matrix(a, a)


def S(a, b) -> Expr:
    """The second moments of a context's features."""
    i = fresh()
    return x(i, a) * x(i, b) / C


def r(i) -> Expr:
    """The residual label of a token, ``y - w.x``."""
    a = fresh()
    return x(i, a) * eps(a) + noise(i)


def s(a) -> Expr:
    """Its moments with the features."""
    i = fresh()
    return x(i, a) * r(i) / C


def q() -> Expr:
    """Its average square."""
    i = fresh()
    return r(i) * r(i) / C


def y(i) -> Expr:
    """The label of a token."""
    a = fresh()
    return x(i, a) * w(a) + r(i)


def Gxy(a) -> Expr:
    """Entry (a, d+1) of the Gram matrix."""
    i = fresh()
    return x(i, a) * y(i) / C


def Gyy() -> Expr:
    """Its entry (d+1, d+1)."""
    i = fresh()
    return y(i) * y(i) / C


def y_q() -> Expr:
    """The initial guess."""
    return dot(g, query) + beta


def target() -> Expr:
    """What is to be predicted."""
    return dot(w, query) + dot(eps, query)


def heads_error(step: Expr = GD_STEP, share: Expr = C / (C * d + 2)) -> Expr:
    """The error of the d heads b_h = e_h, A_h = -share e_h rho^T + step rho e_h^T, with rho = (-w; 1)."""
    h, k = fresh(), fresh()
    corrected = y_q() - share * S(h, h) * (y_q() - dot(w, query))
    return corrected + step * query(k) * (Gxy(k) - dot(lambda c: S(k, c), w)) - target()


def lift_gradient(error, law: Law = WHITE):
    """Half the gradient by the lift, without label noise, where query and guess meet the three parts of G."""
    for token in (lambda: query(j), y_q):
        for entry in (lambda: S(a, b), lambda: Gxy(a), Gyy):
            yield without_noise(mean(error() * token() * entry(), law))


def delta(left: Symbol, right: Symbol) -> Expr:
    """One where two free labels are equal, otherwise zero."""
    return inner(left.name, "", right.name)


def same(derived: Expr, formula: Expr) -> bool:
    """Equal as rational functions."""
    return sympy.fraction(sympy.together(derived - formula))[0].expand() == 0


def all_zero(expressions) -> bool:
    """Whether each vanishes identically."""
    return all(same(expression, 0) for expression in expressions)


def certify(derived: Expr, formula: Expr, changed: Expr) -> None:
    """The formula is what is derived; as a control, a changed one is not."""
    assert same(derived, formula)
    assert not same(derived, changed)


def without_noise(expression: Expr) -> Expr:
    return expression.subs(sigma2, 0)


def at_infinity(expression: Expr) -> Expr:
    """The limit of a rational function of C."""
    t = Symbol("t")
    return sympy.cancel(expression.subs(C, 1 / t)).subs(t, 0)


def evaluated(expression: Expr, sizes: dict, arrays: dict) -> float:
    """The number that it is for these sizes and these arrays in place of the letters."""

    def value(symbol: Symbol) -> float:
        left, word, right = re.fullmatch(r"(?:tr\(|\((\w+)\|)(\w*)(?:\|(\w+))?\)", symbol.name).groups()
        matrix = reduce(np.matmul, [arrays[letter] for letter in word], np.eye(len(next(iter(arrays.values())))))
        return arrays[left] @ matrix @ arrays[right] if left else np.trace(matrix)

    return float(expression.subs(sizes | {each: value(each) for each in expression.free_symbols - sizes.keys()}))
