"""What is asked: the same pairs in every condition, drawn evenly, and the prompt, to the character."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from refusals import refusals
from sts_support import data_folder, made_up

from lsalib.sts import data, records
from lsalib.sts.design import CHOICES, Experiment, Sources, items, move, prepare, prompt
from lsalib.sts.prompts import Example, build, digest

SOURCES = made_up()
ASKED = Experiment("fake", "guess", runs=20, context_size=5)


def shown(runs):
    """All guesses of the prompts, in their order."""
    return [example.guess for item in runs for example in (*item.context, item.query)]


def test_the_conditions_ask_about_the_same_pairs():
    runs = {name: items(replace(ASKED, condition=name), SOURCES) for name in ("none", "guess", "shuffled")}
    for n, (none, with_guess, shuffled) in enumerate(zip(*runs.values(), strict=True)):
        assert none[:3] == with_guess[:3] == shuffled[:3] and none.run == n
        assert len(set(none.context_index)) == 5
        for a, b, c in zip(*([*item.context, item.query] for item in (none, with_guess, shuffled)), strict=True):
            assert a[:3] == b[:3] == c[:3] and a.guess is None and b.guess is not None
    assert len({item.query_index for item in runs["none"]}) == 20
    wide = SOURCES._replace(context_guess=SOURCES.context_guess * 10 - 20, query_guess=SOURCES.query_guess * 10 - 20)
    assert min(shown(items(ASKED, wide))) == 0.0 and max(shown(items(ASKED, wide))) == 5.0
    # A permutation among everything that is shown, and one that moves nearly all of it.
    guess, shuffled = shown(runs["guess"]), shown(runs["shuffled"])
    assert sorted(guess) == sorted(shuffled) and np.mean(np.array(guess) == shuffled) < 0.1


def test_what_is_done_to_the_guesses():
    runs = {name: items(replace(ASKED, condition=name), SOURCES) for name in CHOICES["condition"]}
    guess = runs["guess"]
    numbers = lambda item: [example.guess for example in item.context]
    for right, permuted, neutral, biased in zip(
        *(runs[c] for c in ("guess", "permuted", "neutral", "biased")), strict=True
    ):
        # Permuted among the examples of a prompt; the query's stays.
        assert sorted(numbers(permuted)) == sorted(numbers(right)) and permuted.query == right.query
        assert neutral == right
        made = [*SOURCES.context_guess[biased.context_index], SOURCES.query_guess[biased.query_index]]
        np.testing.assert_allclose(
            [*numbers(biased), biased.query.guess], np.clip(np.array(made) - 1, 0, 5), atol=0.005001
        )
    moved = [
        a != b
        for p, g in zip(runs["permuted"], guess, strict=True)
        for a, b in zip(numbers(p), numbers(g), strict=True)
    ]
    assert 0.6 < np.mean(moved) < 0.95, "one in five stays, give or take"
    assert items(replace(ASKED, condition="permuted", runs=7), SOURCES) == runs["permuted"][:7]
    # Nothing in the words says that the record numbers are guesses.
    neutral, named = (prompt(replace(ASKED, condition=c), guess[0]) for c in ("neutral", "guess"))
    assert "guess" not in neutral.lower() and neutral.count("Record number: ") == 6
    lines = lambda text: text.split("\n")[1:]
    assert lines(neutral.replace("Record number", "Initial guess")) == lines(named)


def in_arms(rule, arms):
    """What a rule on (guess, guesses, scores) answers to the runs of each arm, (arms, runs)."""
    return np.array(
        [[rule(i.query.guess, *np.array([(e.guess, e.score) for e in i.context]).T) for i in a] for a in arms]
    )


RULES = {
    "copier": (lambda g, G, Y: g, [1, 0, 0, 1]),
    "refiner": (lambda g, G, Y: g + (Y - G).mean(), [1, -1, 1, 1]),
    "ignorer": (lambda g, G, Y: Y.mean(), [0, 0, 1, 1]),
    "half a step": (lambda g, G, Y: g + 0.5 * (Y - G).mean(), [1, -0.5, 0.5, 1]),
    "product": (lambda g, G, Y: g * Y.mean(), None),
}


def line(g, G, Y):
    """The regression line of score on guess, at the query's guess."""
    slope = np.cov(G, Y)[0, 1] / G.var(ddof=1)
    return Y.mean() + slope * (g - G.mean())


