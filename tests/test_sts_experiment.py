"""The experiment on models that are no models: it measures what it says, in pairs, and asks nothing twice."""

import json
import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from sts_support import ROOT, Fake, last_guess, made_up, truth_of

from lsalib.sts import experiment, results
from lsalib.sts.design import CONDITIONS, Experiment

SOURCES = made_up()
ASKED = Experiment("fake", "guess", runs=20, context_size=5)
CHAT = replace(ASKED, style="chat")


def ask(asked, model, folder, sources=SOURCES, **options):
    return experiment.run(asked, model, sources, folder, **options)


def mse(result, of="prediction"):
    """The error of the answers, or of the guesses that the prompts showed."""
    outcome = results.outcome(result)
    return float(((getattr(outcome, of) - outcome.truth) ** 2).mean())


STYLES = pytest.mark.parametrize("asked", [ASKED, CHAT], ids=["completion", "chat"])


@STYLES
def test_an_echo_has_exactly_the_error_of_the_guess(asked, tmp_path):
    echo = ask(asked, Fake(last_guess), tmp_path / "a")
    index = [record["query"] for record in echo["records"]]
    shown = np.array([float(f"{g:.2f}") for g in np.clip(SOURCES.query_guess[index], 0, 5)])
    assert mse(echo) == mse(echo, "guess") == ((shown - SOURCES.query.score[index]) ** 2).mean()
    assert results.outcome(echo, mode="strict").failed.sum() == 0
    # Negative control: guesses that belong to other pairs are as bad as they look.
    shuffled = ask(replace(asked, condition="shuffled"), Fake(last_guess), tmp_path / "b")
    assert mse(shuffled) == mse(shuffled, "guess") > 5 * mse(echo)


def test_who_knows_the_truth_has_no_error(tmp_path):
    for condition in CONDITIONS:
        assert mse(ask(replace(ASKED, condition=condition), Fake(truth_of(SOURCES)), tmp_path / condition)) == 0
    # Negative control: the truth of other queries.
    others = SOURCES._replace(query=SOURCES.query._replace(score=SOURCES.query.score[::-1].copy()))
    assert mse(ask(ASKED, Fake(truth_of(others)), tmp_path / "others")) > 1


def test_junk_fails_and_is_counted(tmp_path):
    junk = ask(ASKED, Fake(lambda prompt: " I cannot say, 8/10 perhaps"), tmp_path)
    outcome = results.outcome(junk)
    assert outcome.failed.all() and len(results.outcome(junk, failures="drop").truth) == 0
    means = [record["context_mean"] for record in junk["records"]]
    np.testing.assert_array_equal(outcome.prediction, means)
    for record in junk["records"]:
        assert record["context_mean"] == pytest.approx(SOURCES.context.score[record["context"]].mean())


def test_each_prompt_is_asked_as_the_paper_says(tmp_path):
    model = Fake(last_guess)
    result = ask(ASKED, model, tmp_path, batch_size=7)
    assert len(model.asked) == len(set(model.asked)) == 20 and model.limits == {(150, ("\n",))}
    assert all(prompt.count("Score:") == 6 and prompt.endswith("Score:") for prompt in model.asked)
    assert result["first_prompt"] in model.asked and model.asked == sorted(model.asked, key=len)
    assert result["experiment"] == vars(ASKED) and result["versions"] == {"fake": "1"}
    assert os.listdir(tmp_path) == ["result.json"] and json.loads((tmp_path / "result.json").read_text()) == result


@STYLES
@pytest.mark.parametrize("k", [0, 1, 8, 13, 19])
def test_an_interrupted_run_goes_on_and_asks_nothing_twice(asked, k, tmp_path, tmp_path_factory):
    first, second = Fake(last_guess, dies_after=k), Fake(last_guess)
    with pytest.raises(ConnectionError, match="the server is gone"):
        ask(asked, first, tmp_path)
    assert os.listdir(tmp_path) == ["answers.jsonl"]
    result = ask(asked, second, tmp_path)
    assert len(first.asked) == k and len(second.asked) == 20 - k
    assert not set(first.asked) & set(second.asked)
    assert result == ask(asked, Fake(last_guess), tmp_path_factory.mktemp("whole"))
    third = Fake(last_guess)
    assert ask(asked, third, tmp_path) == result and third.asked == []


