"""Layers with a state: against the papers' recurrences in plain NumPy."""

from itertools import product

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from refusals import refusals

from lsalib.layers import Layer, LayerParams

d, C, H = 3, 5, 2
FEATURES = np.append(np.ones(d), 0.0)  # of a token
rng = np.random.default_rng(0)
X, y, x_q = rng.normal(size=(C, d)), rng.normal(size=C), rng.normal(size=d)


def weights(layer, value_size=None) -> LayerParams:
    """Random weights in float64, with steps between 0.3 and 1."""
    rng = np.random.default_rng(1)
    params = layer.init(jax.random.key(0), d, value_size=value_size)
    drawn = jax.tree.map(lambda leaf: 0.4 * rng.normal(size=leaf.shape), params)
    rates = {
        name: rng.uniform(0.3, 1, leaf.shape)
        for name, leaf in drawn._asdict().items()
        if name in ("step", "gate") and leaf is not None
    }
    return drawn._replace(**rates)


def read_by_loops(layer, p, place, h, context, token):
    """What head h of one layer answers to a token, after these context tokens."""
    W_K, W_Q, W_V = (W[place, h] for W in (p.W_K, p.W_Q, p.W_V))
    S = 0.0 if p.state is None else p.state[place, h]
    if layer.rule == "affine":
        # Values are features, or labels that no label asks for.
        for z in context:
            k, feature = W_K @ (z * FEATURES), W_V @ (z * FEATURES)
            S = S + np.outer(feature, k @ W_Q) / C
            S = S + np.outer(W_V @ z - feature, k @ W_Q * FEATURES) / C
        return S @ token
    for z in context:
        k, v = W_K @ z, W_V @ z
        if layer.rule == "linear":
            S = S + np.outer(v, k) / C
        else:
            step = p.step[place, h]
            S = S if p.gate is None else p.gate[place, h] * S
            S = S @ (np.eye(len(k)) - step * np.outer(k, k)) + step * np.outer(v, k)
    return S @ (W_Q @ token)


def predict_by_loops(layer, p, X, y, x_q):
    """Token by token, head by head, layer by layer."""
    Z = np.vstack([np.column_stack([X, y]), np.append(x_q, p.guess @ x_q)])
    for place in range(layer.depth):
        reads = np.zeros_like(Z)
        for t, h in product(range(C + 1), range(layer.heads)):
            in_order = "delta" in layer.rule and t < C
            seen = Z[: t + 1] if in_order else Z[:C]
            read = read_by_loops(layer, p, place, h, seen, Z[t])
            reads[t] += p.W_P[place, h] @ read
        # An affine layer writes only labels.
        Z = Z + (reads * (1 - FEATURES) if layer.rule == "affine" else reads)
    return Z[-1, -1]


@pytest.mark.parametrize("value_size", [None, 1])
@pytest.mark.parametrize("rule", ["linear", "affine", "delta", "gated_delta"])
def test_predictions_by_loops(x64, rule, value_size):
    """One example, and a batch.

    Control: each weight is read, so that other values give another prediction.
    """
    layer = Layer(rule, heads=H, depth=2)
    params = weights(layer, value_size=value_size)
    predict = jax.jit(jax.vmap(layer.predict, (None, 0, 0, 0)))
    batch = [np.stack([part, 2 * part]) for part in (X, y, x_q)]
    expected = [
        predict_by_loops(layer, params, *(part[i] for part in batch)) for i in (0, 1)
    ]
    assert_allclose(predict(params, *batch), expected, rtol=1e-11)
    for name, leaf in params._asdict().items():
        if leaf is not None:
            off = 0.1 * np.random.default_rng(2).normal(size=leaf.shape)
            other = predict(params._replace(**{name: leaf + off}), *batch)
            assert abs(other[0] - expected[0]) > 1e-8, name


def test_what_init_starts_from():
    """The default step is the best constant step of online descent, and the gate
    forgets nothing.
    """
    params = Layer("gated_delta", heads=40).init(jax.random.key(0), d, scale=0.3)
    assert_allclose(params.step, 1 / (d + 2), rtol=1e-6)
    assert (params.gate == 1).all()
    assert (params.state == 0).all() and (params.guess == 0).all()
    drawn = np.concatenate([np.ravel(W) for W in params[:4]])
    assert abs(drawn.std() / 0.3 - 1) < 5 / (2 * drawn.size) ** 0.5


def test_frozen_weights_have_no_gradient_and_all_others_have_one():
    names = ("W_V", "guess", "gate")
    layer = Layer("gated_delta", H, frozen=names)
    slope = jax.grad(layer.predict)(layer.init(jax.random.key(0), d), X, y, x_q)
    still = {name for name, leaf in slope._asdict().items() if not np.any(leaf)}
    assert still == {*names}


LINEAR = Layer("linear", heads=H)
predict = lambda **new: LINEAR.predict(weights(LINEAR)._replace(**new), X, y, x_q)
test_refusals = refusals(
    (
        "frozen must be a tuple with some of W_K, .*, state, got .'step'",
        lambda: Layer("linear", frozen=("step",)),
    ),
    (
        r"state must have shape \(1, 2, 4, 4\), got shape \(\)",
        lambda: predict(state=None),
    ),
    (
        "step must be None for Layer.*linear.* got float.* of shape",
        lambda: predict(step=np.ones((1, 2))),
    ),
)
