"""Results: failures, pairs, and a table whose numbers are those of the records."""

import re
from dataclasses import replace

import numpy as np
import pytest
from refusals import refusals
from sts_support import Fake, last_guess, made_up

from lsalib.book import statistics
from lsalib.sts import design, records, results
from lsalib.sts.experiment import Experiment, run

SOURCES = made_up()
ASKED = Experiment("fake", "guess", runs=12, context_size=3)


def sometimes(prompt):
    """The guess, but for prompts of even length, where there is nothing to read."""
    return "no idea" if len(prompt) % 2 == 0 else f" about{last_guess(prompt)}"


def normal(center, probability=0.9):
    """Log-probabilities of the answers: a narrow normal distribution around the center, of this probability in all."""
    density = np.exp(-((np.arange(51) / 10 - center) ** 2) / 0.02)
    return np.log(np.maximum(probability * density / density.sum(), 1e-300))


def peak(prompt):
    return normal(float(last_guess(prompt)))


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


@pytest.mark.parametrize(("probability", "shown"), [(0.4, False), (0.6, True)])
def test_an_expected_score_without_mass_is_refused(probability, shown, tmp_path):
    """Of answers that the model hardly gives, whatever their mean is."""
    rule = lambda prompt: normal(float(last_guess(prompt)), probability)
    found = run(ASKED, Fake(last_guess, rule), SOURCES, tmp_path)
    assert results.mass(found) == pytest.approx(probability)
    rows = lines([found])
    row = rows["guess", "expected", "0" if shown else "-", "MSE"]
    assert row["mass"] == f"{probability:.2f}"
    assert row["value [95 %]"].startswith("not shown: the mass is below 0.5") is not shown
    if shown:
        guess = [record["guess"] for record in found["records"]]
        np.testing.assert_allclose(results.outcome(found, "expected").prediction, guess, atol=0.1)
    else:
        with pytest.raises(
            ValueError, match=r"at least 0\.5, got 'expected', whose answers have a probability of 0\.40"
        ):
            results.outcome(found, "expected")
        assert len(results.outcome(found).prediction) == 12, "what is written can be read"


def test_what_is_not_in_pairs_is_refused(three, tmp_path):
    """Other queries, and the same ones after other contexts."""
    for changes in ({"draw": 1}, {"context_size": 4}):
        other = run(replace(ASKED, **changes), Fake(last_guess), SOURCES, tmp_path / str(changes))
        with pytest.raises(ValueError, match="other must be about the same queries and contexts as result"):
            results.compare(three["guess"], other)


def shown(interval):
    return f"{interval.estimate:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def lines(found):
    """The table's cells by their headings, a line by its condition, readout, draws and what it has."""
    heading, *rows = (re.split("  +", line) for line in results.table(list(found)).splitlines())
    cells = [dict(zip(heading, row, strict=True)) for row in rows]
    return {tuple(row[name] for name in ("condition", "readout", "draws", "what")): row for row in cells}


def test_the_table_has_the_numbers_of_the_records(three):
    """Of every result and readout that the model gave, and every difference that verdicts rest on."""
    found = lines(three.values())
    of = {"none": ["written"], "guess": ["written", "expected"], "shuffled": ["written"]}
    for condition, readout in ((name, readout) for name in of for readout in of[name]):
        o = results.outcome(three[condition], readout)
        row = found[condition, readout, "0", "MSE"]
        assert row["value [95 %]"] == shown(statistics.mse(o.prediction, o.truth))
        assert (row["runs"], row["failed"]) == ("12", str(o.failed.sum()))
        if condition != "none":
            itself = found[condition, readout, "0", "MSE less: the guess itself"]["value [95 %]"]
            assert itself == shown(statistics.mse(o.prediction, o.truth, less=o.guess))
    for other in ("none", "shuffled"):
        row = found["guess", "written", "0", f"MSE less: {other}"]
        assert row["value [95 %]"] == shown(results.compare(three["guess"], three[other]))
    copies = found["shuffled", "written", "0", "MSE less: the guess itself"]
    assert copies["value [95 %]"] == "0.000 [0.000, 0.000]" and len(found) == 4 + 3 + 3


def test_the_draws_of_a_setting_are_taken_together(three, tmp_path):
    for name in ("guess", "none"):
        answer = last_guess if name == "guess" else lambda prompt: " 2.5"
        run(replace(ASKED, condition=name, draw=1), Fake(answer), SOURCES, tmp_path / name)
    more = {result["experiment"]["condition"]: result for result in records.own(tmp_path)}
    both = [{"records": three[name]["records"] + more[name]["records"]} for name in ("guess", "none")]
    found = lines([*three.values(), *more.values()])
    assert found["guess", "written", "0,1", "MSE less: none"]["value [95 %]"] == shown(results.compare(*both))
    assert ("guess", "written", "0", "MSE less: shuffled") in found, "what only one draw has"
    # Another seed of the guess model is no copy.
    seeds = [three["guess"], three["guess"] | {"experiment": three["guess"]["experiment"] | {"seed": 1}}]
    assert lines(seeds)["guess", "written", "0,0", "MSE"]["runs"] == "24"


def test_most_unreadable_answers_are_counted(three):
    """Counts by condition; none where at most half of the answers are unreadable."""
    failed = results.outcome(three["guess"]).failed.sum()
    assert results.unreadable([three["none"], three["guess"]]) == ""
    junk = three["none"] | {"records": [row | {"answer": "?"} for row in three["none"]["records"]]}
    assert results.unreadable([junk, three["guess"]]) == f"none: 12 of 12, guess: {failed} of 12"


