"""What is asked: the same pairs in every condition, drawn evenly, with the guesses that
come with the package.
"""

from dataclasses import replace
from itertools import chain, product

import numpy as np
from numpy.testing import assert_array_equal
from refusals import refusals
from sts_support import data_folder

from lsalib.sts import data
from lsalib.sts.design import (
    CHOICES,
    CONSTANT,
    GUESSES,
    Experiment,
    Sources,
    items,
    prepare,
    prompt,
)

RNG = np.random.default_rng(7)


def made_up(name, n):
    """Sentence pairs, and guesses that are right up to noise of variance 0.25, before
    they are limited to 0 … 5.
    """
    first, second = ([f"{name} {k} {which}" for k in range(n)] for which in "ab")
    pairs = data.Pairs(first, second, np.round(RNG.uniform(0, 5, n), 2))
    return pairs, pairs.score + 0.5 * RNG.standard_normal(n)


(CONTEXT, CONTEXT_GUESS), (QUERIES, QUERY_GUESS) = (
    made_up("context", 40),
    made_up("query", 30),
)
SOURCES = Sources(CONTEXT, QUERIES, CONTEXT_GUESS, QUERY_GUESS)
ASKED = Experiment("fake", "guess", runs=20, context_size=5)


def shown(runs):
    """All guesses of the prompts, in their order."""
    return [example.guess for item in runs for example in (*item.context, item.query)]


def test_the_conditions_ask_about_the_same_pairs():
    runs = {
        name: items(replace(ASKED, condition=name), SOURCES)
        for name in CHOICES["condition"]
    }
    for n, (none, constant, right, shuffled) in enumerate(
        zip(*runs.values(), strict=True)
    ):
        assert none[:3] == constant[:3] == right[:3] == shuffled[:3] and none.run == n
        assert len(set(none.context_index)) == 5
        for a, b, c in zip(
            *([*item.context, item.query] for item in (none, right, shuffled)),
            strict=True,
        ):
            assert a[:3] == b[:3] == c[:3] and a.guess is None and b.guess is not None
        guesses = [
            *SOURCES.context_guess[[*right.context_index]],
            SOURCES.query_guess[right.query_index],
        ]
        assert shown([right]) == [*np.round(np.clip(guesses, 0, 5), 2)]
        assert set(shown([constant])) == {CONSTANT}
        bare = prompt(replace(ASKED, condition="none"), none)
        assert "guess" in prompt(ASKED, right) and "guess" not in bare
    assert len({item.query_index for item in runs["none"]}) == 20
    # A permutation among everything that is shown, and one that moves nearly all of it.
    right, shuffled = shown(runs["guess"]), shown(runs["shuffled"])
    assert sorted(right) == sorted(shuffled)
    assert np.mean(np.array(right) == shuffled) < 0.1
    # Some were limited.
    assert min(right) == 0 and max(right) == 5


def test_a_draw_fixes_everything_and_fewer_runs_are_the_first():
    assert items(replace(ASKED, runs=7), SOURCES) == items(ASKED, SOURCES)[:7]
    assert items(replace(ASKED, draw=1), SOURCES) != items(ASKED, SOURCES)
    # Three more examples come after the same five.
    longer = items(replace(ASKED, context_size=8), SOURCES)
    for item, other in zip(items(ASKED, SOURCES), longer, strict=True):
        assert other.context_index[:5] == item.context_index
        assert len(other.context_index) == 8


def test_contexts_are_uniform_and_never_hold_the_query():
    same = Sources(
        SOURCES.context, SOURCES.context, SOURCES.context_guess, SOURCES.context_guess
    )
    each = [items(replace(ASKED, runs=40, draw=draw), same) for draw in range(20)]
    runs = [*chain(*each)]
    assert all(item.query_index not in item.context_index for item in runs)
    counts = np.bincount([n for item in runs for n in item.context_index], minlength=40)
    # 800 contexts of 5 among 39 others: each pair 100 times, give or take.
    assert counts.sum() == 4000 and np.abs(counts - 100).max() < 5 * 100**0.5
    # Another pair with one of the query's sentences may be an example.
    pairs = data.Pairs(list("aab"), list("xyx"), np.arange(3.0))
    query = data.Pairs(["a"], ["x"], np.zeros(1))
    one = Experiment("fake", "none", runs=1, context_size=2)
    (item,) = items(one, Sources(pairs, query))
    assert sorted(item.context_index) == [1, 2]


def test_guesses_are_those_that_come_with_the_package():
    """Of the network of the seed, for the examples' part and for the test part; they
    are as good as published.
    """
    folder, kept = data_folder(), np.load(GUESSES)
    parts = {split: data.load(split, folder) for split in ("dev", "test")}
    none = prepare(Experiment("any", "none"), folder)
    assert none.context_guess is None and none.context.first == parts["dev"].first
    for kind, seed in product(CHOICES["guess_model"], (0, 2)):
        found = prepare(Experiment("any", "guess", kind, seed=seed), folder)
        assert_array_equal(found.context_guess, kept[f"{kind}_dev"][seed])
        assert_array_equal(found.query_guess, kept[f"{kind}_test"][seed])
        for part, split in ((found.context, "dev"), (found.query, "test")):
            assert part.first == parts[split].first
    errors = {
        kind: ((kept[f"{kind}_test"] - parts["test"].score) ** 2).mean()
        for kind in CHOICES["guess_model"]
    }
    assert errors["strong"] < 0.8 < 1.6 < errors["concat"]


asked = lambda condition="guess", *args, **fields: Experiment(
    fields.pop("model", "a"), condition, *args, **fields
)
drawn = lambda sources=SOURCES, **fields: items(replace(ASKED, **fields), sources)
own = SOURCES._replace(context=SOURCES.query, context_guess=SOURCES.query_guess)
style = "style must be one that the provider can ask, got"
test_bad_input_is_refused = refusals(
    (
        "condition must be one of none, constant, guess, shuffled, got 'maybe'",
        asked,
        "maybe",
    ),
    (r"seed must be a whole number of at least 0, got 0\.5", lambda: asked(seed=0.5)),
    ("runs must be a whole number of at least 1, got 0", lambda: asked(runs=0)),
    (
        f"{style} completion for vllm/m: lsalib, vllm-completions and",
        lambda: asked(model="vllm/m"),
    ),
    (
        f"{style} chat for vllm-completions/m",
        lambda: asked(model="vllm-completions/m", style="chat"),
    ),
    (
        "seed must be at most 2, .* come with the package, got 3",
        lambda: prepare(asked(seed=3), data_folder()),
    ),
    (
        "context_size must be at most 40, .* other than the query's own, got 41",
        lambda: drawn(context_size=41),
    ),
    (
        "context_size must be at most 29, .* other than the query's own",
        lambda: drawn(own, context_size=30),
    ),
    ("runs must be at most 30", lambda: drawn(runs=31)),
)
