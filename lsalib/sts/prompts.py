"""The prompt: labelled examples, then a query, each with its guess or without (appendix C.3).

The paper does not print its prompt. This one has what C.3 names: ten labelled examples of two sentences,
a ground truth score and a guess; a query with its guess; and the instruction to refine the guess and to
give a score between 0 and 5.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["ROLES", "Example", "build", "digest"]

# What a part of a completion prompt is; the frame is all that the parts stand in, such as «Score:».
_PARTS = ("context sentences", "context guess", "context score", "query sentences", "query guess")
ROLES = ("instruction", *_PARTS, "frame")

_TASK = "Rate how similar two sentences are in meaning, from 0 (nothing in common) to 5 (the same meaning)."
_PRIOR = "Each pair comes with an initial guess of its score, made by a small model."
_REFINE = "Refine the initial guess of the last pair and give a similarity score between 0 and 5."
_GIVE = "Give a similarity score between 0 and 5 for the last pair."
NUMBER_LINES = ("Initial guess", "Record number")  # what the line with the guess is called; the second says nothing


class Example(NamedTuple):
    """A sentence pair, its score where that is known to the reader, and the guess of it where there is one."""

    first: str
    second: str
    score: float | None = None
    guess: float | None = None


def build(
    context: Sequence[Example], query: Example, *, guesses: bool, style: str = "completion", neutral: bool = False
) -> str | list[dict[str, str]]:
    """Write the prompt for one query.

    Args:
        context: labelled examples, in the order in which they are shown.
        query: the pair to rate; its score is not looked at.
        guesses: whether guesses are shown, and refining them is asked for.
        style: "completion" for a text that ends in “Score:”, which the model continues; "chat" for a system and a user
            message, with ``role`` and ``content``; "prefill" for the same chat with an answer that begins “Score:”.
        neutral: whether the same numbers stand there as «Record number», and nothing is said about them.

    Source: appendix C.3 of arXiv 2512.04268; the wording is ours.
    """
    line = NUMBER_LINES[neutral] if guesses else None
    # Scores are written as the data writes them, with at least one decimal and at most three.
    scores = (np.format_float_positional(_number("score", example), 3, unique=False, trim="0") for example in context)
    blocks = [f"{_block(example, line)} {score}" for example, score in zip(context, scores, strict=True)]
    task, request = (f"{_TASK} {_PRIOR}", _REFINE) if guesses and not neutral else (_TASK, _GIVE)
    last = _block(query, line)
    if style == "completion":
        return "\n\n".join([f"{task} {request}", *blocks, last])
    user = "\n\n".join([*blocks, last.removesuffix("\nScore:"), request])
    begun = [{"role": "assistant", "content": "Score:"}] if style == "prefill" else []
    return [{"role": "system", "content": task}, {"role": "user", "content": user}, *begun]


def digest(prompts: Sequence[str | list[dict[str, str]]]) -> str:
    """The SHA-256 of prompts, as ``build`` returned them, in their order: who has the same asked the same."""
    return hashlib.sha256(json.dumps(list(prompts)).encode()).hexdigest()


def _block(example: Example, line: str | None) -> str:
    guessed = f"{line}: {_number('guess', example):.2f}\n" if line else ""
    return f"Sentence 1: {example.first}\nSentence 2: {example.second}\n{guessed}Score:"


def _number(name: str, example: Example) -> float:
    value = getattr(example, name)
    if value is None or not 0 <= value <= 5:
        raise ValueError(f"{name} must be a number from 0 to 5, got {value} for «{example.first[:40]}»")
    return value
