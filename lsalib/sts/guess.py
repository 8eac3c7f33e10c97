"""The guesses that go into the prompt: a small network on two sentence embeddings (appendix C.3), and stronger ones."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _validate

__all__ = ["GUESS_MODELS", "Fit", "Network", "concatenated", "cosine", "fit", "guess", "interaction", "predict"]

Vectors = Float[np.ndarray, "n d"] | Float[Array, "n d"]


class Network(NamedTuple):
    """``w_2.relu(W_1 z + b_1) + b_2``; with S seeds in front: W_1 (S, h, p), b_1 (S, h), w_2 (S, h), b_2 (S,)."""

    W_1: Float[Array, "*S h p"]
    b_1: Float[Array, "*S h"]
    w_2: Float[Array, "*S h"]
    b_2: Float[Array, "*S"]


class Fit(NamedTuple):
    """S trained networks and the mean training loss of each epoch, as it went, (S, epochs)."""

    network: Network
    loss: Float[Array, "S epochs"]


def concatenated(u: Vectors, v: Vectors) -> Float[Array, "n p"]:
    """The paper's features, ``[u, v]``.

    Args:
        u, v: embeddings of the first and of the second sentences, (n, d).

    Returns:
        An array (n, 2d).

    Raises:
        ValueError: if the shapes differ.

    Example:
        >>> concatenated(np.ones((1, 2)), np.zeros((1, 2))).tolist()
        [[1.0, 1.0, 0.0, 0.0]]

    Source: appendix C.3 of arXiv 2512.04268.
    """
    _check_vectors(u, v)
    return jnp.concatenate([jnp.asarray(u), jnp.asarray(v)], axis=1)


def interaction(u: Vectors, v: Vectors) -> Float[Array, "n p"]:
    """Features that see both sentences at once, ``[|u - v|, u * v]``, entry by entry.

    Args, result and errors as in ``concatenated``.

    Example:
        >>> interaction(np.full((1, 2), 2.0), np.full((1, 2), 3.0)).tolist()
        [[1.0, 1.0, 6.0, 6.0]]

    Source: Conneau et al. (2017), InferSent.
    """
    _check_vectors(u, v)
    return _interaction(u, v)


def cosine(u: Vectors, v: Vectors) -> Float[np.ndarray, " n"]:
    """A guess without training, ``5 u.v / (|u| |v|)``, and 0 where that is negative.

    Args:
        u, v: embeddings, (n, d).

    Returns:
        Guesses between 0 and 5, (n,).

    Raises:
        ValueError: if the shapes differ.

    Example:
        >>> cosine(np.eye(2), np.ones((2, 2))).round(3).tolist()
        [3.536, 3.536]
    """
    _check_vectors(u, v)
    u, v = np.asarray(u, np.float64), np.asarray(v, np.float64)
    lengths = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    return np.clip(5 * np.einsum("nd,nd->n", u, v) / lengths, 0, 5)


def fit(
    features: Float[Array, "n p"],
    score: Float[np.ndarray, " n"],
    *,
    seeds: Sequence[int] = (0,),
    hidden: int = 16,
    learning_rate: float = 1e-3,
    epochs: int = 10,
    batch_size: int = 8,
) -> Fit:
    """Train one network a seed on ``mean (network(z) - score)^2`` with Adam, all of them in one compiled loop.

    Each epoch goes through a new permutation; its last batch may be smaller. Weights and biases start
    uniform in ``+-1/sqrt(inputs)``, PyTorch's default for a linear layer: the paper does not say how its own start.

    Args:
        features: z, (n, p).
        score: (n,).
        seeds: one network each.
        hidden: h.
        learning_rate, epochs, batch_size: as in the paper.

    Returns:
        A ``Fit``; on ``concatenated`` embeddings, 768 -> 16 -> 1, it is the paper's guess model.

    Raises:
        ValueError: if a shape does not fit, a score is not finite, or a number is out of range.

    Example:
        >>> z = jnp.linspace(-1, 1, 200)[:, None]
        >>> trained = fit(z, np.asarray(2 * jnp.abs(z[:, 0])), epochs=40, learning_rate=1e-2)
        >>> bool(jnp.abs(predict(trained.network, z)[0] - 2 * jnp.abs(z[:, 0])).max() < 0.2)
        True

    Source: appendix C.3 of arXiv 2512.04268.
    """
    _validate.shape("features", features, ("n", "p"))
    score = _validate.vector("score", score, len(features))
    for name, value in {
        "hidden": hidden,
        "epochs": epochs,
        "batch_size": batch_size,
        "the number of seeds": len(seeds),
    }.items():
        _validate.count(name, value)
    learning_rate = _validate.number("learning_rate", learning_rate, above=0.0)
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    z = jnp.asarray(features)
    train = partial(_train, hidden=hidden, epochs=epochs, batch_size=min(batch_size, len(z)))
    return Fit(*jax.vmap(train, in_axes=(0, None, None, None))(keys, z, jnp.asarray(score, z.dtype), learning_rate))


def predict(network: Network, features: Float[Array, "n p"]) -> Float[Array, "S n"]:
    """The guesses of S networks, ``w_2.relu(W_1 z + b_1) + b_2``; not limited to 0 ... 5.

    Args:
        network: weights with the seeds in front.
        features: z, (n, p).

    Returns:
        An array (S, n).

    Raises:
        ValueError: if the features have another length than the network's.

    Example:
        >>> network = Network(jnp.eye(2)[None], jnp.zeros((1, 2)), jnp.ones((1, 2)), jnp.ones(1))
        >>> predict(network, jnp.array([[2.0, -3.0]])).tolist()
        [[3.0]]
    """
    _validate.shape("features", features, ("n", network.W_1.shape[-1]))
    return _predict(network, features)


def guess(name: str, train: tuple, others: Sequence[tuple], seed: int = 0) -> list[Float[np.ndarray, " n"]]:
    """The guesses of one model for several splits, as C.3 makes them: trained on the training split.

    Args:
        name: "concat", "strong" or "cosine".
        train: (u, v, score) of the training split.
        others: (u, v) of each split to guess.
        seed: of the network.

    Returns:
        Guesses (n,) a split.

    Raises:
        ValueError: if the name is unknown, or as ``fit``.

    Example:
        >>> guess("cosine", (np.eye(2), np.eye(2), np.ones(2)), [(np.eye(2), np.eye(2))])[0].tolist()
        [5.0, 5.0]
    """
    if name not in GUESS_MODELS:
        raise ValueError(f"guess must be one of {', '.join(GUESS_MODELS)}, got {name!r}")
    features = GUESS_MODELS[name]
    if features is None:
        return [cosine(u, v) for u, v in others]
    network = fit(features(*train[:2]), train[2], seeds=[seed]).network
    return [np.asarray(predict(network, features(u, v))[0], np.float64) for u, v in others]


# The features of each trained model; the cosine is not trained.
GUESS_MODELS: dict[str, Callable | None] = {"concat": concatenated, "strong": interaction, "cosine": None}


@jax.jit
def _interaction(u, v) -> Float[Array, "n p"]:
    return jnp.concatenate([jnp.abs(u - v), u * v], axis=1)


@jax.jit
def _predict(network: Network, features: Float[Array, "n p"]) -> Float[Array, "S n"]:
    return jax.vmap(jax.vmap(_forward, in_axes=(None, 0)), in_axes=(0, None))(network, features)


def _forward(network: Network, z: Float[Array, " p"]) -> Float[Array, ""]:
    return network.w_2 @ jax.nn.relu(network.W_1 @ z + network.b_1) + network.b_2


def _init(key: PRNGKeyArray, p: int, h: int, dtype) -> Network:
    def uniform(key, shape, inputs):
        return jax.random.uniform(key, shape, dtype, -(inputs**-0.5), inputs**-0.5)

    keys = jax.random.split(key, 4)
    return Network(
        uniform(keys[0], (h, p), p), uniform(keys[1], (h,), p), uniform(keys[2], (h,), h), uniform(keys[3], (), h)
    )


@partial(jax.jit, static_argnames=("hidden", "epochs", "batch_size"))
def _train(key: PRNGKeyArray, z, score, learning_rate, *, hidden: int, epochs: int, batch_size: int):
    """One network: epochs of shuffled batches in one scan; an index of n stands for nothing."""
    n, p = z.shape
    key_init, key_order = jax.random.split(key)
    missing = -n % batch_size
    order = jax.vmap(lambda key: jax.random.permutation(key, n))(jax.random.split(key_order, epochs))
    batches = jnp.pad(order, ((0, 0), (0, missing)), constant_values=n).reshape(-1, batch_size)
    adam = optax.scale_by_adam()

    def loss(network, batch):
        real = (batch < n).astype(z.dtype)
        errors = jax.vmap(_forward, in_axes=(None, 0))(network, z[batch]) - score[batch]
        return (real * errors**2).sum() / real.sum()

    def step(state, batch):
        network, memory = state
        value, gradient = jax.value_and_grad(loss)(network, batch)
        # Adam's bias correction raises a float to a whole number.
        with jax.numpy_dtype_promotion("standard"):
            direction, memory = adam.update(gradient, memory)
        network = jax.tree.map(
            lambda weight, change: weight - jnp.asarray(learning_rate, z.dtype) * change, network, direction
        )
        return (network, memory), value * (batch < n).sum().astype(z.dtype)

    network = _init(key_init, p, hidden, z.dtype)
    (network, _), losses = jax.lax.scan(step, (network, adam.init(network)), batches)
    return network, losses.reshape(epochs, -1).sum(1) / n


def _check_vectors(u, v) -> None:
    _validate.shape("u", u, ("n", "d"))
    _validate.shape("v", v, np.shape(u))
