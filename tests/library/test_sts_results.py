"""Results: failures, pairs, a table whose numbers are those of the records, and bootstrap intervals."""

import re
from dataclasses import replace

import numpy as np
import pytest
from refusals import refusals
from sts_support import Fake, last_guess, made_up

from lsalib.sts import design, records, results, statistics
from lsalib.sts.experiment import Experiment, run

SOURCES = made_up()
ASKED = Experiment("fake", "guess", runs=12, context_size=3)


def sometimes(prompt):
    """The guess, but for prompts of even length, where there is nothing to read."""
    return "no idea" if len(prompt) % 2 == 0 else f" about{last_guess(prompt)}"


def peak(prompt):
    """Log-probabilities of a normal law around the guess, not normalised."""
    return -((np.arange(51) / 10 - float(last_guess(prompt))) ** 2) / 0.02 - 7


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three experiments about the same pairs."""
    folder = tmp_path_factory.mktemp("results")
    run(replace(ASKED, condition="none"), Fake(lambda prompt: " 2.5"), SOURCES, folder / "none")
    run(ASKED, Fake(sometimes, logprobs=peak), SOURCES, folder / "deeper/guess")
    run(replace(ASKED, condition="shuffled"), Fake(last_guess), SOURCES, folder / "shuffled")
    return folder


@pytest.fixture
def three(folder):
    return {result["experiment"]["condition"]: result for result in records.own(folder)}


def test_failures_are_replaced(three):
    rows = three["guess"]["records"]
    failed = np.array([row["answer"] == "no idea" for row in rows])
    assert 2 < failed.sum() < 10
    found = results.outcome(three["guess"])
    guess, mean = (np.array([row[name] for row in rows]) for name in ("guess", "context_mean"))
    np.testing.assert_array_equal(found.failed, failed)
    np.testing.assert_array_equal(found.prediction, np.where(failed, mean, guess))
    # «about 3» is no strict answer.
    assert results.outcome(three["guess"], mode="strict").failed.all()


def test_conditions_are_compared_run_by_run(three):
    a, b = (results.outcome(three[name]) for name in ("guess", "none"))
    assert results.compare(three["guess"], three["none"]) == statistics.mse(a.prediction, a.truth, less=b.prediction)
    assert results.compare(three["guess"], three["guess"]) == (0, 0, 0)
    assert results.compare(three["guess"], None) == statistics.mse(a.prediction, a.truth, less=a.guess)
    # By hand, without the shift that keeps the exponentials finite.
    logprobs = np.array([record["logprobs"] for record in three["guess"]["records"]])
    by_hand = np.exp(logprobs) @ (np.arange(51) / 10) / np.exp(logprobs).sum(1)
    np.testing.assert_allclose(results.outcome(three["guess"], "expected").prediction, by_hand)
    np.testing.assert_allclose(by_hand, guess := results.outcome(three["guess"]).guess, atol=0.1)
    assert guess.std() > 1
    with pytest.raises(ValueError, match="readout must be one of written, which the model gave, got 'expected'"):
        results.outcome(three["none"], "expected")


def test_what_is_not_in_pairs_is_refused(three, tmp_path):
    """Other queries, and the same ones after other contexts."""
    for changes in ({"draw": 1}, {"context_size": 4}):
        other = run(replace(ASKED, **changes), Fake(last_guess), SOURCES, tmp_path / str(changes))
        with pytest.raises(ValueError, match="other must be about the same queries and contexts as result"):
            results.compare(three["guess"], other)


shown = lambda interval: f"{interval.estimate:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def rows(found):
    """The table's cells by their headings, a line by its condition and readout."""
    heading, *lines = (re.split("  +", line) for line in results.table(list(found)).split("\n\n")[0].splitlines())
    return {(line[2], line[5]): dict(zip(heading, line, strict=True)) for line in lines}


def test_the_table_has_the_numbers_of_the_records(three):
    mse = lambda guess, truth: f"{((guess - truth) ** 2).mean():.3f}"
    correlation = lambda a, b: f"{np.corrcoef(a, b)[0, 1] if a.std() else 0:.3f}"
    found = rows(three.values())
    assert set(found) == {("none", "written"), ("guess", "written"), ("guess", "expected"), ("shuffled", "written")}
    for (condition, readout), cells in found.items():
        all_of_it = results.outcome(three[condition], readout)
        answered = ~all_of_it.failed
        assert cells["MSE [95 %]"] == shown(statistics.mse(all_of_it.prediction, all_of_it.truth))
        assert (cells["runs"], cells["failed"]) == ("12", str(all_of_it.failed.sum()))
        assert cells["MSE, failed dropped"] == mse(all_of_it.prediction[answered], all_of_it.truth[answered])
        assert cells["r"] == correlation(all_of_it.prediction, all_of_it.truth)
        assert cells["MSE of the guess"] == ("-" if condition == "none" else mse(all_of_it.guess, all_of_it.truth))


