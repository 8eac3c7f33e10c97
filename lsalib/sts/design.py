"""What an experiment asks: the same queries and contexts in every condition (section 5.3 and appendix C.3)."""

from dataclasses import dataclass
from os import PathLike
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lsalib import _validate
from lsalib.sts import data, prompts, records
from lsalib.sts.prompts import Example

__all__ = ["CHOICES", "NUMBERS", "Experiment", "Item", "Sources", "items", "move", "prepare", "prompt"]

# The numbers in a prompt that can be moved.
NUMBERS = ("query guess", "context guess", "context score")

# What some fields of an ``Experiment`` may be.
CHOICES: dict[str, tuple] = {
    "condition": ("none", "guess", "shuffled", "permuted", "neutral", "biased"),
    "guess_model": ("concat", "strong", "cosine"),
    "style": ("completion", "chat", "prefill"),
    "context_split": ("dev", "train"),
    "moved": (None, "nothing", *NUMBERS, "all"),
}


@dataclass(frozen=True)
class Experiment:
    """What is asked of whom; two experiments with equal draws, sizes and splits ask about the same pairs.

    Args:
        model: smollm2-135m-instruct, or as Inspect names it, as in vllm/Qwen/Qwen2.5-7B-Instruct
        condition: no guess anywhere; guesses; guesses shuffled among all pairs of the experiment, or permuted among the
            examples of each prompt; guesses as a neutral «Record number», of which nothing is said; or biased, one less
        guess_model: who guesses: the network of C.3, a stronger one, or the cosine of embeddings; None without guesses
        style: of the prompt: a text to complete, a chat, or a chat whose answer begins with "Score:" (prefill)
        draw: which queries and contexts
        seed: of the guess model's training, 0, 1 or 2; 0 without guesses
        runs: how many queries, each with a context of its own
        context_size: labelled examples a context
        context_split: where the examples come from; guess models were trained on "train"
        max_new_tokens: the longest answer
        moved: for a probe, which numbers are one higher, after all have been scaled by 0.8; None leaves all as they are

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
    moved: str | None = None

    def __post_init__(self):
        if self.condition == "none":
            object.__setattr__(self, "guess_model", None)
            object.__setattr__(self, "seed", 0)
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices and not (name == "guess_model" and self.condition == "none"):
                raise ValueError(f"{name} must be one of {', '.join(map(str, choices))}, got {value!r}")
        if self.moved and self.condition == "none":
            raise ValueError(f"moved must be None where no guess is shown, got {self.moved!r}")
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
    """Read the data, and the guesses where the condition has some; queries are of the split "test".

    The guesses come with the package: of the cosine, and of the networks of seeds 0, 1 and 2. In the book's repository
    ``python -m studies.experiments`` trains the networks. The folder is the data's, as in ``data.load``.
    """
    splits, kind = (experiment.context_split, "test"), experiment.guess_model
    context, query = (data.load(split, folder) for split in splits)
    if kind is None:
        return Sources(context, query)
    known = records.arrays("guesses")
    seed, most = (0 if kind == "cosine" else experiment.seed), len(known[f"{kind}_test"]) - 1
    if seed > most:
        raise ValueError(f"seed must be at most {most}, the guess models that come with the package, got {seed}")
    return Sources(context, query, *(np.asarray(known[f"{kind}_{split}"][seed], np.float64) for split in splits))


def items(experiment: Experiment, sources: Sources) -> list[Item]:
    """The runs of an experiment, which depend on nothing but its fields and the sources, as ``prepare`` returns them.

    Query r is entry r of a permutation of the queries, fixed by the draw: no query comes twice, and fewer
    runs are the first of more. Its context is drawn for (draw, r), and never holds the query's own pair.
    Guesses are limited to 0 ... 5 and rounded to two decimals, as the prompt shows them, and then moved.

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
    elif experiment.condition == "permuted":
        shown[:, :-1] = [random(3, run).permutation(row) for run, row in enumerate(shown[:, :-1])]
    elif experiment.condition == "biased":
        shown -= 1
    examples = [_examples(sources.context, *one) for one in zip(contexts, shown[:, :-1], strict=True)]
    queries = _examples(sources.query, order, shown[:, -1])
    runs = map(Item, range(experiment.runs), order, contexts, examples, queries)
    return [item if experiment.moved is None else move(item, experiment.moved) for item in runs]


def move(item: Item, part: str) -> Item:
    """A run whose numbers are all scaled, ``z -> 0.8 z``, and of which some kinds are then one higher.

    So two of them differ by exactly one in some numbers and in nothing else, and any two of them in no number's scale:
    effects can be added up. All stay between 0 and 5.

    Args:
        item: a run with guesses.
        part: which of ``NUMBERS`` are moved; or "nothing", or "all".

    Example:
        >>> item = Item(0, 0, [0], [Example("A.", "B.", 1.0, 2.0)], Example("C.", "D.", None, 3.0))
        >>> [move(item, part).context[0].guess for part in ("nothing", "context guess")]
        [1.6, 2.6]
    """
    if part not in (known := CHOICES["moved"][1:]):
        raise ValueError(f"part must be one of {', '.join(known)}, got {part!r}")
    moved = lambda z, name: 0.8 * z + (part in (name, "all"))
    both = lambda e: e._replace(guess=moved(e.guess, "context guess"), score=moved(e.score, "context score"))
    return item._replace(
        context=[*map(both, item.context)], query=item.query._replace(guess=moved(item.query.guess, "query guess"))
    )


def prompt(experiment: Experiment, item: Item) -> str | list[dict[str, str]]:
    """What an experiment asks in a run: ``prompts.build`` as the condition and the style have it."""
    kind = experiment.condition
    options = {"guesses": kind != "none", "neutral": kind == "neutral"}
    return prompts.build(item.context, item.query, style=experiment.style, **options)


def _context(experiment: Experiment, sources: Sources, query: int, random: np.random.Generator) -> list[int]:
    pairs, own = sources.context, (sources.query.first[query], sources.query.second[query])
    order = random.permutation(len(pairs.score)).tolist()
    others = [n for n in order if (pairs.first[n], pairs.second[n]) != own]
    if experiment.context_size > len(others):
        most = f"{len(others)}, the number of pairs other than the query's own"
        raise ValueError(f"context_size must be at most {most}, got {experiment.context_size}")
    return others[: experiment.context_size]


def _examples(pairs: data.Pairs, which: list[int], guesses: Float[np.ndarray, " k"]) -> list[Example]:
    shown = (None if np.isnan(guess) else float(f"{np.clip(guess, 0, 5):.2f}") for guess in guesses)
    numbered = zip(which, shown, strict=True)
    return [Example(pairs.first[n], pairs.second[n], float(pairs.score[n]), guess) for n, guess in numbered]
