"""The Llama forward pass, small and pure: one function for prompts, for single new tokens and for trees of them.

With an empty cache and a causal mask it reads a prompt; with a full cache and one token it continues it; with several
continuations as a tree, each seeing its ancestors only, it values them all at once. ``jax.vmap`` makes a batch.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from lsalib import _validate


class Config(NamedTuple):
    """The shape of a Llama model; hashable, so that it can be static under ``jax.jit``."""

    layers: int
    heads: int
    kv_heads: int
    dim: int
    hidden: int
    vocab: int
    rope_base: float
    norm_eps: float
    context: int

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads


class Layer(NamedTuple):
    """Weights of all layers, stacked: the first axis, L, counts them. Matrices are (L, out, in)."""

    attn_norm: Float[Array, "L dim"]
    q: Float[Array, "L dim dim"]
    k: Float[Array, "L kv dim"]
    v: Float[Array, "L kv dim"]
    o: Float[Array, "L dim dim"]
    mlp_norm: Float[Array, "L dim"]
    gate: Float[Array, "L hidden dim"]
    up: Float[Array, "L hidden dim"]
    down: Float[Array, "L dim hidden"]


class Params(NamedTuple):
    """All weights. The embedding is also the output matrix (tied)."""

    embedding: Float[Array, "vocab dim"]
    layers: Layer
    norm: Float[Array, " dim"]


class Cache(NamedTuple):
    """Keys (already rotated) and values of the tokens that were read, by layer, key head and slot."""

    keys: Float[Array, "L kv_heads slots head_dim"]
    values: Float[Array, "L kv_heads slots head_dim"]


class Output(NamedTuple):
    """Of T new tokens: last hidden states, cache entries, and attention weights, whose rows sum to one."""

    hidden: Float[Array, "T dim"]
    cache: Cache
    weights: Float[Array, "L heads T seen"]


def forward(
    params: Params,
    config: Config,
    x: Float[Array, "T dim"],
    positions: Int[Array, " T"] | None = None,
    mask: Bool[Array, "T seen"] | None = None,
    past: Cache | None = None,
    *,
    value_gain: Float[Array, "L T"] | None = None,
) -> Output:
    """Read T new tokens that see the cache's slots and each other where the mask allows it.

    Each layer adds ``W_o softmax(q k^T / sqrt(head_dim)) v`` and then ``W_down (silu(W_gate n) * W_up n)``, where n is
    the root-mean-square normalised stream, q and k are rotated by their positions (RoPE), and heads/kv_heads queries
    share a key head. Rotations turn *neighbouring* entries (2i, 2i+1), as in the original Llama and in GGUF files;
    weights in the order of Hugging Face transformers have the halves (i, i + head_dim/2) in their place.

    ``positions`` are by default those that follow the slots of the cache ``past``; by the default ``mask`` a token sees
    all slots, itself and the new tokens before it, so that nobody sees padding on the right. The tokens' values are
    multiplied by ``value_gain``: zero silences one, and the derivative at one says what it does.

    Source: Touvron et al. (2023), Su et al. (2021), Ainslie et al. (2023).
    """
    nothing = jnp.zeros((config.layers, config.kv_heads, 0, config.head_dim), x.dtype)
    past = past or Cache(nothing, nothing)
    T, slots = len(x), past.keys.shape[2]
    positions = jnp.arange(slots, slots + T) if positions is None else positions
    mask = jnp.tri(T, slots + T, slots, dtype=bool) if mask is None else mask
    _validate.shape("x", x, ("T", config.dim))
    _validate.shape("mask", mask, (T, slots + T))
    if value_gain is not None:
        _validate.shape("value_gain", value_gain, (config.layers, T))
    turn = _rotation(config, positions)

    @jax.checkpoint
    def layer(x, weights_and_past):
        weights, keys, values, gain = weights_and_past
        n = _norm(x, weights.attn_norm, config.norm_eps)
        attended, entry, attention = _attention(config, weights, n, turn, mask, Cache(keys, values), gain)
        x = x + attended
        n = _norm(x, weights.mlp_norm, config.norm_eps)
        x = x + (jax.nn.silu(n @ weights.gate.T) * (n @ weights.up.T)) @ weights.down.T
        return x, (entry, attention)

    with jax.default_matmul_precision("float32"):
        x, (cache, attention) = jax.lax.scan(layer, x, (params.layers, past.keys, past.values, value_gain))
    return Output(_norm(x, params.norm, config.norm_eps), cache, attention)


def logits(params: Params, hidden: Float[Array, "*T dim"]) -> Float[Array, "*T vocab"]:
    """Unnormalised log-probabilities of the next token, ``hidden E^T``."""
    with jax.default_matmul_precision("float32"):
        return hidden @ params.embedding.T


def _norm(x, weight, eps):
    return x * jax.lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + eps) * weight[None, :]


def _rotation(config, positions):
    """Cosines and sines, (T, 1, head_dim / 2): the rotation of pair i at position p is by p base^(-2i/head_dim)."""
    frequencies = config.rope_base ** -(jnp.arange(0, config.head_dim, 2, dtype=jnp.float32) / config.head_dim)
    angles = positions.astype(jnp.float32)[:, None] * frequencies[None, :]
    return jnp.cos(angles)[:, None, :], jnp.sin(angles)[:, None, :]


def _rotate(turn, x):
    """Turn the pairs (2i, 2i+1) of x, (T, heads, head_dim)."""
    cos, sin = (part.astype(x.dtype) for part in turn)
    a, b = x[..., 0::2], x[..., 1::2]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)


def _attention(config, weights, n, turn, mask, past, gain):
    """What a layer's attention adds, (T, dim); the tokens' cache entry; the weights (heads, T, slots + T)."""
    T, K, d, slots = len(n), config.kv_heads, config.head_dim, past.keys.shape[1]
    q = _rotate(turn, (n @ weights.q.T).reshape(T, config.heads, d)).reshape(T, K, config.heads // K, d) / math.sqrt(d)
    k = _rotate(turn, (n @ weights.k.T).reshape(T, K, d)).swapaxes(0, 1)
    v = (n @ weights.v.T).reshape(T, K, d).swapaxes(0, 1)
    v = v if gain is None else v * gain[None, :, None]
    scores = jnp.concatenate([jnp.einsum("tkgd,ksd->kgts", q, keys) for keys in (past.keys, k)], axis=-1)
    attention = jax.nn.softmax(jnp.where(mask[None, None], scores, -jnp.inf), axis=-1)
    mix = partial(jnp.einsum, "kgts,ksd->tkgd")
    mixed = mix(attention[..., :slots], past.values) + mix(attention[..., slots:], v)
    return mixed.reshape(T, config.dim) @ weights.o.T, Cache(k, v), attention.reshape(config.heads, T, slots + T)
