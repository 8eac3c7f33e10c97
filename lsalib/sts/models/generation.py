"""What a Llama model says next: greedy, batched, in programs of few shapes."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lsalib import _validate
from lsalib.sts.models import llama
from lsalib.sts.models.batching import Reading, read_prompts

__all__ = ["generate"]

# New tokens are made in runs of this many; between runs the caller can say that an answer is finished.
RUN = 8


def generate(
    params: llama.Params,
    config: llama.Config,
    prompts: Sequence[Sequence[int]] | Reading,
    *,
    end: int,
    max_new_tokens: int,
    finished: Callable[[list[int]], bool] = lambda tokens: False,
) -> list[list[int]]:
    """Continue each prompt of a batch by the most likely token, until the end token or the limit.

    Args:
        params, config: the model.
        prompts: token ids, at least one each; or a batch that ``read_prompts`` has read, with room for the new tokens.
        end: the token that ends an answer.
        max_new_tokens: the most tokens that an answer can have.
        finished: asked every few tokens whether an answer can end here.

    Returns:
        The new tokens, without the end token.

    Raises:
        ValueError: if a prompt is empty, or longer than the model's context with the new tokens.

    Example:
        >>> config = llama.Config(1, 2, 1, 4, 8, 5, 1e4, 1e-5, 64)
        >>> params = llama.init(jax.random.key(0), config)
        >>> [len(answer) for answer in generate(params, config, [[1], [2, 3]], end=-1, max_new_tokens=3)]
        [3, 3]
    """
    max_new_tokens = _validate.count("max_new_tokens", max_new_tokens)
    reading = prompts if isinstance(prompts, Reading) else read_prompts(params, config, prompts, max_new_tokens)
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


class _State(NamedTuple):
    """A batch in the middle of its answers; the cache's second axis is the batch."""

    cache: llama.Cache
    logits: Float[Array, "B vocab"]
    written: Int[Array, ""]


@partial(jax.jit, static_argnums=2)
def _start(cache, logits, room) -> _State:
    """Leave room in the cache for new tokens."""
    padding = [(0, 0)] * 3 + [(0, room), (0, 0)]
    return _State(jax.tree.map(lambda part: jnp.pad(part, padding), cache), logits, jnp.zeros((), jnp.int32))


@partial(jax.jit, static_argnums=(1, 6))
def _run(params, config, state, lengths, done, end, width):
    """Up to ``RUN`` tokens more, fewer when every row is done. Slots from ``width`` on hold what was written."""
    slots = jnp.arange(state.cache.keys.shape[3])

    def step(cache, token, length, written):
        seen = (slots < length) | ((slots >= width) & (slots < width + written))
        mask = jnp.concatenate([seen, jnp.ones(1, bool)])[None]
        out = llama.forward(params, config, llama.embed(params, token[None]), (length + written)[None], mask, cache)
        return out.cache, llama.logits(params, out.hidden[0])

    def body(carry):
        k, state, done, new = carry
        token = jnp.argmax(state.logits, axis=-1).astype(jnp.int32)
        new = jax.lax.dynamic_update_index_in_dim(new, token, k, axis=1)
        entries, logits = jax.vmap(step, in_axes=(1, 0, 0, None), out_axes=(1, 0))(
            state.cache, token, lengths, state.written
        )
        write = lambda cache, entry: jax.lax.dynamic_update_slice_in_dim(cache, entry, width + state.written, axis=3)
        return (
            k + 1,
            _State(jax.tree.map(write, state.cache, entries), logits, state.written + 1),
            done | (token == end),
            new,
        )

    new = jnp.full((len(lengths), RUN), end, jnp.int32)
    unfinished = lambda carry: (carry[0] < RUN) & ~carry[2].all()
    _, state, _, new = jax.lax.while_loop(unfinished, body, (jnp.zeros((), jnp.int32), state, done, new))
    return state, new
