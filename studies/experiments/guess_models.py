"""The guesses that go into the prompt: a small network on two sentence embeddings (appendix C.3), and stronger ones."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _validate

__all__ = ["Network", "cosine", "features", "fit", "predict"]


class Network(NamedTuple):
    """``w_2.relu(W_1 z + b_1) + b_2``; with S seeds in front: W_1 (S, h, p), b_1 (S, h), w_2 (S, h), b_2 (S,)."""

    W_1: Float[Array, "*S h p"]
    b_1: Float[Array, "*S h"]
    w_2: Float[Array, "*S h"]
    b_2: Float[Array, "*S"]


def features(name: str, u: np.ndarray | Array, v: np.ndarray | Array) -> Float[np.ndarray, "n p"]:
    """What a network reads of two embeddings (n, d): "concat" is the paper's ``[u, v]``, "strong" ``[|u - v|, u * v]``.

    Example:
        >>> [features(name, np.ones((1, 1)), np.full((1, 1), 3.0)).tolist() for name in ("concat", "strong")]
        [[[1.0, 3.0]], [[2.0, 3.0]]]

    Source: appendix C.3 of arXiv 2512.04268; Conneau et al. (2017), InferSent.
    """
    if name not in ("concat", "strong"):
        raise ValueError(f"name must be concat or strong, got {name!r}")
    _validate.shape("u", u, ("n", "d"))
    _validate.shape("v", v, np.shape(u))
    u, v = np.asarray(u), np.asarray(v)
    return np.concatenate([u, v] if name == "concat" else [np.abs(u - v), u * v], axis=1)


def cosine(u: np.ndarray | Array, v: np.ndarray | Array) -> Float[np.ndarray, " n"]:
    """A guess without training, ``5 u.v / (|u| |v|)``, and 0 where that is negative, for embeddings (n, d).

    Example:
        >>> cosine(np.eye(2), np.ones((2, 2))).round(3).tolist()
        [3.536, 3.536]
    """
    _validate.shape("v", v, np.shape(u))
    u, v = np.asarray(u, np.float64), np.asarray(v, np.float64)
    lengths = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    return np.clip(5 * np.einsum("nd,nd->n", u, v) / lengths, 0, 5)


def fit(
    z: Float[np.ndarray | Array, "n p"],
    score: Float[np.ndarray, " n"],
    *,
    seeds: Sequence[int] = (0,),
    hidden: int = 16,
    learning_rate: float = 1e-3,
    epochs: int = 10,
    batch_size: int = 8,
) -> Network:
    """Train one network a seed on ``mean (network(z) - score)^2`` with Adam, all of them in one compiled loop.

    Each epoch goes through a new permutation; its last batch may be smaller. Weights and biases start
    uniform in ``+-1/sqrt(inputs)``, PyTorch's default for a linear layer: the paper does not say how its own start.

    Args:
        z, score: ``features``, (n, p), and what to guess, (n,); with "concat" it is the paper's guess model.
        seeds: one network each.
        hidden: h.
        learning_rate, epochs, batch_size: of Adam.

    Source: appendix C.3 of arXiv 2512.04268.
    """
    _validate.shape("z", z, ("n", "p"))
    score = _validate.vector("score", score, len(z))
    counts = {"hidden": hidden, "epochs": epochs, "batch_size": batch_size, "the number of seeds": len(seeds)}
    for name, value in counts.items():
        _validate.count(name, value)
    rate = _validate.number("learning_rate", learning_rate, above=0.0)
    keys, z = jnp.stack([jax.random.key(seed) for seed in seeds]), jnp.asarray(z)
    train = partial(_train, hidden=hidden, epochs=epochs, batch_size=min(batch_size, len(z)))
    return jax.vmap(train, in_axes=(0, None, None, None))(keys, z, jnp.asarray(score, z.dtype), rate)


def predict(network: Network, z: Float[np.ndarray | Array, "n p"]) -> Float[Array, "S n"]:
    """The guesses of S networks for ``features`` (n, p); not limited to 0 ... 5.

    Example:
        >>> network = Network(jnp.eye(2)[None], jnp.zeros((1, 2)), jnp.ones((1, 2)), jnp.ones(1))
        >>> predict(network, jnp.array([[2.0, -3.0]])).tolist()
        [[3.0]]
    """
    _validate.shape("z", z, ("n", network.W_1.shape[-1]))
    return _predict(network, z)


def _forward(network: Network, z: Float[Array, "n p"]) -> Float[Array, " n"]:
    one = lambda z: network.w_2 @ jax.nn.relu(network.W_1 @ z + network.b_1) + network.b_2
    return jax.vmap(one)(z)


_predict = jax.jit(jax.vmap(_forward, in_axes=(0, None)))


def _init(key: PRNGKeyArray, p: int, h: int, dtype) -> Network:
    sizes = zip(jax.random.split(key, 4), ((h, p), (h,), (h,), ()), (p, p, h, h), strict=True)
    return Network(*(jax.random.uniform(key, size, dtype, -(n**-0.5), n**-0.5) for key, size, n in sizes))


@partial(jax.jit, static_argnames=("hidden", "epochs", "batch_size"))
def _train(key: PRNGKeyArray, z, score, learning_rate, *, hidden: int, epochs: int, batch_size: int) -> Network:
    """One network: epochs of shuffled batches in one scan; an index of n stands for nothing."""
    n, p = z.shape
    key_init, key_order = jax.random.split(key)
    order = jax.vmap(lambda key: jax.random.permutation(key, n))(jax.random.split(key_order, epochs))
    batches = jnp.pad(order, ((0, 0), (0, -n % batch_size)), constant_values=n).reshape(-1, batch_size)
    adam = optax.adam(learning_rate)

    def loss(network, batch):
        real = (batch < n).astype(z.dtype)
        errors = _forward(network, z[batch]) - score[batch]
        return (real * errors**2).sum() / real.sum()

    def step(state, batch):
        network, memory = state
        gradient = jax.grad(loss)(network, batch)
        # Adam's bias correction raises a float to a whole number.
        with jax.numpy_dtype_promotion("standard"):
            change, memory = adam.update(gradient, memory)
        return (optax.apply_updates(network, change), memory), None

    network = _init(key_init, p, hidden, z.dtype)
    (network, _), _ = jax.lax.scan(step, (network, adam.init(network)), batches)
    return network
