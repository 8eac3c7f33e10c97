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


def descend(snapshots, *, loss=bowl, shape=(2, 2), learning_rate=0.05):
    """In one program, and off the device."""
    run = jax.jit(lambda key: training.descend(loss, jnp.zeros(shape), key, snapshots, learning_rate=learning_rate))
    return jax.tree.map(np.asarray, run(jax.random.key(0)))


@pytest.fixture(scope="module")
def long():
    return descend([0, 5, 30])


def test_descent_is_adam_step_by_step(long):
    """Against optax by hand; with another learning rate it is another path."""
    optimizer = optax.adam(0.05)

    @jax.jit
    def step(t, params, state):
        gradient = jax.grad(lambda p: bowl(p, jax.random.fold_in(jax.random.key(0), t)).sum())(params)
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, updates), state

    params = jnp.zeros((2, 2))
    state = optimizer.init(params)
    for t in range(30):
        params, state = step(t, params, state)
    np.testing.assert_allclose(long.params[-1], params, rtol=1e-5)
    np.testing.assert_array_equal(long.params[0], np.zeros((2, 2)))
    assert np.abs(descend([30], learning_rate=0.04).params[-1] - params).max() > 1e-2


def test_a_shorter_descent_is_the_beginning_of_a_longer_one(long):
    short = descend([5])
    np.testing.assert_array_equal(long.params[1], short.params[0])
    np.testing.assert_array_equal(long.loss[:5], short.loss)
    assert np.abs(long.params[2] - short.params[0]).max() > 1e-3


def test_runs_side_by_side_do_not_disturb_each_other(long):
    alone = descend([30], loss=lambda p, key: bowl(jnp.stack([p, p]), key)[0], shape=(2,))
    np.testing.assert_allclose(long.params[-1, 0], alone.params[0], rtol=1e-5)


@pytest.mark.parametrize("snapshots", [[], [3, 3], [-1, 2], [1.5], 4])
def test_bad_snapshots_are_refused(unchecked, snapshots):
    with pytest.raises(ValueError, match="snapshots must be increasing whole numbers"):
        training.descend(bowl, jnp.zeros((2, 2)), jax.random.key(0), snapshots)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_stored_says_how_it_was_made(name):
    arrays, about = stored.load(name)
    experiment = softmax_runs.EXPERIMENTS[name.removeprefix("softmax_")]
    made = softmax_runs.about(name.removeprefix("softmax_"), experiment)
    assert {k: v for k, v in about.items() if k != "versions"} == json.loads(
        json.dumps({k: v for k, v in made.items() if k != "versions"})
    )
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

    @jax.jit
    def circuits(key):
        key_start, _ = jax.random.split(jax.random.fold_in(key, 0))
        return attention.effective_softmax(softmax_runs.start(experiment, key_start)[0])

    b, A = circuits(jax.random.key(0))
    arrays, _ = stored.load("softmax_heads")
    np.testing.assert_allclose(arrays["b"][0, 0], b, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(arrays["A"][0, 0], A, rtol=1e-5, atol=1e-7)


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


def test_an_unknown_experiment_is_refused(capsys):
    with pytest.raises(SystemExit):
        softmax_runs.main(["nothing"])
    assert "no such experiment: nothing" in capsys.readouterr().err
