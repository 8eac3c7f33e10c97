"""Prompts of different lengths in one rectangle, of few shapes, so that few programs are compiled: read, continued."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lsalib import _validate
from lsalib.sts.models import _llama as llama

# New tokens are made in runs of this many; between runs the caller can say that an answer is finished.
RUN = 8


class Reading(NamedTuple):
    """A batch of prompts that was read: tokens (B, T), lengths (B,), the cache, whose second axis is the batch,
    and the logits (B, vocab) after each prompt. Rows from ``count`` on only fill the batch."""

    count: int  # type: ignore[assignment]  # hides tuple.count, for which nobody asks
    tokens: Int[np.ndarray, "B T"]
    lengths: Int[np.ndarray, " B"]
    cache: llama.Cache
    logits: Float[Array, "B vocab"]


def bucket(length: int) -> int:
    """The padded length of a prompt of at least one token: 32, 64, or a multiple of 128, beyond 1024 of 512."""
    if length <= 64:
        return 32 if length <= 32 else 64
    step = 128 if length <= 1024 else 512
    return -(-length // step) * step


def read_prompts(
    params: llama.Params,
    config: llama.Config,
    prompts: Sequence[Sequence[int]],
    room: int,
    value_gains: Sequence[Float[np.ndarray, "L _"]] | None = None,
) -> Reading:
    """Read a batch of prompts, token ids each, with room for so many tokens after them, for ``generate`` or
    ``answers.score``; with ``value_gains`` their values are multiplied as in ``llama.forward``."""
    _validate.count("the number of prompts", len(prompts))
    most = config.context - room
    for n, prompt in enumerate(prompts):
        if not 1 <= len(prompt) <= most:
            asked = f"1 to {most} tokens (the context of {config.context} less {room} new ones)"
            raise ValueError(f"prompts[{n}] must have {asked}, got {len(prompt)}")
    rows = 1 << (len(prompts) - 1).bit_length()
    tokens, lengths = np.zeros((rows, bucket(max(map(len, prompts)))), np.int32), np.ones(rows, np.int32)
    # Gains of one change nothing, and prompts with and without gains are read by one program.
    gains = np.ones((rows, config.layers, tokens.shape[1]), np.float32)
    for n, prompt in enumerate(prompts):
        tokens[n, : len(prompt)], lengths[n] = prompt, len(prompt)
        if value_gains is not None:
            _validate.shape(f"value_gains[{n}]", value_gains[n], (config.layers, len(prompt)))
            gains[n, :, : len(prompt)] = value_gains[n]
    return Reading(len(prompts), tokens, lengths, *_read(params, config, tokens, lengths, gains))


@partial(jax.jit, static_argnums=1)
def _read(params, config, tokens, lengths, gains):
    def one(row, length, gain):
        out = llama.forward(params, config, llama.embed(params, row), value_gain=gain)
        return out.cache, llama.logits(params, jax.lax.dynamic_index_in_dim(out.hidden, length - 1, keepdims=False))

    return jax.vmap(one, out_axes=(1, 0))(tokens, lengths, gains)


def generate(
    params: llama.Params,
    config: llama.Config,
    reading: Reading,
    *,
    end: int,
    max_new_tokens: int,
    finished: Callable[[list[int]], bool] = lambda tokens: False,
) -> list[list[int]]:
    """Continue each prompt of a batch that was read with room for it by the most likely token, up to the limit.

    The token ``end`` ends an answer and is no part of it; ``finished`` is asked every few tokens whether one can end.
    """
    runs = -(-max_new_tokens // RUN)
    state = _start(reading.cache, reading.logits, runs * RUN)
    answers: list[list[int]] = [[] for _ in range(reading.count)]
    done = np.arange(len(reading.lengths)) >= reading.count
    for _ in range(runs):
        state, new = _run(params, config, state, reading.lengths, done, end, reading.tokens.shape[1])
        for n, row in enumerate(np.asarray(new)[: reading.count]):
            if not done[n]:
                ended = np.flatnonzero(row == end)
                answers[n] += row[: ended[0] if len(ended) else RUN].tolist()
                done[n] = len(ended) > 0 or len(answers[n]) >= max_new_tokens or finished(answers[n])
        if done.all():
            break
    return [answer[:max_new_tokens] for answer in answers]


@partial(jax.jit, static_argnums=2)
def _start(cache, logits, room):
    """A batch before its answers: the cache with room for new tokens, the logits, how many tokens are written."""
    padding = [(0, 0)] * 3 + [(0, room), (0, 0)]
    return jax.tree.map(lambda part: jnp.pad(part, padding), cache), logits, jnp.zeros((), jnp.int32)


@partial(jax.jit, static_argnums=(1, 6))
def _run(params, config, state, lengths, done, end, width):
    """Up to ``RUN`` tokens more, fewer when every row is done. Slots from ``width`` on hold what was written."""
    slots = jnp.arange(state[0].keys.shape[3])

    def step(cache, token, length, written):
        seen = (slots < length) | ((slots >= width) & (slots < width + written))
        mask = jnp.concatenate([seen, jnp.ones(1, bool)])[None]
        out = llama.forward(params, config, llama.embed(params, token[None]), (length + written)[None], mask, cache)
        return out.cache, llama.logits(params, out.hidden[0])

    def body(carry):
        k, (cache, logits, written), done, new = carry
        token = jnp.argmax(logits, axis=-1).astype(jnp.int32)
        new = jax.lax.dynamic_update_index_in_dim(new, token, k, axis=1)
        entries, logits = jax.vmap(step, in_axes=(1, 0, 0, None), out_axes=(1, 0))(cache, token, lengths, written)
        write = lambda part, entry: jax.lax.dynamic_update_slice_in_dim(part, entry, width + written, axis=3)
        return k + 1, (jax.tree.map(write, cache, entries), logits, written + 1), done | (token == end), new

    new = jnp.full((len(lengths), RUN), end, jnp.int32)
    unfinished = lambda carry: (carry[0] < RUN) & ~carry[2].all()
    _, state, _, new = jax.lax.while_loop(unfinished, body, (jnp.zeros((), jnp.int32), state, done, new))
    return state, new
