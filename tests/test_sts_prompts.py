"""The prompt, to the character."""

import pytest

from lsalib.sts.prompts import Example, build, digest, number

CONTEXT = [Example("A dog runs.", "A dog is running.", 4.75, 4.1), Example("Rain, again", "“Sun” — Zürich", 0.0, 5.0)]
QUERY = Example("A cat sleeps.", "A car\u2019s asleep.", 1.2, 0.456)

WITH = """\
Rate how similar two sentences are in meaning, from 0 (nothing in common) to 5 (the same meaning). \
Each pair comes with an initial guess of its score, made by a small model. \
Refine the initial guess of the last pair and give a similarity score between 0 and 5.

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
Initial guess: 0.46
Score:"""

WITHOUT = """\
Rate how similar two sentences are in meaning, from 0 (nothing in common) to 5 (the same meaning). \
Give a similarity score between 0 and 5 for the last pair.

Sentence 1: A dog runs.
Sentence 2: A dog is running.
Score: 4.75

Sentence 1: Rain, again
Sentence 2: “Sun” — Zürich
Score: 0.0

Sentence 1: A cat sleeps.
Sentence 2: A car\u2019s asleep.
Score:"""

CHAT = [
    {
        "role": "system",
        "content": "Rate how similar two sentences are in meaning, from 0 (nothing in common) to 5 (the same meaning). "
        "Each pair comes with an initial guess of its score, made by a small model. Answer with the number alone.",
    },
    {
        "role": "user",
        "content": """\
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
Initial guess: 0.46

Refine the initial guess of the last pair and give a similarity score between 0 and 5.""",
    },
]


def test_completion_to_the_character():
    assert build(CONTEXT, QUERY, guesses=True) == WITH
    assert build(CONTEXT, QUERY, guesses=False) == WITHOUT
    assert "guess" not in WITHOUT.lower()


def test_chat_to_the_character():
    assert build(CONTEXT, QUERY, guesses=True, style="chat") == CHAT
    system, user = build(CONTEXT, QUERY, guesses=False, style="chat")
    assert system == {
        "role": "system",
        "content": "Rate how similar two sentences are in meaning, from 0 (nothing in common) to 5 (the same meaning). "
        "Answer with the number alone.",
    }
    assert user == {
        "role": "user",
        "content": WITHOUT.split("\n\n", 1)[1].removesuffix("\nScore:")
        + "\n\nGive a similarity score between 0 and 5 for the last pair.",
    }


@pytest.mark.parametrize("style", ["completion", "chat"])
@pytest.mark.parametrize("guesses", [True, False])
def test_the_query_s_score_is_not_in_it(style, guesses):
    texts = [build(CONTEXT, QUERY._replace(score=score), guesses=guesses, style=style) for score in (1.2, 3.3, None)]
    assert texts[0] == texts[1] == texts[2]
    # Negative control: an example's score is.
    assert build([CONTEXT[0]._replace(score=1.1)], QUERY, guesses=guesses, style=style) != build(
        [CONTEXT[0]], QUERY, guesses=guesses, style=style
    )


@pytest.mark.parametrize("style", ["completion", "chat"])
def test_guesses_are_in_it_only_where_they_are_asked_for(style):
    other = [example._replace(guess=3.21) for example in CONTEXT], QUERY._replace(guess=None)
    assert build(*other, guesses=False, style=style) == build(CONTEXT, QUERY, guesses=False, style=style)
    assert build(other[0], QUERY, guesses=True, style=style) != build(CONTEXT, QUERY, guesses=True, style=style)


def test_scores_are_written_as_the_data_has_them():
    assert [number(score) for score in (0.0, 5.0, 0.067, 1.53333333333333, 2.11111111111111, 3.25)] == [
        "0.0",
        "5.0",
        "0.067",
        "1.533",
        "2.111",
        "3.25",
    ]


def test_the_digest_sees_each_prompt_and_their_order():
    prompts = [WITH, WITHOUT]
    assert digest(prompts) == digest(list(prompts)) != digest(prompts[::-1])
    assert len({digest(prompts), digest([WITH, WITHOUT + " "]), digest([CHAT]), digest([WITH])}) == 4


@pytest.mark.parametrize(
    ("context", "query", "options", "message"),
    [
        (CONTEXT, QUERY, {"style": "poem"}, "style must be one of completion, chat, got 'poem'"),
        ([QUERY._replace(score=None)], QUERY, {}, "score must be a number from 0 to 5, got None for «A cat sleeps.»"),
        (CONTEXT, QUERY._replace(guess=None), {}, "guess must be a number from 0 to 5, got None"),
        (CONTEXT, QUERY._replace(guess=float("nan")), {}, "guess must be a number from 0 to 5, got nan"),
        ([CONTEXT[0]._replace(score=5.1)], QUERY, {}, "score must be a number from 0 to 5, got 5.1"),
    ],
)
def test_what_cannot_be_shown_is_refused(context, query, options, message, unchecked):
    with pytest.raises(ValueError, match=message):
        build(context, query, guesses=True, **options)