# Asks for an answer seven times, and waits for the seventh.
WAITING = """
import itertools, sys, time
sys.path.insert(0, "tests")
from sts_support import Fake, last_guess, made_up
from lsalib.sts.experiment import Experiment, run
asked = itertools.count(1)
def slow(prompt):
    print("asked", flush=True); time.sleep(900 * (next(asked) == 7)); return last_guess(prompt)
run(Experiment("fake", "guess", runs=20, context_size=5), Fake(slow), made_up(), sys.argv[1])
"""


def test_a_process_that_is_killed_loses_only_the_answer_it_waited_for(tmp_path):
    command = [sys.executable, "-c", WAITING, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert [process.stdout.readline() for _ in range(7)] == ["asked\n"] * 7
        process.kill()
    model = Fake(last_guess)
    ask(ASKED, model, tmp_path)
    assert len(model.asked) == 20 - 6


def test_a_line_that_broke_off_is_asked_again(tmp_path):
    """Twice: what the second sitting wrote stands on lines of its own."""
    path = tmp_path / "answers.jsonl"
    for more in (9, 4):
        with pytest.raises(ConnectionError):
            ask(ASKED, Fake(last_guess, dies_after=more), tmp_path)
        whole = path.read_bytes()
        path.write_bytes(whole[:-4])
    model = Fake(last_guess)
    ask(ASKED, model, tmp_path)
    assert len(model.asked) == 20 - 8 - 3
    # Damage before the end is no broken line: it is named, and left.
    lines, unknown = whole.splitlines(keepends=True), b'{"run": 99, "answer": "3"}\n'
    (tmp_path / "result.json").unlink()
    for line, message in ((b"{broken\n", ".* the file is damaged"), (unknown, "an answer .* one of 20 runs, got 99")):
        damaged = b"".join([*lines[:2], line, *lines[3:]])
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=f"line 3: {message}"):
            ask(ASKED, Fake(last_guess), tmp_path)
        assert path.read_bytes() == damaged


def test_a_crash_between_the_last_answer_and_the_end_changes_nothing(tmp_path):
    result = ask(ASKED, Fake(last_guess), tmp_path)
    (tmp_path / "answers.jsonl").write_bytes(b"what was left behind\n")
    model = Fake(last_guess)
    assert ask(ASKED, model, tmp_path) == result and model.asked == []
    assert os.listdir(tmp_path) == ["result.json"]


@pytest.mark.parametrize("finished", [False, True])
def test_a_folder_of_another_experiment_is_refused_and_left(finished, tmp_path):
    with nullcontext() if finished else pytest.raises(ConnectionError):
        ask(ASKED, Fake(last_guess, dies_after=None if finished else 3), tmp_path)
    (path,) = tmp_path.iterdir()
    before, others = path.read_bytes(), SOURCES._replace(query_guess=SOURCES.query_guess[::-1].copy())
    for asked, version, sources, message in (
        (replace(ASKED, draw=1), "1", SOURCES, "draw: 0, not 1"),
        (replace(ASKED, condition="shuffled"), "1", SOURCES, "condition: 'guess', not 'shuffled'"),
        (ASKED, "2", SOURCES, "fake: '1', not '2'"),
        (ASKED, "1", others, "prompts: '[0-9a-f]+"),
    ):
        model = Fake(last_guess, version=version)
        with pytest.raises(ValueError, match=f"out must belong to this .*, got .*{message}.*; choose another folder"):
            ask(asked, model, tmp_path, sources)
        assert model.asked == [] and path.read_bytes() == before


