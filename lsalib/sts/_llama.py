"""A Llama in JAX: read a prompt, continue it greedily, and tell how likely given answers are."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int


class Config(NamedTuple):
    """What the shapes of the weights do not say; hashable, so that it can be static under ``jax.jit``."""

    heads: int
    kv_heads: int
    rope_base: float
    norm_eps: float
    context: int


class Params(NamedTuple):
    """All weights; the embedding is also the output matrix. Layers have the names of GGUF files, as in "attn_q"."""

    embedding: Float[Array, "vocab dim"]
    norm: Float[Array, " dim"]
    layers: dict[str, Float[Array, "L ..."]]  # (layers, out, in)


class Reading(NamedTuple):
    """A prompt that was read: its tokens, padded, their number, its keys and values, and the next token's logits."""

    tokens: Int[np.ndarray, " T"]
    length: int
    cache: tuple[Float[Array, "L kv_heads T d"], Float[Array, "L kv_heads T d"]]
    logits: Float[Array, " vocab"]


def forward(params: Params, config: Config, tokens, positions, mask, past=None):
    """Read T tokens: their last hidden states, (T, dim), and their keys and values, (L, kv_heads, T, d) each.

    A token sees the S slots of the cache ``past``, if there is one, and the new tokens, where its row of the mask,
    (T, S + T), allows it. Each layer adds ``W_o softmax(q k^T / sqrt(d)) v`` and then
    ``W_down (silu(W_gate n) * W_up n)``, where n is the root-mean-square normalized stream, q and k are rotated by
    their positions (RoPE), and heads/kv_heads queries share a key head. Rotations turn neighboring entries
    (2i, 2i+1), as in the original Llama and in GGUF files.

    Source: Touvron et al. (2023), Su et al. (2021), Ainslie et al. (2023).
    """
    x = params.embedding[tokens]
    if past is None:
        nothing = jnp.zeros((len(params.layers["attn_q"]), config.kv_heads, 0, x.shape[1] // config.heads), x.dtype)
        past = nothing, nothing

    def layer(x, weights_and_past):
        w, *past = weights_and_past
        attended, entry = _attention(config, w, _norm(x, w["attn_norm"], config), positions, mask, past)
        x = x + attended
        n = _norm(x, w["ffn_norm"], config)
        return x + (jax.nn.silu(n @ w["ffn_gate"].T) * (n @ w["ffn_up"].T)) @ w["ffn_down"].T, entry

    with jax.default_matmul_precision("float32"):
        x, cache = jax.lax.scan(layer, x, (params.layers, *past))
    return _norm(x, params.norm, config), cache


def _norm(x, weight, config):
    return x * jax.lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + config.norm_eps) * weight[None, :]


def _rotated(config, positions, x):
    """Turn pair i of x, (T, heads, d), at position p by the angle p base^(-2i/d)."""
    frequencies = config.rope_base ** -(jnp.arange(0, x.shape[-1], 2, dtype=jnp.float32) / x.shape[-1])
    angles = (positions.astype(jnp.float32)[:, None] * frequencies[None, :])[:, None]
    cos, sin = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)


def _attention(config, w, n, positions, mask, past):
    """What a layer's attention adds, (T, dim), and the tokens' keys and values."""
    T, K, slots = len(n), config.kv_heads, past[0].shape[1]
    q = _rotated(config, positions, (n @ w["attn_q"].T).reshape(T, config.heads, -1))
    k = _rotated(config, positions, (n @ w["attn_k"].T).reshape(T, K, -1)).swapaxes(0, 1)
    v = (n @ w["attn_v"].T).reshape(T, K, -1).swapaxes(0, 1)
    q = q.reshape(T, K, -1, q.shape[-1]) / q.shape[-1] ** 0.5
    scores = jnp.concatenate([jnp.einsum("tkgd,ksd->kgts", q, keys) for keys in (past[0], k)], axis=-1)
    weights = jax.nn.softmax(jnp.where(mask[None, None], scores, -jnp.inf), axis=-1)
    mix = partial(jnp.einsum, "kgts,ksd->tkgd")
    mixed = mix(weights[..., :slots], past[1]) + mix(weights[..., slots:], v)
    return mixed.reshape(T, -1) @ w["attn_output"].T, (k, v)


