"""The guess model: its training against a plain NumPy loop, its start, its seeds, and what it reads."""

import inspect
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from refusals import refusals

from studies.experiments import guess_models as guess

RNG = np.random.default_rng(0)
Z = RNG.standard_normal((21, 6)).astype(np.float32)
Y = (np.abs(Z[:, 0]) + 0.3 * Z[:, 1] + 2).astype(np.float64)
FEW = {"hidden": 4, "epochs": 6}  # the same everywhere, so that they are compiled once


@partial(jax.jit, static_argnums=(1, 2))
def start_and_orders(seed, hidden, epochs):
    key_init, key_order = jax.random.split(jax.random.key(seed))
    orders = jax.lax.map(lambda key: jax.random.permutation(key, len(Z)), jax.random.split(key_order, epochs))
    return guess._init(key_init, Z.shape[1], hidden, jnp.float32), orders


def plain_adam(seed, hidden, epochs, batch_size, learning_rate=1e-3, last_divisor=None):
    """The same start and order of batches, all else by hand in float64: gradients, Adam, the short last batch."""
    start, orders = start_and_orders(seed, hidden, epochs)
    W, b, w, c = (np.asarray(leaf, np.float64) for leaf in start)
    memory, square, t = [0.0] * 4, [0.0] * 4, 0
    for order in np.asarray(orders):
        for begin in range(0, len(Z), batch_size):
            rows = order[begin : begin + batch_size]
            z, y = Z[rows].astype(np.float64), Y[rows]
            inner = z @ W.T + b
            error = np.maximum(inner, 0) @ w + c - y
            slope = 2 * error / (last_divisor or len(rows))
            back = slope[:, None] * w * (inner > 0)
            gradients, t = [back.T @ z, back.sum(0), slope @ np.maximum(inner, 0), slope.sum()], t + 1
            for n, g in enumerate(gradients):
                memory[n] = 0.9 * memory[n] + 0.1 * g
                square[n] = 0.999 * square[n] + 0.001 * g**2
            W, b, w, c = (
                p - learning_rate * (m / (1 - 0.9**t)) / (np.sqrt(s / (1 - 0.999**t)) + 1e-8)
                for p, m, s in zip((W, b, w, c), memory, square, strict=True)
            )
    return W, b, w, c


def distance(network, other):
    return max(np.abs(np.asarray(a)[0] - b).max() for a, b in zip(network, other, strict=True))


def test_training_is_what_a_plain_loop_does():
    trained = guess.fit(jnp.asarray(Z), Y, seeds=[5, 6], **FEW)
    assert distance(trained, plain_adam(5, 4, 6, 8)) < 2e-5
    assert distance([leaf[1:] for leaf in trained], plain_adam(6, 4, 6, 8)) < 2e-5
    # Negative controls: a last batch of five divided by eight, another seed, another rate.
    assert distance(trained, plain_adam(5, 4, 6, 8, last_divisor=8)) > 1e-4
    assert distance(trained, plain_adam(6, 4, 6, 8)) > 1e-1
    assert distance(trained, plain_adam(5, 4, 6, 8, learning_rate=1.1e-3)) > 1e-3


def test_the_start_is_uniform_in_one_over_the_root_of_the_inputs():
    p, h = 768, 16
    network = jax.vmap(lambda key: guess._init(key, p, h, jnp.float32))(jax.random.split(jax.random.key(0), 200))
    for leaf, inputs in zip(network, (p, p, h, h), strict=True):
        bound, draws = inputs**-0.5, np.asarray(leaf, np.float64).ravel()
        assert np.abs(draws).max() <= bound
        # The variance of a uniform law, 1/3 of its squared bound, with the standard error of its estimate.
        error = np.sqrt(4 / 45 / draws.size)
        assert abs((draws**2).mean() / bound**2 - 1 / 3) < 5 * error


def test_the_settings_are_those_of_the_paper():
    paper = "hidden: int = 16, learning_rate: float = 0.001, epochs: int = 10, batch_size: int = 8"
    assert paper in str(inspect.signature(guess.fit))


def test_predictions_features_and_cosine_by_hand():
    network = guess.fit(jnp.asarray(Z), Y, seeds=[0, 1], **FEW)
    by_hand = [np.maximum(Z @ W.T + b, 0) @ w + c for W, b, w, c in zip(*map(np.asarray, network), strict=True)]
    np.testing.assert_allclose(guess.predict(network, jnp.asarray(Z)), by_hand, atol=1e-5)
    u, v = np.random.default_rng(2).standard_normal((2, 9, 3))
    np.testing.assert_allclose(guess.features("concat", u, v), np.hstack([u, v]), atol=1e-6)
    np.testing.assert_allclose(guess.features("strong", u, v), np.hstack([np.abs(u - v), u * v]), atol=1e-6)
    cos = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(u, v, strict=True)]
    assert min(cos) < 0 < max(cos)
    np.testing.assert_allclose(guess.cosine(u, v), np.maximum(5 * np.array(cos), 0))


fit = lambda z=Z, score=Y, **options: guess.fit(jnp.asarray(z), score, **options)
test_bad_arguments_are_refused = refusals(
    (lambda: guess.features("magic", Z, Z), "name must be concat or strong, got 'magic'"),
    (lambda: fit(Z, Y[:-1]), r"score must have shape \(21,\), got shape \(20,\)"),
    (lambda: fit(Z, np.where(Y > 3, np.nan, Y)), "score must be finite"),
    (lambda: fit(seeds=[]), "the number of seeds must be a whole number of at least 1"),
    (lambda: fit(Z[0]), r"z must have shape \(n, p\), got shape \(6,\)"),
    (lambda: guess.features("concat", Z, Z[:3]), r"v must have shape \(21, 6\), got shape \(3, 6\)"),
    (lambda: guess.predict(fit(**FEW), jnp.ones((2, 5))), r"z must have shape \(n, 6\), got"),
)
