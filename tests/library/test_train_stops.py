"""What ends a training before its last step: a loss that is not finite, a callback, a notice to end."""

import logging
import os
import pickle
import signal
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsalib import _progress
from lsalib.tasks import GaussianTask
from lsalib.training import DivergedError, Preempted, Run, fit, schedule, sweep, train

SGD = optax.sgd(0.1)
TASK = GaussianTask([2.0, -1.0], context_size=4)


def walk(x, key):
    """The gradient is -1, so step t has the loss -0.1 t, until it is no number."""
    return jnp.where(x > 3.75, jnp.nan, -x)


def assert_equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


# In the first piece, at the end of one, at the beginning of the next, and in a later one.
@pytest.mark.parametrize("piece", [64, 38, 39, 7])
def test_a_loss_that_is_not_finite_stops_at_its_step(piece, monkeypatch, tmp_path):
    """The state of the last finite loss is kept, wherever a piece of the training ended."""
    monkeypatch.setattr(schedule, "_FIRST_PIECE", piece)
    monkeypatch.setattr(schedule, "PIECE", piece)
    with pytest.raises(DivergedError, match="the loss is not finite at step 38") as caught:
        train(walk, jnp.zeros(()), jax.random.key(0), steps=500, optimizer=SGD, checkpoint=tmp_path / "a")
    assert caught.value.step == 38
    last = caught.value.last
    before = train(walk, jnp.zeros(()), jax.random.key(0), steps=37, optimizer=SGD)
    assert float(last.params) == float(before.params)
    np.testing.assert_array_equal(last.risk[:37], before.risk)
    assert np.isnan(last.risk[38:]).all() and np.isfinite(last.risk[:38]).all()
    with pytest.raises(DivergedError, match="at step 38"):
        train(walk, jnp.zeros(()), jax.random.key(0), steps=600, optimizer=SGD, checkpoint=tmp_path / "a")


def test_an_update_that_breaks_in_the_last_step_is_seen():
    """All losses are finite, and the weights are not: beyond .95 the slope of the root is infinite, and times zero."""
    loss = lambda x, key: 0 * jnp.sqrt(jnp.maximum(0.95 - x, 0)) - x
    with pytest.raises(DivergedError, match="at step 11") as caught:
        train(loss, jnp.zeros(()), jax.random.key(0), steps=11, optimizer=SGD)
    assert np.isfinite(caught.value.last.params) and np.isfinite(caught.value.last.risk).all()


def test_of_several_seeds_the_others_go_on():
    """A seed that breaks keeps its last finite weights, and a warning names it."""
    init = lambda key: jnp.where(jax.random.uniform(key) > 0.5, 3.0, 0.0)
    options = {"init": init, "optimizer": SGD, "seeds": 6}
    few = train(walk, None, jax.random.key(0), steps=5, **options)
    broken = np.asarray(few.risk)[:, 0] == -3.0
    assert 0 < broken.sum() < 6
    with pytest.warns(RuntimeWarning, match=r"the loss is not finite of seed \d at step 8"):
        many = train(walk, None, jax.random.key(0), steps=20, **options)
    np.testing.assert_array_equal(np.isnan(many.risk).any(1), broken)
    np.testing.assert_allclose(many.params[~broken], 2.0, rtol=1e-5)
    np.testing.assert_allclose(many.params[broken], 3.7, rtol=1e-5)


