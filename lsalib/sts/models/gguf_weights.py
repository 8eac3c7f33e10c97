"""A Llama model out of a GGUF file: its quantised weights, its shape and its tokenizer."""

import os
from typing import Any, NamedTuple

import jax
import numpy as np

from lsalib.sts import files
from lsalib.sts.models import llama

__all__ = ["Stored", "read"]

# Their names for the fields of ``Layer``, and for those of ``Config``, in order.
_LAYER = {"attn_norm": "attn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output"}
_LAYER |= {"mlp_norm": "ffn_norm", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
_ATTENTION = ("attention.head_count", "attention.head_count_kv")
_SIZES = ("embedding_length", "feed_forward_length", "vocab_size")
_CONFIG = ("block_count", *_ATTENTION, *_SIZES, "rope.freq_base", "attention.layer_norm_rms_epsilon", "context_length")
_CONTROL = 3  # the token type of control tokens, such as <|im_end|>


class Stored(NamedTuple):
    """What a file holds: shape, weights, a ``tokenizers.Tokenizer``, the id that ends an answer, the chat template."""

    config: llama.Config
    params: llama.Params
    tokenizer: Any
    end: int
    template: str


def read(path: str | os.PathLike, sha256: str, hint: str = "get the file again") -> Stored:
    """Read a Llama model whose embedding is tied and whose tokenizer is SmolLM2's; the digest says that it is this one.

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
        ValueError: if the file has another digest.

    Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
    """
    try:
        from gguf import GGUFReader
        from gguf.quants import dequantize
    except ImportError as error:
        raise ImportError(f"GGUF files are read by gguf ({error}): pip install 'lsalib[sts]'") from None
    files.check_sha256(path, sha256, hint)
    reader = GGUFReader(path)
    facts = {key: field.contents() for key, field in reader.fields.items()}
    stored = {tensor.name.removesuffix(".weight"): tensor for tensor in reader.tensors}
    tensor = lambda name: dequantize(stored[name].data, stored[name].tensor_type)
    layers = range(facts["llama.block_count"])
    stacks = {
        ours: jax.device_put(np.stack([tensor(f"blk.{i}.{name}") for i in layers])) for ours, name in _LAYER.items()
    }
    embedding, norm = (jax.device_put(tensor(name)) for name in ("token_embd", "output_norm"))
    kinds = zip(facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"], strict=True)
    control = [token for token, kind in kinds if kind == _CONTROL]
    return Stored(
        llama.Config(*(facts[f"llama.{key}"] for key in _CONFIG)),
        llama.Params(embedding, llama.Layer(**stacks), norm),
        byte_pairs(facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.merges"], control),
        facts["tokenizer.ggml.eos_token_id"],
        facts["tokenizer.chat_template"],
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

    Source: https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct.
    """
    try:
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    except ImportError as error:
        raise ImportError(f"texts become tokens by tokenizers ({error}): pip install 'lsalib[sts]'") from None
    pairs = [(first, second) for first, _, second in (merge.partition(" ") for merge in merges)]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs))
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer
