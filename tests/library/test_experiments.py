"""Studies: stored results, their form, and the program that makes them; planted
defects.
"""

import ast
import json
import re
from functools import cache

import numpy as np
import pytest

from lsalib.book import stored
from studies.experiments import EXPERIMENTS, __main__, experiment
from studies.trust import planted


@pytest.mark.parametrize("name", [*EXPERIMENTS])
def test_a_stored_result_is_whole_and_says_how_it_was_made(name):
    """It holds finite numbers, the command, the versions and today's settings of its
    experiment.
    """
    arrays, about = stored.load(name)
    assert about["command"] == f"python -m studies.experiments {name}"
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", about["commit"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", about["date"])
    settings = json.loads(json.dumps(EXPERIMENTS[name].settings))
    assert about["versions"]["jax"] and about | settings == about
    assert arrays and all(np.isfinite(array).all() for array in arrays.values())
    assert (stored.FOLDER / f"{name}.npz").stat().st_size < 400_000


def test_a_layer_of_a_run_has_its_own_heads():
    """Layers of one, two, four and eight heads lie one after the other."""
    run = stored.load("softmax_heads")
    found = stored.circuits(run, seed=2, layer=2, snapshot=3)
    for circuits, name in zip(found, "bA", strict=True):
        np.testing.assert_array_equal(circuits, run.arrays[name][3, 2, 3:7])
        assert circuits.dtype == np.float64
    with pytest.raises(IndexError):
        stored.circuits(run, seed=2, layer=4)


def test_a_missing_result_is_named():
    """The error lists the names there are."""
    with pytest.raises(ValueError, match=r"softmax_heads.*got 'absent'"):
        stored.load("absent")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    """Nothing partial remains, for settings that cannot be kept as for a full disk."""

    def full_disk(file, **arrays):
        file.write_bytes(b"half")
        raise OSError("no space left")

    path = tmp_path / "x.npz"
    stored.save(path, {"a": np.ones(2)}, {"seed": 3})
    with pytest.raises(TypeError):
        stored.save(path, {"a": np.zeros(2)}, {"not": {"json": object()}})
    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match="no space left"):
        stored.save(path, {"a": np.zeros(2)}, {})
    arrays, about = stored.load("x", tmp_path)
    assert arrays["a"].tolist() == [1.0, 1.0] and about == {"seed": 3}
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_an_experiment_is_listed_run_repeated_and_compared(
    monkeypatch, tmp_path, capsys
):
    """A repetition that differs is reported with its array."""
    run = lambda: {"a": np.array([1.0, 2.0, 3.0])}
    toy = experiment.Experiment(
        "three numbers", run, lambda: {"a": run()["a"][:2]}, {"seeds": 1}
    )
    monkeypatch.setitem(EXPERIMENTS, "toy", toy)
    monkeypatch.setattr(__main__, "FOLDER", tmp_path)
    with pytest.raises(SystemExit):
        __main__.main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[-len(EXPERIMENTS) :]] == [*EXPERIMENTS]
    __main__.main(["toy"])
    assert stored.load("toy", tmp_path).arrays["a"].tolist() == [1.0, 2.0, 3.0]
    __main__.main(["toy", "--again"])
    other = toy._replace(again=lambda: {"a": np.array([1.0, 2.0 + 1e-15])})
    monkeypatch.setitem(EXPERIMENTS, "toy", other)
    with pytest.raises(SystemExit, match=r"(?s)toy: .*\na\nMismatched"):
        __main__.main(["toy", "--again"])


def test_every_planted_defect_finds_its_code(monkeypatch):
    monkeypatch.setattr(ast, "parse", cache(ast.parse))  # each file once
    for defect in planted.listed().values():
        assert defect.plant((planted.ROOT / defect.file).read_text(encoding="utf-8"))