def test_effects_are_those_of_a_rule(tmp_path):
    """Trust one half, correction a quarter of a point; the sum of both is what moving all does."""
    numbers = lambda prompt, name: np.array([float(n) for n in re.findall(rf"{name}: (\S+)", prompt)])

    def rule(prompt):
        guess, score = numbers(prompt, "Initial guess"), numbers(prompt, "Score")
        return normal(1 + 0.5 * guess[-1] + 0.25 * (score - guess[:-1]).mean())

    arms = {}
    for part in design.CHOICES["moved"][1:]:
        asked = replace(ASKED, moved=part)
        arms[part] = run(asked, Fake(last_guess, rule), SOURCES, tmp_path / part, readouts=("expected",))
    found = results.effects(arms)
    known = {"query guess": 0.5, "context guess": -0.25, "context score": 0.25, "all": 0.5, "all less the three": 0}
    assert found.keys() == known.keys()
    for part, effect in known.items():
        np.testing.assert_allclose(found[part], effect, atol=0.02)
    written = {
        part: one | {"records": [row | {"logprobs": None, "answer": "1"} for row in one["records"]]}
        for part, one in arms.items()
    }
    assert not any(values.any() for values in results.effects(written).values()), "without scores, of written answers"
    swapped = arms | {"query guess": arms["context score"], "context score": arms["query guess"]}
    assert np.abs(results.effects(swapped)["query guess"] - 0.5).min() > 0.2
    assert results.table([*arms.values()]).count("\n") == 5
    assert results.table([*arms.values()][:-1]).count("\n") == 0, "one of the five is missing"


def test_a_probe_s_contrast_is_the_right_guesses_less_the_others(tmp_path):
    """The answer moves by half a point with a right guess, by a tenth with a permuted one."""
    probes = []
    for condition, trust in (("guess", 0.5), ("permuted", 0.1)):
        rule = lambda prompt, trust=trust: normal(1 + trust * float(last_guess(prompt)))
        for part in design.CHOICES["moved"][1:]:
            asked = replace(ASKED, condition=condition, moved=part)
            folder = tmp_path / f"{condition} {part}"
            probes.append(run(asked, Fake(last_guess, rule), SOURCES, folder, readouts=("expected",)))
    rows = {key[0]: row for key, row in lines(probes).items() if key[3].endswith(" query guess")}
    effects = {name: float(row["value [95 %]"].split()[0]) for name, row in rows.items()}
    assert effects == pytest.approx({"guess": 0.5, "permuted": 0.1, "guess less: permuted": 0.4}, abs=0.02)


def probed(tmp_path, masses, answer=None):
    """The table's rows of a probe whose arms have these masses, and an answer in words if there is one."""
    probes = []
    for part, probability in zip(design.CHOICES["moved"][1:], masses, strict=True):
        rule = lambda prompt, probability=probability: normal(float(last_guess(prompt)), probability)
        readouts = ("written", "expected")[answer is None :]
        fake = Fake(lambda prompt: answer, rule)
        probes.append(run(replace(ASKED, moved=part), fake, SOURCES, tmp_path / part, readouts=readouts))
    return lines(probes).values()


@pytest.mark.parametrize(
    ("masses", "answer", "shown"),
    [
        ((0.9, 0.8, 0.7, 0.8, 0.9), None, "0.70"),
        ((0.9, 0.8, 0.4, 0.8, 0.9), None, "0.40"),
        ((0.9, 0.8, 0.4, 0.8, 0.9), " 3", "-"),
    ],
    ids=["expected scores", "not shown", "written answers"],
)
def test_a_probe_s_mass_is_the_smallest_of_its_arms(masses, answer, shown, tmp_path):
    """Beside effects on the expected score; written answers have none."""
    rows = probed(tmp_path, masses, answer)
    assert {row["mass"] for row in rows} == {shown}
    assert ["not shown" in row["value [95 %]"] for row in rows] == ([True] if shown == "0.40" else [False] * 5)


def test_one_run_or_no_answer_still_has_a_line(tmp_path):
    run(replace(ASKED, runs=1), Fake(last_guess), SOURCES, tmp_path / "one")
    run(ASKED, Fake(lambda prompt: "?"), SOURCES, tmp_path / "junk")
    found = lines(records.own(tmp_path))
    assert found["guess", "written", "0", "MSE"]["failed"] in ("0", "12") and len(records.own(tmp_path)) == 2
    one, junk = (lines([result])["guess", "written", "0", "MSE"] for result in records.own(tmp_path)[::-1])
    assert junk["failed"] == "12" and one["runs"] == "1" and "[" not in one["value [95 %]"]


SOME = {"records": [{"answer": "3", "truth": 3.5, "guess": None, "context_mean": 2.0, "query": 0, "context": [0]}]}
test_bad_arguments_are_refused = refusals(
    (lambda: results.outcome(SOME, "spoken"), "readout must be one of written, which the model gave, got 'spoken'"),
    (lambda: results.expected(np.zeros((2, 50))), r"logprobs must have shape \(2, 51\), got shape \(2, 50\)"),
    (lambda: results.written(np.zeros(50)), r"logprobs must have shape \(51,\), got shape \(50,\)"),
)
