"""Prompts of different lengths in one rectangle, of few shapes, so that few programs are compiled: read, continued."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
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


def read_prompts(params: llama.Params, config: llama.Config, prompts: Sequence[Sequence[int]], room: int) -> Reading:
    """Read a batch of prompts, token ids each, with room for so many tokens after them."""
    _validate.count("the number of prompts", len(prompts))
    most = config.context - room
    for n, prompt in enumerate(prompts):
        if not 1 <= len(prompt) <= most:
            asked = f"1 to {most} tokens (the context of {config.context} less {room} new ones)"
            raise ValueError(f"prompts[{n}] must have {asked}, got {len(prompt)}")
    rows = 1 << (len(prompts) - 1).bit_length()
    tokens, lengths = np.zeros((rows, bucket(max(map(len, prompts)))), np.int32), np.ones(rows, np.int32)
    for n, prompt in enumerate(prompts):
        tokens[n, : len(prompt)], lengths[n] = prompt, len(prompt)
    return Reading(len(prompts), tokens, lengths, *_read(params, config, tokens, lengths))


@partial(jax.jit, static_argnums=1)
def _read(params, config, tokens, lengths):
    def one(row, length):
        out = llama.forward(params, config, params.embedding[row])
        return out.cache, llama.logits(params, jax.lax.dynamic_index_in_dim(out.hidden, length - 1, keepdims=False))

    return jax.vmap(one, out_axes=(1, 0))(tokens, lengths)


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
    room = [(0, 0)] * 3 + [(0, -(-max_new_tokens // RUN) * RUN), (0, 0)]
    # The cache with room for new tokens, the logits, and how many tokens are written.
    state = jax.tree.map(lambda part: jnp.pad(part, room), reading.cache), reading.logits, np.int32(0)
    answers: list[list[int]] = [[] for _ in range(reading.count)]
    going = set(range(reading.count))
    while going:
        state, new = _run(params, config, state, reading.lengths, reading.tokens.shape[1])
        rows = np.asarray(new).tolist()
        for n in list(going):
            answers[n] += rows[n]
            if end in rows[n] or len(answers[n]) >= max_new_tokens or finished(answers[n]):
                going.remove(n)
    return [list(takewhile(lambda token: token != end, answer))[:max_new_tokens] for answer in answers]


@partial(jax.jit, static_argnums=(1, 4))
def _run(params, config, state, lengths, width):
    """``RUN`` tokens more. Slots from ``width`` on hold what was written."""
    slots = jnp.arange(state[0].keys.shape[3])

    def step(cache, token, length, written):
        seen = (slots < length) | ((slots >= width) & (slots < width + written))
        mask = jnp.concatenate([seen, jnp.ones(1, bool)])[None]
        out = llama.forward(params, config, params.embedding[token[None]], (length + written)[None], mask, cache)
        return out.cache, llama.logits(params, out.hidden[0])

    def body(state, _):
        cache, logits, written = state
        token = jnp.argmax(logits, axis=-1).astype(jnp.int32)
        entries, logits = jax.vmap(step, in_axes=(1, 0, 0, None), out_axes=(1, 0))(cache, token, lengths, written)
        write = lambda part, entry: jax.lax.dynamic_update_slice_in_dim(part, entry, width + written, axis=3)
        return (jax.tree.map(write, cache, entries), logits, written + 1), token

    state, new = jax.lax.scan(body, state, length=RUN)
    return state, new.T
