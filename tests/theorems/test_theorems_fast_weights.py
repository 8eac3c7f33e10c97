"""Layers with a state: what one example does to an error (a context with C = 1), and
the shift of a state.
"""

import itertools

import numpy as np
import pytest
import sympy
from book_task import MISSED, UU, UW, S, W, dot, g, loop, number, w
from dense import heads, predict
from symbolic import C, certify, d, eps, mean, same, x
from sympy import Matrix, Rational, Symbol
from theory_reference import GUESS, TASKS

from lsalib.layers import Layer, LayerParams
from lsalib.theory import delta_rule_risk

beta, alpha, gate = sympy.symbols("beta alpha gate")


def one(f):
    """The mean over one example."""
    return mean(f).subs(C, 1)


def after(v, direction, step):
    """``v - step x (x.direction)``, with the same example at every call."""
    return lambda label: (
        v(label)
        - step * x(Symbol("i"), label) * dot(lambda c: x(Symbol("i"), c), direction)
    )


@pytest.mark.claim("initial-state-is-guess", kind="brute force")
def test_an_initial_state_is_a_guess(x64):
    """Linear attention with initial states, token by token, is yq-LSA; its guess adds
    what queries read of them.
    """
    rng, dim, size, H = np.random.default_rng(0), 3, 4, 2
    b, K, Q = rng.normal(size=(H, dim + 1)), *rng.normal(size=(2, H, dim + 1, dim + 1))
    Q[..., -1] = 0  # queries read the features
    states, guess, x_q = (
        rng.normal(size=(H, dim + 1)),
        rng.normal(size=dim),
        rng.normal(size=dim),
    )
    Z = rng.normal(size=(size, dim + 1))
    recurrent = guess @ x_q
    for value, keys, queries, state in zip(b, K, Q, states, strict=True):
        for z in Z:
            state = state + (value @ z) * (keys @ z) / size
        recurrent += state @ queries[:, :-1] @ x_q
    weights = (K, Q, b[:, None], np.tile(np.eye(dim + 1)[-1:].T, (H, 1, 1)))
    params = LayerParams(*(W[None] for W in weights), guess, states[None, :, None])
    layer = Layer("linear", H)
    found = float(layer.predict(params, Z[:, :-1], Z[:, -1], x_q))
    assert found == pytest.approx(recurrent, rel=1e-12)
    A = K.swapaxes(1, 2) @ Q
    own = np.einsum("hn,hnj->j", states, Q[..., :-1])
    yq = lambda v: predict(heads(b, A), Z[:, :-1], Z[:, -1], x_q, v @ x_q)
    assert (
        yq(guess + own) == pytest.approx(recurrent, rel=1e-12)
        and abs(yq(guess) - recurrent) > 1e-3
    )


@pytest.mark.claim("delta-rule-law", "delta-rule-best-schedule", kind="certificate")
def test_delta_rule_law():
    """A step multiplies the mean square of an error by ρ, no direction does better, and
    drift has the stated risk.
    """
    rho = 1 - 2 * beta + beta**2 * (d + 2)
    for error, square in ((w, W), (eps, d)):
        certify(
            one(dot(after(error, error, beta), after(error, error, beta))),
            rho * square,
            (rho - beta**2) * square,
        )
    best = sympy.solve(rho.diff(beta), beta)[0]
    certify(best, 1 / (d + 2), 1 / (d + 1))
    certify(rho.subs(beta, best), 1 - 1 / (d + 2), 1 - 1 / (d + 1))
    task = TASKS["isotropic"]
    for step in (0.3, None):
        stated = (d + MISSED) * rho.subs(beta, step or best) ** C
        found = delta_rule_risk(task, step, GUESS)
        assert found == pytest.approx(number(stated, task, GUESS), rel=1e-12)
    # |eta - x x.zeta|^2 is rho |eta|^2 plus (d + 2) |zeta - eta / (d + 2)|^2.
    square = lambda width: UU - 2 * UW / width + W / width**2
    stated = lambda width: (1 - 1 / (d + 2)) * W + (d + 2) * square(width)
    certify(one(dot(after(w, g, 1), after(w, g, 1))), stated(d + 2), stated(d + 1))
    # The risk of weights that drift with some memory satisfies its recursion and begins
    # with d.
    memory, rho, n = sympy.symbols("memory rho n", positive=True)
    limit = rho * (1 - memory**2) * d / (1 - rho * memory**2)
    closed = lambda power: limit + power * (d - limit)
    step = lambda risk, factor: factor * (memory**2 * risk + (1 - memory**2) * d)
    certify(
        closed((rho * memory**2) ** (n + 1)),
        step(closed((rho * memory**2) ** n), rho),
        step(closed(1), rho),
    )
    assert same(closed(1), d) and same(closed(rho**n).subs(memory, 1), rho**n * d)


