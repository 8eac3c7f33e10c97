"""Trainings that are stopped, resumed and extended."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import sweep_worker

from lsalib.tasks import GaussianTask
from lsalib.training import Run, sweep, train

KEY = jax.random.key(0)
RUNS = [*sweep_worker.RUNS, Run(GaussianTask([2.0, 1.0], 2), 2)]


def bowl(params, key):
    return ((params["x"] - 1.0 + 0.1 * jax.random.normal(key, (2,))) ** 2).sum()


def drawn(key):
    return {"x": jax.random.normal(key, (2,))}


GIVEN = {"optimizer": optax.adam(0.05), "init": drawn, "seeds": 2, "snapshots": [0, 6]}


def trained(steps, key=KEY, **options):
    return train(bowl, None, key, steps=steps, **GIVEN | options)


def noisy(steps, **options):
    """Its optimizer keeps keys; its params have an array without entries, and one of a
    type that NumPy does not have.
    """
    noise = optax.add_noise(0.1, 0.55, jax.random.key(1))
    half = jnp.ones(2, jnp.bfloat16)
    init = lambda key: drawn(key) | {"none": jnp.zeros(0), "half": half}
    end = trained(
        steps, optimizer=optax.chain(noise, optax.sgd(0.05)), init=init, **options
    )
    return end[:3]


def swept(steps, key=KEY, runs=RUNS, **options):
    fits = sweep(key, runs, **sweep_worker.HOW | {"steps": steps} | options)
    return [each[:3] for each in fits]


class Stopped(Exception):
    pass


def stop_at(last):
    def callback(step, metrics):
        if step == last:
            raise Stopped

    return callback


def assert_equal(mine, its):
    jax.tree.map(np.testing.assert_array_equal, mine, its)


@pytest.mark.parametrize("training", [trained, swept, noisy])
def test_a_stopped_training_goes_on_bit_for_bit_and_is_extended(
    training, tmp_path, capsys
):
    """Stopped after the checkpoint of a snapshot, resumed and made longer; the callback
    gets each loss once, and a bar counts all steps.
    """
    stored = {"checkpoint": tmp_path / "state"}
    with pytest.raises(Stopped):
        training(12, callback=stop_at(9), every=3, **stored)

    def reported(**more):
        seen = []
        return training(12, callback=lambda *at: seen.append(at), every=3, **more), seen

    (end, rest), (whole, reports) = reported(**stored), reported()
    assert_equal(end, whole)
    assert_equal(rest, reports[2:])  # none for steps 3 and 6, before the checkpoint
    again, none = reported(**stored)
    assert_equal(again, whole)
    assert not none, "nothing is trained again"
    assert_equal(training(23, progress=True, every=3, **stored), training(23))
    assert "23/23" in capsys.readouterr().err


def test_a_file_is_no_folder_for_checkpoints(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="checkpoint must be a folder, got the file"):
        trained(6, checkpoint=tmp_path / "file")


OTHERS = [
    (trained, {"key": jax.random.key(1)}, "key, params"),
    (trained, {"seeds": [0, 2]}, "seeds, params"),
    (trained, {"snapshots": [0, 4]}, "snapshots"),
    (swept, {"key": jax.random.key(1)}, "key, params"),
    (swept, {"batch_size": 8}, "batch_size"),
    (
        swept,
        {"runs": [RUNS[0], Run(RUNS[1].task, 2, learning_rate=1e-2), RUNS[2]]},
        "run 1, opt_state",
    ),
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    for training in (trained, swept):
        training(6, checkpoint=folder / training.__name__, every=5)
    return folder


@pytest.mark.parametrize(("training", "change", "name"), OTHERS)
def test_the_checkpoint_of_another_training_is_refused(training, change, name, stored):
    """What differs is named."""
    with pytest.raises(ValueError, match=f"has other settings: {name}$"):
        training(6, checkpoint=stored / training.__name__, **change)


def test_the_checkpoint_of_a_longer_training_is_refused(stored):
    with pytest.raises(ValueError, match="has 6 steps, more than steps = 5"):
        trained(5, checkpoint=stored / "trained", snapshots=[0])
