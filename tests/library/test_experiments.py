"""Long experiments, and what is stored of them: a piece is run again and compared."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from sts_support import Fake, data_folder, last_guess

from lsalib import _files, attention
from lsalib.book import sampling, stored
from lsalib.sts import design, files
from studies.experiments import EXPERIMENTS, __main__, experiment, language_models, softmax

ARRAYS = [name for name in EXPERIMENTS if name != "sts/answers"]


def test_every_stored_array_has_its_experiment_and_every_experiment_its_arrays():
    found = {path.relative_to(stored.FOLDER).with_suffix("").as_posix() for path in stored.FOLDER.rglob("*.npz")}
    assert found == set(ARRAYS)


@pytest.mark.parametrize("name", ARRAYS)
def test_what_is_stored_says_how_it_was_made(name):
    arrays, about = stored.load(name)
    assert "jax" in about.pop("versions")
    assert about == json.loads(json.dumps(experiment.about(name, EXPERIMENTS[name])))
    assert about["command"] == f"python -m studies.experiments {name}"
    assert all(np.isfinite(array).all() for array in arrays.values())
    assert (stored.FOLDER / f"{name}.npz").stat().st_size < 400_000


@pytest.mark.parametrize("name", softmax.EXPERIMENTS)
def test_the_stored_circuits_are_of_all_heads_snapshots_and_seeds(name):
    arrays, about = stored.load(name)
    outputs = len(about.get("support", [1]))
    ahead, D = (len(about["snapshots"]), about["seeds"], sum(about["heads"])), about["dim"] + outputs
    assert arrays["b"].shape == (*ahead, outputs, D)
    assert arrays["A"].shape == (*ahead, D, D)


@pytest.mark.parametrize("name", ["softmax_heads", "softmax_two_tasks", "softmax_prior_mean"])
def test_the_first_steps_again(name):
    """The stored weights after 200 steps; a start from another seed ends elsewhere."""
    arrays, about = stored.load(name)
    again = EXPERIMENTS[name].again()
    assert about["snapshots"][:2] == [0, 200] and again["A"].shape[:2] == (2, 1)
    assert experiment.differences(name, EXPERIMENTS[name]._replace(again=lambda: again)) == []
    assert np.abs(again["A"][1, 0] - arrays["A"][1, 1]).max() > 0.1
    assert np.abs(again["A"][1] - again["A"][0]).max() > 0.1


def test_the_pace_of_a_few_runs_again():
    """The stored steps for two prior means, widths and seeds; a neighbour's are others."""
    name = "training_speed"
    again = EXPERIMENTS[name].again()
    assert again["block"].shape == (1, 2, 2, 2) and again["yq"].shape == (1, 2, 1, 2)
    assert experiment.differences(name, EXPERIMENTS[name]._replace(again=lambda: again)) == []
    for axis, neighbour in ((1, "prior mean"), (2, "width"), (3, "seed")):
        swapped = {"block": np.flip(again["block"], axis)}
        broken = EXPERIMENTS[name]._replace(again=lambda swapped=swapped: swapped)
        assert experiment.differences(name, broken), neighbour


