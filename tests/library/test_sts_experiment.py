"""The experiment on models that are no models: it measures what it says, in pairs, and asks nothing twice."""

import errno
import json
import re
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from sts_support import ROOT, Fake, last_guess, made_up

from lsalib.sts import experiment, records, results
from lsalib.sts.design import CHOICES, Experiment

SOURCES = made_up()
ASKED = Experiment("fake", "guess", runs=20, context_size=5)
STYLES = pytest.mark.parametrize("asked", [ASKED, replace(ASKED, style="chat")], ids=["completion", "chat"])
KNOWN = dict(zip(SOURCES.query.first, SOURCES.query.score, strict=True))
FLAT = lambda prompt: np.zeros(51)


def ask(asked, model, folder, sources=SOURCES, **options):
    return experiment.run(asked, model, sources, folder, **options)


def mse(result, of="prediction"):
    """The error of the answers, or of the guesses that the prompts showed."""
    outcome = results.outcome(result)
    return float(((getattr(outcome, of) - outcome.truth) ** 2).mean())


@STYLES
def test_an_echo_has_exactly_the_error_of_the_guess(asked, tmp_path):
    echo = ask(asked, Fake(last_guess, FLAT), tmp_path / "a")
    index = [record["query"] for record in echo["records"]]
    shown = np.array([float(f"{g:.2f}") for g in np.clip(SOURCES.query_guess[index], 0, 5)])
    means = [SOURCES.context.score[record["context"]].mean() for record in echo["records"]]
    np.testing.assert_allclose([record["context_mean"] for record in echo["records"]], means)
    assert mse(echo) == mse(echo, "guess") == ((shown - SOURCES.query.score[index]) ** 2).mean()
    assert results.outcome(echo).failed.sum() == 0
    # Control: guesses that belong to other pairs are as bad as they look.
    shuffled = ask(replace(asked, condition="shuffled"), Fake(last_guess), tmp_path / "b")
    assert mse(shuffled) == mse(shuffled, "guess") > 5 * mse(echo)


@pytest.mark.parametrize("condition", CHOICES["condition"])
def test_who_knows_the_truth_has_no_error(condition, tmp_path):
    knows = lambda prompt: f" {KNOWN[re.findall('Sentence 1: (.*)', prompt)[-1]]}"
    assert mse(ask(replace(ASKED, condition=condition), Fake(knows), tmp_path)) == 0


def test_each_prompt_is_asked_as_the_paper_says(tmp_path):
    model = Fake(last_guess)
    result = ask(ASKED, model, tmp_path)
    assert len(model.asked) == len(set(model.asked)) == 20 and model.limits == {(150, ("\n",))}
    assert all(prompt.count("Score:") == 6 and prompt.endswith("Score:") for prompt in model.asked)
    assert result["first_prompt"] == model.asked[0] and records.own(tmp_path) == [result]
    assert result["experiment"] == vars(ASKED) and result["versions"] == {"fake": "1"}
    known = {"run", "query", "context", "truth", "guess", "context_mean"}
    assert set(result["records"][0]) == known | {"answer", "logprobs"}


@STYLES
@pytest.mark.parametrize("k", [0, 1, 19])
def test_an_interrupted_run_continues_and_asks_nothing_twice(asked, k, tmp_path, tmp_path_factory):
    """Also with other versions of the packages."""
    first, second = Fake(last_guess, dies_after=k), Fake(last_guess, version="2")
    with pytest.raises(ConnectionError, match="the server is gone") as caught:
        ask(asked, first, tmp_path)
    kept = f"kept in {tmp_path}: {k} of 20 answers and 0 of 20 rows of scores; the same command continues from there"
    assert caught.value.__notes__ == [kept]
    result = ask(asked, second, tmp_path)
    assert len(first.asked) == k and len(second.asked) == 20 - k
    assert not set(first.asked) & set(second.asked)
    assert result == ask(asked, Fake(last_guess, version="2"), tmp_path_factory.mktemp("whole"))
    third = Fake(last_guess)
    assert ask(asked, third, tmp_path)["records"] == result["records"] and third.asked == []


