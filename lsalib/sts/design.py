"""What an experiment asks: the same queries and contexts in every condition (section 5.3 and appendix C.3)."""

import operator
from dataclasses import dataclass
from os import PathLike
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lsalib import _validate
from lsalib.sts import data, embeddings, prompts
from lsalib.sts.guess import GUESS_MODELS, guess
from lsalib.sts.prompts import Example

__all__ = ["CONDITIONS", "Experiment", "Item", "Sources", "items", "prepare"]

CONDITIONS = ("none", "guess", "shuffled")


@dataclass(frozen=True)
class Experiment:
    """What is asked of whom; two experiments with equal draws, sizes and splits ask about the same pairs.

    Args:
        model: a name for ``models.open_model``.
        condition: "none" (no guess anywhere), "guess", or "shuffled" (the guesses of all pairs of the
            experiment, permuted among them: what they would do if they said nothing).
        guess_model: "concat" (C.3), "strong" or "cosine"; not used, and None, where the condition is "none".
        style: of the prompt, "completion" or "chat".
        draw: which queries and contexts.
        seed: of the guess model's training; not used, and 0, where the condition is "none".
        runs: how many queries, each with a context of its own.
        context_size: labelled examples a context.
        context_split: where the examples come from. "dev", since a guess model knows "train" by heart.
        max_new_tokens: the longest answer.

    Raises:
        ValueError: if a name is unknown or a number is out of range.

    Example:
        >>> Experiment("smollm2-135m-instruct", "none").guess_model is None
        True

    Source: section 5.3 and appendix C.3 of arXiv 2512.04268.
    """

    model: str
    condition: str
    guess_model: str | None = "concat"
    style: str = "completion"
    draw: int = 0
    seed: int = 0
    runs: int = 100
    context_size: int = 10
    context_split: str = "dev"
    max_new_tokens: int = 150

    def __post_init__(self):
        if self.condition == "none":
            object.__setattr__(self, "guess_model", None)
            object.__setattr__(self, "seed", 0)
        known = {"condition": CONDITIONS, "style": prompts.STYLES, "context_split": ("dev", "train")}
        if self.condition != "none":
            known["guess_model"] = tuple(GUESS_MODELS)
        for name, choices in known.items():
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}")
        for name in ("runs", "context_size", "max_new_tokens"):
            object.__setattr__(self, name, _validate.count(name, getattr(self, name)))
        for name in ("draw", "seed"):
            object.__setattr__(self, name, _seed(name, getattr(self, name)))


class Sources(NamedTuple):
    """Where contexts and queries are drawn from, and the guess for each pair; None where no guess is asked for."""

    context: data.Pairs
    query: data.Pairs
    context_guess: Float[np.ndarray, " n"] | None = None
    query_guess: Float[np.ndarray, " m"] | None = None


class Item(NamedTuple):
    """One run: which pairs it takes, and the examples as the prompt shows them."""

    run: int
    query_index: int
    context_index: list[int]
    context: list[Example]
    query: Example


def prepare(experiment: Experiment, folder: str | PathLike | None = None) -> Sources:
    """Read the data, and, where the condition has guesses, embed the sentences and train the guess model.

    Args:
        experiment: the ``Experiment``.
        folder: of the data; None means as in ``data.load``.

    Returns:
        The ``Sources``: contexts from the experiment's split, queries from "test".

    Raises:
        ImportError, OSError, ValueError: as ``data.load`` and ``embeddings.embed``.

    Example:
        >>> prepare(Experiment("any", "none"), folder="no-such-folder")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        FileNotFoundError: no-such-folder/stsb-en-dev.csv does not exist; ...
    """
    context, query = data.load(experiment.context_split, folder), data.load("test", folder)
    if experiment.guess_model is None:
        return Sources(context, query)
    train = data.load("train", folder)
    guesses = guess(
        experiment.guess_model, (*_embed(train), train.score), [_embed(context), _embed(query)], experiment.seed
    )
    return Sources(context, query, *guesses)


