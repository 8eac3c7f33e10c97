"""A Llama model out of a GGUF file: its quantised weights, its shape and its tokenizer."""

import os
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lsalib.sts import files
from lsalib.sts.models import llama

__all__ = ["Stored", "read"]

_LAYER = {
    "attn_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "mlp_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}
_CONTROL = 3  # the token type of control tokens, such as <|im_end|>


class Stored(NamedTuple):
    """What a file holds: shape, weights, a ``tokenizers.Tokenizer``, the id of the token that ends an answer, the chat template."""

    config: llama.Config
    params: llama.Params
    tokenizer: object
    end: int
    template: str


def read(path: str | os.PathLike, sha256: str, hint: str = "get the file again") -> Stored:
    """Read a Llama model whose embedding is tied and whose tokenizer is SmolLM2's.

    Quantised blocks become plain float32: in Q4_1 a block of 32 weights is ``scale * q + minimum`` with q = 0 … 15.
    The rows of W_q and W_k stay in the file's order, the one that ``llama.forward`` rotates.

    Args:
        path: the file.
        sha256: its digest; another file is refused.
        hint: what to do about another file.

    Returns:
        The ``Stored`` model.

    Raises:
        ImportError: if gguf or tokenizers is not installed.
        FileNotFoundError: if there is no such file.
        ValueError: if the file has another digest, or holds another kind of model.

    Example:
        >>> read("no-such-file.gguf", 64 * "0")
        Traceback (most recent call last):
        FileNotFoundError: [Errno 2] No such file or directory: 'no-such-file.gguf'

    Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
    """
    try:
        from gguf import GGUFReader
        from gguf.quants import dequantize
    except ImportError as error:
        raise ImportError(f"GGUF files are read by gguf ({error}): pip install 'lsalib[sts]'") from None
    files.check_sha256(path, sha256, hint)
    reader = GGUFReader(path)
    stored = {tensor.name: tensor for tensor in reader.tensors}
    tensor = lambda name: dequantize(stored[name].data, stored[name].tensor_type)
    facts = _Facts(path, reader)
    config = _config(facts)
    layers = {
        ours: jax.device_put(np.stack([tensor(f"blk.{i}.{theirs}.weight") for i in range(config.layers)]))
        for ours, theirs in _LAYER.items()
    }
    params = llama.Params(
        jax.device_put(tensor("token_embd.weight")), llama.Layer(**layers), jax.device_put(tensor("output_norm.weight"))
    )
    _check_shapes(path, config, params)
    tokenizer = _tokenizer(facts)
    return Stored(
        config, params, tokenizer, int(facts("tokenizer.ggml.eos_token_id")), facts("tokenizer.chat_template")
    )


def byte_pairs(tokens: list[str], merges: list[str], control: list[str]):
    """The tokenizer of SmolLM2: digits one by one, GPT-2's split into words, byte pairs, control tokens whole.

    A byte that the vocabulary lacks is left out, as by transformers. SmolLM2 lacks six control characters
    (hexadecimal 04, 06, 13, 14, 16, 1d) and the bytes with which U+40000 to U+BFFFF begin.

    Args:
        tokens: the vocabulary, in the order of the ids.
        merges: the pairs, "left right", in the order in which they are merged.
        control: tokens that are never split, nor made of pieces.

    Returns:
        A ``tokenizers.Tokenizer`` that adds nothing before or after a text.

    Raises:
        ImportError: if tokenizers is not installed.

    Example:
        >>> try:
        ...     ids = byte_pairs(["<end>", "a", "b", "1", "ab"], ["a b"], ["<end>"]).encode("ab11<end>").ids
        ... except ImportError:  # without tokenizers
        ...     ids = [4, 3, 3, 0]
        >>> ids
        [4, 3, 3, 0]

    Source: https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct.
    """
    try:
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    except ImportError as error:
        raise ImportError(f"texts become tokens by tokenizers ({error}): pip install 'lsalib[sts]'") from None
    pairs = [tuple(merge.split(" ")) for merge in merges]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs))
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer


class _Facts:
    """The file's metadata by key; a missing one is an error that names the file."""

    def __init__(self, path, reader):
        self.path, self.reader = path, reader

    def __call__(self, key: str):
        field = self.reader.get_field(key)
        if field is None:
            raise ValueError(f"{self.path} must hold a Llama model with a SmolLM2 tokenizer, got a file without {key}")
        return field.contents()

    def expect(self, key: str, value) -> None:
        if self(key) != value:
            raise ValueError(
                f"{self.path} must hold a Llama model with a SmolLM2 tokenizer, got {key} = {self(key)!r}, not {value!r}"
            )


def _config(facts: _Facts) -> llama.Config:
    facts.expect("general.architecture", "llama")
    of = lambda key: facts(f"llama.{key}")
    facts.expect("llama.rope.dimension_count", of("embedding_length") // of("attention.head_count"))
    return llama.Config(
        layers=of("block_count"),
        heads=of("attention.head_count"),
        kv_heads=of("attention.head_count_kv"),
        dim=of("embedding_length"),
        hidden=of("feed_forward_length"),
        vocab=of("vocab_size"),
        rope_base=of("rope.freq_base"),
        norm_eps=of("attention.layer_norm_rms_epsilon"),
        context=of("context_length"),
    )


def _tokenizer(facts: _Facts):
    facts.expect("tokenizer.ggml.model", "gpt2")
    facts.expect("tokenizer.ggml.pre", "smollm")
    facts.expect("tokenizer.ggml.add_bos_token", False)
    tokens = facts("tokenizer.ggml.tokens")
    kinds = facts("tokenizer.ggml.token_type")
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    return byte_pairs(tokens, facts("tokenizer.ggml.merges"), control)


def _check_shapes(path, config: llama.Config, params: llama.Params) -> None:
    expected = jax.eval_shape(lambda: llama.init(jax.random.key(0), config))
    if jax.tree.map(jnp.shape, params) != jax.tree.map(lambda leaf: leaf.shape, expected):
        raise ValueError(
            f"{path} must hold weights that fit its own metadata, {config}, got {jax.tree.map(jnp.shape, params)}"
        )
