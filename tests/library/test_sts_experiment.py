"""The experiment on models that are no models: it measures what it says, in pairs, and asks nothing twice."""

import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from sts_support import ROOT, Fake, last_guess, made_up

from lsalib.sts import _store, experiment, records, results
from lsalib.sts.design import CHOICES, Experiment
from lsalib.sts.models._text import Answer

SOURCES = made_up()
ASKED = Experiment("fake", "guess", runs=20, context_size=5)
STYLES = pytest.mark.parametrize("asked", [ASKED, replace(ASKED, style="chat")], ids=["completion", "chat"])
KNOWN = dict(zip(SOURCES.query.first, SOURCES.query.score, strict=True))


def ask(asked, model, folder, sources=SOURCES, **options):
    return experiment.run(asked, model, sources, folder, **options)


def mse(result, of="prediction"):
    """The error of the answers, or of the guesses that the prompts showed."""
    outcome = results.outcome(result)
    return float(((getattr(outcome, of) - outcome.truth) ** 2).mean())


@STYLES
def test_an_echo_has_exactly_the_error_of_the_guess(asked, tmp_path):
    echo = ask(asked, Fake(last_guess, lambda prompt: np.zeros(51)), tmp_path / "a")
    index = [record["query"] for record in echo["records"]]
    shown = np.array([float(f"{g:.2f}") for g in np.clip(SOURCES.query_guess[index], 0, 5)])
    means = [SOURCES.context.score[record["context"]].mean() for record in echo["records"]]
    np.testing.assert_allclose([record["context_mean"] for record in echo["records"]], means)
    assert mse(echo) == mse(echo, "guess") == ((shown - SOURCES.query.score[index]) ** 2).mean()
    assert results.outcome(echo, mode="strict").failed.sum() == 0
    # Negative control: guesses that belong to other pairs are as bad as they look.
    shuffled = ask(replace(asked, condition="shuffled"), Fake(last_guess), tmp_path / "b")
    assert mse(shuffled) == mse(shuffled, "guess") > 5 * mse(echo)


@pytest.mark.parametrize("condition", CHOICES["condition"])
def test_who_knows_the_truth_has_no_error(condition, tmp_path):
    knows = lambda prompt: f" {KNOWN[re.findall('Sentence 1: (.*)', prompt)[-1]]}"
    assert mse(ask(replace(ASKED, condition=condition), Fake(knows), tmp_path)) == 0


def test_each_prompt_is_asked_as_the_paper_says(tmp_path):
    model = Fake(last_guess)
    result = ask(ASKED, model, tmp_path, batch_size=7)
    assert len(model.asked) == len(set(model.asked)) == 20 and model.limits == {(150, ("\n",))}
    assert all(prompt.count("Score:") == 6 and prompt.endswith("Score:") for prompt in model.asked)
    assert result["first_prompt"] in model.asked and model.asked == sorted(model.asked, key=len)
    assert result["experiment"] == vars(ASKED) and result["versions"] == {"fake": "1"}
    assert sorted(os.listdir(tmp_path)) == [".lock", "result.jsonl"] and records.own(tmp_path) == [result]
    known = {"run", "query", "context", "truth", "guess", "context_mean"}
    assert set(result["records"][0]) == known | {"answer", "finish", "logprobs"}


@STYLES
@pytest.mark.parametrize("k", [0, 1, 8, 19])
def test_an_interrupted_run_goes_on_and_asks_nothing_twice(asked, k, tmp_path, tmp_path_factory):
    first, second = Fake(last_guess, dies_after=k), Fake(last_guess)
    with pytest.raises(ConnectionError, match="the server is gone"):
        ask(asked, first, tmp_path)
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
from sts_support import ROOT, Fake, last_guess, made_up
from lsalib.sts.experiment import Experiment, run
asked = itertools.count(1)
def slow(prompt):
    print("asked", flush=True); time.sleep(900 * (next(asked) == 7)); return last_guess(prompt)
