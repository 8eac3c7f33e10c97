"""A Llama in JAX: read a prompt, and continue it greedily."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int


class Config(NamedTuple):
    """What the shapes of the weights do not say; hashable, so that it can be static
    under ``jax.jit``.
    """

    heads: int
    kv_heads: int
    rope_base: float
    norm_eps: float
    context: int


class Params(NamedTuple):
    """All weights; layers have the names of GGUF files, as in "attn_q"."""

    embedding: Float[Array, "vocab dim"]
    output: Float[Array, "vocab dim"]
    norm: Float[Array, " dim"]
    layers: dict[str, Float[Array, "L ..."]]  # (layers, out, in)


@partial(jax.jit, static_argnums=1)
@jax.default_matmul_precision("float32")
def forward(params: Params, config: Config, tokens, positions, mask, past):
    """Read T tokens: their logits, (T, vocab), and their keys and values, (L, kv_heads,
    T, d) each.

    A token sees the S slots of the cache ``past`` and the new tokens, where its row of
    the mask, (T, S + T), allows it. Each layer adds ``W_o softmax(q k^T / sqrt(d)) v``
    and then ``W_down (silu(W_gate n) * W_up n)``, where n is the root-mean-square
    normalized stream, q and k are rotated by their positions (RoPE), and heads/kv_heads
    queries share a key head. Rotations turn neighboring entries (2i, 2i+1), as in the
    original Llama and in GGUF files.

    Source: Touvron et al. (2023), Su et al. (2021), Ainslie et al. (2023).
    """
    x = params.embedding[tokens]

    def layer(x, weights_and_past):
        w, *past = weights_and_past
        attended, entry = _attention(
            config, w, _norm(x, w["attn_norm"], config), positions, mask, past
        )
        x = x + attended
        n = _norm(x, w["ffn_norm"], config)
        return x + (jax.nn.silu(n @ w["ffn_gate"].T) * (n @ w["ffn_up"].T)) @ w[
            "ffn_down"
        ].T, entry

    x, cache = jax.lax.scan(layer, x, (params.layers, *past))
    return _norm(x, params.norm, config) @ params.output.T, cache


def _norm(x, weight, config):
    return (
        x
        * jax.lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + config.norm_eps)
        * weight[None, :]
    )


def _rotated(config, positions, x):
    """Turn pair i of x, (T, heads, d), at position p by the angle p base^(-2i/d)."""
    frequencies = config.rope_base ** -(
        jnp.arange(0, x.shape[-1], 2, dtype=jnp.float32) / x.shape[-1]
    )
    angles = (positions.astype(jnp.float32)[:, None] * frequencies[None, :])[:, None]
    cos, sin = jnp.cos(angles).astype(x.dtype), jnp.sin(angles).astype(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return jnp.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)


def _attention(config, w, n, positions, mask, past):
    """What a layer's attention adds, (T, dim), and the tokens' keys and values."""
    T, K, slots = len(n), config.kv_heads, past[0].shape[1]

    def split(name, heads):
        # Llama has no bias here; Qwen2, which a study reads, has one.
        bias = w.get(f"{name}_bias", 0.0)
        return (n @ w[name].T + bias).reshape(T, heads, -1)

    q = _rotated(config, positions, split("attn_q", config.heads))
    k = _rotated(config, positions, split("attn_k", K)).swapaxes(0, 1)
    v = split("attn_v", K).swapaxes(0, 1)
    q = q.reshape(T, K, -1, q.shape[-1]) / q.shape[-1] ** 0.5
    scores = jnp.concatenate(
        [jnp.einsum("tkgd,ksd->kgts", q, keys) for keys in (past[0], k)], axis=-1
    )
    weights = jax.nn.softmax(jnp.where(mask[None, None], scores, -jnp.inf), axis=-1)
    mix = partial(jnp.einsum, "kgts,ksd->tkgd")
    mixed = mix(weights[..., :slots], past[1]) + mix(weights[..., slots:], v)
    return mixed.reshape(T, -1) @ w["attn_output"].T, (k, v)


def read(params: Params, config: Config, prompt: Sequence[int]) -> Callable:
    """Read a prompt, token ids. What is returned reads on: of blocks of tokens, (n, T),
    each right after the prompt, it returns logits, (n, T, vocab).
    """
    # Few lengths, so that few programs are compiled: nobody sees the padding.
    length = len(prompt)
    tokens = np.pad(np.array(prompt, np.int32), (0, 128 - length % 128))
    places, dim = np.arange(len(tokens)), params.embedding.shape[1]
    layers = len(params.layers["attn_q"])
    nothing = jnp.zeros((layers, config.kv_heads, 0, dim // config.heads))
    mask = np.tri(len(tokens), dtype=bool)
    _, past = forward(params, config, tokens, places, mask, (nothing, nothing))

    def after(blocks):
        n, size = blocks.shape
        own = np.kron(np.eye(n, dtype=bool), np.tri(size, dtype=bool))
        mask = np.hstack([np.tile(places < length, (n * size, 1)), own])
        positions = np.tile(length + np.arange(size), n)
        new = forward(params, config, blocks.ravel(), positions, mask, past)
        return np.asarray(new[0]).reshape(n, size, -1)

    return after


def greedy(
    after: Callable,
    blocks: Int[np.ndarray, "n T"],
    stops: Bool[np.ndarray, " vocab"],
    most: int,
) -> list[list[int]]:
    """Continue what was read and each block by the most likely tokens, up to the first
    of ``stops``, or to ``most``.
    """
    start = blocks.shape[1]
    tokens = np.pad(blocks, ((0, 0), (0, most + 8)))
    for k in range(start, start + most):
        few = k + 8 - k % 8  # lengths: each is a program
        tokens[:, k] = after(tokens[:, :few])[:, k - 1].argmax(-1)
        written = tokens[:, start : k + 1]
        if stops[written].any(1).all():
            break
    ends = np.where(stops[written].any(1), stops[written].argmax(1) + 1, most)
    return [row[:end].tolist() for row, end in zip(written, ends, strict=True)]
