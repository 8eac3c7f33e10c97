"""``python -m lsalib.sts``: it runs, continues, shows, and says what is wrong in one line."""

import logging
import re
from unittest.mock import Mock

import numpy as np
import pytest
from sts_support import Fake, last_guess, made_up

from lsalib import _progress
from lsalib.sts import __main__ as command
from lsalib.sts import design, models


@pytest.fixture
def model(monkeypatch, tmp_path):
    """A model that echoes the guess, in place of the one that has weights; made-up pairs in place of the data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LSALIB_STS_RESULTS", "sts-results")
    echo = Fake(last_guess)

    def open_model(name):
        if name != "fake":
            raise ValueError(f"name must be fake, got {name!r}")
        return echo

    monkeypatch.setattr(models, "open_model", Mock(side_effect=open_model))
    monkeypatch.setattr(design, "prepare", lambda asked: made_up())
    return echo


RUN = ["run", "--model", "fake", "--condition", "guess", "--runs", "8", "--context-size", "4"]


def test_run_stores_and_show_prints(model, tmp_path, capsys):
    assert command.main(RUN) == 0
    said = capsys.readouterr()
    assert said.err == "guess\n", "no progress bar where there is no terminal"
    (folder,) = (tmp_path / "sts-results").iterdir()
    assert "fake" in folder.name and "draw0" in folder.name and [path.name for path in folder.iterdir()] == ["guess"]
    assert said.out.endswith(f"stored in sts-results/{folder.name}\n")
    # The same command again asks nothing; another draw goes to another folder.
    assert command.main(RUN) == 0 and len(model.asked) == 8
    assert command.main([*RUN, "--draw", "1"]) == 0 and len(model.asked) == 16
    assert command.main([*RUN, "--condition", "shuffled", "guess", "--out", "elsewhere"]) == 0
    assert len(model.asked) == 32
    capsys.readouterr()
    assert command.main(["show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 2 and all(" 0,1 " in line for line in lines[1:])
    assert command.main(["show", "."]) == 0 and len(capsys.readouterr().out.splitlines()) == 1 + 3 + 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--model", "gpt", "--runs", "6"], "name must be fake, got 'gpt'"),
        ([*RUN, "--context-size", "999"], "context_size must be at most 40"),
        ([*RUN, "--runs", "0"], "runs must be a whole number of at least 1"),
        (["show", "nowhere"], "no finished result in nowhere or below; python -m lsalib.sts run writes one"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(arguments, message, model, capsys, unchecked):
    """Before any weights are read, if it is about the settings."""
    assert command.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error and error.count("\n") == 1
    assert models.open_model.call_count == ("gpt" in arguments) and model.asked == []


def test_an_interruption_says_what_is_kept(model, capsys):
    assert command.main([*RUN, "--out", "mine"]) == 0
    assert command.main([*RUN, "--out", "mine", "--guess", "strong"]) == 2
    assert "folder must belong to this experiment, got mine/guess" in capsys.readouterr().err
    for stop, status, said, answered in ((KeyboardInterrupt, 130, "stopped", 2), (OSError("no"), 2, "error: no", 3)):
        model.answer = Mock(side_effect=[*[" 3"] * (2 if status == 130 else 1), stop])
        assert command.main([*RUN, "--readout", "written"]) == status
        words = rf"guess\n{said}; kept in .*: {answered} of 8 answers; the same command continues from there\n"
        assert re.fullmatch(words, capsys.readouterr().err)


def test_most_answers_without_a_score_fail_the_run(model, capsys):
    """With counts by condition; a few are only counted."""
    model.answer = lambda prompt: "I cannot say" if "Initial guess" in prompt else " 2"
    assert command.main([*RUN, "--condition", "none", "guess", "shuffled"]) == 1
    said = capsys.readouterr()
    assert said.err.endswith("error: most answers have no score; none: 0 of 8, guess: 8 of 8, shuffled: 8 of 8\n")
    assert command.main([*RUN, "--condition", "none", "guess"]) == 0, "no more than half"


def test_progress_is_said_without_a_terminal(model, monkeypatch, caplog):
    monkeypatch.setattr(_progress, "_SECONDS", 0)
    with caplog.at_level(logging.INFO, "lsalib"):
        assert command.main(RUN) == 0
    assert "8 of 8 steps (100 %)" in caplog.text


def test_a_probe_measures_what_is_known(model, capsys):
    """A model that answers near the query's guess follows it, in whatever it is shown."""
    numbers = lambda prompt: re.findall(r"(?:Initial guess|Record number): (\S+)", prompt)
    model.logprobs = lambda prompt: -((np.arange(51) / 10 - 0.5 * float(numbers(prompt)[-1]) - 1) ** 2) / 0.02
    probe = ["probe", *RUN[1:3], *RUN[5:]]
    assert command.main(probe) == 0 and len(model.scored) == 4 * 5 * 8 and model.asked == []
    said = capsys.readouterr().out
    assert command.main(["show"]) == 0 and capsys.readouterr().out in said
    rows = [re.split("  +", line) for line in said.splitlines() if line.startswith("fake")]
    assert len(rows) == 7 * 5
    for *_, condition, _, _, _, _, part, effect in rows:
        follows = 0.5 * (part.endswith(("query guess", "more in all"))) * ("less" not in condition)
        assert effect.startswith(f"{follows:.3f}") or (follows == 0 and effect.startswith("-0.000"))


@pytest.mark.parametrize("words", [["--condition", "maybe"], ["--option", "none"], ["--guess", "wild"]])
def test_an_option_that_cannot_be_is_refused(words, capsys):
    with pytest.raises(SystemExit):
        command.main(["run", *words])
    assert words[1] in capsys.readouterr().err