def test_a_stored_start_is_a_start():
    """Two roads to the circuits: the stored ones and those of the layer that they belong to."""
    layers = softmax.one_task((1, 2, 4, 8))

    @jax.jit
    def circuits(key):
        key_start, _ = jax.random.split(jax.random.fold_in(key, 0))
        return attention.effective_softmax(softmax.start(layers, key_start)[0])

    b, A = circuits(jax.random.key(0))
    arrays, _ = stored.load("softmax_heads")
    np.testing.assert_allclose(arrays["b"][0, 0], b, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(arrays["A"][0, 0], A, rtol=1e-5, atol=1e-7)


def test_a_layer_of_a_run_has_its_own_heads():
    """Layers of one, two, four and eight heads lie one after the other; the neighbour's are others."""
    run = stored.load("softmax_heads")
    b, A = stored.circuits(run, seed=2, layer=2, snapshot=3)
    np.testing.assert_array_equal(b, run.arrays["b"][3, 2, 3:7])
    np.testing.assert_array_equal(A, run.arrays["A"][3, 2, 3:7])
    assert np.abs(A - stored.circuits(run, seed=2, layer=3, snapshot=3)[1][:4]).min() > 0
    for layer in (4, -1):
        with pytest.raises(ValueError, match=f"layer must be from 0 to 3, got {layer}"):
            stored.circuits(run, seed=0, layer=layer)


def test_a_mean_over_batches_is_judged_by_its_own_error():
    values = sampling.by_batch(lambda key: jax.random.normal(key, (2, 8)).mean(1), range(3), batches=100)
    assert values.shape == (300, 2)
    assert (np.abs(sampling.z_score(values, 0.0)) < 5).all()
    assert (np.abs(sampling.z_score(values, [0.5, -0.5])) > 5).all()
    keys = jax.random.split(jax.random.key(1), 100)
    np.testing.assert_allclose(values[100], jax.random.normal(keys[0], (2, 8)).mean(1), rtol=1e-5)
    with pytest.raises(ValueError, match="batches"):
        sampling.by_batch(jax.random.uniform, [0], batches=0)


def test_an_unknown_result_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"none.*got 'absent'"):
        stored.load("absent", tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.npz"
    stored.save(path, {"a": np.ones(2)}, {})
    with pytest.raises(TypeError):
        stored.save(path, {"a": np.zeros(2)}, {"not": {"json": object()}})
    assert stored.load("x", tmp_path).arrays["a"].tolist() == [1.0, 1.0]
    assert [p.name for p in tmp_path.iterdir()] == ["x.npz"]


def test_a_write_that_breaks_off_leaves_nothing_behind(tmp_path, monkeypatch):
    def full_disk(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr(_files.os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        _files.write(tmp_path / "x", b"content")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def toy(monkeypatch):
    """An experiment of three numbers; again, the first two."""
    run = lambda: {"a": np.array([1.0, 2.0, 3.0])}
    entry = experiment.Experiment("three numbers", run, lambda: {"a": run()["a"][:2]}, {"seeds": 1}, dict)
    monkeypatch.setitem(EXPERIMENTS, "toy", entry)
    return entry


def test_an_experiment_is_listed_run_and_repeated(toy, tmp_path, capsys):
    __main__.main([])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(EXPERIMENTS)
    __main__.main(["toy", "--out", str(tmp_path)])
    arrays, about = stored.load("toy", tmp_path)
    assert arrays["a"].tolist() == [1.0, 2.0, 3.0]
    assert about == {"command": "python -m studies.experiments toy", "seeds": 1, "versions": {}}
    __main__.main(["toy", "--out", str(tmp_path), "--again"])


@pytest.mark.parametrize(
    ("again", "message"),
    [
        (lambda: {"a": np.array([1.0, 2.0 + 1e-15])}, "toy: a is off by up to"),
        (lambda: {"a": np.ones(4)}, r"toy: a has shape \(3,\), which does not begin with \(4,\)"),
        (None, "toy: nothing of it can be repeated in reasonable time"),
    ],
)
def test_what_comes_out_otherwise_is_a_failure(toy, monkeypatch, tmp_path, again, message):
    __main__.main(["toy", "--out", str(tmp_path)])
    monkeypatch.setitem(EXPERIMENTS, "toy", toy._replace(again=again))
    with pytest.raises(SystemExit, match=message):
        __main__.main(["toy", "--out", str(tmp_path), "--again"])


def test_an_unknown_experiment_is_refused(capsys):
    with pytest.raises(SystemExit):
        __main__.main(["nothing"])
    assert "no such experiment: nothing" in capsys.readouterr().err


def test_every_stored_answer_has_its_question():
    found = {path.stem: json.loads(path.read_bytes()) for path in (stored.FOLDER / "sts").glob("*.json")}
    asked = {language_models.file_name(one): one for one in language_models.ASKED}
    assert {name: design.Experiment(**result["experiment"]) for name, result in found.items()} == asked
    for name, result in found.items():
        rows, kept = result["records"], {"written": "answer", "expected": "logprobs"}
        counts = {readout: sum(field in row for row in rows) for readout, field in kept.items()}
        assert {readout: n for readout, n in counts.items() if n} == language_models.first_runs(asked[name])


def test_answers_are_kept_without_sentences(tmp_path):
    (name, *_) = map(language_models.file_name, language_models.ASKED)
    kept = stored.FOLDER / f"sts/{name}.json"
    result = json.loads(kept.read_bytes())
    language_models.compact(tmp_path / "sts/answers.npz", {name: result | {"first_prompt": "a sentence"}}, {})
    assert (tmp_path / f"sts/{name}.json").read_bytes() == kept.read_bytes()


def test_a_model_is_asked_what_is_registered(tmp_path, monkeypatch):
    if folder := data_folder():
        monkeypatch.setenv("LSALIB_STS_DATA", folder)
    monkeypatch.setattr(files, "folder", lambda kind: tmp_path)
    monkeypatch.setattr(language_models, "open_model", lambda name: Fake(last_guess, name=name))
    monkeypatch.setattr(language_models, "ASKED", [replace(asked, runs=2) for asked in language_models.ASKED[6:20:12]])
    experiment.store("sts/answers", EXPERIMENTS["sts/answers"], tmp_path)
    found = [json.loads(path.read_bytes()) for path in sorted((tmp_path / "sts").iterdir())]
    assert [result["experiment"]["guess_model"] for result in found] == ["concat", "strong"]
    for result in found:
        assert [float(record["answer"]) for record in result["records"]] == [r["guess"] for r in result["records"]]