def contrasted(found):
    """The differences by their contrast, readout and draws."""
    lines = [re.split("  +", line) for line in results.table(list(found)).split("\n\n")[1].splitlines()[1:]]
    return {(contrast, readout, draws): shown for *_, draws, readout, contrast, shown in lines}


def test_the_contrasts_are_those_that_verdicts_rest_on(three, tmp_path):
    alone = results.outcome(three["guess"], "expected")
    itself = shown(statistics.mse(alone.prediction, alone.truth, less=alone.guess))
    found = contrasted(three.values())
    assert found["guess - none", "written", "0"] == shown(results.compare(three["guess"], three["none"]))
    assert found["guess - shuffled", "written", "0"] == shown(results.compare(three["guess"], three["shuffled"]))
    assert found["guess - the guess itself", "expected", "0"] == itself
    assert found["shuffled - the guess itself", "written", "0"] == "0.000 [0.000, 0.000]", "it copies"
    assert len(found) == 3 + 1 + 2, "the others have no probabilities"
    assert contrasted([*three.values(), *three.values()]) == found, "a copy counts once"
    # Other versions are not compared, nor other readouts.
    older = three["none"] | {"versions": {"fake": "0"}}
    assert ("guess - none", "written", "0") not in contrasted([three["guess"], older])
    # Two draws together; of a third, the plain answers are missing.
    for name, draws in (("none", [1]), ("guess", [1, 2])):
        for draw in draws:
            asked = replace(ASKED, condition=name, draw=draw, seed=draw if name == "guess" else 0)
            run(
                asked,
                Fake(last_guess if name == "guess" else lambda prompt: " 2.5"),
                SOURCES,
                tmp_path / f"{name}{draw}",
            )
    more = {(r["experiment"]["condition"], r["experiment"]["draw"]): r for r in records.own(tmp_path)}
    both = [{"records": three[name]["records"] + more[name, 1]["records"]} for name in ("guess", "none")]
    found = contrasted([*three.values(), *more.values()])
    assert found["guess - none", "written", "0,1"] == shown(results.compare(*both))
    assert ("guess - the guess itself", "written", "0,1,2") in found


def test_effects_are_those_of_a_rule(tmp_path):
    """Trust one half, correction a quarter of a point; the sum of both is what moving all does."""
    numbers = lambda prompt, name: np.array([float(n) for n in re.findall(rf"{name}: (\S+)", prompt)])

    def rule(prompt):
        guess, score = numbers(prompt, "Initial guess"), numbers(prompt, "Score")
        return -((np.arange(51) / 10 - 1 - 0.5 * guess[-1] - 0.25 * (score - guess[:-1]).mean()) ** 2) / 0.02

    arms = {}
    for part in design.CHOICES["moved"][1:]:
        asked = replace(ASKED, moved=part)
        arms[part] = run(asked, Fake(last_guess, rule), SOURCES, tmp_path / part, readouts=("expected",))
    found = results.effects(arms)
    known = {"query guess": 0.5, "context guess": -0.25, "context score": 0.25, "all": 0.5, "all less the three": 0}
    assert found.keys() == known.keys()
    for part, effect in known.items():
        np.testing.assert_allclose(found[part], effect, atol=0.02)
    swapped = arms | {"query guess": arms["context score"], "context score": arms["query guess"]}
    assert np.abs(results.effects(swapped)["query guess"] - 0.5).min() > 0.2
    assert results.table([*arms.values()]).count("\n") == 5
    assert results.table([*arms.values()][:-1]) == "", "one of the five is missing"
    alone = [arm | {"records": arm["records"][:1]} for arm in arms.values()]
    assert [line.split()[-1] for line in results.table(alone).splitlines()[1:]] == ["-"] * 5, "one run has no interval"


