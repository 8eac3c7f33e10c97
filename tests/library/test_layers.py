"""The layers of the field: against the papers' recurrences in plain NumPy, and against each other."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.test_util import check_grads
from refusals import refusals

from lsalib import attention, layers, metrics, tasks
from lsalib.layers import Layer
from lsalib.layers.layer import RULES
from lsalib.training import train

RATES = {"number": (0.3, None), "numbers": (0.3, 0.8), "each token": ("random", "random"), "shut gate": (0.3, "shut")}


def tokens(seed, step, gate, C=7, n=4, m=3):
    """A state, keys, values and queries, and rates: a number, one for each token, or a gate that shuts once."""
    rng = np.random.default_rng(seed)
    state, (keys, queries), values = rng.normal(size=(m, n)), rng.normal(size=(2, C, n)), rng.normal(size=(C, m))
    step = rng.uniform(0, 0.5, C) if step == "random" else step
    gate = rng.uniform(0.2, 1, C) if isinstance(gate, str) else gate
    if gate is not None and np.ndim(gate) and seed % 2:
        gate[3] = 0.0
    return (state, keys, values, queries), {"step": step, "gate": gate}


def by_loops(state, keys, values, queries, step, gate, delta):
    """As the papers write it: S_t = a S_{t-1} (I - b k k^T) + b v k^T, or without the erasing product."""
    S, outputs = state, []
    step, gate = np.broadcast_to(step, len(keys)), np.broadcast_to(1.0 if gate is None else gate, len(keys))
    for k, v, q, b, a in zip(keys, values, queries, step, gate, strict=True):
        S = a * S @ (np.eye(len(k)) - b * np.outer(k, k) * delta) + b * np.outer(v, k)
        outputs.append(S @ q)
    return S, np.array(outputs)


@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("rates", RATES)
def test_states_by_loops(x64, rates, delta):
    """Token by token, in chunks that do and do not divide the context, and in one chunk. Control: the other rule."""
    given, options = tokens(1, *RATES[rates])
    expected = by_loops(*given, **options, delta=delta)
    ways = [layers.recurrence, *(partial(layers.chunked, chunk=size) for size in (3, 64))]
    for way in ways:
        found = way(*given, **options, delta=delta)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-12, atol=1e-13), tuple(found), expected)
    assert ways[-1](*given[:3], **options, delta=delta)[1] is None
    assert np.abs(by_loops(*given, **options, delta=not delta)[0] - expected[0]).max() > 1e-2


@pytest.mark.parametrize("delta", [False, True])
def test_gradients_of_both_forms(x64, delta):
    """Those of the chunks are those of the recurrence, and finite differences; a gate of zero has one, too."""
    given, options = tokens(1, "random", "shut")
    loss = lambda way, given, options: sum((part**2).sum() for part in way(*given, **options, delta=delta))
    recurrent, chunks = (jax.jit(partial(loss, way)) for way in (layers.recurrence, partial(layers.chunked, chunk=3)))
    expected, found = (jax.grad(each, (0, 1))(given, options) for each in (recurrent, chunks))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-11), found, expected)
    check_grads(chunks, (given, options), 1, modes=["rev"], rtol=1e-6)
    # Control: without the gate, another gradient.
    assert np.abs(jax.grad(chunks)(given, options | {"gate": None})[0] - expected[0][0]).max() > 1e-2


def example(layer, seed=0, d=3, C=5, scale=0.4):
    """Weights with random states, steps and gates, and one example."""
    rng = np.random.default_rng(seed)
    drawn = {name: scale * rng.normal(size=shape) for name, shape in layer.shapes(d).items()}
    positive = {name: rng.uniform(0.3, 1, drawn[name].shape) for name in ("step", "gate", "state") if name in drawn}
    params = layers.LayerParams(**drawn | positive)
    return params, rng.normal(size=(C, d)), rng.normal(size=C), rng.normal(size=d)


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum()


def read_by_loops(layer, h, p, place, context, token, C):
    """What head h of one layer answers to a token that has seen these context tokens."""
    W_K, W_Q, W_V = (W[place, h] for W in (p.W_K, p.W_Q, p.W_V))
    q, keys, values = W_Q @ token, [W_K @ z for z in context], [W_V @ z for z in context]
    lengths = [np.linalg.norm(k) for k in keys]
    if layer.normalize == "keys":
        keys = [k / length for k, length in zip(keys, lengths, strict=True)]
    if layer.rule == "softmax":
        return sum(w * v for w, v in zip(softmax(np.array(keys) @ q / np.sqrt(len(q))), values, strict=True))
    S = p.state[place, h]
    if layer.rule == "normalized":
        phi = lambda u: np.where(u > 0, u + 1, np.exp(u))
        top, bottom = S[:-1] @ phi(q), S[-1] @ phi(q)
        for k, v in zip(keys, values, strict=True):
            top, bottom = top + v * (phi(k) @ phi(q)), bottom + phi(k) @ phi(q)
        return top / bottom
    for k, v, length in zip(keys, values, lengths, strict=True):
        b = p.step[place, h] if p.step is not None else 1 / C if layer.rule == "linear" else 1.0
        b = b / length**2 if layer.normalize == "step" else b
        S = S if p.gate is None else p.gate[place, h] * S
        S = S + b * np.outer(v - S @ k if "delta" in layer.rule else v, k)
    return S @ q


def predict_by_loops(layer, p, X, y, x_q):
    """Token by token, head by head, layer by layer."""
    C, Z = len(X), np.vstack([np.column_stack([X, y]), np.append(x_q, p.guess @ x_q)])
    for place in range(layer.depth):
        seen = [Z[: t + 1] if layer.causal and t < C else Z[:C] for t in range(C + 1)]
        reads = lambda t, h, Z=Z, place=place, seen=seen: read_by_loops(layer, h, p, place, seen[t], Z[t], C)
        Z = np.array([Z[t] + sum(p.W_P[place, h] @ reads(t, h) for h in range(layer.heads)) for t in range(C + 1)])
    return Z[-1, -1]


CASES = [Layer(rule, heads=2, chunk=chunk) for rule in RULES for chunk in (None, 2)]
CASES += [Layer(rule, heads=2, depth=2, causal=causal) for rule in RULES for causal in (True, False)]
CASES += [Layer(rule, normalize="keys", key_size=2, value_size=1) for rule in RULES]
CASES += [Layer(rule, normalize="step", depth=2) for rule in ("linear", "gated", "delta", "gated_delta")]
NAMES = [f"{c.rule}-H{c.heads}-N{c.depth}-{c.causal}-{c.normalize}-{c.chunk}" for c in CASES]


@pytest.mark.parametrize("layer", CASES, ids=NAMES)
def test_predictions_by_loops(x64, layer):
    """One example, a batch, compiled. Control: each weight is read, so that other values give another prediction."""
    params, X, y, x_q = example(layer)
    expected = predict_by_loops(layer, params, X, y, x_q)
    np.testing.assert_allclose(layer.predict(params, X, y, x_q), expected, rtol=1e-11)
    both = jax.jit(jax.vmap(layer.predict, (None, 0, 0, 0)))(params, *(np.stack([v, 2 * v]) for v in (X, y, x_q)))
    np.testing.assert_allclose(both, [expected, predict_by_loops(layer, params, 2 * X, 2 * y, 2 * x_q)], rtol=1e-11)
    for name, shape in layer.shapes(3).items():
        other = params._replace(**{name: getattr(params, name) + 0.1 * np.random.default_rng(1).normal(size=shape)})
        assert abs(layer.predict(other, X, y, x_q) - expected) > 1e-8, name


def shared(params, names, **rest):
    return layers.LayerParams(**{name: getattr(params, name)[None] for name in names}, **rest)


def test_one_layer_is_the_papers(x64):
    """Linear and softmax attention with the same weights. Control: the guess is read."""
    X, y, x_q = example(Layer("linear"))[1:]
    w = np.array([1.0, -2.0, 0.5])
    lsa = attention.init(jax.random.key(0), 3, heads=2, scale=0.5)
    expected = attention.yq_lsa(lsa, w, X, y, x_q)
    linear = shared(lsa, ("W_K", "W_Q", "W_V", "W_P"), guess=w, state=np.zeros((1, 2, 4, 4)))
    layer = Layer("linear", heads=2)
    np.testing.assert_allclose(layer.predict(linear, X, y, x_q), expected, rtol=1e-12)
    assert abs(layer.predict(linear._replace(guess=0 * w), X, y, x_q) - expected) > 1e-2
    soft = attention.init_softmax(jax.random.key(0), 3, heads=2)
    expected = attention.softmax_attention(soft, X, y, x_q, w @ x_q)
    W_P = np.zeros((1, 2, 4, 4))
    W_P[0, :, -1:] = soft.W_O
    mine = shared(soft, ("W_K", "W_Q", "W_V"), W_P=W_P, guess=w)
    np.testing.assert_allclose(Layer("softmax", heads=2).predict(mine, X, y, x_q), expected, rtol=1e-12)
    assert abs(Layer("softmax", heads=2).predict(mine._replace(guess=0 * w), X, y, x_q) - expected) > 1e-2


def learner(rule, d, guess, start, **rates):
    """One head with keys x, values y and one value row, whose initial state is ``start`` less the guess."""
    guess, start = np.asarray(guess, float), np.asarray(start, float)
    reads = np.eye(d, d + 1)[None, None]
    label = np.eye(d + 1)[-1]
    # With the guess in the values, the state learns what the guess lacks.
    W_V = (label - np.append(guess, 0.0))[None, None, None]
    state = (start - guess)[None, None, None]
    rates = {name: np.full((1, 1), rate) for name, rate in rates.items()}
    return layers.LayerParams(reads, reads, W_V, label[None, None, :, None], guess, state, **rates)


def test_delta_rule_is_online_gradient_descent(x64):
    """From any start, by the state or by the guess; with normalized steps, the last example is learned by heart."""
    rng = np.random.default_rng(3)
    X, y, x_q, w0 = rng.normal(size=(6, 4)), rng.normal(size=6), rng.normal(size=4), rng.normal(size=4)
    layer = Layer("delta", key_size=4, value_size=1)
    w = w0
    for x, label in zip(X, y, strict=True):
        w = w - 0.2 * (w @ x - label) * x
    for guess in (0 * w0, w0):
        found = layer.predict(learner("delta", 4, guess, w0, step=0.2), X, y, x_q)
        np.testing.assert_allclose(found, w @ x_q, rtol=1e-12)
    assert abs(layer.predict(learner("delta", 4, 0 * w0, 0 * w0, step=0.2), X, y, x_q) - w @ x_q) > 1e-2
    by_heart = Layer("delta", key_size=4, value_size=1, normalize="step")
    params = learner("delta", 4, 0 * w0, w0, step=1.0)
    np.testing.assert_allclose(by_heart.predict(params, X, y, X[-1]), y[-1], rtol=1e-12)
    assert abs(layer.predict(params, X, y, X[-1]) - y[-1]) > 1e-2


@pytest.mark.parametrize(("normalize", "step", "rate"), [(None, 1 / 7, 1 - 1 / 7), ("step", 1.0, 1 - 1 / 5)])
def test_risk_of_the_delta_rule(normalize, step, rate):
    """rate^C (d + |u|^2) on standard normal features, u the error of the start. Control: another start."""
    d, C = 5, 10
    task, layer = tasks.GaussianTask(np.ones(d), C), Layer("delta", key_size=d, value_size=1, normalize=normalize)
    risk = lambda start: metrics.sampled_risk(
        jax.random.key(0),
        task,
        partial(layer.predict, learner("delta", d, np.zeros(d), start, step=step)),
        batches=2,
        batch_size=20_000,
    )
    for start, error in ((np.ones(d), 0), (np.zeros(d), d)):
        found = risk(start)
        assert abs(found.mean - rate**C * (d + error)) < 5 * found.standard_error
        assert abs(found.mean - rate**C * (2 * d - error)) > 20 * found.standard_error


def test_rules_reduce_to_each_other(x64):
    """Gates of one and of zero, and a key of length zero. Control: a gate between them."""
    params, X, y, x_q = example(Layer("gated_delta", heads=2))
    ones = np.ones((1, 2))
    gated_delta = lambda gate, rows: Layer("gated_delta", heads=2).predict(
        params._replace(gate=gate * ones), X[rows:], y[rows:], x_q
    )
    delta = Layer("delta", heads=2).predict(params._replace(gate=None), X, y, x_q)
    np.testing.assert_allclose(gated_delta(1.0, 0), delta, rtol=1e-12)
    assert abs(gated_delta(0.9, 0) - delta) > 1e-3
    # A shut gate forgets all but the last example.
    np.testing.assert_allclose(gated_delta(0.0, 0), gated_delta(0.0, 4), rtol=1e-12)
    assert abs(gated_delta(0.1, 0) - gated_delta(0.1, 4)) > 1e-6
    for rule in ("linear", "delta"):
        layer = Layer(rule, normalize="step")
        params = learner(rule, 3, np.zeros(3), np.ones(3), **({"step": 0.5} if rule == "delta" else {}))
        layer = Layer(rule, normalize="step", key_size=3, value_size=1)
        value, slope = jax.value_and_grad(layer.predict)(params, 0 * X, y, x_q)
        np.testing.assert_allclose(value, x_q.sum(), rtol=1e-12)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))


def test_a_state_is_trained_unless_it_is_frozen():
    """A trained initial state replaces the right guess; frozen, it stays bit for bit, and the risk stays high."""
    task = tasks.GaussianTask([2.0, 2.0], 4)
    risks = {}
    for frozen in (("guess",), ("guess", "state")):
        layer = Layer("delta", frozen=frozen)

        def loss(params, key, layer=layer):
            batch = task.sample(key, 128)
            found = jax.vmap(layer.predict, (None, 0, 0, 0))(params, batch.X, batch.y, batch.x_q)
            return jnp.mean((found - batch.target) ** 2)

        init = lambda key, layer=layer: layer.init(key, 2, scale=0.4)
        end = train(loss, None, jax.random.key(0), steps=300, optimizer=optax.adam(3e-2), init=init)
        moved = {name: bool((getattr(end.params, name) != 0).any()) for name in ("state", "guess")}
        assert moved == {"state": "state" not in frozen, "guess": False}
        risks[frozen] = float(end.risk[-50:].mean())
    trained, still = risks.values()
    assert trained < 0.8 * still


PARAMS, *DATA = example(Layer("delta", heads=2))
predict = lambda **new: Layer("delta", heads=2).predict(PARAMS._replace(**new), *DATA)
GIVEN, OPTIONS = tokens(0, 0.3, None)
test_refusals = refusals(
    (lambda: Layer("deltanet"), "rule must be one of linear, normalized, .*got 'deltanet'"),
    (lambda: Layer("delta", heads=0), "heads must be a whole number of at least 1, got 0"),
    (lambda: Layer("softmax", normalize="step"), r"normalize must be one of \(None, 'keys'\) for the rule softmax"),
    (lambda: Layer("delta", frozen=("gate",)), "frozen must name some of W_K, .*, step, got 'gate'"),
    (lambda: Layer(["delta"]), r"rule must be one of linear, .*got \['delta'\]"),
    (lambda: Layer("delta", frozen=3), "frozen must name some of W_K, .*, step, got 3"),
    (lambda: Layer("delta", frozen=None), "frozen must name some of W_K, .*, step, got None"),
    (lambda: Layer("delta", frozen=[["W_K"]]), r"frozen must name some of W_K, .*, step, got \['W_K'\]"),
    (lambda: Layer("gated").init(jax.random.key(0), 3, gate=np.inf), "gate must be a finite number"),
    (lambda: Layer("linear").init(jax.random.key(0), 3, step=0.5), "step must be None for the rule linear, got 0.5"),
    (lambda: Layer("delta").init(jax.random.key(0), 3, gate=0.5), "gate must be None for the rule delta, got 0.5"),
    (lambda: Layer("delta").init(0, 3), r"key must be a key of jax.random.*jax.random.key\(0\)"),
    (lambda: Layer("delta").init(3, jax.random.key(0)), "key must be a key of jax.random, got 3"),
    (lambda: Layer("delta").init(3, jax.random.PRNGKey(0)), "key must be a key of jax.random, got 3"),
    (lambda: predict(state=None), r"state must have shape \(1, 2, 4, 4\), got shape \(\)"),
    (lambda: predict(gate=np.ones((1, 2))), "gate must be None for the rule delta, got float.* of shape"),
    (lambda: predict(W_V=PARAMS.W_V[0]), r"W_V must have shape \(1, 2, 4, 4\), got shape \(2, 4, 4\)"),
    (lambda: Layer("delta", heads=2).predict(PARAMS, np.eye(2), [1, 2], [1, 2]), r"X must have shape \(C, 3\), got"),
    (lambda: predict(guess=np.ones(2)), r"guess must have shape \(3,\), got shape \(2,\)"),
    (lambda: Layer("delta", heads=2).predict(*DATA, PARAMS), "params must be LayerParams, got float64 of shape"),
    (lambda: Layer("delta").predict(PARAMS, *DATA), r"W_K must have shape \(1, 1, 4, 4\), got shape \(1, 2, 4, 4\)"),
    (lambda: layers.recurrence(*GIVEN, gate=[0.5]), r"gate must have shape \(7,\), got shape \(1,\)"),
    (lambda: layers.chunked(*GIVEN, chunk=0), "chunk must be a whole number of at least 1, got 0"),
    (lambda: layers.chunked(*GIVEN[:2], GIVEN[2][:5]), r"values must have shape \(7, 3\), got shape \(5, 3\)"),
)
