"""The prompt: labelled examples, then a query, each with its guess or without (appendix C.3).

The paper does not print its prompt. This one has what C.3 names: ten labelled examples of two sentences,
a ground truth score and a guess; a query with its guess; and the instruction to refine the guess and to
give a score between 0 and 5.
"""

import hashlib
import json
import math
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["ROLES", "Example", "build", "digest"]

STYLES = ("completion", "chat")
# What a part of a completion prompt is; the frame is all that the parts stand in, such as «Score:».
ROLES = (
    "instruction",
    "context sentences",
    "context guess",
    "context score",
    "query sentences",
    "query guess",
    "frame",
)

_TASK = "Rate how similar two sentences are in meaning, from 0 (nothing in common) to 5 (the same meaning)."
_PRIOR = "Each pair comes with an initial guess of its score, made by a small model."
_REFINE = "Refine the initial guess of the last pair and give a similarity score between 0 and 5."
_GIVE = "Give a similarity score between 0 and 5 for the last pair."
_ONLY = "Answer with the number alone."


class Example(NamedTuple):
    """A sentence pair, its score where that is known to the reader, and the guess of it where there is one."""

    first: str
    second: str
    score: float | None = None
    guess: float | None = None


def build(
    context: Sequence[Example], query: Example, *, guesses: bool, style: str = "completion"
) -> str | list[dict[str, str]]:
    """Write the prompt for one query.

    Args:
        context: labelled examples, in the order in which they are shown.
        query: the pair to rate; its score is not looked at.
        guesses: whether guesses are shown, and refining them is asked for.
        style: "completion" for a text that ends in «Score:», which the model goes on with, or "chat" for a
            system and a user message.

    Returns:
        A text, or two messages with ``role`` and ``content``.

    Raises:
        ValueError: if the style is unknown, an example has no score, or a guess is missing, or a number is
            not between 0 and 5.

    Example:
        >>> print(build([Example("A dog runs.", "A dog is running.", 4.8, 4.1)], Example("A cat.", "A car.", guess=0.5), guesses=True))
        Rate how similar two sentences are in meaning, from 0 (nothing in common) to 5 (the same meaning). Each pair comes with an initial guess of its score, made by a small model. Refine the initial guess of the last pair and give a similarity score between 0 and 5.
        <BLANKLINE>
        Sentence 1: A dog runs.
        Sentence 2: A dog is running.
        Initial guess: 4.10
        Score: 4.8
        <BLANKLINE>
        Sentence 1: A cat.
        Sentence 2: A car.
        Initial guess: 0.50
        Score:

    Source: appendix C.3 of arXiv 2512.04268; the wording is ours.
    """
    if style not in STYLES:
        raise ValueError(f"style must be one of {', '.join(STYLES)}, got {style!r}")
    blocks = [_block(example, guesses) + f" {_score(example)}" for example in context]
    task = f"{_TASK} {_PRIOR}" if guesses else _TASK
    request = _REFINE if guesses else _GIVE
    last = _block(query, guesses)
    if style == "completion":
        return "\n\n".join([f"{task} {request}", *blocks, last])
    user = "\n\n".join([*blocks, last.removesuffix("\nScore:"), request])
    return [{"role": "system", "content": f"{task} {_ONLY}"}, {"role": "user", "content": user}]


def number(value: float) -> str:
    """A score as the data writes it: as many decimals as it has, at least one and at most three.

    Args:
        value: a finite number.

    Returns:
        The text.

    Example:
        >>> [number(score) for score in (5.0, 3.8, 4.75, 1.53333333333333)]
        ['5.0', '3.8', '4.75', '1.533']
    """
    whole, decimals = f"{value:.3f}".split(".")
    return f"{whole}.{decimals.rstrip('0') or '0'}"


def digest(prompts: Sequence[str | list[dict[str, str]]]) -> str:
    """The SHA-256 of prompts in their order: two experiments with the same one asked the same.

    Args:
        prompts: what ``build`` returned.

    Returns:
        64 hexadecimal digits.

    Example:
        >>> digest(["a", "b"]) == digest(["b", "a"])
        False
    """
    return hashlib.sha256(json.dumps(list(prompts)).encode()).hexdigest()


def roles(prompt: str) -> list[str]:
    """What each character of a completion prompt is part of: one of ``ROLES``.

    Args:
        prompt: what ``build`` returned in the style "completion".

    Returns:
        One role a character. A line's value begins with the space after its colon.

    Raises:
        ValueError: if the text is none of these prompts.

    Example:
        >>> prompt = build([Example("A dog.", "A cat.", 1.2, 2.5)], Example("A cat.", "A car.", guess=0.5), guesses=True)
        >>> "".join(sign for sign, role in zip(prompt, roles(prompt)) if role == "query guess")
        ' 0.50'
    """
    kinds = {"Sentence 1": "sentences", "Sentence 2": "sentences", "Initial guess": "guess", "Score": "score"}
    instruction, *blocks = prompt.split("\n\n")
    if not blocks:
        raise ValueError(f"prompt must be one that build wrote as a completion, got {prompt[:60]!r}")
    found = ["instruction"] * len(instruction)
    for block in blocks:
        place = "query" if block is blocks[-1] else "context"
        found += ["frame"] * 2
        for line in block.splitlines(keepends=True):
            name, colon, value = line.partition(":")
            if not colon or name not in kinds:
                raise ValueError(f"prompt must be one that build wrote as a completion, got the line {line[:60]!r}")
            end = len(value) - value.endswith("\n")
            found += ["frame"] * (len(name) + 1) + [f"{place} {kinds[name]}"] * end + ["frame"] * (len(value) - end)
    return found


def _block(example: Example, guesses: bool) -> str:
    lines = [f"Sentence 1: {example.first}", f"Sentence 2: {example.second}"]
    if guesses:
        lines.append(f"Initial guess: {_between('guess', example.guess, example):.2f}")
    return "\n".join([*lines, "Score:"])


def _score(example: Example) -> str:
    return number(_between("score", example.score, example))


def _between(name: str, value: float | None, example: Example) -> float:
    if value is None or not (math.isfinite(value) and 0 <= value <= 5):
        raise ValueError(f"{name} must be a number from 0 to 5, got {value} for «{example.first[:40]}»")
    return value
