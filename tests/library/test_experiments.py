"""Stored results: their form, a piece that is computed again, and the program that makes them."""

import re

import jax
import numpy as np
import pytest

from lsalib import _files, attention
from lsalib.book import sampling, stored
from studies.experiments import EXPERIMENTS, __main__, experiment, softmax


@pytest.mark.parametrize("name", [*EXPERIMENTS])
def test_a_stored_result_is_whole_and_says_how_it_was_made(name):
    """It holds finite numbers, the command, the versions and the settings of its experiment."""
    arrays, about = stored.load(name, EXPERIMENTS[name].home)
    assert about["command"] == f"python -m studies.experiments {name}"
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", about["commit"]) and re.fullmatch(r"\d{4}-\d\d-\d\d", about["date"])
    assert about["versions"]["jax"] and about.keys() >= EXPERIMENTS[name].settings.keys()
    assert arrays and all(np.isfinite(array).all() for array in arrays.values())
    assert (EXPERIMENTS[name].home / f"{name}.npz").stat().st_size < 400_000


def test_a_stored_start_is_computed_again(own_seeds):
    """The stored circuits are those of the layer with this seed; another seed has others."""
    layers = softmax.one_task((1, 2, 4, 8))

    @jax.jit
    def circuits(key, seed):
        key_start, _ = jax.random.split(jax.random.fold_in(key, seed))
        return attention.effective_softmax(softmax.start(layers, key_start)[0])

    arrays, _ = stored.load("softmax_heads")
    for name, again in zip("bA", circuits(jax.random.key(0), 0), strict=True):
        np.testing.assert_allclose(arrays[name][0, 0], again, rtol=1e-5, atol=1e-7)
        assert np.abs(arrays[name][0, 1] - again).max() > 0.1


def test_a_layer_of_a_run_has_its_own_heads(unchecked):
    """Layers of one, two, four and eight heads lie one after the other; the neighbor's heads are others."""
    run = stored.load("softmax_heads")
    b, A = stored.circuits(run, seed=2, layer=2, snapshot=3)
    np.testing.assert_array_equal(b, run.arrays["b"][3, 2, 3:7])
    np.testing.assert_array_equal(A, run.arrays["A"][3, 2, 3:7])
    assert np.abs(A - stored.circuits(run, seed=2, layer=3, snapshot=3)[1][:4]).min() > 0
    for wrong in ({"layer": 4}, {"layer": -1}, {"seed": 99}, {"seed": True}, {"snapshot": 1.0}):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"{name} must be a whole number from"):
            stored.circuits(run, **{"seed": 0, "layer": 0} | wrong)


def test_a_mean_over_batches_is_judged_by_its_own_error():
    """Means of the right value lie within five standard errors, others do not; seeds have keys of their own."""
    values = sampling.by_batch(lambda key: jax.random.normal(key, (2, 8)).mean(1), range(3), batches=100)
    assert values.shape == (300, 2)
    assert (np.abs(sampling.z_score(values, 0.0)) < 5).all()
    assert (np.abs(sampling.z_score(values, [0.5, -0.5])) > 5).all()
    keys = jax.random.split(jax.random.key(1), 100)
    np.testing.assert_allclose(values[100], jax.random.normal(keys[0], (2, 8)).mean(1), rtol=1e-5)
    with pytest.raises(ValueError, match="batches"):
        sampling.by_batch(jax.random.uniform, [0], batches=0)


def test_a_missing_result_is_named_and_missing_results_say_what_to_do(tmp_path, monkeypatch):
    """The error lists the names there are, or says how to get the repository."""
    with pytest.raises(ValueError, match=r"softmax_heads.*got 'absent'"):
        stored.load("absent")
    with pytest.raises(FileNotFoundError, match="got 'absent'"):
        stored.path("absent")
    monkeypatch.setattr(stored, "FOLDER", tmp_path / "studies/results")
    for read in (lambda: stored.load("softmax_heads"), lambda: stored.path("engine_cost.json")):
        with pytest.raises(FileNotFoundError, match=r"clone the book's repository, and run `pip install -e \.`"):
            read()


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    """Nothing partial remains, for numbers that cannot be kept as for a full disk."""

    def full_disk(descriptor):
        raise OSError("no space left")

    path = tmp_path / "x.npz"
    stored.save(path, {"a": np.ones(2)}, {})
    with pytest.raises(TypeError):
        stored.save(path, {"a": np.zeros(2)}, {"not": {"json": object()}})
    monkeypatch.setattr(_files.os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        stored.save(path, {"a": np.zeros(2)}, {})
    assert stored.load("x", tmp_path).arrays["a"].tolist() == [1.0, 1.0]
    assert [p.name for p in tmp_path.iterdir()] == ["x.npz"]


def test_an_experiment_is_listed_run_repeated_and_compared(monkeypatch, tmp_path, capsys):
    """A repetition that differs is reported with its array."""
    run = lambda: {"a": np.array([1.0, 2.0, 3.0])}
    toy = experiment.Experiment("three numbers", run, lambda: {"a": run()["a"][:2]}, {"seeds": 1}, dict)
    monkeypatch.setitem(EXPERIMENTS, "toy", toy)
    __main__.main([])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(EXPERIMENTS)
    __main__.main(["toy", "--out", str(tmp_path)])
    assert stored.load("toy", tmp_path).arrays["a"].tolist() == [1.0, 2.0, 3.0]
    __main__.main(["toy", "--out", str(tmp_path), "--again"])
    monkeypatch.setitem(EXPERIMENTS, "toy", toy._replace(again=lambda: {"a": np.array([1.0, 2.0 + 1e-15])}))
    with pytest.raises(SystemExit, match="toy: a is off by up to"):
        __main__.main(["toy", "--out", str(tmp_path), "--again"])