def _logits(params, hidden):
    with jax.default_matmul_precision("float32"):
        return hidden @ params.embedding.T


def read(params: Params, config: Config, prompt: Sequence[int], room: int) -> Reading:
    """Read a prompt, token ids, with room for so many tokens after it."""
    most = config.context - room
    if not 1 <= len(prompt) <= most:
        raise ValueError(f"prompt must have 1 to {most} tokens, so that {room} can follow, got {len(prompt)}")
    # Few lengths, so that few programs are compiled: nobody sees the padding.
    tokens = np.pad(np.array(prompt, np.int32), (0, -len(prompt) % 128))
    return Reading(tokens, len(prompt), *_read(params, config, tokens, len(prompt)))


@partial(jax.jit, static_argnums=1)
def _read(params, config, tokens, length):
    T = len(tokens)
    hidden, cache = forward(params, config, tokens, jnp.arange(T), jnp.tri(T, dtype=bool))
    return cache, _logits(params, jax.lax.dynamic_index_in_dim(hidden, length - 1, keepdims=False))


def greedy(params: Params, config: Config, reading: Reading, stops: Bool[np.ndarray, " vocab"], most: int) -> list[int]:
    """Continue a prompt by the most likely tokens, up to the first of ``stops``, which is the last, or to ``most``."""
    answer, written = _greedy(params, config, reading.cache, reading.logits, reading.length, stops, most)
    return np.asarray(answer)[: int(written)].tolist()


@partial(jax.jit, static_argnums=(1, 6))
def _greedy(params, config, cache, logits, length, stops, most):
    width = cache[0].shape[2]  # the slots from here on hold what is written
    slots = jnp.arange(width + most)

    def body(state):
        cache, logits, answer, written, _ = state
        token = jnp.argmax(logits).astype(jnp.int32)
        seen = (slots < length) | ((slots >= width) & (slots < width + written))
        mask = jnp.concatenate([seen, jnp.ones(1, bool)])[None]
        hidden, new = forward(params, config, token[None], (length + written)[None], mask, cache)
        write = lambda part, new: jax.lax.dynamic_update_slice_in_dim(part, new, width + written, axis=2)
        cache = jax.tree.map(write, cache, new)
        return cache, _logits(params, hidden[0]), answer.at[written].set(token), written + 1, stops[token]

    cache = jax.tree.map(lambda part: jnp.pad(part, [(0, 0), (0, 0), (0, most), (0, 0)]), cache)
    start = cache, logits, jnp.zeros(most, jnp.int32), jnp.int32(0), jnp.bool_(False)
    return jax.lax.while_loop(lambda state: (state[3] < most) & ~state[4], body, start)[2:4]


def logprobs(params: Params, config: Config, reading: Reading, answers: Sequence[list[int]]) -> Float[np.ndarray, " A"]:
    """The log-probability of each answer, token ids, after a prompt: the sum over its tokens."""
    longest = max(map(len, answers))
    tokens = np.array([answer + [-1] * (longest - len(answer)) for answer in answers], np.int32)
    last = reading.tokens[reading.length - 1]
    return np.asarray(_logprobs(params, config, reading.cache, last, reading.length, tokens))


@partial(jax.jit, static_argnums=1)
def _logprobs(params, config, past, last, length, tokens):
    K, slots = tokens.shape[1], past[0].shape[2]
    # The prompt's last token is read again, before each answer: it predicts the answer's first token.
    before = jnp.broadcast_to(jnp.arange(slots)[None] < length - 1, (K, slots))
    mask = jnp.concatenate([before, jnp.tri(K, dtype=bool)], axis=1)

    def one(answer):
        seen = jnp.concatenate([last[None], answer[:-1]])
        hidden, _ = forward(params, config, seen, length - 1 + jnp.arange(K), mask, past)
        found = jax.nn.log_softmax(_logits(params, hidden), axis=-1)[jnp.arange(K), answer]
        return jnp.where(answer >= 0, found, jnp.zeros_like(found)).sum()

    return jax.vmap(one)(tokens)
