"""Prompts of different lengths in one rectangle, of few shapes, so that few programs are compiled, and read once."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int

from lsalib import _validate
from lsalib.sts.models import llama

__all__ = ["Reading", "bucket", "read_prompts"]


class Reading(NamedTuple):
    """A batch of prompts that was read: tokens (B, T), lengths (B,), the cache, whose second axis is the batch,
    and the logits (B, vocab) after each prompt. Rows from ``count`` on only fill the batch."""

    count: int
    tokens: Int[np.ndarray, "B T"]
    lengths: Int[np.ndarray, " B"]
    cache: llama.Cache
    logits: Float[Array, "B vocab"]


def bucket(length: int) -> int:
    """The padded length of a prompt: few lengths, so that few programs are compiled.

    Args:
        length: number of tokens.

    Returns:
        32, 64, or the next multiple of 128 up to 1024, beyond that of 512.

    Raises:
        ValueError: if ``length`` is not a whole number of at least 1.

    Example:
        >>> [bucket(n) for n in (1, 33, 65, 700, 1025)]
        [32, 64, 128, 768, 1536]
    """
    length = _validate.count("length", length)
    if length <= 64:
        return 32 if length <= 32 else 64
    step = 128 if length <= 1024 else 512
    return -(-length // step) * step


def pad(
    config: llama.Config, prompts: Sequence[Sequence[int]], room: int
) -> tuple[Int[np.ndarray, "B T"], Int[np.ndarray, " B"]]:
    """Prompts side by side, padded on the right to a ``bucket`` and below to a power of two of rows.

    Args:
        config: the model's shape.
        prompts: token ids of each prompt.
        room: how many tokens come after a prompt.

    Returns:
        Tokens (B, T), zero where there is none, and the prompts' lengths (B,); rows that only fill have one token.

    Raises:
        ValueError: if there is no prompt, or one is empty, or longer than the context with what comes after.

    Example:
        >>> tokens, lengths = pad(llama.Config(1, 2, 1, 4, 8, 5, 1e4, 1e-5, 64), [[1], [2, 3], [4]], 8)
        >>> tokens.shape, lengths.tolist()
        ((4, 32), [1, 2, 1, 1])
    """
    _validate.count("the number of prompts", len(prompts))
    most = config.context - room
    for n, prompt in enumerate(prompts):
        if not 1 <= len(prompt) <= most:
            raise ValueError(
                f"prompts[{n}] must have 1 to {most} tokens (the context of {config.context} less {room} new ones), got {len(prompt)}"
            )
    rows = 1 << (len(prompts) - 1).bit_length()
    tokens, lengths = np.zeros((rows, bucket(max(map(len, prompts)))), np.int32), np.ones(rows, np.int32)
    for n, prompt in enumerate(prompts):
        tokens[n, : len(prompt)], lengths[n] = prompt, len(prompt)
    return tokens, lengths


def read_prompts(
    params: llama.Params,
    config: llama.Config,
    prompts: Sequence[Sequence[int]],
    room: int,
    value_gains: Sequence[Float[np.ndarray, "L _"]] | None = None,
) -> Reading:
    """Read a batch of prompts, for whatever is then asked about them: ``generation.generate`` or ``answers.score``.

    Args:
        params, config: the model.
        prompts: token ids, at least one each.
        room: how many tokens will come after a prompt.
        value_gains: for each prompt what its values are multiplied by, as in ``llama.forward``; None means one.

    Returns:
        The ``Reading``.

    Raises:
        ValueError: as ``pad``, or if a gain does not fit its prompt.

    Example:
        >>> config = llama.Config(1, 2, 1, 4, 8, 5, 1e4, 1e-5, 64)
        >>> read_prompts(llama.init(jax.random.key(0), config), config, [[1], [2, 3]], 8).logits.shape
        (2, 5)
    """
    tokens, lengths = pad(config, prompts, room)
    # Gains of one change nothing, and prompts with and without gains are read by one program.
    gains = np.ones((len(tokens), config.layers, tokens.shape[1]), np.float32)
    for n, gain in enumerate(value_gains or ()):
        _validate.shape(f"value_gains[{n}]", gain, (config.layers, len(prompts[n])))
        gains[n, :, : len(prompts[n])] = gain
    return Reading(len(prompts), tokens, lengths, *_read(params, config, tokens, lengths, gains))


@partial(jax.jit, static_argnums=1)
def _read(params, config, tokens, lengths, gains):
    def one(row, length, gain):
        out = llama.read(params, config, llama.embed(params, row), value_gain=gain)
        return out.cache, llama.logits(params, jax.lax.dynamic_index_in_dim(out.hidden, length - 1, keepdims=False))

    return jax.vmap(one, out_axes=(1, 0))(tokens, lengths, gains)
