"""Results: scores out of answers, pairs, and a table with the records' numbers."""

import re

import numpy as np
import pytest

from lsalib.book import statistics
from lsalib.sts.results import compare, outcome, parse, table

N = 12
RNG = np.random.default_rng(0)
TRUTH = RNG.uniform(0, 5, (2, N))  # of two draws
GUESS = np.clip(TRUTH + RNG.standard_normal((2, N)), 0, 5)


def made(condition, answers, draw=0, seed=0, context_mean=2.0):
    """A result; the answers are numbers, or texts without one."""
    plain = condition in ("none", "constant")
    asked = {"model": "m", "style": "completion", "runs": N, "context_size": 3}
    asked |= {"max_new_tokens": 8, "condition": condition, "draw": draw, "seed": seed}
    asked |= {"guess_model": None if plain else "strong"}
    rows = []
    for run, answer in enumerate(answers):
        guess = None if condition == "none" else GUESS[draw, run]
        row = {"run": run, "query": run, "context_mean": context_mean + draw}
        row |= {"truth": TRUTH[draw, run], "guess": guess, "answer": str(answer)}
        rows.append(row)
    return {"experiment": asked, "records": rows}


NONE, CONSTANT, SHUFFLED = (
    made("none", [2.5] * N),
    made("constant", [3] * N),
    made("shuffled", GUESS[0]),
)
RIGHT = made("guess", [*GUESS[0, :9], "?", "no idea", ""])


def shown(interval):
    return f"{interval.estimate:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def lines(*found):
    """The table's cells by their headings, a line by its condition."""
    heading, *rows = (re.split("  +", line) for line in table(found).splitlines())
    cells = [dict(zip(heading, row, strict=True)) for row in rows]
    return {row["condition"]: row for row in cells}


READ = {
    0: "0",
    0.067: "0.067\nSentence 1",
    3: "3| 3|3.|**3**|Score: 3.0|Similarity score: 3|"
    "`3`|3/5|3 / 5|3 out of 5.|3,0|(3.0)",
    5: "5.0",
}
# More than a number, about something else, no number from 0 to 5, or none at all.
UNREAD = "|none|nan|-2|\u22122|3-4|3 to 4|3 or 4|8/10|80%|5.1|10|1e5|4.5.6|.5"
UNREAD += "|3 dogs|\u0663|\u00bd|3rd|#3 is 4|Score 3, or 4"
UNREAD += "|Initial guess: 2.31\nScore: 3.0|Sentence 1: A dog.\nScore: 3"
UNREAD += "|I refine 2.31 to 3.0|"
UNREAD += "|".join(("9" * 400, "*" * 400 + "x"))


def test_an_answer_that_begins_with_its_score_is_read():
    """An answer about another pair, which it names first, is none."""
    cases = [(None, UNREAD), *READ.items()]
    read = [(score, text) for score, texts in cases for text in texts.split("|")]
    wrong = [case for case in read if parse(case[1]) != case[0]]
    assert wrong == []


def test_conditions_are_compared_run_by_run():
    a, b = outcome(RIGHT), outcome(NONE)
    assert compare(RIGHT, RIGHT) == (0, 0, 0)
    for other, less in ((NONE, b.prediction), (None, a.guess)):
        alone = statistics.mse(a.prediction, a.truth, less=less)
        assert compare(RIGHT, other) == alone
        assert compare(RIGHT, other, family=4).high > alone.high
    words = "other must be about the same queries and contexts as result"
    for changes in ({"draw": 1}, {"context_mean": 3.0}):
        with pytest.raises(ValueError, match=words):
            compare(RIGHT, made("none", [2.5] * N, **changes))


def test_the_table_has_the_numbers_of_the_records():
    """Of every condition, and every difference that verdicts rest on; where draws
    differ, there is a dash.
    """
    found = lines(RIGHT, NONE, CONSTANT, SHUFFLED)
    row, o = found["guess"], outcome(RIGHT)
    assert row["error"] == shown(statistics.mse(o.prediction, o.truth))
    shape = {"runs": "12", "failed": "3", "draws": "0", "guess": "strong"}
    assert row.items() >= shape.items()
    for other, result in {
        "the guess itself": None,
        "none": NONE,
        "constant": CONSTANT,
        "shuffled": SHUFFLED,
    }.items():
        assert row[f"less: {other}"] == shown(compare(RIGHT, result))
    assert found["shuffled"]["less: the guess itself"] == "0.000 [0.000, 0.000]"
    for other in ("none", "the guess itself"):
        assert found["none"][f"less: {other}"] == "-"
    assert lines(RIGHT, made("none", [2.5] * N, draw=1))["guess"]["less: none"] == "-"


def test_the_draws_of_a_setting_are_taken_together():
    """A copy counts once, and another seed of the guess model is no copy."""
    more = made("guess", GUESS[1], draw=1, seed=1), made("none", [3.0] * N, draw=1)
    both = [
        {"records": one["records"] + two["records"]}
        for one, two in zip((RIGHT, NONE), more, strict=True)
    ]
    row = lines(more[0], RIGHT, NONE, *more, RIGHT)["guess"]
    assert row["less: none"] == shown(compare(*both))
    assert row["draws"] == "0,1" and row["runs"] == "24"
    assert lines(RIGHT, made("guess", GUESS[0], seed=1))["guess"]["runs"] == "24"
