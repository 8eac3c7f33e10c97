"""The prompt: labeled examples, then a query, each with its guess or without. Its parts
are those that appendix C.3 names; the wording is ours, because the paper does not print
its prompt.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Example", "build", "digest"]

_TASK = (
    "Rate how similar two sentences are in meaning, "
    "from 0 (nothing in common) to 5 (the same meaning)."
)
_PRIOR = "Each pair comes with an initial guess of its score, made by a small model."
_REFINE = (
    "Refine the initial guess of the last pair "
    "and give a similarity score between 0 and 5."
)
_GIVE = "Give a similarity score between 0 and 5 for the last pair."
_NUMBER = "Answer with one number."


class Example(NamedTuple):
    """A sentence pair, its score where that is known to the reader, and the guess of it
    where there is one.
    """

    first: str
    second: str
    score: float | None = None
    guess: float | None = None


def build(
    context: Sequence[Example],
    query: Example,
    *,
    guesses: bool,
    style: str = "completion",
) -> str | list[dict[str, str]]:
    """Write the prompt for one query, whose score is not looked at.

    Args:
        context, query: labeled examples, in the order in which they are shown, and the
            pair to rate.
        guesses: whether guesses are shown, and refining them is asked for.
        style: "completion" for a text that ends in “Score:”, which the model continues;
            "chat" for a system and a user message, with ``role`` and ``content``: the
            second has the pairs, and ends in the same way.

    Example:
        >>> build([], Example("C.", "D.", guess=2.5), guesses=True)[-56:]
        'Sentence 1: C.\\nSentence 2: D.\\nInitial guess: 2.50\\nScore:'

    Source: appendix C.3 of arXiv 2512.04268.
    """
    # Scores are written as the data writes them, with at least one decimal and at most
    # three.
    scores = (
        np.format_float_positional(_number("score", example), 3, unique=False, trim="0")
        for example in context
    )
    blocks = [
        f"{_block(example, guesses)} {score}"
        for example, score in zip(context, scores, strict=True)
    ]
    task, request = (f"{_TASK} {_PRIOR}", _REFINE) if guesses else (_TASK, _GIVE)
    pairs = "\n\n".join([*blocks, _block(query, guesses)])
    if style == "completion":
        return f"{task} {request}\n\n{pairs}"
    return [
        {"role": "system", "content": f"{task} {request} {_NUMBER}"},
        {"role": "user", "content": pairs},
    ]


def digest(prompts: Sequence[str | list[dict[str, str]]]) -> str:
    """The SHA-256 of prompts in their order: experiments with equal digests asked the
    same.
    """
    return hashlib.sha256(json.dumps(list(prompts)).encode()).hexdigest()


def _block(example: Example, guesses: bool) -> str:
    guessed = f"Initial guess: {_number('guess', example):.2f}\n" if guesses else ""
    return f"Sentence 1: {example.first}\nSentence 2: {example.second}\n{guessed}Score:"


def _number(name: str, example: Example) -> float:
    value = getattr(example, name)
    if value is None or not 0 <= value <= 5:
        raise ValueError(
            f"{name} must be a number from 0 to 5, "
            f"got {value} for “{example.first[:40]}”"
        )
    return value