def test_numbers_are_moved_by_one_on_one_scale():
    """Rules are measured for what they are: effects add up, and the regression line makes its full correction."""
    arms = [items(replace(ASKED, moved=part), SOURCES) for part in CHOICES["moved"][1:]]
    for item, plain in zip(arms[0], items(ASKED, SOURCES), strict=True):
        np.testing.assert_allclose(item.query.guess, 0.8 * plain.query.guess)
        np.testing.assert_allclose([e.score for e in item.context], [0.8 * e.score for e in plain.context])
        assert item.query.score == plain.query.score and item[:3] == plain[:3]
    for rule, effects in RULES.values():
        found = in_arms(rule, arms)
        if effects:
            np.testing.assert_allclose((found[1:] - found[0]).T, [effects] * 20, atol=1e-9)
    slopes = [np.polyfit([e.guess for e in i.context], [e.score for e in i.context], 1)[0] for i in arms[0]]
    query, context, score, together = (found := in_arms(line, arms))[1:] - found[0]
    np.testing.assert_allclose([query, -context], [slopes, slopes], atol=1e-8)
    np.testing.assert_allclose([score, together], 1, atol=1e-8)
    # Controls: a rule whose effects do not add up; and with the moved numbers alone on the smaller scale, another line.
    query, context, score, together = (found := in_arms(RULES["product"][0], arms))[1:] - found[0]
    assert (together - query - context - score > 0.9).all()
    mixed = [
        i._replace(context=[a._replace(score=b.score) for a, b in zip(i.context, j.context, strict=True)])
        for i, j in zip(arms[2], items(ASKED, SOURCES), strict=True)
    ]
    assert np.abs(in_arms(line, [mixed])[0] - in_arms(line, [items(ASKED, SOURCES)])[0] + slopes).max() > 0.05


def test_a_draw_fixes_everything_and_fewer_runs_are_the_first():
    assert items(ASKED, SOURCES) == items(ASKED, SOURCES)
    assert items(replace(ASKED, runs=7), SOURCES) == items(ASKED, SOURCES)[:7]
    assert items(replace(ASKED, draw=1), SOURCES) != items(ASKED, SOURCES)
    # Three more examples come after the same five.
    for item, longer in zip(items(ASKED, SOURCES), items(replace(ASKED, context_size=8), SOURCES), strict=True):
        assert longer.context_index[:5] == item.context_index and len(longer.context_index) == 8


def test_contexts_are_uniform_and_never_hold_the_query():
    same = Sources(SOURCES.context, SOURCES.context, SOURCES.context_guess, SOURCES.context_guess)
    asked = replace(ASKED, runs=40)
    runs = [item for draw in range(20) for item in items(replace(asked, draw=draw), same)]
    assert all(item.query_index not in item.context_index for item in runs)
    counts = np.bincount([n for item in runs for n in item.context_index], minlength=40)
    # 800 contexts of 5 among 39 others: each pair 100 times, give or take.
    assert counts.sum() == 4000 and np.abs(counts - 100).max() < 5 * 100**0.5
    places = np.bincount([item.context_index[0] for item in runs], minlength=40)
    assert np.abs(places - 20).max() < 6 * 20**0.5


def test_another_pair_with_one_of_the_query_s_sentences_may_be_an_example():
    pairs, query = data.Pairs(list("aab"), list("xyx"), np.arange(3.0)), data.Pairs(["a"], ["x"], np.zeros(1))
    (item,) = items(Experiment("fake", "none", runs=1, context_size=2), Sources(pairs, query))
    assert sorted(item.context_index) == [1, 2]


asked = lambda condition="guess", *args, **fields: Experiment("a", condition, *args, **fields)
drawn = lambda sources=SOURCES, **fields: items(replace(ASKED, **fields), sources)
own = SOURCES._replace(context=SOURCES.query, context_guess=SOURCES.query_guess)
test_bad_input_is_refused = refusals(
    (lambda: asked("maybe"), "condition must be one of none, guess, shuffled, permuted, neutral, biased, got 'maybe'"),
    (lambda: asked("guess", "magic"), "guess_model must be one of concat, strong, cosine, got 'magic'"),
    (lambda: asked(moved="up"), "moved must be one of None, nothing, query guess, .*, all, got 'up'"),
    (lambda: asked("none", moved="all"), "moved must be None where no guess is shown, got 'all'"),
    (lambda: move(items(ASKED, SOURCES)[0], None), "part must be one of nothing, query guess, .* all, got None"),
    (lambda: move(items(ASKED, SOURCES)[0], "query score"), "part must be one of .*, got 'query score'"),
    (lambda: asked(seed=0.5), r"seed must be a whole number of at least 0, got 0\.5"),
    (lambda: drawn(context_size=41), "context_size must be at most 40, .* other than the query's own, got 41"),
    (lambda: drawn(runs=31), "runs must be at most 30"),
    (lambda: drawn(own, context_size=30), "context_size must be at most 29, .* other than the query's own"),
    (lambda: drawn(SOURCES._replace(query_guess=np.ones(3))), r"query_guess must have shape \(30,\), got shape \(3,\)"),
    (lambda: drawn(SOURCES._replace(context_guess=np.full(40, np.inf))), "context_guess must be finite"),
)


