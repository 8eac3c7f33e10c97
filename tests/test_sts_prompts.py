"""The prompt, to the character."""

import pytest
from refusals import refusals

from lsalib.sts.prompts import Example, build, digest, number

CONTEXT = [Example("A dog runs.", "A dog is running.", 4.75, 4.1), Example("Rain, again", "“Sun” — Zürich", 0.0, 5.0)]
QUERY = Example("A cat sleeps.", "A car\u2019s asleep.", 1.2, 0.456)

RATE = "Rate how similar two sentences are in meaning, from 0 (nothing in common) to 5 (the same meaning)."
COMES = "Each pair comes with an initial guess of its score, made by a small model."
REFINE = "Refine the initial guess of the last pair and give a similarity score between 0 and 5."
GIVE = "Give a similarity score between 0 and 5 for the last pair."
ANSWER = "Answer with the number alone."
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
BARE = """\
Sentence 1: A dog runs.
Sentence 2: A dog is running.
Score: 4.75

Sentence 1: Rain, again
Sentence 2: “Sun” — Zürich
Score: 0.0

Sentence 1: A cat sleeps.
Sentence 2: A car\u2019s asleep."""
WITH, WITHOUT = f"{RATE} {COMES} {REFINE}\n\n{PAIRS}\nScore:", f"{RATE} {GIVE}\n\n{BARE}\nScore:"
CHAT = [{"role": "system", "content": f"{RATE} {COMES} {ANSWER}"}, {"role": "user", "content": f"{PAIRS}\n\n{REFINE}"}]


def test_completion_to_the_character():
    assert build(CONTEXT, QUERY, guesses=True) == WITH
    assert build(CONTEXT, QUERY, guesses=False) == WITHOUT
    assert "guess" not in WITHOUT.lower()


def test_chat_to_the_character():
    assert build(CONTEXT, QUERY, guesses=True, style="chat") == CHAT
    system, user = build(CONTEXT, QUERY, guesses=False, style="chat")
    assert system == {"role": "system", "content": f"{RATE} {ANSWER}"}
    assert user == {"role": "user", "content": f"{BARE}\n\n{GIVE}"}


STYLES = pytest.mark.parametrize("style", ["completion", "chat"])


@STYLES
@pytest.mark.parametrize("guesses", [True, False])
def test_the_query_s_score_is_not_in_it(style, guesses):
    prompt = lambda context, query: build(context, query, guesses=guesses, style=style)
    texts = [prompt(CONTEXT, QUERY._replace(score=score)) for score in (1.2, 3.3, None)]
    assert texts[0] == texts[1] == texts[2]
    # Negative control: an example's score is.
    assert prompt([CONTEXT[0]._replace(score=1.1)], QUERY) != prompt([CONTEXT[0]], QUERY)


@STYLES
def test_guesses_are_in_it_only_where_they_are_asked_for(style):
    other = [example._replace(guess=3.21) for example in CONTEXT]
    both = lambda guesses: [build(context, QUERY, guesses=guesses, style=style) for context in (CONTEXT, other)]
    assert len(set(map(str, both(False)))) == 1 and len(set(map(str, both(True)))) == 2
    assert build(CONTEXT, QUERY._replace(guess=None), guesses=False, style=style) == both(False)[0]


def test_scores_are_written_as_the_data_has_them():
    written = {
        0.0: "0.0",
        5.0: "5.0",
        0.067: "0.067",
        1.53333333333333: "1.533",
        2.11111111111111: "2.111",
        3.25: "3.25",
    }
    assert {score: number(score) for score in written} == written


def test_the_digest_sees_each_prompt_and_their_order():
    prompts = [WITH, WITHOUT]
    assert digest(prompts) == digest(list(prompts)) != digest(prompts[::-1])
    assert len({digest(prompts), digest([WITH, WITHOUT + " "]), digest([CHAT]), digest([WITH])}) == 4


with_guesses = lambda context=CONTEXT, query=QUERY, **options: build(context, query, guesses=True, **options)
test_what_cannot_be_shown_is_refused = refusals(
    (lambda: with_guesses(style="poem"), "style must be one of completion, chat, got 'poem'"),
    (
        lambda: with_guesses([QUERY._replace(score=None)]),
        r"score must be a number from 0 to 5, got None for «A cat sle",
    ),
    (lambda: with_guesses([CONTEXT[0]._replace(score=5.1)]), r"score must be a number from 0 to 5, got 5\.1"),
    (lambda: with_guesses(query=QUERY._replace(guess=None)), "guess must be a number from 0 to 5, got None"),
    (lambda: with_guesses(query=QUERY._replace(guess=float("nan"))), "guess must be a number from 0 to 5, got nan"),
)
