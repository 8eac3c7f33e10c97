"""Looking inside SmolLM2 while it answers: what it reads, and what is left when a part has nothing to say."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsalib.sts import prompts
from lsalib.sts.design import NUMBERS as NUMBERS
from lsalib.sts.design import Item, move
from lsalib.sts.experiment import ANSWERS
from lsalib.sts.models import _llama as llama
from lsalib.sts.models._answers import AnswerTree, answer_tree, relevance_and_attention, score
from lsalib.sts.models._batching import bucket, read_prompts

__all__ = ["Look", "by_role", "look", "shift", "silence"]

_KINDS = {"Sentence 1": "sentences", "Sentence 2": "sentences", "Score": "score"}
_KINDS |= dict.fromkeys(prompts.NUMBER_LINES, "guess")
_LINE = re.compile(f"^({'|'.join(_KINDS)}):(.*)$", re.MULTILINE)


class Look(NamedTuple):
    """One prompt from inside: the expected score, the roles of the tokens, indices of ``prompts.ROLES``, and by layer
    where the last token looks, a mean over heads that sums to one, and what the tokens' values do to the score."""

    expected: float
    roles: Int[np.ndarray, " T"]
    attention: Float[np.ndarray, "L T"]
    relevance: Float[np.ndarray, "L T"]


def by_role(tokens: Float[np.ndarray, "L T"], roles: Int[np.ndarray, " T"]) -> Float[np.ndarray, "L R"]:
    """Sums over the tokens of each role, a column for each of ``prompts.ROLES``.

    Example:
        >>> by_role(np.array([[1.0, 2.0, 4.0]]), np.array([0, 5, 5])).tolist()
        [[1.0, 0.0, 0.0, 0.0, 0.0, 6.0, 0.0]]
    """
    return tokens @ np.eye(len(prompts.ROLES))[roles]


def look(model, prompt: str) -> Look:
    """Attention of the answer's place, and the relevance of all values for the expected score.

    Args:
        model: an open ``SmolLM2``.
        prompt: a completion that ``prompts.build`` wrote.
    """
    ids, roles, tree = _taken_apart(model, prompt)
    config, params, length = model.stored.config, model.stored.params, len(ids)
    x = llama.embed(params, np.pad(np.asarray(ids, np.int32), (0, bucket(length) - length)))
    values = np.array(ANSWERS, x.dtype)
    expected, relevance, attention = relevance_and_attention(params, config, x, length, tree, values)
    attention = np.asarray(attention, np.float64).mean(axis=1)
    return Look(float(expected), roles, *(np.asarray(part, np.float64)[:, :length] for part in (attention, relevance)))


def silence(model, prompt: str, role: str | None, layers: Sequence[int]) -> Float[np.ndarray, " 51"]:
    """Log-probabilities of the answers when one part of the prompt has nothing to say in some layers.

    The value vectors of its tokens are zero there; attention still goes to them.

    Args:
        model, prompt: as in ``look``.
        role: one of ``prompts.ROLES``, or None for nothing.
        layers: which layers, counted from 0.
    """
    if role is not None and role not in prompts.ROLES:
        raise ValueError(f"role must be one of {', '.join(prompts.ROLES)} or None, got {role!r}")
    config = model.stored.config
    if not all(0 <= layer < config.layers for layer in layers):
        raise ValueError(f"layers must be between 0 and {config.layers - 1}, got {list(layers)}")
    ids, roles, tree = _taken_apart(model, prompt)
    gain = np.ones((config.layers, len(ids)), np.float32)
    if role is not None:
        gain[np.array(layers, int)[:, None], np.flatnonzero(roles == prompts.ROLES.index(role))] = 0
    reading = read_prompts(model.stored.params, config, [ids], tree.used.shape[1], [gain])
    return score(model.stored.params, config, reading, tree)[0]


def shift(item: Item, *parts: str) -> tuple[Item, Item]:
    """Two runs that differ by exactly one in some of their numbers: ``design.move`` by nothing, and by these parts."""
    return move(item, "nothing"), move(item, *parts)


def _taken_apart(model, prompt: str) -> tuple[list[int], Int[np.ndarray, " T"], AnswerTree]:
    """The tokens; what each is part of, the role of its last character; and the answers as a tree."""
    known = [prompts.ROLES.index(role) for role in _roles(prompt)]
    tokenizer = model.stored.tokenizer
    encoded = tokenizer.encode(prompt)
    tree = answer_tree([tokenizer.encode(f" {answer}").ids for answer in ANSWERS])
    return encoded.ids, np.array([known[end - 1] for _, end in encoded.offsets], np.int64), tree


def _roles(prompt: str) -> list[str]:
    """What each character of a completion prompt is part of; a line's value begins with the space after its colon."""
    begin, last = prompt.find("\n\n"), prompt.rfind("\n\n")
    if begin < 0 or not all(_LINE.fullmatch(line) for line in prompt[begin:].split("\n") if line):
        raise ValueError(f"prompt must be one that build wrote as a completion, got {prompt[:60]!r}")
    found = ["instruction"] * begin + ["frame"] * (len(prompt) - begin)
    for line in _LINE.finditer(prompt, begin):
        place = "query" if line.start() > last else "context"
        found[slice(*line.span(2))] = [f"{place} {_KINDS[line[1]]}"] * len(line[2])
    return found
