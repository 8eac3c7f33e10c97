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
from sympy import Symbol
from theory_reference import GUESS, TASKS

from lsalib.layers import Layer, LayerParams
from lsalib.theory import delta_rule_risk

beta, alpha = sympy.symbols("beta alpha")


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
    states, Z = rng.normal(size=(H, dim + 1)), rng.normal(size=(size, dim + 1))
    guess, x_q = rng.normal(size=(2, dim))
    context = Z[:, :-1], Z[:, -1], x_q
    weights = (K, Q, b[:, None], np.tile(np.eye(dim + 1)[-1:].T, (H, 1, 1)))
    params = LayerParams(*(W[None] for W in weights), guess, states[None, :, None])
    found = float(Layer("linear", H).predict(params, *context))
    own = np.einsum("hn,hnj->j", states, Q[..., :-1])
    params = heads(b, K.swapaxes(1, 2) @ Q)
    yq = lambda v: predict(params, *context, v @ x_q)
    assert yq(guess + own) == pytest.approx(found, rel=1e-12)
    assert abs(yq(guess) - found) > 1e-3


@pytest.mark.claim("delta-rule-law", "delta-rule-best-schedule", kind="certificate")
def test_delta_rule_law():
    """A step multiplies the mean square of an error by ρ, no direction does better, and
    drift has the stated risk.
    """
    rho = 1 - 2 * beta + beta**2 * (d + 2)
    for error, square in ((w, W), (eps, d)):
        certify(
            one(dot(after(error, error, beta), after(error, error, beta))), rho * square
        )
    best = sympy.solve(rho.diff(beta), beta)[0]
    certify(best, 1 / (d + 2))
    certify(rho.subs(beta, best), 1 - 1 / (d + 2))
    task = TASKS["isotropic"]
    for step in (0.3, None):
        stated = (d + MISSED) * rho.subs(beta, step or best) ** C
        found = delta_rule_risk(task, step, GUESS)
        assert found == pytest.approx(number(stated, task, GUESS), rel=1e-12)
    # |eta - x x.zeta|^2 is rho |eta|^2 plus (d + 2) |zeta - eta / (d + 2)|^2.
    square = UU - 2 * UW / (d + 2) + W / (d + 2) ** 2
    stated = (1 - 1 / (d + 2)) * W + (d + 2) * square
    certify(one(dot(after(w, g, 1), after(w, g, 1))), stated)
    # The risk of weights that drift with some memory satisfies its recursion and begins
    # with d.
    memory, rho, n = sympy.symbols("memory rho n", positive=True)
    limit = rho * (1 - memory**2) * d / (1 - rho * memory**2)
    closed = lambda power: limit + power * (d - limit)
    step = lambda risk, factor: factor * (memory**2 * risk + (1 - memory**2) * d)
    certify(
        closed((rho * memory**2) ** (n + 1)), step(closed((rho * memory**2) ** n), rho)
    )
    assert same(closed(1), d) and same(closed(rho**n).subs(memory, 1), rho**n * d)


@pytest.mark.claim("delta-rule-trained-state", kind="brute force")
def test_a_shift_of_the_state():
    """States move into the values without changing a prediction, for keys of any size;
    not with a gate, nor alone.
    """
    rng = np.random.default_rng(0)
    for entries in (1, 2, 3):
        start, a, *keys = rng.normal(size=(4, entries))
        given, steps = rng.normal(size=(2, 2))

        def last(state, values, decay, keys=keys, steps=steps):
            for key, value, step in zip(keys, values, steps, strict=True):
                state = decay * state + step * (value - decay * key @ state) * key
            return state

        shifted = given - np.array(keys) @ a
        for values, decay, equal in (
            (shifted, 1.0, True),
            (given, 1.0, False),
            (shifted, 0.9, False),
        ):
            moved = last(start - a, values, decay) + a - last(start, given, decay)
            assert (np.abs(moved).max() < 1e-12) == equal


@pytest.mark.claim("which-layers-need-a-guess", "delta-floor", kind="certificate")
def test_which_layers_need_a_guess():
    """What a multiple of one example's squared length leaves of the constant 1, at the
    least: for one feature 2/3.
    """
    missed = one((1 - alpha * loop(S)) * (1 - alpha * loop(S)))
    best = sympy.solve(missed.diff(alpha), alpha)[0]
    certify(best, 1 / (d + 2))
    certify(missed.subs(alpha, best), 2 / (d + 2))


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
    with fixed weights, which read no label; not without its norm, and not without its
    gate.
    """
    u, length = np.array([1.0, -0.6]), 1e4
    points = [np.array(x) for x in itertools.product((-1.0, 0.5, 2.0), repeat=2)]
    K, V, G = np.stack([u, 0 * u]), np.stack([u, u]), length * np.stack([u, -u])

    def key(x):
        entries = silu(K @ x)
        return entries / np.linalg.norm(entries)

    def head(context, query, norm=True, gate=True):
        state = np.zeros((2, 2))
        for token, fade in zip(context, (0.9, 0.7), strict=True):
            kept = fade * state
            state = kept + 0.3 * np.outer(
                silu(V @ token) - kept @ key(token), key(token)
            )
        seen = state @ key(query)
        if norm:
            seen = seen / np.sqrt(np.mean(seen**2))
        return np.sum(seen * (silu(G @ query) / length if gate else 1.0))

    def off(**pieces):
        cases = itertools.product(points, repeat=3)
        return max(abs(head(c, x_q, **pieces) - u @ x_q) for *c, x_q in cases)

    assert off() < 1e-6
    assert off(norm=False) > 0.1
    assert off(gate=False) > 0.1
