"""Read a prompt and continue it, in few shapes, so that few programs are compiled."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lsalib.sts.models import _llama as llama

# New tokens are made in runs of this many; between runs the caller can say that the answer is finished.
RUN = 8


class Reading(NamedTuple):
    """A prompt that was read: its tokens and padding, its length, the cache, and the logits of the next token."""

    tokens: Int[np.ndarray, " T"]
    length: int
    cache: llama.Cache
    logits: Float[Array, " vocab"]


def bucket(length: int) -> int:
    """The padded length of a prompt of at least one token: 32, 64, or a multiple of 128, beyond 1024 of 512."""
    if length <= 64:
        return 32 if length <= 32 else 64
    step = 128 if length <= 1024 else 512
    return -(-length // step) * step


def read(params: llama.Params, config: llama.Config, prompt: Sequence[int], room: int) -> Reading:
    """Read a prompt, token ids, with room for so many tokens after it."""
    most = config.context - room
    if not 1 <= len(prompt) <= most:
        asked = f"1 to {most} tokens (the context of {config.context} less {room} new ones)"
        raise ValueError(f"prompt must have {asked}, got {len(prompt)}")
    tokens = np.zeros(bucket(len(prompt)), np.int32)
    tokens[: len(prompt)] = prompt
    return Reading(tokens, len(prompt), *_read(params, config, tokens, len(prompt)))


@partial(jax.jit, static_argnums=1)
def _read(params, config, tokens, length):
    out = llama.forward(params, config, params.embedding[tokens])
    return out.cache, llama.logits(params, jax.lax.dynamic_index_in_dim(out.hidden, length - 1, keepdims=False))


def generate(
    params: llama.Params,
    config: llama.Config,
    reading: Reading,
    *,
    end: int,
    max_new_tokens: int,
    finished: Callable[[list[int]], bool] = lambda tokens: False,
) -> list[int]:
    """Continue a prompt that was read with room for it by the most likely token, up to the limit.

    The token ``end`` ends the answer and is no part of it; ``finished`` is asked every few tokens whether it can end.
    """
    room = [(0, 0)] * 2 + [(0, -(-max_new_tokens // RUN) * RUN), (0, 0)]
    # The cache with room for new tokens, the logits, and how many tokens are written.
    state = jax.tree.map(lambda part: jnp.pad(part, room), reading.cache), reading.logits, np.int32(0)
    answer: list[int] = []
    while len(answer) < max_new_tokens and end not in answer and not (answer and finished(answer)):
        state, new = _run(params, config, state, reading.length, len(reading.tokens))
        answer += np.asarray(new).tolist()
    return list(takewhile(lambda token: token != end, answer))[:max_new_tokens]


@partial(jax.jit, static_argnums=(1, 4))
def _run(params, config, state, length, width):
    """``RUN`` tokens more. Slots from ``width`` on hold what was written."""
    slots = jnp.arange(state[0].keys.shape[2])

    def body(state, _):
        cache, logits, written = state
        token = jnp.argmax(logits).astype(jnp.int32)
        seen = (slots < length) | ((slots >= width) & (slots < width + written))
        mask = jnp.concatenate([seen, jnp.ones(1, bool)])[None]
        out = llama.forward(params, config, params.embedding[token[None]], (length + written)[None], mask, cache)
        write = lambda part, entry: jax.lax.dynamic_update_slice_in_dim(part, entry, width + written, axis=2)
        return (jax.tree.map(write, cache, out.cache), llama.logits(params, out.hidden[0]), written + 1), token

    return jax.lax.scan(body, state, length=RUN)
