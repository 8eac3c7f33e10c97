"""The examples run as they stand, with fewer steps and samples."""

import importlib
import inspect
import re
import sys
from functools import partial
from pathlib import Path

import pytest

from lsalib import metrics, theory

FOLDER = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(FOLDER))
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))


def run(name, tmp_path, monkeypatch):
    """What the script's ``main`` returns; what it writes is in a folder of the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        metrics, "sampled_risk", partial(metrics.sampled_risk, batch_size=256)
    )
    script = importlib.import_module(name)
    few: dict = {"steps": 100}
    if name == "layers_compared":  # each layer is a large program
        few["layers"] = dict(list(script.LAYERS.items())[:1])
    known = inspect.signature(script.main).parameters
    return script, script.main(
        **{option: value for option, value in few.items() if option in known}
    )


# What it costs to predict zero: each weight's squared mean and its variance of 1.
ZERO = {"layers_compared": 10.0, "own_task": 10.0, "numpy_predictor": 4.5}


# The last test runs the other one.
@pytest.mark.parametrize("name", [name for name in SCRIPTS if name != "resumed_sweep"])
def test_a_script_beats_zero_and_prints_what_it_found(
    name, tmp_path, monkeypatch, capsys
):
    _, found = run(name, tmp_path, monkeypatch)
    printed = list(map(float, re.findall(r"\d+\.\d+", capsys.readouterr().out)))
    estimates = list(found.values()) if isinstance(found, dict) else [found]
    for mean, error in estimates:
        assert min(abs(mean - each) for each in printed) < 1e-3
        assert 0 < mean < ZERO[name] - 5 * error


def test_the_readme_lists_the_scripts():
    text = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    assert sorted(set(re.findall(r"examples/(\w+)\.py", text))) == SCRIPTS


def test_a_predictor_in_numpy_is_measured(tmp_path, monkeypatch):
    """The Bayes predictor has its exact risk; the control, one with another prior mean,
    has a higher one.
    """
    script, risk = run("numpy_predictor", tmp_path, monkeypatch)
    best = theory.bayes_risk(script.TASK)
    assert abs(risk.mean - best) < 5 * risk.standard_error < 0.15 * best
    other = script.main(predictor=partial(script.ridge, mean=-script.TASK.prior_mean))
    assert other.mean > best + 5 * other.standard_error


def test_a_sweep_is_stopped_resumed_and_extended(tmp_path, capsys):
    """Made longer, it ends where an undisturbed sweep of that length ends."""
    import resumed_sweep

    said = []
    for steps, folder in ((4, "a"), (6, "a"), (6, "whole")):
        resumed_sweep.main(steps, str(tmp_path / folder))
        said.append(capsys.readouterr().out)
    assert said[1] == said[2] != said[0]
