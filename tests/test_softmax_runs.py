"""Trainings on samples, and what is stored of them: a piece is run again and compared."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsalib import attention, stored, training
from tools import softmax_runs

NAMES = [f"softmax_{name}" for name in softmax_runs.EXPERIMENTS]


def bowl(params, key):
    """Two runs in one pytree, each with its own entry of the loss, on one noisy batch."""
    noise = 0.1 * jax.random.normal(key, (1, 2))
    return jnp.sum((params - jnp.array([[1.0, 2.0], [3.0, 4.0]]) + noise) ** 2, axis=1)


def test_descent_is_adam_step_by_step():
    """Against optax by hand; with another learning rate it is another path."""
    key, optimizer = jax.random.key(0), optax.adam(0.05)
    params = jnp.zeros((2, 2))
    state = optimizer.init(params)
    with jax.numpy_dtype_promotion("standard"):
        for t in range(7):
            gradient = jax.grad(lambda p: bowl(p, jax.random.fold_in(key, t)).sum())(params)
            updates, state = optimizer.update(gradient, state)
            params = optax.apply_updates(params, updates)
    end = training.descend(bowl, jnp.zeros((2, 2)), key, [0, 3, 7], learning_rate=0.05)
    np.testing.assert_allclose(end.params[-1], params, rtol=1e-5)
    np.testing.assert_array_equal(end.params[0], jnp.zeros((2, 2)))
    other = training.descend(bowl, jnp.zeros((2, 2)), key, [7], learning_rate=0.04)
    assert jnp.abs(other.params[-1] - params).max() > 1e-2


def test_a_shorter_descent_is_the_beginning_of_a_longer_one():
    long = training.descend(bowl, jnp.zeros((2, 2)), jax.random.key(1), [5, 20])
    short = training.descend(bowl, jnp.zeros((2, 2)), jax.random.key(1), [5])
    np.testing.assert_array_equal(long.params[0], short.params[0])
    np.testing.assert_array_equal(long.loss[:5], short.loss)
    assert jnp.abs(long.params[1] - short.params[0]).max() > 1e-3


def test_runs_side_by_side_do_not_disturb_each_other():
    alone = training.descend(lambda p, key: bowl(jnp.stack([p, p]), key)[0], jnp.zeros(2), jax.random.key(2), [30])
    pair = training.descend(bowl, jnp.zeros((2, 2)), jax.random.key(2), [30])
    np.testing.assert_allclose(pair.params[0, 0], alone.params[0], rtol=1e-5)


@pytest.mark.parametrize("snapshots", [[], [3, 3], [-1, 2], [1.5], 4])
def test_bad_snapshots_are_refused(unchecked, snapshots):
    with pytest.raises(ValueError, match="snapshots must be increasing whole numbers"):
        training.descend(bowl, jnp.zeros((2, 2)), jax.random.key(0), snapshots)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_stored_says_how_it_was_made(name):
    arrays, about = stored.load(name)
    experiment = softmax_runs.EXPERIMENTS[name.removeprefix("softmax_")]
    made = softmax_runs.about(name.removeprefix("softmax_"), experiment)
    assert {k: v for k, v in about.items() if k != "versions"} == json.loads(json.dumps({k: v for k, v in made.items() if k != "versions"}))
    T, D = sum(about["heads"]), about["dim"] + experiment.outputs
    assert arrays["b"].shape == (len(about["snapshots"]), about["seeds"], T, experiment.outputs, D)
    assert arrays["A"].shape == (len(about["snapshots"]), about["seeds"], T, D, D)
    assert all(np.isfinite(array).all() for array in arrays.values())
    assert (stored.FOLDER / f"{name}.npz").stat().st_size < 400_000


@pytest.mark.parametrize("name", ["heads", "two_tasks", "prior_mean"])
def test_the_first_steps_again(name):
    """The stored weights after 200 steps; a start from another seed ends elsewhere."""
    arrays, about = stored.load(f"softmax_{name}")
    assert about["snapshots"][:2] == [0, 200]
    again = softmax_runs.run(softmax_runs.EXPERIMENTS[name]._replace(snapshots=(0, 200), seeds=1))
    for part in ("b", "A", "guess"):
        np.testing.assert_allclose(again[part][1, 0], arrays[part][1, 0], rtol=2e-3, atol=2e-4)
    assert np.abs(again["A"][1, 0] - arrays["A"][1, 1]).max() > 0.1
    assert np.abs(again["A"][1] - again["A"][0]).max() > 0.1


def test_a_stored_start_is_a_start():
    """Two roads to the circuits: the stored ones and those of the layer that they belong to."""
    experiment = softmax_runs.EXPERIMENTS["heads"]
    key = jax.random.split(jax.random.fold_in(jax.random.key(0), 0))[0]
    b, A = attention.effective_softmax(softmax_runs.start(experiment, key)[0])
    arrays, _ = stored.load("softmax_heads")
    np.testing.assert_allclose(arrays["b"][0, 0], b, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(arrays["A"][0, 0], A, rtol=1e-5, atol=1e-7)


def test_an_unknown_result_is_named(tmp_path):
    with pytest.raises(ValueError, match="none.*got 'absent'"):
        stored.load("absent", tmp_path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.npz"
    stored.save(path, {"a": np.ones(2)}, {})
    with pytest.raises(TypeError):
        stored.save(path, {"a": np.zeros(2)}, {"not": {"json": object()}})
    assert stored.load("x", tmp_path).arrays["a"].tolist() == [1.0, 1.0]
    assert [p.name for p in tmp_path.iterdir()] == ["x.npz"]


def test_an_unknown_experiment_is_refused(capsys):
    with pytest.raises(SystemExit):
        softmax_runs.main(["nothing"])
    assert "no such experiment: nothing" in capsys.readouterr().err
