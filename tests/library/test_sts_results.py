"""Results: failures, pairs, and a table whose numbers are those of the records."""

import re

import numpy as np
import pytest
from refusals import refusals

from lsalib.book import statistics
from lsalib.sts import results

N = 12
RNG = np.random.default_rng(0)
TRUTH = RNG.uniform(0, 5, (2, N))  # of two draws
GUESS = np.clip(TRUTH + RNG.standard_normal((2, N)), 0, 5)


def peak(center, probability=0.9):
    """Log-probabilities of the answers: a narrow normal distribution around the center, of this probability in all."""
    density = np.exp(-((np.arange(51) / 10 - center) ** 2) / 0.02)
    return np.log(np.maximum(probability * density / density.sum(), 1e-300)).tolist()


def made(condition, answers, draw=0, seed=0, probability=None, context=()):
    """A result; the answers are numbers, or texts without one."""
    asked = {"model": "m", "style": "completion", "runs": N, "context_size": 3, "context_split": "dev"}
    asked |= {"max_new_tokens": 8, "condition": condition, "draw": draw, "seed": seed, "guess_model": "strong"}
    asked |= {"guess_model": None} if condition == "none" else {}
    rows = []
    for run, answer in enumerate(answers):
        row = {"run": run, "query": run, "context": [draw, *context], "context_mean": 2.0, "answer": str(answer)}
        row |= {"truth": TRUTH[draw, run], "guess": None if condition == "none" else GUESS[draw, run]}
        rows.append(row | ({"logprobs": peak(answer, probability)} if probability else {}))
    return {"experiment": asked, "records": rows}


NONE, SHUFFLED = made("none", [2.5] * N), made("shuffled", GUESS[0])
RIGHT = made("guess", [*GUESS[0, :9], "?", "no idea", ""])


def shown(interval):
    return f"{interval.estimate:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def lines(*found):
    """The table's cells by their headings, a line by its condition and readout."""
    heading, *rows = (re.split("  +", line) for line in results.table(found).splitlines())
    cells = [dict(zip(heading, row, strict=True)) for row in rows]
    return {(row["condition"], row["readout"]): row for row in cells}


def test_failures_are_replaced_by_the_mean_of_the_context():
    found = results.outcome(RIGHT)
    assert found.failed.tolist() == [False] * 9 + [True] * 3
    np.testing.assert_array_equal(found.prediction, [*GUESS[0, :9], 2.0, 2.0, 2.0])


def test_expected_scores_are_means_over_answers_and_need_mass():
    """Where the answers have little probability the readout is refused, whatever their mean is."""
    sure, unsure = (made("guess", GUESS[0], probability=probability) for probability in (0.6, 0.4))
    logprobs = np.array([row["logprobs"] for row in sure["records"]])
    by_hand = np.exp(logprobs) @ (np.arange(51) / 10) / np.exp(logprobs).sum(1)
    np.testing.assert_allclose(results.outcome(sure, "expected").prediction, by_hand)
    np.testing.assert_allclose(by_hand, GUESS[0], atol=0.1)
    assert results.mass(sure) == pytest.approx(0.6)
    with pytest.raises(ValueError, match=r"readout must have a mass of at least 0\.5, got expected with 0\.40"):
        results.outcome(unsure, "expected")
    rows = lines(unsure)
    assert (rows["guess", "expected"]["mass"], rows["guess", "expected"]["error"]) == ("0.40", "-")
    assert rows["guess", "written"]["error"] != "-"


def test_conditions_are_compared_run_by_run():
    a, b = results.outcome(RIGHT), results.outcome(NONE)
    assert results.compare(RIGHT, NONE) == statistics.mse(a.prediction, a.truth, less=b.prediction)
    assert results.compare(RIGHT, RIGHT) == (0, 0, 0)
    assert results.compare(RIGHT, None) == statistics.mse(a.prediction, a.truth, less=a.guess)
    for other in (made("none", [2.5] * N, draw=1), made("none", [2.5] * N, context=[9])):
        with pytest.raises(ValueError, match="other must be about the same queries and contexts as result"):
            results.compare(RIGHT, other)


def test_the_table_has_the_numbers_of_the_records():
    """Of every condition, and every difference that verdicts rest on; where draws differ, there is a dash."""
    found = lines(RIGHT, NONE, SHUFFLED)
    row, o = found["guess", "written"], results.outcome(RIGHT)
    assert row["error"] == shown(statistics.mse(o.prediction, o.truth))
    assert (row["runs"], row["failed"], row["draws"], row["guess"]) == ("12", "3", "0", "strong")
    for other, result in {"the guess itself": None, "none": NONE, "shuffled": SHUFFLED}.items():
        assert row[f"less: {other}"] == shown(results.compare(RIGHT, result))
    assert found["shuffled", "written"]["less: the guess itself"] == "0.000 [0.000, 0.000]"
    assert {found["none", "written"][f"less: {other}"] for other in ("none", "shuffled", "the guess itself")} == {"-"}
    assert lines(RIGHT, made("none", [2.5] * N, draw=1))["guess", "written"]["less: none"] == "-"


def test_the_draws_of_a_setting_are_taken_together():
    """A copy counts once, and another seed of the guess model is no copy."""
    more = made("guess", GUESS[1], draw=1, seed=1), made("none", [3.0] * N, draw=1)
    both = [{"records": one["records"] + two["records"]} for one, two in zip((RIGHT, NONE), more, strict=True)]
    row = lines(more[0], RIGHT, NONE, *more, RIGHT)["guess", "written"]
    assert row["less: none"] == shown(results.compare(*both)) and (row["draws"], row["runs"]) == ("0,1", "24")
    assert lines(RIGHT, made("guess", GUESS[0], seed=1))["guess", "written"]["runs"] == "24"


SOME = {"records": [{"answer": "3", "truth": 3.5, "guess": None, "context_mean": 2.0, "query": 0, "context": [0]}]}
test_bad_arguments_are_refused = refusals(
    (lambda: results.outcome(SOME, "spoken"), "readout must be one of written, which the model gave, got 'spoken'"),
    (lambda: results.expected(np.zeros((2, 50))), "mismatch in its core dimension"),
)
