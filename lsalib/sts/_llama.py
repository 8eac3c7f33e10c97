"""A Llama in JAX: read a prompt, and continue it greedily."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float


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
    """All weights; the embedding is also the output matrix.

    Layers have the names of GGUF files, as in "attn_q".
    """

    embedding: Float[Array, "vocab dim"]
    norm: Float[Array, " dim"]
    layers: dict[str, Float[Array, "L ..."]]  # (layers, out, in)


def forward(params: Params, config: Config, tokens, positions, mask, past):
    """Read T tokens: their last hidden states, (T, dim), and their keys and values, (L,
    kv_heads, T, d) each.

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
    return _norm(x, params.norm, config), cache


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
    q = _rotated(config, positions, (n @ w["attn_q"].T).reshape(T, config.heads, -1))
    k = _rotated(config, positions, (n @ w["attn_k"].T).reshape(T, K, -1)).swapaxes(
        0, 1
    )
    v = (n @ w["attn_v"].T).reshape(T, K, -1).swapaxes(0, 1)
    q = q.reshape(T, K, -1, q.shape[-1]) / q.shape[-1] ** 0.5
    scores = jnp.concatenate(
        [jnp.einsum("tkgd,ksd->kgts", q, keys) for keys in (past[0], k)], axis=-1
    )
    weights = jax.nn.softmax(jnp.where(mask[None, None], scores, -jnp.inf), axis=-1)
    mix = partial(jnp.einsum, "kgts,ksd->tkgd")
    mixed = mix(weights[..., :slots], past[1]) + mix(weights[..., slots:], v)
    return mixed.reshape(T, -1) @ w["attn_output"].T, (k, v)


def greedy(
    params: Params,
    config: Config,
    prompt: Sequence[int],
    stops: Bool[np.ndarray, " vocab"],
    most: int,
) -> list[int]:
    """Continue a prompt, token ids, by the most likely tokens, up to the first of
    ``stops``, or to ``most``.
    """
    room = config.context - most
    if not 1 <= len(prompt) <= room:
        raise ValueError(
            f"prompt must have 1 to {room} tokens, so that {most} can follow, got {len(prompt)}"
        )
    # Few lengths, so that few programs are compiled: nobody sees the padding.
    tokens = np.pad(np.array(prompt, np.int32), (0, -len(prompt) % 128))
    with jax.default_matmul_precision("float32"):
        answer, written = _greedy(params, config, tokens, len(prompt), stops, most)
    return np.asarray(answer)[: int(written)].tolist()


@partial(jax.jit, static_argnums=(1, 5))
def _greedy(params, config, tokens, length, stops, most):
    width = len(tokens)  # the slots from here on hold what is written
    slots = jnp.arange(width + most)
    (_, dim), layers = params.embedding.shape, len(params.layers["attn_q"])
    nothing = jnp.zeros((layers, config.kv_heads, 0, dim // config.heads))
    hidden, cache = forward(
        params,
        config,
        tokens,
        jnp.arange(width),
        jnp.tri(width, dtype=bool),
        (nothing, nothing),
    )
    cache = jax.tree.map(
        lambda part: jnp.pad(part, [(0, 0), (0, 0), (0, most), (0, 0)]), cache
    )

    def body(state):
        cache, logits, answer, written, _ = state
        token = jnp.argmax(logits).astype(jnp.int32)
        seen = (slots < length) | ((slots >= width) & (slots < width + written))
        mask = jnp.concatenate([seen, jnp.ones(1, bool)])[None]
        hidden, new = forward(
            params, config, token[None], (length + written)[None], mask, cache
        )
        write = lambda part, new: jax.lax.dynamic_update_slice_in_dim(
            part, new, width + written, axis=2
        )
        cache = jax.tree.map(write, cache, new)
        return (
            cache,
            params.embedding @ hidden[0],
            answer.at[written].set(token),
            written + 1,
            stops[token],
        )

    logits = params.embedding @ hidden[length - 1]
    start = cache, logits, jnp.zeros(most, jnp.int32), jnp.int32(0), jnp.bool_(False)
    return jax.lax.while_loop(lambda state: (state[3] < most) & ~state[4], body, start)[
        2:4
    ]
