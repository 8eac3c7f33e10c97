"""Fast weights: shifted layers, the descent's risk by other ways, floors, and searches over all weights."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import roots_hermitenorm

from lsalib import attention, estimators, layers, tasks, theory
from lsalib.book import stored
from studies.experiments import fast_weights


def random_layer(layer, dim, seed):
    """Random weights, with a guess and initial states."""
    key, rng = jax.random.key(seed), np.random.default_rng(seed)
    params = layer.init(key, dim, scale=0.5)
    return params._replace(state=rng.normal(size=params.state.shape), guess=rng.normal(size=dim))


def contexts(dim, size, count=50, seed=0):
    batch = tasks.sample(jax.random.key(seed), tasks.GaussianTask([1.0] * dim, size), count)
    return batch.X, batch.y, batch.x_q


def predictions(layer, params, data):
    return np.asarray(jax.vmap(layer.predict, (None, 0, 0, 0))(params, *data))


def read(params):
    """Keys, queries of the features alone, value vectors and state rows of each head."""
    W_K, W_Q, W_V, W_P, state = (np.array(getattr(params, name)[0]) for name in ("W_K", "W_Q", "W_V", "W_P", "state"))
    p = W_P[:, -1]
    Q = W_Q[..., :-1] + W_Q[..., -1:] * np.asarray(params.guess)
    return W_K, Q, np.einsum("hm,hmj->hj", p, W_V), np.einsum("hm,hmn->hn", p, state)


def assemble(guess, K, Q, b, s, step):
    """A layer of one value row with these parts, whose queries do not read the guess."""
    H, _, D = K.shape
    queries = np.concatenate([Q, np.zeros((*Q.shape[:2], 1))], axis=2)
    P = np.zeros((1, H, D, 1))
    P[:, :, -1] = 1
    return layers.LayerParams(K[None], queries[None], b[None, :, None], P, guess, s[None, :, None], step)


@pytest.mark.claim("initial-state-is-guess")
@pytest.mark.parametrize(("dim", "size", "heads"), [(1, 1, 1), (2, 5, 3), (3, 4, 2)])
def test_states_and_a_guess_in_linear_attention_are_one_guess(dim, size, heads, x64):
    layer, data = layers.Layer("linear", heads=heads), contexts(dim, size)
    params = random_layer(layer, dim, seed=dim)
    K, Q, b, s = read(params)
    v = params.guess + np.einsum("hn,hnj->j", s, Q)
    queries = np.concatenate([Q, np.zeros((*Q.shape[:2], 1))], axis=2)
    yq = attention.from_effective(b, np.einsum("hki,hkj->hij", K, queries))
    expected = predictions(layer, params, data)
    of_guess = lambda v: np.asarray(jax.vmap(attention.yq_lsa, (None, None, 0, 0, 0))(yq, v, *data))
    np.testing.assert_allclose(of_guess(v), expected, atol=1e-10)
    assert (np.abs(of_guess(v - params.guess) - expected) > 1e-6).all()


@pytest.mark.claim("initial-state-is-guess")
def test_every_yq_lsa_has_an_initial_state(x64):
    """The construction of the proof, with keys of d entries."""
    dim, heads, rng = 3, 2, np.random.default_rng(0)
    b, A, v = rng.normal(size=(heads, dim + 1)), rng.normal(size=(heads, dim + 1, dim + 1)), rng.normal(size=dim)
    data = contexts(dim, 5)
    expected = jax.vmap(attention.yq_lsa, (None, None, 0, 0, 0))(attention.from_effective(b, A), v, *data)
    K = (A[..., :dim] + A[..., dim:] * v).swapaxes(1, 2)
    Q, s = np.stack([np.eye(dim)] * heads), np.stack([v, 0 * v])
    layer = layers.Layer("linear", heads=heads, key_size=dim, value_size=1)
    of_state = lambda s: predictions(layer, assemble(np.zeros(dim), K, Q, b, s, None), data)
    np.testing.assert_allclose(of_state(s), expected, atol=1e-10)
    assert (np.abs(of_state(0 * s) - expected) > 1e-6).all()


@pytest.mark.claim("delta-rule-trained-state")
@pytest.mark.parametrize("normalize", [None, "step"])
@pytest.mark.parametrize(("dim", "size", "heads"), [(1, 3, 1), (3, 6, 2)])
def test_a_shift_of_all_states_changes_no_prediction(dim, size, heads, normalize, x64):
    """By any vectors; without the change of the values it does."""
    layer, data = layers.Layer("delta", heads=heads, normalize=normalize), contexts(dim, size)
    params = random_layer(layer, dim, seed=dim)
    K, Q, b, s = read(params)
    a = np.random.default_rng(9).normal(size=s.shape)
    guess = params.guess + np.einsum("hn,hnj->j", a, Q)
    one_row = layers.Layer("delta", heads=heads, normalize=normalize, value_size=1)
    moved = lambda b: predictions(one_row, assemble(guess, K, Q, b, s - a, params.step), data)
    expected = predictions(layer, params, data)
    np.testing.assert_allclose(moved(b - np.einsum("hn,hnj->hj", a, K)), expected, atol=1e-9)
    assert np.abs(moved(b) - expected).max() > 1e-3


@pytest.mark.claim("delta-rule-trained-state")
def test_a_shift_fails_where_keys_alone_are_normalized(x64):
    """Then a value that is linear in the token does not ask for what the state answers."""
    layer, data = layers.Layer("delta", normalize="keys"), contexts(2, 5)
    params = random_layer(layer, 2, seed=1)
    K, Q, b, s = read(params)
    one_row = layers.Layer("delta", normalize="keys", value_size=1)
    guess = params.guess + np.einsum("hn,hnj->j", s, Q)
    moved = assemble(guess, K, Q, b - np.einsum("hn,hnj->hj", s, K), 0 * s, params.step)
    assert np.abs(predictions(one_row, moved, data) - predictions(layer, params, data)).max() > 1e-3


@pytest.mark.claim("delta-rule-trained-state")
def test_a_spare_key_keeps_a_guess(x64):
    """The state of a key that is never written; one that is written forgets."""
    dim, data = 2, contexts(2, 5)
    layer = layers.Layer("delta", value_size=1)
    params = random_layer(layer, dim, seed=4)
    expected = predictions(layer, params, data)
    K, Q, b, s = read(params)
    wide = layers.Layer("delta", value_size=1, key_size=dim + 2)

    def with_spare(row):
        parts = np.append(K, row[None, None], 1), np.append(Q, params.guess[None, None], 1), b, np.append(s, [[1.0]], 1)
        return predictions(wide, assemble(np.zeros(dim), *parts, params.step), data)

    np.testing.assert_allclose(with_spare(np.zeros(dim + 1)), expected, atol=1e-10)
    assert np.abs(with_spare(np.ones(dim + 1)) - expected).max() > 1e-3


@pytest.mark.claim("which-layers-need-a-guess")
def test_a_gate_fades_the_state_by_its_power(x64):
    for rule in ("gated", "gated_delta"):
        layer = layers.Layer(rule, value_size=1)
        params = random_layer(layer, 2, seed=0)._replace(gate=np.full((1, 1), 0.8))
        _, Q, _, s = read(params)
        for size in (1, 4):
            zeros = jnp.zeros((size, 2)), jnp.zeros(size)
            slope = jax.grad(layer.predict, argnums=3)(params, *zeros, jnp.zeros(2))
            np.testing.assert_allclose(slope, params.guess + 0.8**size * s[0] @ Q[0], atol=1e-12)
            assert np.abs(slope - params.guess - s[0] @ Q[0]).max() > 1e-3


def gauss(degree):
    points, weights = roots_hermitenorm(degree)
    return points, weights / weights.sum()


def all_contexts(d, C):
    """A product rule that is exact for the risk of delta layers on residual labels."""
    (x, p), (e, q) = gauss(3), gauss(2 * C + 1)
    axes = [x] * (C * d) + [e] * d
    nodes = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, (C + 1) * d)
    weights = np.array([np.prod(each) for each in product(*([p] * (C * d) + [q] * d))])
    return nodes[:, : C * d].reshape(-1, C, d), nodes[:, C * d :], weights


def exact_risk(d, C, heads, missed=None):
    """The risk of a delta layer and its gradient by all weights; the guess is free, or off by ``missed``."""
    X, eps, weights = map(jnp.asarray, all_contexts(d, C))
    Z = jnp.concatenate([X, jnp.einsum("ncd,nd->nc", X, eps)[..., None]], -1)
    D = d + 1
    shapes = [(heads, D, D), (heads, D), (heads, D, d), (d,)]
    ends = np.cumsum([np.prod(shape) for shape in shapes])

    def risk(flat):
        K, b, Q, guess = (part.reshape(shape) for part, shape in zip(jnp.split(flat, ends[:-1]), shapes, strict=True))
        keys, values = jnp.einsum("hmj,ncj->nchm", K, Z), jnp.einsum("hj,ncj->nch", b, Z)
        s = jnp.zeros((len(Z), heads, D))
        for i in range(C):
            s = s + (values[:, i] - (s * keys[:, i]).sum(-1))[..., None] * keys[:, i]
        off = jnp.einsum("nhm,hmd->nd", s, Q) + (guess if missed is None else -jnp.asarray(missed))[None] - eps
        return weights @ jnp.square(off).sum(1)

    return jax.jit(jax.value_and_grad(risk)), int(ends[-1])


def searched(d, C, heads, missed=None, starts=2, seed=0):
    both, size = exact_risk(d, C, heads, missed)
    rng = np.random.default_rng(seed)
    begin = rng.normal(size=(starts, size)) / 2
    ends = [minimize(lambda flat: [np.asarray(part, float) for part in both(flat)], x, jac=True).fun for x in begin]
    return np.array(ends)


@pytest.mark.claim("which-layers-need-a-guess")
@pytest.mark.parametrize(("C", "heads"), [(2, 1), (2, 2), (3, 1)])
def test_one_feature_all_searches_end_on_the_floor(C, heads, x64):
    """With and without the right guess; the floor of one example less is not reached."""
    floor = (2 / 3) ** C
    np.testing.assert_allclose(searched(1, C, heads), floor, rtol=1e-6)
    np.testing.assert_allclose(searched(1, C, heads, missed=[1.5]), floor * (1 + 1.5**2), rtol=1e-6)
    assert (searched(1, C, heads, starts=1) < (2 / 3) ** (C - 1) * 0.9).all()


@pytest.mark.claim("delta-rule-law")
def test_two_features_no_search_of_one_head_is_below_the_descent(x64):
    """Over all weights and guesses; two heads are below it, and all of them above the floor."""
    law = theory.delta_rule_risk(tasks.GaussianTask([0.0, 0.0], 2))
    one, two = searched(2, 2, 1, starts=6), searched(2, 2, 2, starts=1)
    np.testing.assert_allclose(one.min(), law, rtol=1e-6)
    assert (one > law * (1 - 1e-6)).all()
    assert (two < law * 0.999).all()
    assert (two > 2 * (2 / 4) ** 2).all()


@pytest.mark.claim("delta-rule-law")
def test_the_descent_is_stationary_among_all_weights_of_one_head(x64):
    d, C = 2, 2
    both, _ = exact_risk(d, C, 1)
    keys, label = np.diag([1.0, 1.0, 0.0]).ravel(), np.array([0.0, 0.0, 1.0])
    at = lambda step: np.concatenate([step**0.5 * keys, step**0.5 * label, np.eye(3, 2).ravel(), np.zeros(2)])
    # Keys and values are scaled by the root of the step.
    value, slope = both(at(1 / (d + 2)))
    np.testing.assert_allclose(value, (3 / 4) ** 2 * d, rtol=1e-10)
    np.testing.assert_allclose(slope, 0, atol=1e-10)
    assert np.abs(both(at(0.3))[1]).max() > 1e-3


@pytest.mark.claim("which-layers-need-a-guess")
def test_every_trained_layer_is_above_the_floor_and_the_search_below_two_explicit_heads(x64):
    u = np.array([1.0, 0.0])
    explicit = (3 / 4) ** 2 * 2 + (2 / 3) ** 2
    found = searched(2, 2, 2, missed=u, starts=2)
    assert (found < explicit).all()
    assert (found > (2 / 4) ** 2 * 3).all()
    assert (searched(2, 2, 1, missed=u, starts=2) > explicit).all()


def drift(gates, steps, memory, d):
    """E|s|^2 and E[s.omega] of the gated delta rule on drifting residual labels, exactly: the risk."""
    square = cross = 0.0
    for gate, step in zip(gates, steps, strict=True):
        mixed = memory * gate * cross
        shrink = 1 - 2 * step + step**2 * (d + 2)
        own = step**2 * (d + 2) * d
        square = gate**2 * shrink * square + 2 * step * (1 - step * (d + 2)) * mixed + own
        cross = (1 - step) * mixed + step * d
    return d - 2 * cross + square


@pytest.mark.claim("delta-rule-law")
@pytest.mark.parametrize(("d", "C", "memory"), [(1, 3, 0.8), (5, 6, 0.9), (3, 4, 1.0)])
def test_no_schedule_of_gates_and_steps_is_better(d, C, memory):
    rho, lowest = 1 - 1 / (d + 2), float(d)
    for _ in range(C):
        lowest = rho * (memory**2 * lowest + (1 - memory**2) * d)
    best = np.full(C, memory), np.full(C, 1 / (d + 2))
    np.testing.assert_allclose(drift(*best, memory, d), lowest, rtol=1e-12)
    assert drift(best[0] * 0.95, best[1], memory, d) > lowest * 1.0001
    rng = np.random.default_rng(0)
    risk = lambda flat: drift(flat[:C], flat[C:], memory, d)
    ends = [minimize(risk, np.concatenate(best) * rng.uniform(0.5, 1.5, 2 * C)).fun for _ in range(5)]
    np.testing.assert_allclose(min(ends), lowest, rtol=1e-6)
    assert min(ends) > lowest * (1 - 1e-9)


@pytest.mark.claim("delta-rule-law")
def test_isotropic_heads_together_are_no_better(d=5, C=10):
    """Any number of descents with their own steps, combined by least squares; from one example to the next they are."""
    law = (1 - 1 / (d + 2)) ** C * d
    rng = np.random.default_rng(0)

    def combined(steps):
        left, both = (1 - steps) ** C, (1 - steps[:, None] - steps + np.outer(steps, steps) * (d + 2)) ** C
        square = 1 - left[:, None] - left + both
        best = np.linalg.lstsq(square, 1 - left, rcond=1e-10)[0]
        return d * (1 - 2 * best @ (1 - left) + best @ square @ best)

    found = [combined(np.sort(rng.uniform(0, 0.3, heads))) for heads in (1, 2, 3) for _ in range(20)]
    assert min(found) > law * (1 - 1e-7)
    np.testing.assert_allclose(combined(np.array([1 / (d + 2)])), law, rtol=1e-12)
    assert max(found[:20]) > 1.01 * law


@pytest.mark.claim("delta-rule-trained-state")
def test_the_study_reads_the_weights_that_the_descent_finds(x64):
    """The weights found by a layer that is the descent, and its effective guess."""
    layer = fast_weights.Setting("delta", 1, "state").layer()
    dim = fast_weights.DIM
    w, half = np.full(dim, fast_weights.MEAN), np.full((1, 1), 1 / (dim + 2))
    eye, label = np.eye(dim + 1), np.eye(dim + 1)[-1:]
    state = np.append(w, 0)[None, None, None]
    keys = (eye * np.append(np.ones(dim), 0))[None, None]
    params = layers.LayerParams(keys, eye[None, None], label[None, None], label.T[None, None], 0 * w, state, half)
    X, y, _ = (part[0] for part in contexts(dim, fast_weights.LENGTH, count=1))
    found = fast_weights.weights_found(layer, params, X, y)
    unit = jax.vmap(lambda x_q: estimators.delta_rule(X, y, x_q, w, 1 / (dim + 2)))(jnp.eye(dim))
    np.testing.assert_allclose(found, unit, atol=1e-10)
    np.testing.assert_allclose(fast_weights.weights_found(layer, params, 0 * X, 0 * y), w, atol=1e-12)
    assert np.abs(found - w).max() > 1e-3


@pytest.mark.claim("which-layers-need-a-guess")
def test_longer_steps_along_the_prior_mean_explain_most_of_what_one_head_gains():
    """The best step along and the best across, by the risk of features with a covariance; training goes lower still."""
    arrays, about = stored.load("fast_weights")
    d, C, size = about["dim"], about["length"], about["prior_mean"] * about["dim"] ** 0.5
    trained = arrays["risk"][about["settings"].index(["delta", 1, "none"]), :, 0]

    def risk(along, across):
        steps = np.append(along, np.full(d - 1, across))
        mean = np.append(size / along**0.5, np.zeros(d - 1))
        return theory.delta_rule_risk(tasks.GaussianTask(mean, C, np.diag(steps), np.diag(1 / steps)), 1.0)

    equal = risk(1 / (d + 2), 1 / (d + 2))
    np.testing.assert_allclose(equal, theory.delta_rule_risk(tasks.GaussianTask([about["prior_mean"]] * d, C)))
    best = minimize(lambda steps: risk(*np.exp(steps)), np.log([0.2, 0.05]), method="Nelder-Mead").fun
    assert (trained < best * 0.99).all()
    assert (equal - best > 0.9 * (equal - trained)).all()
    assert (equal - best < 0.99 * (equal - trained)).all()