def test_guesses_are_those_that_come_with_the_package():
    """Of the network of the seed, for the examples' part and for the test part; a seed that is not there is refused."""
    folder = data_folder()
    parts = {split: data.load(split, folder) for split in ("train", "dev", "test")}
    none = prepare(Experiment("any", "none"), folder)
    assert none.context_guess is None and none.context.first == parts["dev"].first
    kept = records.arrays("guesses")
    for kind, split, seed in product(CHOICES["guess_model"], CHOICES["context_split"], (0, 2)):
        found = prepare(Experiment("any", "guess", kind, seed=seed, context_split=split), folder)
        row = 0 if kind == "cosine" else seed  # no seed makes it another
        np.testing.assert_array_equal(found.context_guess, kept[f"{kind}_{split}"][row])
        np.testing.assert_array_equal(found.query_guess, kept[f"{kind}_test"][row])
        assert (found.context.first, found.query.first) == (parts[split].first, parts["test"].first)
    with pytest.raises(ValueError, match=r"seed must be at most 2, .* that come with the package, got 3"):
        prepare(Experiment("any", "guess", seed=3), folder)


EXAMPLES = [Example("A dog runs.", "A dog is running.", 4.75, 4.1), Example("Rain, again", "“Sun” — Zürich", 0.0, 5.0)]
QUERY = Example("A cat sleeps.", "A car\u2019s asleep.", 1.2, 0.456)

RATE = "Rate how similar two sentences are in meaning, from 0 (nothing in common) to 5 (the same meaning)."
COMES = "Each pair comes with an initial guess of its score, made by a small model."
REFINE = "Refine the initial guess of the last pair and give a similarity score between 0 and 5."
GIVE = "Give a similarity score between 0 and 5 for the last pair."
PAIRS = """\
Sentence 1: A dog runs.
Sentence 2: A dog is running.
Initial guess: 4.10
Score: 4.75

Sentence 1: Rain, again
Sentence 2: “Sun” — Zürich
Initial guess: 5.00
Score: 0.0

Sentence 1: A cat sleeps.
Sentence 2: A car\u2019s asleep.
Initial guess: 0.46"""
BARE = "\n".join(line for line in PAIRS.split("\n") if "guess" not in line)
WITH, WITHOUT = f"{RATE} {COMES} {REFINE}\n\n{PAIRS}\nScore:", f"{RATE} {GIVE}\n\n{BARE}\nScore:"
CHAT = [{"role": "system", "content": f"{RATE} {COMES}"}, {"role": "user", "content": f"{PAIRS}\n\n{REFINE}"}]
BEGUN = {"role": "assistant", "content": "Score:"}
PLAIN = [{"role": "system", "content": RATE}, {"role": "user", "content": f"{BARE}\n\n{GIVE}"}]


@pytest.mark.parametrize(
    ("guesses", "style", "written"),
    [
        *[(True, "completion", WITH), (True, "chat", CHAT), (True, "prefill", [*CHAT, BEGUN])],
        *[(False, "completion", WITHOUT), (False, "chat", PLAIN), (False, "prefill", [*PLAIN, BEGUN])],
    ],
)
def test_it_is_written_to_the_character(guesses, style, written):
    assert build(EXAMPLES, QUERY, guesses=guesses, style=style) == written
    # The query's score is not in it, nor a guess that is not asked for.
    assert build(EXAMPLES, QUERY._replace(score=3.3), guesses=guesses, style=style) == written
    unknown = QUERY._replace(score=None, guess=0.456 if guesses else None)
    assert build(EXAMPLES, unknown, guesses=guesses, style=style) == written
    assert guesses or "guess" not in str(written).lower()


def test_scores_are_written_as_the_data_has_them():
    scores = {0.0: "0.0", 5.0: "5.0", 0.067: "0.067", 1.53333333333333: "1.533", 3.8: "3.8", 3.25: "3.25"}
    for score, written in scores.items():
        assert f"Score: {written}\n" in build([EXAMPLES[0]._replace(score=score)], QUERY, guesses=False)


def test_the_digest_sees_each_prompt_and_their_order():
    prompts = [WITH, WITHOUT]
    assert digest(prompts) == digest(list(prompts)) != digest(prompts[::-1])
    assert len({digest(prompts), digest([WITH, WITHOUT + " "]), digest([CHAT]), digest([WITH])}) == 4


with_guesses = lambda context=EXAMPLES, query=QUERY: build(context, query, guesses=True)
test_what_cannot_be_shown_is_refused = refusals(
    (lambda: with_guesses([QUERY._replace(score=None)]), "score must be .*, got None for «A cat sle"),
    (lambda: with_guesses([EXAMPLES[0]._replace(score=5.1)]), r"score must be a number from 0 to 5, got 5\.1"),
    (lambda: with_guesses(query=QUERY._replace(guess=None)), "guess must be a number from 0 to 5, got None"),
    (lambda: with_guesses(query=QUERY._replace(guess=float("nan"))), "guess must be a number from 0 to 5, got nan"),
)