def test_a_run_that_diverges_leaves_the_others_as_they_are(tmp_path):
    """Stored in the middle and resumed, it is the same; alone, it is an error that travels between processes."""
    runs = [Run(TASK, 2), Run(TASK, 2, learning_rate=1e25), Run(TASK, 3)]
    options = {"steps": 60, "batch_size": 16, "seeds": 2}
    with pytest.warns(RuntimeWarning, match="run 1, seed 0 at step"):
        fits = sweep(jax.random.key(0), runs, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        alone = sweep(jax.random.key(0), runs[::2], **options)
    for mine, other in zip(fits[::2], alone, strict=True):
        np.testing.assert_allclose(mine.risk, other.risk, rtol=1e-4)
    first = np.isnan(fits[1].risk).argmax(1)
    assert (first > 0).all() and np.isfinite(fits[1].population_risk()).all()
    stored = options | {"checkpoint": tmp_path / "a", "checkpoint_every": 7}
    with pytest.warns(RuntimeWarning, match="run 1"):
        sweep(jax.random.key(0), runs, **stored | {"steps": 30})
    with pytest.warns(RuntimeWarning, match="run 1"):
        assert_equal(sweep(jax.random.key(0), runs, **stored), fits)
    with pytest.raises(DivergedError, match="not finite at step") as caught:
        fit(jax.random.key(0), TASK, 2, learning_rate=1e25, steps=60, batch_size=16)
    assert np.isfinite(caught.value.last.population_risk())
    sent = pickle.loads(pickle.dumps(caught.value))
    assert str(sent) == str(caught.value) and sent.step == caught.value.step
    assert_equal(sent.last, caught.value.last)


def test_a_callback_sees_the_losses_and_ends_the_training():
    """It gets the losses since its last call, for each group of runs, and a true answer ends the training."""
    seen = []

    def watch(step, metrics):
        seen.append((step, metrics))
        return step == 20

    whole = train(walk, jnp.zeros(()), jax.random.key(0), steps=30, optimizer=SGD)
    options = {"callback": watch, "callback_every": 10}
    end = train(walk, jnp.zeros(()), jax.random.key(0), steps=30, optimizer=SGD, **options)
    assert [step for step, _ in seen] == [10, 20]
    np.testing.assert_array_equal(np.concatenate([m["losses"] for _, m in seen]), whole.risk[:20])
    np.testing.assert_array_equal(end.risk, whole.risk[:20])
    assert seen[-1][1]["loss"] == whole.risk[19] and seen[-1][1]["params"] == end.params
    seen.clear()
    runs = [Run(TASK, 2), Run(GaussianTask([1.0] * 3, 4), 1), Run(TASK, 3)]
    sweep(jax.random.key(0), runs, steps=15, batch_size=8, seeds=2, **options)
    shapes = {tuple(m["runs"]): (m["loss"].shape, m["losses"].shape) for step, m in seen if step == 10}
    assert shapes == {(0, 2): ((2, 2), (10, 2, 2)), (1,): ((2, 1), (10, 2, 1))}


def test_sigterm_stores_the_state_and_ends_the_run(tmp_path):
    """The run resumes from there to the same result."""
    options = {"steps": 60, "batch_size": 16}
    runs = [Run(TASK, 2), Run(GaussianTask([1.0] * 3, 4), 1)]
    whole = sweep(jax.random.key(0), runs, **options)

    def tell(step, metrics):
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    stored = options | {"checkpoint": tmp_path / "a", "checkpoint_every": 1000}
    with pytest.raises(Preempted) as caught:
        sweep(jax.random.key(0), runs, callback=tell, callback_every=20, **stored)
    assert caught.value.code == 143 and signal.getsignal(signal.SIGTERM) == before
    assert {path.name for path in (tmp_path / "a").iterdir()} >= {"0-state.npz", "0-losses-0.npz"}
    calls = []
    resumed = sweep(jax.random.key(0), runs, callback=lambda *said: calls.append(said[0]), callback_every=20, **stored)
    assert_equal(resumed, whole)
    assert 20 not in calls or calls.count(20) < len(runs), "the beginning is not trained again"


def test_where_nobody_watches_progress_is_logged(caplog, monkeypatch):
    """The log says how many steps and devices there are, and what time is left."""
    monkeypatch.setattr(_progress, "_SECONDS", 0)
    with caplog.at_level(logging.INFO, logger="lsalib"):
        train(walk, jnp.zeros(()), jax.random.key(0), steps=20, optimizer=SGD)
    said = [record.getMessage() for record in caplog.records]
    assert any("20 of 20 steps (100 %), about 0 s left" in line for line in said)
    assert any("1 of 1 device" in line for line in said)
