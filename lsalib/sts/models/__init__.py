"""Language models that answer a prompt: one that comes with a package, any of Hugging Face, any behind an OpenAI-compatible server.

``llama`` is a forward pass in JAX; ``batching``, ``answers`` and ``generation`` ask it, ``inside`` looks into it, ``gguf_weights``
reads it from a file, and ``smollm2`` is the model that needs nothing else. ``transformers_model`` and ``openai_model``
hand the work to those packages. ``text`` holds what they share.
"""

import importlib
import inspect
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from lsalib.sts.models.text import Conversation

__all__ = ["Conversation", "LanguageModel", "open_model"]

# What can be opened, with an example of each.
KNOWN = {
    "smollm2-135m-instruct": 'open_model("smollm2-135m-instruct")',
    "hf:": 'open_model("hf:Qwen/Qwen2.5-7B-Instruct", load_in_4bit=True)',
    "openai:": 'open_model("openai:llama3.1:8b", base_url="http://localhost:11434/v1")',
}


@runtime_checkable
class LanguageModel(Protocol):
    """What an experiment asks of a model. Decoding is greedy everywhere.

    Attributes:
        name: what ``open_model`` was given.
        version: what an answer depends on: packages, weights, server; it holds no secret.
    """

    name: str
    version: dict[str, str]

    def complete(
        self,
        prompts: list[str],
        *,
        max_new_tokens: int,
        stop: Sequence[str] = (),
        on_answer: Callable[[int, str], None] | None = None,
    ) -> list[str]:
        """Continue each text, up to the end token, a stop string (not part of the answer) or the limit.

        ``on_answer(index, text)`` is called in the calling thread as answers arrive, so that they can be stored.
        """
        ...

    def chat(
        self,
        conversations: list[Conversation],
        *,
        max_new_tokens: int,
        on_answer: Callable[[int, str], None] | None = None,
    ) -> list[str]:
        """Answer each conversation, a list of ``{"role": …, "content": …}``, by the model's own template."""
        ...

    def score_logprobs(self, prompts: list[str] | list[Conversation], answers: Sequence[str]) -> np.ndarray | None:
        """``log p(answer | prompt)``, (n, len(answers)): the sum over the answer's tokens; None where it cannot be had.

        Nothing is added after an answer: a newline or an end token counts only as part of one.
        """
        ...


def open_model(name: str, **options) -> LanguageModel:
    """A language model by its name.

    Args:
        name: ``smollm2-135m-instruct``; ``hf:`` and a model of Hugging Face; ``openai:`` and a model of a server.
        options: for the model's class, ``SmolLM2``, ``TransformersModel`` or ``OpenAIModel``.

    Returns:
        The model, ready to answer.

    Raises:
        ImportError: if a package is missing, with the command that installs it.
        ValueError: if the name or an option is not known.

    Example:
        >>> open_model("gpt")
        Traceback (most recent call last):
        ValueError: name must be one of smollm2-135m-instruct, hf:…, openai:…, as in open_model("smollm2-135m-instruct"), got 'gpt'
    """
    kind, colon, rest = name.partition(":") if isinstance(name, str) else ("", "", "")
    place = {
        "smollm2-135m-instruct": ("smollm2", "SmolLM2"),
        "hf:": ("transformers_model", "TransformersModel"),
        "openai:": ("openai_model", "OpenAIModel"),
    }
    if kind + colon not in KNOWN or bool(colon) != bool(rest):
        example = KNOWN.get(kind + ":", KNOWN["smollm2-135m-instruct"])
        known = ", ".join(f"{each}…" if each.endswith(":") else each for each in KNOWN)
        raise ValueError(f"name must be one of {known}, as in {example}, got {name!r}")
    module, maker = place[kind + colon]
    make = getattr(importlib.import_module(f"lsalib.sts.models.{module}"), maker)
    names = [rest] if rest else []
    try:
        inspect.signature(make).bind(*names, **options)
    except TypeError as error:
        raise ValueError(f"options must be those of {maker}, as in {KNOWN[kind + colon]}: {error}") from None
    return make(*names, **options)
