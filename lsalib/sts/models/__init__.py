"""Language models that answer a prompt: one from a package, any of Hugging Face, any OpenAI-compatible server.

``smollm2`` is the model that needs nothing else, a forward pass in JAX. ``transformers_model`` and ``openai_model``
hand the work to those packages.
"""

import importlib
import inspect

from lsalib.sts.models._text import Conversation, LanguageModel

__all__ = ["Conversation", "LanguageModel", "open_model"]

# What can be opened: the module and the class, with an example of each.
KNOWN = {
    "smollm2-135m-instruct": ("smollm2", "SmolLM2", '"smollm2-135m-instruct"'),
    "hf:": ("transformers_model", "TransformersModel", '"hf:Qwen/Qwen2.5-7B-Instruct", load_in_4bit=True'),
    "openai:": ("openai_model", "OpenAIModel", '"openai:llama3.1:8b", base_url="http://localhost:11434/v1"'),
}


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
        >>> open_model("gpt")  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        ValueError: name must be one of smollm2-135m-instruct, hf:…, openai:…,
            as in open_model("smollm2-135m-instruct"), got 'gpt'
    """
    kind, colon, rest = name.partition(":") if isinstance(name, str) else ("", "", "")
    if kind + colon not in KNOWN or bool(colon) != bool(rest):
        *_, example = KNOWN.get(kind + ":", KNOWN["smollm2-135m-instruct"])
        known = ", ".join(f"{each}…" if each.endswith(":") else each for each in KNOWN)
        raise ValueError(f"name must be one of {known}, as in open_model({example}), got {name!r}")
    module, maker, example = KNOWN[kind + colon]
    make = getattr(importlib.import_module(f"lsalib.sts.models.{module}"), maker)
    names = [rest] if rest else []
    try:
        inspect.signature(make).bind(*names, **options)
    except TypeError as error:
        raise ValueError(f"options must be those of {maker}, as in open_model({example}): {error}") from None
    return make(*names, **options)
