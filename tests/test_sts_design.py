"""What is asked: the same pairs in every condition, drawn evenly, and nothing that cannot be drawn."""

from dataclasses import replace

import numpy as np
import pytest
from sts_support import data_folder, made_up, need_encoder

from lsalib.sts import data, embeddings, guess
from lsalib.sts.design import CONDITIONS, Experiment, Sources, items, prepare

SOURCES = made_up()
ASKED = Experiment("fake", "guess", runs=20, context_size=5)


def test_the_conditions_ask_about_the_same_pairs():
    runs = {condition: items(replace(ASKED, condition=condition), SOURCES) for condition in CONDITIONS}
    for n, (none, with_guess, shuffled) in enumerate(zip(*runs.values(), strict=True)):
        assert none[:3] == with_guess[:3] == shuffled[:3] and none.run == n
        assert len(set(none.context_index)) == 5
        for a, b, c in zip(
            [*none.context, none.query],
            [*with_guess.context, with_guess.query],
            [*shuffled.context, shuffled.query],
            strict=True,
        ):
            assert a[:3] == b[:3] == c[:3] and a.guess is None and b.guess is not None
    queries = [item.query_index for item in runs["none"]]
    assert len(set(queries)) == 20

    def shown(condition):
        return [example.guess for item in runs[condition] for example in (*item.context, item.query)]

    # A permutation among everything that is shown, and one that moves nearly all of it.
    assert sorted(shown("guess")) == sorted(shown("shuffled"))
    assert np.mean(np.array(shown("guess")) == shown("shuffled")) < 0.1


def test_a_draw_fixes_everything_and_fewer_runs_are_the_first():
    assert items(ASKED, SOURCES) == items(ASKED, SOURCES)
    assert items(replace(ASKED, runs=7), SOURCES) == items(ASKED, SOURCES)[:7]
    assert items(replace(ASKED, draw=1), SOURCES) != items(ASKED, SOURCES)
    # Three more examples come after the same five.
    assert [item.context_index[:5] for item in items(replace(ASKED, context_size=8), SOURCES)] == [
        item.context_index for item in items(ASKED, SOURCES)
    ]


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


def test_guesses_are_shown_within_the_scale():
    wide = SOURCES._replace(context_guess=SOURCES.context_guess * 10 - 20, query_guess=SOURCES.query_guess * 10 - 20)
    shown = [example.guess for item in items(ASKED, wide) for example in (*item.context, item.query)]
    assert min(shown) == 0.0 and max(shown) == 5.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Experiment("a", "maybe"), "condition must be one of none, guess, shuffled, got 'maybe'"),
        (lambda: Experiment("a", "guess", "magic"), "guess_model must be one of concat, strong, cosine, got 'magic'"),
        (lambda: Experiment("a", "guess", style="poem"), "style must be one of completion, chat, got 'poem'"),
        (lambda: Experiment("a", "guess", context_split="test"), "context_split must be one of dev, train, got 'test'"),
        (lambda: Experiment("a", "guess", runs=0), "runs must be a whole number of at least 1, got 0"),
        (lambda: Experiment("a", "guess", draw=-1), "draw must be a whole number of at least 0, got -1"),
        (lambda: Experiment("a", "guess", seed=0.5), "seed must be a whole number of at least 0, got 0.5"),
        (
            lambda: items(replace(ASKED, context_size=41), SOURCES),
            "context_size must be at most 40, the number of pairs to draw from, got 41",
        ),
        (lambda: items(replace(ASKED, runs=31), SOURCES), "runs must be at most 30"),
        (
            lambda: items(
                replace(ASKED, context_size=30),
                SOURCES._replace(context=SOURCES.query, context_guess=SOURCES.query_guess),
            ),
            "context_size must be at most 29, .* other than the query's own",
        ),
        (
            lambda: items(ASKED, SOURCES._replace(query_guess=SOURCES.query_guess[:3])),
            r"query_guess must have shape \(30,\), got shape \(3,\)",
        ),
        (lambda: items(ASKED, SOURCES._replace(context_guess=np.full(40, np.inf))), "context_guess must be finite"),
        (
            lambda: items(ASKED, SOURCES._replace(query=SOURCES.query._replace(score=np.full(30, np.nan)))),
            "the scores behind runs must be finite",
        ),
    ],
)
def test_bad_input_is_refused(call, message, unchecked):
    with pytest.raises(ValueError, match=message):
        call()


def test_prepare_reads_embeds_and_guesses(monkeypatch):
    folder = data_folder()
    full = data.load

    def few(split, folder=None):
        return data.Pairs(*(column[:60] for column in full(split, folder)))

    monkeypatch.setattr(data, "load", few)
    none = prepare(Experiment("any", "none"), folder)
    assert (
        none.context_guess is None
        and none.context.first == few("dev", folder).first
        and none.query.first == few("test", folder).first
    )
    need_encoder()
    embed = embeddings.embed
    monkeypatch.setattr(embeddings, "embed", lambda sentences: embed(sentences, cached=False))
    made = prepare(Experiment("any", "guess", "strong", seed=3, context_split="train"), folder)
    train, test = few("train", folder), few("test", folder)
    u, v, x, y = (
        half for pairs in (train, test) for half in np.split(embed([*pairs.first, *pairs.second], cached=False), 2)
    )
    expected = guess.guess("strong", (u, v, train.score), [(u, v), (x, y)], 3)
    np.testing.assert_allclose(made.context_guess, expected[0], atol=1e-4)
    np.testing.assert_allclose(made.query_guess, expected[1], atol=1e-4)
    assert made.context.first == train.first
