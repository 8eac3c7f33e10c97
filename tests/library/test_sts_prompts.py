"""The prompt, to the character."""

import pytest
from refusals import refusals

from lsalib.sts.prompts import Example, build, digest

EXAMPLES = [
    Example("A dog runs.", "A dog is running.", 4.75, 4.1),
    Example("Rain, again", "“Sun” — Zürich", 0.0, 5.0),
]
QUERY = Example("A cat sleeps.", "A car\u2019s asleep.", 1.2, 0.456)

RATE = (
    "Rate how similar two sentences are in meaning, "
    "from 0 (nothing in common) to 5 (the same meaning)."
)
COMES = "Each pair comes with an initial guess of its score, made by a small model."
REFINE = (
    "Refine the initial guess of the last pair "
    "and give a similarity score between 0 and 5."
)
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
WITH, WITHOUT = (
    f"{RATE} {COMES} {REFINE}\n\n{PAIRS}\nScore:",
    f"{RATE} {GIVE}\n\n{BARE}\nScore:",
)
NUMBER = "Answer with one number."


@pytest.mark.parametrize(("guesses", "text"), [(True, WITH), (False, WITHOUT)])
def test_it_is_written_to_the_character(guesses, text):
    """The query's score is not in it, nor a guess that is not asked for."""
    task, _, pairs = text.partition("\n\n")
    system = {"role": "system", "content": f"{task} {NUMBER}"}
    for query in (
        QUERY,
        QUERY._replace(score=3.3),
        QUERY._replace(score=None, guess=0.456 if guesses else None),
    ):
        written = [
            build(EXAMPLES, query, guesses=guesses, style=style)
            for style in ("completion", "chat")
        ]
        assert written == [text, [system, {"role": "user", "content": pairs}]]


def test_scores_are_written_as_the_data_has_them():
    scores = {
        0.0: "0.0",
        5.0: "5.0",
        0.067: "0.067",
        1.53333333333333: "1.533",
        3.8: "3.8",
        3.25: "3.25",
    }
    for score, written in scores.items():
        assert f"Score: {written}\n" in build(
            [EXAMPLES[0]._replace(score=score)], QUERY, guesses=False
        )


def test_the_digest_sees_each_prompt_and_their_order():
    chat = [{"role": "user", "content": WITH}]
    lists = [WITH, chat], [chat, WITH], [WITH, WITHOUT], [WITH + " ", chat], [WITH]
    assert digest(lists[0]) == digest((WITH, chat))
    assert len(set(map(digest, lists))) == 5


with_guesses = lambda context=EXAMPLES, query=QUERY: build(context, query, guesses=True)
test_what_cannot_be_shown_is_refused = refusals(
    (
        "score must be .*, got None for “A cat sle",
        lambda: with_guesses([QUERY._replace(score=None)]),
    ),
    (
        r"score must be a number from 0 to 5, got 5\.1",
        lambda: with_guesses([EXAMPLES[0]._replace(score=5.1)]),
    ),
    (
        "guess must be a number from 0 to 5, got nan",
        lambda: with_guesses(query=QUERY._replace(guess=float("nan"))),
    ),
)
