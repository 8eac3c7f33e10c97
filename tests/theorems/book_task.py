"""The book's regression task and layer for ``symbolic.mean``: each call makes an entry
with labels of its own; and what a formula says of a task of the library.
"""

from functools import reduce

import numpy as np
from symbolic import (
    C,
    Law,
    d,
    eps,
    fresh,
    inner,
    mean,
    noise,
    query,
    sigma2,
    without_noise,
    x,
)
from sympy import Expr, Function, Symbol
from theory_reference import covs

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


def average(entry) -> Expr:
    """The mean of a function over the tokens of a context."""
    i = fresh()
    return entry(i) / C


def S(a, b) -> Expr:
    """The second moments of a context's features."""
    return average(lambda i: x(i, a) * x(i, b))


def r(i) -> Expr:
    """The residual label of a token, ``y - w.x``."""
    return dot(lambda a: x(i, a), eps) + noise(i)


def s(a) -> Expr:
    """Its moments with the features."""
    return average(lambda i: x(i, a) * r(i))


def q() -> Expr:
    """Its average square."""
    return average(lambda i: r(i) * r(i))


def y(i) -> Expr:
    """The label of a token."""
    return dot(lambda a: x(i, a), w) + r(i)


def Gxy(a) -> Expr:
    """Entry (a, d+1) of the Gram matrix."""
    return average(lambda i: x(i, a) * y(i))


def Gyy() -> Expr:
    """Its entry (d+1, d+1)."""
    return average(lambda i: y(i) * y(i))


def y_q() -> Expr:
    """The initial guess."""
    return dot(g, query) + beta


def target() -> Expr:
    """What is to be predicted."""
    return dot(w, query) + dot(eps, query)


def heads_error(step: Expr, share: Expr) -> Expr:
    """The error of the d heads b_h = e_h, A_h = -share e_h rho^T + step rho e_h^T, with
    rho = (-w; 1).
    """
    h, k = fresh(), fresh()
    corrected = y_q() - share * S(h, h) * (y_q() - dot(w, query))
    return corrected + step * query(k) * (Gxy(k) - dot(lambda c: S(k, c), w)) - target()


def lift_gradient(error, law: Law):
    """Half the gradient by the lift, without label noise, where query and guess meet
    the three parts of G.
    """
    for token in (lambda: query(j), y_q):
        for entry in (lambda: S(a, b), lambda: Gxy(a), Gyy):
            yield without_noise(mean(error() * token() * entry(), law))


def number(formula: Expr, task, guess=None, bias: float = 0.0, **others) -> float:
    """Its value for a GaussianTask, a guess, and other symbols by name."""
    matrices = dict(zip("LP", covs(task), strict=True))
    vectors = {
        "w": task.prior_mean,
        "g": 0 * task.prior_mean if guess is None else guess,
    }
    known = {"d": task.dim, "C": task.context_size, "sigma2": task.noise_std**2}
    known |= {"beta": bias} | others

    def value(name: str) -> float:
        if name in known:
            return known[name]
        # as ``trace`` and ``inner`` name them
        left, word, right = (
            name[1:-1].split("|") if "|" in name else ("", name[3:-1], "")
        )
        chain = reduce(np.matmul, (matrices[k] for k in word), np.eye(task.dim))
        return vectors[left] @ chain @ vectors[right] if left else np.trace(chain)

    values = {symbol: value(symbol.name) for symbol in formula.free_symbols}
    return float(formula.subs(values))


def delta(left: Symbol, right: Symbol) -> Expr:
    """One where two free labels are equal, otherwise zero."""
    return inner(left.name, "", right.name)
