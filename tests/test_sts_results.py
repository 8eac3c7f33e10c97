"""Results: failures, pairs, and a table whose numbers are those of the records."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sts_support import Fake, last_guess, made_up

from lsalib.sts import results, statistics
from lsalib.sts.experiment import Experiment, run

SOURCES = made_up()
ASKED = Experiment("fake", "guess", runs=12, context_size=3)


def sometimes(prompt):
    """The guess, but for prompts of even length, where there is nothing to read."""
    return "no idea" if len(prompt) % 2 == 0 else f" about{last_guess(prompt)}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three experiments about the same pairs."""
    folder = tmp_path_factory.mktemp("results")
    run(replace(ASKED, condition="none"), Fake(lambda prompt: " 2.5"), SOURCES, folder / "none")
    run(ASKED, Fake(sometimes, logprobs=lambda prompt: np.zeros(51)), SOURCES, folder / "deeper/guess")
    run(replace(ASKED, condition="shuffled"), Fake(last_guess), SOURCES, folder / "shuffled")
    return folder


@pytest.fixture
def three(folder):
    return {result["experiment"]["condition"]: result for result in results.find(folder)}


def test_failures_are_replaced_or_dropped(three):
    records = three["guess"]["records"]
    failed = np.array([record["answer"] == "no idea" for record in records])
    assert 2 < failed.sum() < 10
    replaced, dropped = (results.outcome(three["guess"], failures=failures) for failures in ("replace", "drop"))
    np.testing.assert_array_equal(replaced.failed, failed)
    np.testing.assert_array_equal(
        replaced.prediction, [r["context_mean"] if f else r["guess"] for r, f in zip(records, failed, strict=True)]
    )
    np.testing.assert_array_equal(
        dropped.prediction, [r["guess"] for r, f in zip(records, failed, strict=True) if not f]
    )
    np.testing.assert_array_equal(dropped.truth, replaced.truth[~failed])
    # «about 3» is no strict answer.
    assert results.outcome(three["guess"], mode="strict").failed.all()


def test_equal_probabilities_expect_the_middle(three):
    np.testing.assert_allclose(results.outcome(three["guess"], "expected").prediction, 2.5)
    with pytest.raises(ValueError, match="readout must be 'written': this model gave no probabilities"):
        results.outcome(three["none"], "expected")


def test_conditions_are_compared_run_by_run(three):
    a, b = (results.outcome(three[name]) for name in ("guess", "none"))
    both = results.compare(three["guess"], three["none"], seed=2)
    assert both == statistics.mse_difference(a.prediction, b.prediction, a.truth, seed=2)
    kept = ~a.failed
    assert results.compare(three["guess"], three["none"], failures="drop").estimate == pytest.approx(
        ((a.prediction - a.truth) ** 2 - (b.prediction - a.truth) ** 2)[kept].mean()
    )
    assert results.compare(three["guess"], three["guess"]) == (0, 0, 0)


def test_what_is_not_in_pairs_is_refused(three, tmp_path):
    other = run(replace(ASKED, draw=1), Fake(last_guess), SOURCES, tmp_path)
    with pytest.raises(ValueError, match="other must be about the same queries and contexts as result"):
        results.compare(three["guess"], other)


def test_the_table_has_the_numbers_of_the_records(folder):
    heading, *lines = results.table(results.find(folder)).splitlines()
    assert heading.startswith("model") and len(lines) == 4, "a line for each readout"
    cells = {(line.split()[2], line.split()[5]): line for line in lines}
    for (condition, readout), line in cells.items():
        result = next(r for r in results.find(folder) if r["experiment"]["condition"] == condition)
        outcome = results.outcome(result, readout)
        error = statistics.mse(outcome.prediction, outcome.truth)
        assert f"{error.estimate:.3f} [{error.low:.3f}, {error.high:.3f}]" in line
        assert line.split()[7] == str(outcome.failed.sum())
        if condition != "none":
            assert f"{((outcome.guess - outcome.truth) ** 2).mean():.3f}" in line
    none = next(r for r in results.find(folder) if r["experiment"]["condition"] == "none")
    shuffled = next(r for r in results.find(folder) if r["experiment"]["condition"] == "shuffled")
    difference = results.compare(shuffled, none)
    assert cells["shuffled", "written"].endswith(
        f"{difference.estimate:.3f} [{difference.low:.3f}, {difference.high:.3f}]"
    )
    assert cells["none", "written"].endswith("-") and cells["guess", "expected"].endswith("-"), (
        "nothing to compare with"
    )


def test_one_run_or_no_answer_still_has_a_line(tmp_path):
    run(replace(ASKED, runs=1), Fake(last_guess), SOURCES, tmp_path / "one")
    run(ASKED, Fake(lambda prompt: "?"), SOURCES, tmp_path / "junk")
    junk, one = results.table(results.find(tmp_path)).splitlines()[1:]
    assert junk.split()[6:8] == ["12", "12"] and one.split()[6:9] == ["1", "0", "-"]


@pytest.mark.parametrize("content", ["{", "[]", '{"records": []}', ""])
def test_a_damaged_result_is_named(content, tmp_path):
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(ValueError, match=r"result.json must be a result that an experiment wrote"):
        results.find(tmp_path)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda result: results.outcome(result, "spoken"), "readout must be one of written, expected, got 'spoken'"),
        (lambda result: results.outcome(result, failures="hide"), "failures must be one of replace, drop, got 'hide'"),
        (lambda result: results.outcome(result, mode="wild"), "mode must be one of strict, lenient"),
        (lambda result: results.compare(result, result, failures="hide"), "failures must be one of replace, drop"),
        (
            lambda result: results.expected(np.zeros((2, 50))),
            r"logprobs must have shape \(n, 51\), got shape \(2, 50\)",
        ),
    ],
)
def test_bad_arguments_are_refused(call, message, three, unchecked):
    with pytest.raises(ValueError, match=message):
        call(three["guess"])


def test_records_are_plain_json(folder):
    result = json.loads((folder / "none/result.json").read_text())
    assert set(result) == {"experiment", "versions", "prompts", "first_prompt", "records"}
    assert set(result["records"][0]) == {
        "run",
        "query",
        "context",
        "truth",
        "guess",
        "context_mean",
        "answer",
        "logprobs",
    }