# Asks for an answer seven times, and waits for the seventh.
WAITING = """
import itertools, sys, time
sys.path.insert(0, "tests")
from sts_support import Fake, last_guess, made_up
from lsalib.sts import __main__ as command, design, models
asked = itertools.count(1)
def slow(prompt):
    print("asked", flush=True); time.sleep(900 * (next(asked) == 7)); return last_guess(prompt)
models.open_model, design.prepare = lambda name: Fake(slow), lambda asked: made_up()
what = ["--condition", "guess", "--runs", "20", "--context-size", "5", "--out", sys.argv[1]]
sys.exit(command.main(["run", "--model", "fake", *what]))
"""


def test_a_process_that_is_told_to_stop_says_what_is_kept(tmp_path):
    line = [sys.executable, "-c", WAITING, str(tmp_path)]
    with subprocess.Popen(line, cwd=ROOT, stdout=-1, stderr=-1, text=True) as process:
        assert [process.stdout.readline() for _ in range(7)] == ["asked\n"] * 7
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
    assert process.returncode == 143
    assert f"stopped; kept in {tmp_path}/guess: 6 of 20 answers and 0 of 20 rows of scores" in said
    model = Fake(last_guess)
    ask(ASKED, model, tmp_path / "guess")
    assert len(model.asked) == 20 - 6


def test_a_full_disk_keeps_what_it_has(tmp_path, monkeypatch):
    """The folder and the answers on the disk are named; once there is room, the rest is asked."""
    with pytest.raises(ConnectionError):
        ask(ASKED, Fake(last_guess, dies_after=4), tmp_path)

    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(experiment, "write", full)
        with pytest.raises(OSError, match=rf"can be written, got {tmp_path} \(No space left on device\)") as caught:
            ask(ASKED, Fake(last_guess), tmp_path)
    assert caught.value.__notes__[0].startswith(f"kept in {tmp_path}: 4 of 20 answers")
    model = Fake(last_guess)
    ask(ASKED, model, tmp_path)
    assert len(model.asked) == 16


def test_one_readout_or_fewer_runs_can_come_first(tmp_path):
    model = Fake(last_guess, FLAT)
    first = ask(ASKED, model, tmp_path, readouts=("written",))
    assert model.scored == [] and len(model.asked) == 20 and records.own(tmp_path) == [first]
    ask(ASKED, model, tmp_path, readouts=("expected",), first=5)
    assert len(model.scored) == 5
    both = ask(ASKED, model, tmp_path)
    assert len(model.scored) == len(model.asked) == 20 and records.own(tmp_path) == [both]
    for readouts in ((), ("spoken",), "written"):
        with pytest.raises(ValueError, match="readouts must be among written, expected, got "):
            ask(ASKED, model, tmp_path, readouts=readouts)


def test_a_folder_of_another_experiment_is_refused_and_left(tmp_path):
    """Model, settings and data have to agree, and nothing else."""
    ask(ASKED, Fake(last_guess), tmp_path)
    path = tmp_path / "result.json"
    before, others = path.read_bytes(), SOURCES._replace(query_guess=SOURCES.query_guess[::-1].copy())
    for asked, sources, message in (
        (replace(ASKED, draw=1), SOURCES, "draw: 0, not 1"),
        (replace(ASKED, condition="shuffled"), SOURCES, "condition: 'guess', not 'shuffled'"),
        (ASKED, others, "prompts: '[0-9a-f]+"),
    ):
        model = Fake(last_guess)
        with pytest.raises(ValueError, match=f"folder must belong to this experiment, got .*{message}"):
            ask(asked, model, tmp_path, sources)
        assert model.asked == [] and path.read_bytes() == before
    for content in ("mine", json.dumps([1]), ""):
        path.write_text(content)
        with pytest.raises(ValueError, match="a damaged or another file"):
            ask(ASKED, Fake(last_guess), tmp_path)
        assert path.read_text() == content


values = "the log-probabilities of the model must"


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Fake(last_guess, name="other"), "model must be the experiment's, 'fake', got 'other'"),
        (Fake(lambda prompt: None), "an answer of the model must be a text, got None"),
        (Fake(last_guess, lambda prompt: np.zeros(50)), rf"{values} have shape \(51,\), got shape \(50,\)"),
        (Fake(last_guess, lambda prompt: np.full(51, np.nan)), f"{values} be finite"),
    ],
)
def test_a_model_that_does_not_keep_to_its_protocol_is_named(model, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        ask(ASKED, model, tmp_path)
