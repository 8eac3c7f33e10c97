"""What an experiment asks: the same queries and contexts in every condition (section
5.3 and appendix C.3).
"""

from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lsalib import _check
from lsalib.sts import data, prompts
from lsalib.sts.prompts import Example

__all__ = [
    "CHOICES",
    "Experiment",
    "Item",
    "Sources",
    "facts",
    "items",
    "prepare",
    "prompt",
]

#: What some fields of an ``Experiment`` may be.
CHOICES: dict[str, tuple[str, ...]] = {
    "condition": ("none", "constant", "guess", "shuffled"),
    "guess_model": ("concat", "strong"),
    "style": ("completion", "chat"),
}
GUESSES = Path(__file__).with_name("guesses.npz")
# the guess of the condition "constant": the middle of the scale, which takes nothing
# from the data
CONSTANT = 2.5


@dataclass(frozen=True)
class Experiment:
    """What is asked of whom; two experiments with equal draws, sizes and splits ask
    about the same pairs.

    Args:
        model: lsalib/smollm2-135m-instruct, or as Inspect names it, as in
            vllm/Qwen/Qwen2.5-7B-Instruct
        condition: no guess anywhere; the guess 2.50 for all pairs; guesses of a
            network; or these guesses shuffled among all pairs of the experiment
        guess_model: which network guesses: the one of C.3, or a stronger one; None
            where none does
        style: of the prompt: a text to complete, or a chat
        draw: which queries and contexts
        seed: of the guess model's training, 0, 1 or 2; 0 where no network guesses
        runs: how many queries, each with a context of its own; with another number, all
            are asked again
        context_size: labeled examples a context
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
    max_new_tokens: int = 150

    def __post_init__(self):
        if unguided := self.condition in ("none", "constant"):
            self.__dict__.update(guess_model=None, seed=0)
        for name, choices in CHOICES.items():
            if not (name == "guess_model" and unguided):
                _check.choice(name, getattr(self, name), choices)
        for name in ("runs", "context_size", "max_new_tokens", "draw", "seed"):
            least = 0 if name in ("draw", "seed") else 1
            self.__dict__[name] = _check.count(name, getattr(self, name), least)
        check_style(self.model, self.style)


def style_of(model: str) -> str:
    """How a model's provider is asked: some complete a text, all others chat."""
    provider = model.partition("/")[0]
    completes = provider == "lsalib" or provider.endswith("-completions")
    return "completion" if completes else "chat"


def check_style(model: str, style: str) -> None:
    """Refuse a style in which a model's provider cannot be asked."""
    if "/" in model and style != style_of(model):
        hint = (
            "lsalib, vllm-completions and openai-api-completions complete texts, "
            "other providers chat"
        )
        raise ValueError(
            f"style must be one that the provider can ask, got {style} for {model}: "
            f"{hint}"
        )


class Sources(NamedTuple):
    """Where contexts and queries are drawn from, and the guess for each pair; None
    where no guess is asked for.
    """

    context: data.Pairs
    query: data.Pairs
    context_guess: Float[np.ndarray, " n"] | None = None
    query_guess: Float[np.ndarray, " m"] | None = None


class Item(NamedTuple):
    """One run: which pairs it takes, and how the prompt shows them."""

    run: int
    query_index: int
    context_index: list[int]
    context: list[Example]
    query: Example


def prepare(experiment: Experiment, folder: str | PathLike | None = None) -> Sources:
    """Read the data, from a folder as in ``data.load``, and the guesses, which come
    with the package.

    Contexts are of the split "dev" and queries of "test", because guess models were
    trained on "train". The file guesses.npz says how the guesses were made.
    """
    context, query = (data.load(split, folder) for split in ("dev", "test"))
    if (kind := experiment.guess_model) is None:
        return Sources(context, query)
    with np.load(GUESSES) as known:
        made = [known[f"{kind}_{split}"] for split in ("dev", "test")]
    if experiment.seed > (most := len(made[0]) - 1):
        raise ValueError(
            f"seed must be at most {most}, the guesses that come with the package, "
            f"got {experiment.seed}"
        )
    return Sources(
        context,
        query,
        *(np.asarray(guesses[experiment.seed], np.float64) for guesses in made),
    )


def items(experiment: Experiment, sources: Sources) -> list[Item]:
    """The runs of an experiment on sources, as ``prepare`` returns them.

    Query r is entry r of a permutation of the queries, fixed by the draw. Its context
    is drawn for (draw, r), and never holds the query's own pair. Guesses are limited to
    0 ... 5 and rounded to two decimals, as the prompt shows them.

    Example:
        >>> pairs = data.Pairs(list("abcd"), list("efgh"), np.arange(4.0))
        >>> experiment = Experiment("any", "none", runs=2, context_size=1)
        >>> [item.query.first for item in items(experiment, Sources(pairs, pairs))]
        ['c', 'a']
    """
    random = lambda *what: np.random.default_rng([experiment.draw, *what])
    if experiment.runs > (n := len(sources.query.score)):
        raise ValueError(
            f"runs must be at most {n}, the number of queries, got {experiment.runs}"
        )
    order = random(0).permutation(n)[: experiment.runs].tolist()
    contexts = [
        _context(experiment, sources, query, random(1, run))
        for run, query in enumerate(order)
    ]
    shown = np.full((experiment.runs, experiment.context_size + 1), np.nan)
    # A new condition fills the guesses of the contexts, and in the last column those of
    # the queries.
    if experiment.condition == "constant":
        shown[:] = CONSTANT
    elif experiment.condition != "none":
        shown[:, :-1] = np.asarray(sources.context_guess)[np.array(contexts)]
        shown[:, -1] = np.asarray(sources.query_guess)[order]
    if experiment.condition == "shuffled":
        shown = random(2).permutation(shown.ravel()).reshape(shown.shape)
    examples = [
        _examples(sources.context, *one)
        for one in zip(contexts, shown[:, :-1], strict=True)
    ]
    queries = _examples(sources.query, order, shown[:, -1])
    return list(map(Item, range(experiment.runs), order, contexts, examples, queries))


def prompt(experiment: Experiment, item: Item) -> str | list[dict[str, str]]:
    """What an experiment asks in a run."""
    return prompts.build(
        item.context,
        item.query,
        guesses=experiment.condition != "none",
        style=experiment.style,
    )


def facts(item: Item) -> dict:
    """What a record says about a run beside its answer."""
    mean = float(np.mean([example.score for example in item.context]))
    return {
        "run": item.run,
        "query": item.query_index,
        "truth": item.query.score,
        "guess": item.query.guess,
        "context_mean": round(mean, 4),
    }


def _context(
    experiment: Experiment, sources: Sources, query: int, random: np.random.Generator
) -> list[int]:
    pairs, queries = sources.context, sources.query
    own = queries.first[query], queries.second[query]
    order = random.permutation(len(pairs.score)).tolist()
    others = [n for n in order if (pairs.first[n], pairs.second[n]) != own]
    if experiment.context_size > len(others):
        raise ValueError(
            f"context_size must be at most {len(others)}, the number of pairs other "
            f"than the query's own, got {experiment.context_size}"
        )
    return others[: experiment.context_size]


def _examples(
    pairs: data.Pairs, which: list[int], guesses: Float[np.ndarray, " k"]
) -> list[Example]:
    shown = (
        None if np.isnan(guess) else float(f"{np.clip(guess, 0, 5):.2f}")
        for guess in guesses
    )
    numbered = zip(which, shown, strict=True)
    return [
        Example(pairs.first[n], pairs.second[n], float(pairs.score[n]), guess)
        for n, guess in numbered
    ]