@pytest.mark.claim("delta-rule-trained-state", kind="brute force")
def test_a_shift_of_the_state():
    """States move into the values without changing a prediction, for keys of any size;
    not with a gate, nor alone.
    """
    for entries in (1, 2, 3):
        vector = lambda name, entries=entries: Matrix(
            sympy.symbols(f"{name}:{entries}")
        )
        start, a, keys = vector("s"), vector("a"), [vector("k"), vector("l")]
        values, steps = sympy.symbols("v0 v1"), sympy.symbols("b0 b1")

        def last(state, values, decay=1, keys=keys, steps=steps):
            for key, value, step in zip(keys, values, steps, strict=True):
                state = decay * state + step * (value - decay * key.dot(state)) * key
            return state

        shifted = [value - a.dot(key) for key, value in zip(keys, values, strict=True)]
        same_with = lambda values, *decay, last=last, start=start, a=a, old=values: all(
            same(entry, 0)
            for entry in last(start - a, values, *decay) + a - last(start, old, *decay)
        )
        assert (
            same_with(shifted)
            and not same_with(values)
            and not same_with(shifted, gate)
        )


@pytest.mark.claim("which-layers-need-a-guess", "delta-floor", kind="certificate")
def test_which_layers_need_a_guess():
    """What a multiple of one example's squared length leaves of the constant 1; two
    delta heads in long contexts.
    """
    missed = one((1 - alpha * loop(S)) * (1 - alpha * loop(S)))
    best = sympy.solve(missed.diff(alpha), alpha)[0]
    certify(best, 1 / (d + 2), 1 / d)
    certify(missed.subs(alpha, best), 2 / (d + 2), 2 / (d + 1))
    certify(missed.subs({d: 1, alpha: Rational(1, 3)}), Rational(2, 3), Rational(1, 2))
    # (2/3)/rho is below 1 from d = 2; the price of linear attention over its risk has a
    # positive limit.
    certify(
        1 - Rational(2, 3) / (1 - 1 / (d + 2)),
        (d - 1) / (3 * (d + 1)),
        d / (3 * (d + 1)),
    )
    relative = sympy.limit(2 / (C * d + 2) / (d * (d + 1) / (C + d + 1)), C, sympy.oo)
    certify(relative, 2 / (d**2 * (d + 1)), 2 / (d * (d + 1)))


@pytest.mark.claim("unit-keys-state", kind="brute force")
def test_a_state_that_is_only_erased():
    """Keys of length one, values zero: the error of the start is projected, so in the
    mean (1 - 1/d)^C of it stays.

    The mean is over all contexts of two features along the axes, with lengths 1 or 2:
    their directions have the mean square I/d, which is all that the proof uses of
    standard normal features.
    """
    dim, size, start, weights = 2, 3, np.array([1.0, -1.0]), np.array([0.5, 2.0])
    features = [length * axis for axis in np.eye(dim) for length in (1.0, 2.0)]

    def error(context, a):
        s = np.append(start / a, -1)
        for example in context:
            key = np.append(a * example, weights @ example)
            key = key / np.linalg.norm(key)
            s = s + (0 - s @ key) * key
        return np.square(a * s[:-1] - weights).sum()

    risk = lambda a: np.mean(
        [error(context, a) for context in itertools.product(features, repeat=size)]
    )
    limit = (1 - 1 / dim) ** size * np.square(start - weights).sum()
    assert risk(1e4) == pytest.approx(limit, rel=1e-6)
    assert risk(1.0) != pytest.approx(limit, rel=1e-2)


def silu(entries):
    return entries * (1 + np.tanh(entries / 2)) / 2  # no overflow


@pytest.mark.claim("block-supply", kind="brute force")
def test_norm_and_gate_supply_a_function_of_the_query():
    """In every context of two examples on a grid, one head of the block adds u.x_q
    with fixed weights; not without its norm, and not without its gate.
    """
    u, length, grid = np.array([1.0, -0.6]), 1e4, (-1.0, 0.5, 2.0)
    points = [np.array(point) for point in itertools.product(grid, repeat=2)]
    labels = (-1.0, 3.0)  # of any size: the head's weights do not read them
    K = np.zeros((3, 3))
    K[0, :2] = u
    V, G = np.zeros((3, 3)), np.zeros((3, 3))
    V[:2, :2] = u
    G[:2, :2] = length * np.array([u, -u])
    p = np.array([1.0, 1.0, 0.0]) / (length * 1.5**0.5)  # the norm leaves (3/2)^1/2

    def key(token):
        entries = silu(K @ token)
        return entries / np.linalg.norm(entries)

    def head(context, query, norm=True, gate=True):
        state = np.zeros((3, 3))
        for token, fade in zip(context, (0.9, 0.7), strict=True):
            state = fade * state
            missing = silu(V @ token) - state @ key(token)
            state = state + 0.3 * np.outer(missing, key(token))
        seen = state @ key(query)
        if norm:
            seen = seen / np.sqrt(np.mean(seen**2))
        return p @ (seen * (silu(G @ query) if gate else length))

    tokens = [
        [np.append(x, y) for x, y in zip(pair, labels, strict=True)]
        for pair in itertools.product(points, repeat=2)
    ]
    cases = [(c, np.append(x_q, 0.0)) for c in tokens for x_q in points]
    truth = np.array([u @ query[:2] for _, query in cases])
    adds = lambda **pieces: np.array([head(*case, **pieces) for case in cases])
    assert np.abs(adds() - truth).max() < 1e-6
    assert np.abs(adds(norm=False) - truth).max() > 0.1
    assert np.abs(adds(gate=False) - truth).max() > 0.1