@pytest.mark.parametrize("name", ["thesis.tex", "result.json", "answers.jsonl"])
def test_a_folder_of_something_else_is_refused_and_left(name, tmp_path):
    for content in (b"mine", b'{"mine": 1}\n', b"[]\n"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=r"choose another folder|new or empty folder|damaged"):
            ask(ASKED, Fake(last_guess), tmp_path)
        assert (tmp_path / name).read_bytes() == content


def peak(prompt):
    """Log-probabilities of a normal law around the guess, not normalised."""
    return -((np.arange(51) / 10 - float(last_guess(prompt))) ** 2) / 0.02 - 7


@STYLES
def test_expected_scores_come_from_renormalised_probabilities(asked, tmp_path):
    model = Fake(last_guess, logprobs=lambda prompt: peak(prompt if isinstance(prompt, str) else prompt[1]["content"]))
    result = ask(asked, model, tmp_path)
    outcome = results.outcome(result, "expected")
    inside = (outcome.guess > 0.5) & (outcome.guess < 4.5)
    assert inside.sum() > 10
    np.testing.assert_allclose(outcome.prediction[inside], outcome.guess[inside], atol=1e-3)
    # By hand, without the shift that keeps the exponentials finite.
    weights = np.exp([record["logprobs"] for record in result["records"]])
    np.testing.assert_allclose(outcome.prediction, weights @ (np.arange(51) / 10) / weights.sum(1))


def test_readouts_are_resumed_one_by_one(tmp_path):
    def tired(prompt):
        if len(first.scored) == 10:
            raise ConnectionError("too tired")
        return peak(prompt)

    first, second = Fake(last_guess, logprobs=tired), Fake(last_guess, logprobs=peak)
    with pytest.raises(ConnectionError, match="too tired"):
        ask(ASKED, first, tmp_path)
    ask(ASKED, second, tmp_path)
    # Both questions about a batch in a row: the second batch was answered, and valued in part.
    assert len(first.asked) == 16 and len(second.asked) == 4 and not set(first.asked) & set(second.asked)
    assert len(first.scored) == len(second.scored) == 10 and not set(first.scored) & set(second.scored)


class Lazy(Fake):
    def complete(self, prompts, **options):
        return super().complete(prompts, **options)[1:]


values = "log-probabilities of model fake must"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Fake(last_guess, name="other"), "model must be the experiment's, 'fake', got 'other'"),
        (Fake(lambda prompt: None), "an answer of the model must be a text, got None"),
        (Lazy(last_guess), "model fake must give 8 answers, one a prompt, got 7"),
        (Fake(last_guess, lambda prompt: np.zeros(50)), rf"{values} have shape \(51,\), got shape \(50,\)"),
        (Fake(last_guess, lambda prompt: np.full(51, np.nan)), f"{values} be finite"),
    ],
)
def test_a_model_that_does_not_keep_to_its_protocol_is_named(model, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        ask(ASKED, model, tmp_path)


def test_a_batch_of_nothing_is_refused(tmp_path):
    with pytest.raises(ValueError, match="batch_size must be a whole number of at least 1, got 0"):
        ask(ASKED, Fake(last_guess), tmp_path, batch_size=0)
    assert not list(tmp_path.iterdir())


def test_importing_lsalib_needs_nothing_of_this():
    """Nor do the modules for language models need their packages before they are used."""
    python = lambda code: subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True)
    names = "tokenizers", "safetensors", "gguf", "openai", "platformdirs", "transformers", "torch"
    loaded = f"[name for name in sys.modules if name.startswith({('lsalib.sts', *names)})]"
    assert python(f"import sys, lsalib; print({loaded})") == "[]\n"
    modules = [str(path.relative_to(ROOT).with_suffix("")) for path in (ROOT / "lsalib/sts").rglob("[a-z]*.py")]
    blocked = f"import sys; sys.modules.update(dict.fromkeys({names}))\n"
    python(blocked + "\n".join(f"import {name.replace('/', '.')}" for name in modules))
    assert len(modules) >= 20