def items(experiment: Experiment, sources: Sources) -> list[Item]:
    """The runs of an experiment, which depend on nothing but its fields and the sources.

    Query r is entry r of a permutation of the queries, fixed by the draw: no query comes twice, and fewer
    runs are the first of more. Its context is drawn for (draw, r), and never holds the query's own pair.
    Guesses are limited to 0 ... 5 and rounded to two decimals, as the prompt shows them.

    Args:
        experiment: the ``Experiment``.
        sources: what ``prepare`` returned, or any other pairs.

    Returns:
        One ``Item`` a run.

    Raises:
        ValueError: if there are too few pairs, guesses are missing, or a score or guess is not finite.

    Example:
        >>> pairs = data.Pairs(list("abcd"), list("efgh"), np.arange(4.0))
        >>> experiment = Experiment("any", "none", runs=2, context_size=1)
        >>> [item.query.first for item in items(experiment, Sources(pairs, pairs))]
        ['c', 'a']
    """
    _check_sources(experiment, sources)
    order = (
        np.random.default_rng([experiment.draw, 0]).permutation(len(sources.query.score))[: experiment.runs].tolist()
    )
    contexts = [_context(experiment, sources, run, query) for run, query in enumerate(order)]
    shown = np.full((experiment.runs, experiment.context_size + 1), np.nan)
    if experiment.condition != "none":
        shown[:, :-1] = np.asarray(sources.context_guess)[np.array(contexts)]
        shown[:, -1] = np.asarray(sources.query_guess)[order]
    if experiment.condition == "shuffled":
        shown = np.random.default_rng([experiment.draw, 2]).permutation(shown.ravel()).reshape(shown.shape)
    return [
        Item(
            run,
            query,
            context,
            [_example(sources.context, n, g) for n, g in zip(context, row[:-1], strict=True)],
            _example(sources.query, query, row[-1]),
        )
        for run, (query, context, row) in enumerate(zip(order, contexts, shown, strict=True))
    ]


def _context(experiment: Experiment, sources: Sources, run: int, query: int) -> list[int]:
    pairs, own = sources.context, (sources.query.first[query], sources.query.second[query])
    order = np.random.default_rng([experiment.draw, 1, run]).permutation(len(pairs.score)).tolist()
    drawn = [n for n in order if (pairs.first[n], pairs.second[n]) != own][: experiment.context_size]
    if len(drawn) < experiment.context_size:
        raise ValueError(
            f"context_size must be at most {len(drawn)}, the number of pairs other than the query's own, "
            f"got {experiment.context_size}"
        )
    return drawn


def _example(pairs: data.Pairs, n: int, guess: float) -> Example:
    shown = None if np.isnan(guess) else float(f"{np.clip(guess, 0, 5):.2f}")
    return Example(pairs.first[n], pairs.second[n], float(pairs.score[n]), shown)


def _embed(pairs: data.Pairs) -> tuple[np.ndarray, np.ndarray]:
    vectors = embeddings.embed([*pairs.first, *pairs.second])
    return vectors[: len(pairs.first)], vectors[len(pairs.first) :]


def _check_sources(experiment: Experiment, sources: Sources) -> None:
    for name, wanted, pairs in (
        ("runs", experiment.runs, sources.query),
        ("context_size", experiment.context_size, sources.context),
    ):
        _validate.vector(f"the scores behind {name}", pairs.score)
        if wanted > len(pairs.score):
            raise ValueError(
                f"{name} must be at most {len(pairs.score)}, the number of pairs to draw from, got {wanted}"
            )
    if experiment.condition != "none":
        for name, guesses, pairs in (
            ("context_guess", sources.context_guess, sources.context),
            ("query_guess", sources.query_guess, sources.query),
        ):
            _validate.vector(name, guesses, len(pairs.score))


def _seed(name: str, value) -> int:
    try:
        whole = operator.index(value)
    except TypeError:
        whole = -1
    if whole < 0:
        raise ValueError(f"{name} must be a whole number of at least 0, got {value!r}")
    return whole