def test_a_probe_s_contrast_is_the_right_guesses_less_the_others(tmp_path):
    """The answer moves by half a point with a right guess, by a tenth with a permuted one."""
    probes = []
    for condition, trust in (("guess", 0.5), ("permuted", 0.1)):
        rule = lambda prompt, trust=trust: -((np.arange(51) / 10 - 1 - trust * float(last_guess(prompt))) ** 2) / 0.02
        for part in design.CHOICES["moved"][1:]:
            asked = replace(ASKED, condition=condition, moved=part)
            folder = tmp_path / f"{condition} {part}"
            probes.append(run(asked, Fake(last_guess, rule), SOURCES, folder, readouts=("expected",)))
    lines = [re.split("  +", line) for line in results.table(probes).splitlines()]
    effects = {line[5]: float(line[7].split()[0]) for line in lines if line[6] == "query guess"}
    assert effects == pytest.approx({"guess": 0.5, "permuted": 0.1, "guess - permuted": 0.4}, abs=0.02)


def test_one_run_or_no_answer_still_has_a_line(tmp_path):
    run(replace(ASKED, runs=1), Fake(last_guess), SOURCES, tmp_path / "one")
    run(ASKED, Fake(lambda prompt: "?"), SOURCES, tmp_path / "junk")
    junk, one = results.table(records.own(tmp_path)).split("\n\n")[0].splitlines()[1:]
    assert junk.split()[6:8] == ["12", "12"] and one.split()[6:9] == ["1", "0", "-"]


SOME = {"records": [{"answer": "3", "truth": 3.5, "guess": None, "context_mean": 2.0, "query": 0, "context": [0]}]}
test_bad_arguments_are_refused = refusals(
    (lambda: results.outcome(SOME, "spoken"), "readout must be one of written, which the model gave, got 'spoken'"),
    (lambda: results.outcome(SOME, mode="wild"), "mode must be one of strict, lenient"),
    (lambda: results.expected(np.zeros((2, 50))), r"logprobs must have shape \(n, 51\), got shape \(2, 50\)"),
)


RNG = np.random.default_rng(3)
TRUTH = RNG.uniform(0, 5, 80)
GOOD, BAD = TRUTH + 0.5 * RNG.standard_normal(80), TRUTH + 0.9 * RNG.standard_normal(80)
squared = lambda a, b, y: (a - y) ** 2 - (b - y) ** 2


@pytest.mark.parametrize("other", [None, BAD], ids=["an error", "a difference"])
def test_the_interval_is_of_resampled_rows(other):
    found = statistics.mse(GOOD, TRUTH, less=other)
    values = squared(GOOD, TRUTH if other is None else other, TRUTH)
    means = values[np.random.default_rng(1).integers(80, size=(20_000, 80))].mean(1)
    by_hand = np.quantile(means, [0.025, 0.975])
    assert found.estimate == pytest.approx(values.mean())
    # Two sets of resamples: their quantiles differ by about one part in a hundred of the width.
    width = by_hand[1] - by_hand[0]
    np.testing.assert_allclose(found[1:], by_hand, atol=0.04 * width)
    assert np.abs(np.quantile(means, [0.05, 0.95]) - by_hand).max() > 0.08 * width
    assert found == statistics.mse(GOOD, TRUTH, less=other), "the seed is fixed"


def test_a_long_column_is_resampled_in_pieces():
    long = RNG.standard_normal(5000)
    interval = statistics.mse(long, np.zeros(5000))
    error = (long**2).std() / 5000**0.5
    np.testing.assert_allclose(interval[1:], (long**2).mean() + np.array([-1.96, 1.96]) * error, atol=0.1 * error)


def test_pairing_makes_the_difference_sharper():
    """Two predictions with the same large error on each query, one a little worse."""
    common = 2 * RNG.standard_normal(80)
    paired = statistics.mse(TRUTH + common, TRUTH, less=TRUTH + 1.1 * common)
    assert paired.high < 0, "the difference is seen"
    order = RNG.permutation(80)
    unpaired = statistics.bootstrap(lambda x, y: (x**2).mean(-1) - (y**2).mean(-1), common, (1.1 * common)[order])
    assert unpaired.high > 0 and unpaired.high - unpaired.low > 3 * (paired.high - paired.low)


def test_what_does_not_vary_has_no_width():
    assert statistics.mse(GOOD, TRUTH, less=GOOD) == statistics.mse(TRUTH, TRUTH) == (0, 0, 0)


test_bad_columns_are_refused = refusals(
    (lambda: statistics.mse(GOOD, TRUTH[:-1]), r"column 1 must have shape \(80,\), got shape \(79,\)"),
    (lambda: statistics.mse(np.where(GOOD > 2, np.nan, GOOD), TRUTH), "column 0 must be finite"),
    (lambda: statistics.mse(GOOD[:1], TRUTH[:1]), "columns must have at least two rows"),
)