run(Experiment("fake", "guess", runs=20, context_size=5), Fake(slow), made_up(), sys.argv[1])
"""


def test_a_process_has_its_folder_alone_and_loses_only_the_answer_it_waited_for(tmp_path):
    """Killed, it leaves its lock behind, which keeps nobody out, and, perhaps, half a line."""
    command, model = [sys.executable, "-c", WAITING, str(tmp_path)], Fake(last_guess)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert [process.stdout.readline() for _ in range(7)] == ["asked\n"] * 7
        path = tmp_path / "result.jsonl"
        before = path.read_bytes()
        words = f"out must belong to one process at a time, .* where process {process.pid} is asking; wait for it"
        with pytest.raises(OSError, match=words):
            ask(ASKED, model, tmp_path)
        assert model.asked == [] and path.read_bytes() == before
        process.kill()
    assert (tmp_path / ".lock").read_text() == str(process.pid)
    path.write_bytes(before + b'[11, {"answ')
    (tmp_path / ".result.jsonl.1.2.part").write_bytes(b"half of")  # of one who was killed at the very beginning
    ask(ASKED, model, tmp_path)
    assert len(model.asked) == 20 - 6
    assert json.loads(before.splitlines()[0])["records"][0].keys() >= {"truth"}, "control: there was something"


def test_the_whole_is_written_once_and_each_answer_added(tmp_path, monkeypatch):
    """And not all of it again after each, which takes a time that grows with the square of the runs."""
    written = Mock(wraps=_store.write)
    monkeypatch.setattr(_store, "write", written)
    ask(ASKED, Fake(last_guess, lambda prompt: np.zeros(51)), tmp_path)
    first, *lines = (tmp_path / "result.jsonl").read_text().splitlines()
    assert written.call_count == 1 and len(lines) == 40 and max(map(len, lines)) < 400 < len(first)


def test_a_folder_of_an_older_version_is_gone_on_with(tmp_path):
    with pytest.raises(ConnectionError) as caught:
        ask(ASKED, Fake(last_guess, dies_after=9), tmp_path)
    assert caught.value.__notes__ == [
        f"kept in {tmp_path}: 9 of 20 answers and 0 of 20 rows of scores; the same command goes on from there"
    ]
    result = _store.read(tmp_path / "result.jsonl")
    (tmp_path / "result.jsonl").unlink()
    (tmp_path / "result.json").write_text(json.dumps(result))
    with pytest.raises(ValueError, match="draw: 0, not 1"):
        ask(replace(ASKED, draw=1), Fake(last_guess), tmp_path)
    assert json.loads((tmp_path / "result.json").read_text()) == result
    model = Fake(last_guess)
    assert records.own(tmp_path) == [] and [ask(ASKED, model, tmp_path)] == records.own(tmp_path)
    assert len(model.asked) == 11 and not (tmp_path / "result.json").exists()
    (tmp_path / "result.json").write_text(json.dumps(result))  # as where a process died between the two
    assert [ask(ASKED, model, tmp_path)] == records.own(tmp_path) and len(model.asked) == 11


def test_empty_answers_are_warned_of_and_asked_again(tmp_path):
    silent = lambda prompt: Answer("  \n", "length") if len(prompt) % 2 else last_guess(prompt)
    model = Fake(silent)
    with pytest.warns(UserWarning) as caught:
        result = ask(ASKED, model, tmp_path)
    empty = [record for record in result["records"] if not record["answer"].strip()]
    assert 0 < len(empty) < 20 and {record["finish"] for record in empty} == {"length"}
    words = f"{len(empty)} of 20 answers are empty, and count as failed; finish reasons: length ({len(empty)}); the"
    assert str(caught[0].message).startswith(words) and len(caught) == 1
    assert results.outcome(result).failed.sum() == len(empty)
    again = Fake(last_guess)
    result = ask(ASKED, again, tmp_path)  # no warning, which would be an error here
    assert sorted(again.asked) == sorted(prompt for prompt in model.asked if len(prompt) % 2)
    assert not results.outcome(result).failed.any() and {record["finish"] for record in result["records"]} == {None}


def test_one_readout_can_come_before_the_other(tmp_path):
    model = Fake(last_guess, lambda prompt: np.zeros(51))
    first = ask(ASKED, model, tmp_path, readouts=("written",))
    assert model.scored == [] and len(model.asked) == 20
    assert records.own(tmp_path) == [first]
    both = ask(ASKED, model, tmp_path)
    assert len(model.scored) == len(model.asked) == 20 and records.own(tmp_path) == [both]
    for readouts in ((), ("spoken",), "written"):
        with pytest.raises(ValueError, match="readouts must be among written, expected, got "):
            ask(ASKED, model, tmp_path, readouts=readouts)


def test_readouts_are_resumed_one_by_one(tmp_path):
    def tired(prompt):
        if len(first.scored) == 10:
            raise ConnectionError("too tired")
        return np.zeros(51)

    first, second = Fake(last_guess, tired), Fake(last_guess, lambda prompt: np.zeros(51))
    with pytest.raises(ConnectionError, match="too tired"):
        ask(ASKED, first, tmp_path)
    ask(ASKED, second, tmp_path)
    # Both questions about a batch in a row: the second batch was answered, and valued in part.
    assert len(first.asked) == 16 and len(second.asked) == 4 and not set(first.asked) & set(second.asked)
    assert len(first.scored) == len(second.scored) == 10 and not set(first.scored) & set(second.scored)


class Terminal(io.StringIO):
    def isatty(self):
        return True


class OneByOne(Fake):
    """Is asked for one score at a time, and breaks down after some."""

    def score_logprobs(self, prompts, answers, *, on_answer=None, parts=None):
        rows = []
        for n in range(len(prompts)):
            for a in range(len(answers)):
                if (n, a) not in parts:
                    self.scored.append((prompts[n], a))
                    if len(self.scored) > self.logprobs:
                        raise ConnectionError("too tired")
                    parts[n, a] = -a / 8
            rows.append(np.array([parts[n, a] for a in range(len(answers))]))
            on_answer(n, rows[n])
        return np.array(rows)


def test_a_server_may_learn_to_give_scores_and_each_is_kept(tmp_path, monkeypatch):
    """A model that gives none is asked for them by the next call, and what is not new is not stored again."""
    first = ask(ASKED, Fake(last_guess), tmp_path)
    size = (tmp_path / "result.jsonl").stat().st_size
    assert ask(ASKED, Fake(last_guess), tmp_path) == first
    assert {row["logprobs"] for row in first["records"]} == {None}
    assert (tmp_path / "result.jsonl").stat().st_size < 1.2 * size
    tired, second = OneByOne(last_guess, 130), OneByOne(last_guess, 9999)
    with pytest.raises(ConnectionError, match="too tired"):
        ask(ASKED, tired, tmp_path)
    kept = _store.read(tmp_path / "result.jsonl")["records"]
    assert sorted(len(record.get("scores", {})) for record in kept) == [0] * 19 + [130 - 2 * 51]
    monkeypatch.setattr("sys.stderr", shown := Terminal())
    result = ask(ASKED, second, tmp_path)
    assert len(second.scored) == 20 * 51 - 130 and not set(tired.scored[:130]) & set(second.scored)
    assert tired.asked == second.asked == []
    assert shown.getvalue().split("steps")[-2].endswith("1040/1040 "), "resumed, the bar goes on where it was"
    assert all(record["logprobs"] == [-a / 8 for a in range(51)] for record in result["records"])
    assert not any("scores" in record for record in result["records"])


@pytest.mark.parametrize("finished", [False, True])
def test_a_folder_of_another_experiment_is_refused_and_left(finished, tmp_path):
    if finished:
        ask(ASKED, Fake(last_guess), tmp_path)
    else:
        with pytest.raises(ConnectionError):
            ask(ASKED, Fake(last_guess, dies_after=3), tmp_path)
    path = tmp_path / "result.jsonl"
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


@pytest.mark.parametrize("name", ["thesis.tex", "result.json", "result.jsonl"])
def test_a_folder_of_something_else_is_refused_and_left(name, tmp_path):
    words = "new or empty folder" if name == "thesis.tex" else "a damaged or another"
    for content in (b"mine", b'{"mine": 1}\n', b"[]\n", b""):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=words):
            ask(ASKED, Fake(last_guess), tmp_path)
        assert (tmp_path / name).read_bytes() == content
    with pytest.raises(ValueError, match=rf"new or empty folder, .*, got .*{name}; choose another folder"):
        ask(ASKED, Fake(last_guess), tmp_path / name)
    with pytest.raises(OSError, match=rf"where files can be written, got .*{name}/below \(.*\); choose another folder"):
        ask(ASKED, Fake(last_guess), tmp_path / name / "below")


class Lazy(Fake):
    def complete(self, prompts, **options):
        return super().complete(prompts[1:], **options)


values = "the log-probabilities of the model must"


@pytest.mark.parametrize(
    ("model", "size", "message"),
    [
        (Fake(last_guess, name="other"), 8, "model must be the experiment's, 'fake', got 'other'"),
        (Fake(lambda prompt: None), 8, "an answer of the model must be a text, got None"),
        (Lazy(last_guess), 8, "model fake must give 8 answers, one a prompt, got 7"),
        (Fake(last_guess, lambda prompt: np.zeros(50)), 8, rf"{values} have shape \(51,\), got shape \(50,\)"),
        (Fake(last_guess, lambda prompt: np.full(51, np.nan)), 8, f"{values} be finite"),
        (Fake(last_guess), 0, "batch_size must be a whole number of at least 1, got 0"),
    ],
)
def test_a_model_that_does_not_keep_to_its_protocol_is_named(model, size, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        ask(ASKED, model, tmp_path, batch_size=size)


class Silent(Fake):
    """Gives all answers at once, and never calls back."""

    def complete(self, prompts, **options):
        return super().complete(prompts, **options | {"on_answer": None})

    def score_logprobs(self, prompts, answers, **options):
        return super().score_logprobs(prompts, answers, on_answer=lambda place, row: None)


@STYLES
def test_a_model_may_give_its_answers_all_at_once(asked, tmp_path):
    given = last_guess, lambda prompt: np.linspace(-2, 0, 51)
    one_by_one, at_once = (ask(asked, kind(*given), tmp_path / kind.__name__) for kind in (Fake, Silent))
    assert at_once["records"] == one_by_one["records"] and len(at_once["records"][0]["logprobs"]) == 51
