"""Looking inside SmolLM2 while it answers: what it reads, and what its answer does when one thing changes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from lsalib.sts import prompts
from lsalib.sts.design import Item
from lsalib.sts.experiment import ANSWERS
from lsalib.sts.models import llama
from lsalib.sts.models.answers import AnswerTree, answer_tree, relevance_and_attention, score
from lsalib.sts.models.batching import bucket, read_prompts

__all__ = ["NUMBERS", "Look", "by_role", "look", "shift", "silence", "swap_guess"]

# The numbers in a prompt that can be moved.
NUMBERS = ("query guess", "context guess", "context score")

# Two sets of numbers that differ by one everywhere and stay between 0 and 5.
_SHRINK = 0.8


class Look(NamedTuple):
    """One prompt from inside.

    The expected score, what each token is, an index of ``prompts.ROLES``, (T,), and for every layer where the last
    token looks, a mean over heads that sums to one, and what the tokens' values do to the score.
    """

    expected: float
    roles: Int[np.ndarray, " T"]
    attention: Float[np.ndarray, "L T"]
    relevance: Float[np.ndarray, "L T"]


def token_roles(tokenizer, prompt: str) -> Int[np.ndarray, " T"]:
    """What each token of a completion prompt is part of: the role of its last character.

    Args:
        tokenizer: a ``tokenizers.Tokenizer``.
        prompt: as in ``prompts.roles``.

    Returns:
        Indices of ``prompts.ROLES``.

    Raises:
        ValueError: as ``prompts.roles``.

    Example:
        >>> class Words:  # a tokenizer that cuts before each space
        ...     def encode(self, text):
        ...         begins = [0, *(n for n, sign in enumerate(text) if sign == " ")]
        ...         return type("Encoding", (), {"offsets": list(zip(begins, [*begins[1:], len(text)]))})
        >>> token_roles(Words(), "Rate.\\n\\nSentence 1: A.\\nScore:").tolist()
        [6, 6, 6]
    """
    known = [prompts.ROLES.index(role) for role in prompts.roles(prompt)]
    return np.array([known[end - 1] for _, end in tokenizer.encode(prompt).offsets], np.int64)


def by_role(tokens: Float[np.ndarray, "L T"], roles: Int[np.ndarray, " T"]) -> Float[np.ndarray, "L R"]:
    """Sums over the tokens of each role.

    Args:
        tokens: a number for each layer and token.
        roles: indices of ``prompts.ROLES``.

    Returns:
        An array with one column a role.

    Example:
        >>> by_role(np.array([[1.0, 2.0, 4.0]]), np.array([0, 5, 5])).tolist()
        [[1.0, 0.0, 0.0, 0.0, 0.0, 6.0, 0.0]]
    """
    return tokens @ np.eye(len(prompts.ROLES))[roles]


def look(model, prompt: str) -> Look:
    """Attention of the answer's place, and the relevance of all values for the expected score.

    Args:
        model: an open ``SmolLM2``.
        prompt: a completion prompt.

    Returns:
        A ``Look``.

    Raises:
        ValueError: as ``prompts.roles``.

    Example:
        >>> look(None, "Hello")
        Traceback (most recent call last):
        ValueError: prompt must be one that build wrote as a completion, got 'Hello'
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
        model: an open ``SmolLM2``.
        prompt: a completion prompt.
        role: one of ``prompts.ROLES``, or None for nothing.
        layers: which layers, counted from 0.

    Returns:
        What ``results.expected`` takes a row of.

    Raises:
        ValueError: if there is no such role or layer, or as ``prompts.roles``.

    Example:
        >>> silence(None, "", "query", [0])  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: role must be one of instruction, ..., frame or None, got 'query'
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


def swap_guess(model, item: Item, guesses: Sequence[float]) -> Float[np.ndarray, "n 51"]:
    """Log-probabilities of the answers 0.0, 0.1, ..., 5.0 when the guess of the query alone is replaced.

    All that comes before the guess is read once: what is valued are the continuations
    «guess, Score:, answer»; in each row the guess's own probability is a constant, which normalising removes.

    Args:
        model: a ``LanguageModel`` that gives probabilities.
        item: a run with guesses, as ``design.items`` makes it.
        guesses: what to put in the guess's place.

    Returns:
        A row a guess, each up to a constant: what ``results.expected`` takes.

    Raises:
        ValueError: if a guess is not between 0 and 5.

    Example:
        >>> from lsalib.sts.prompts import Example
        >>> class Copies:  # it gives all probability to what the guess says, cut to a decimal
        ...     def score_logprobs(self, prompts, answers):
        ...         return np.array([[-99.0 * (text.split()[0][:3] != text.split()[-1]) for text in answers]])
        >>> item = Item(0, 0, [0], [Example("A.", "B.", 1.0, 2.0)], Example("C.", "D.", None, 3.0))
        >>> (swap_guess(Copies(), item, [0.5, 4.5]).argmax(1) / 10).tolist()
        [0.5, 4.5]
    """
    queries = [item.query._replace(guess=float(guess)) for guess in guesses]
    written = [str(prompts.build(item.context, query, guesses=True)) for query in queries]
    start = written[0].rindex("Initial guess:") + len("Initial guess:")
    endings = [f"{prompt[start:]} {answer}" for prompt in written for answer in ANSWERS]
    logprobs = model.score_logprobs([written[0][:start]], endings)
    return np.reshape(logprobs, (len(written), len(ANSWERS)))


def shift(item: Item, *parts: str) -> tuple[Item, Item]:
    """Two runs that differ by exactly one in some of their numbers, and in nothing else: ``0.8 z`` and ``0.8 z + 1``.

    Args:
        item: a run with guesses.
        parts: of ``NUMBERS``, which ones are moved.

    Returns:
        The run with the smaller numbers, and the one with the larger; all stay between 0 and 5.

    Raises:
        ValueError: if there is no part, or one is unknown.

    Example:
        >>> from lsalib.sts.prompts import Example
        >>> item = Item(0, 0, [0], [Example("A.", "B.", 1.0, 2.0)], Example("C.", "D.", None, 3.0))
        >>> [shifted.context[0].guess for shifted in shift(item, "context guess")]
        [1.6, 2.6]
    """
    if not parts or not set(parts) <= set(NUMBERS):
        raise ValueError(f"parts must be among {', '.join(NUMBERS)}, got {', '.join(map(repr, parts)) or 'none'}")

    def moved(by):
        change = lambda example, name: example._replace(**{name: _SHRINK * getattr(example, name) + by})
        context, query = item.context, item.query
        for part in parts:
            place, name = part.split()
            if place == "query":
                query = change(query, name)
            else:
                context = [change(example, name) for example in context]
        return item._replace(context=context, query=query)

    return moved(0.0), moved(1.0)


def _taken_apart(model, prompt: str) -> tuple[list[int], Int[np.ndarray, " T"], AnswerTree]:
    """The tokens, their roles, and the answers as a tree."""
    prompts.roles(prompt)  # refuses other texts before the model is touched
    tokenizer = model.stored.tokenizer
    tree = answer_tree([tokenizer.encode(f" {answer}").ids for answer in ANSWERS])
    return tokenizer.encode(prompt).ids, token_roles(tokenizer, prompt), tree
