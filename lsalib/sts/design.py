"""What an experiment asks: the same queries and contexts in every condition (section 5.3 and appendix C.3)."""

from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lsalib import _validate
from lsalib.sts import data, embeddings, guess, records
from lsalib.sts.prompts import Example

__all__ = ["CHOICES", "Experiment", "Item", "Sources", "items", "prepare"]

# What some fields of an ``Experiment`` may be.
CHOICES = {
    "condition": ("none", "guess", "shuffled"),
    "guess_model": ("concat", "strong", "cosine"),
    "style": ("completion", "chat"),
    "context_split": ("dev", "train"),
}


@dataclass(frozen=True)
class Experiment:
    """What is asked of whom; two experiments with equal draws, sizes and splits ask about the same pairs.

    Args:
        model: as in smollm2-135m-instruct, hf:Qwen/Qwen2.5-7B-Instruct, openai:MODEL
        condition: no guess anywhere, guesses, or guesses that are permuted among all pairs of the experiment
        guess_model: who guesses: the network of C.3, a stronger one, or the cosine of embeddings; None without guesses
        style: of the prompt
        draw: which queries and contexts
        seed: of the guess model's training; 0 without guesses
        runs: how many queries, each with a context of its own
        context_size: labelled examples a context
        context_split: where the examples come from; guess models were trained on "train"
        max_new_tokens: the longest answer

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
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices and not (name == "guess_model" and self.condition == "none"):
                raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
        for name in ("runs", "context_size", "max_new_tokens"):
            object.__setattr__(self, name, _validate.count(name, getattr(self, name)))
        for name in ("draw", "seed"):
            if not isinstance(value := getattr(self, name), int) or value < 0:
                raise ValueError(f"{name} must be a whole number of at least 0, got {value!r}")


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
    """Read the data, and, where the condition has guesses, take or make them; queries are of the split "test".

    For contexts from "dev" and seeds 0, 1, 2 guesses come with the package. For others the sentences are embedded and
    the guess model is trained. The folder is that of the data, as in ``data.load``.
    """
    splits, kind, seed = (experiment.context_split, "test"), experiment.guess_model, experiment.seed
    pairs = data.load(splits[0], folder), data.load("test", folder)
    if kind is None:
        return Sources(*pairs)
    stored = records.arrays("guesses")
    if "train" in splits or seed >= len(stored["strong_dev"]):
        guesses = _made(kind, seed, [data.load("train", folder), *pairs])
    else:
        guesses = [stored[f"{kind}_{split}"][seed] for split in splits]
    return Sources(*pairs, *(np.asarray(each, np.float64) for each in guesses))


def items(experiment: Experiment, sources: Sources) -> list[Item]:
    """The runs of an experiment, which depend on nothing but its fields and the sources, as ``prepare`` returns them.

    Query r is entry r of a permutation of the queries, fixed by the draw: no query comes twice, and fewer
    runs are the first of more. Its context is drawn for (draw, r), and never holds the query's own pair.
    Guesses are limited to 0 ... 5 and rounded to two decimals, as the prompt shows them.

    Example:
        >>> pairs = data.Pairs(list("abcd"), list("efgh"), np.arange(4.0))
        >>> experiment = Experiment("any", "none", runs=2, context_size=1)
        >>> [item.query.first for item in items(experiment, Sources(pairs, pairs))]
        ['c', 'a']
    """
    random = lambda *what: np.random.default_rng([experiment.draw, *what])
    if experiment.runs > (n := len(sources.query.score)):
        raise ValueError(f"runs must be at most {n}, the number of queries, got {experiment.runs}")
    order = random(0).permutation(n)[: experiment.runs].tolist()
    contexts = [_context(experiment, sources, query, random(1, run)) for run, query in enumerate(order)]
    shown = np.full((experiment.runs, experiment.context_size + 1), np.nan)
    if experiment.condition != "none":
        m = len(sources.context.score)
        shown[:, :-1] = _validate.vector("context_guess", sources.context_guess, m)[np.array(contexts)]
        shown[:, -1] = _validate.vector("query_guess", sources.query_guess, n)[order]
    if experiment.condition == "shuffled":
        shown = random(2).permutation(shown.ravel()).reshape(shown.shape)
    examples = [
        list(map(partial(_example, sources.context), *one)) for one in zip(contexts, shown[:, :-1], strict=True)
    ]
    queries = map(partial(_example, sources.query), order, shown[:, -1])
    return list(map(Item, range(experiment.runs), order, contexts, examples, queries))


def _made(kind: str, seed: int, splits: list[data.Pairs]) -> list[np.ndarray]:
    """Guesses (n,) for all splits but the first, on which the guess model is trained."""
    train, *others = [np.split(embeddings.embed([*pairs.first, *pairs.second]), 2) for pairs in splits]
    if kind == "cosine":
        return [guess.cosine(*vectors) for vectors in others]
    network = guess.fit(guess.features(kind, *train), splits[0].score, seeds=[seed])
    return [np.asarray(guess.predict(network, guess.features(kind, *vectors)))[0] for vectors in others]


def _context(experiment: Experiment, sources: Sources, query: int, random: np.random.Generator) -> list[int]:
    pairs, own = sources.context, (sources.query.first[query], sources.query.second[query])
    order = random.permutation(len(pairs.score)).tolist()
    others = [n for n in order if (pairs.first[n], pairs.second[n]) != own]
    if experiment.context_size > len(others):
        most = f"{len(others)}, the number of pairs other than the query's own"
        raise ValueError(f"context_size must be at most {most}, got {experiment.context_size}")
    return others[: experiment.context_size]


def _example(pairs: data.Pairs, n: int, guess: float) -> Example:
    shown = None if np.isnan(guess) else float(f"{np.clip(guess, 0, 5):.2f}")
    return Example(pairs.first[n], pairs.second[n], float(pairs.score[n]), shown)
