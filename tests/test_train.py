"""The trainer: any loss and optimiser against a plain loop; seeds, snapshots, trainings stopped and extended."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsalib.training import Run, checkpoint, fit, loop, train

CENTRE = np.float32([1.0, -2.0])
START = np.zeros(2, np.float32)
ADAM = optax.adam(0.05)


def bowl(params, key):
    """Towards the centre, with a little noise: an unbiased loss of its own at every step."""
    return ((params - CENTRE + 0.1 * jax.random.normal(key, params.shape)) ** 2).sum()


def drawn(key):
    return jax.random.normal(key, (2,))


def assert_equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


SCHEDULE = optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(optax.linear_schedule(0.2, 0.0, 30), momentum=0.9))


@pytest.mark.parametrize("optimizer", [ADAM, SCHEDULE, optax.lion(0.02)], ids=["adam", "clipped and scheduled", "lion"])
def test_it_is_a_plain_loop(optimizer):
    key, steps = jax.random.key(3), 30
    _, batches = jax.random.split(jax.random.fold_in(key, 0))
    params, losses = jnp.asarray(START), []
    opt_state = optimizer.init(params)

    @jax.jit
    def step(t, params, opt_state):
        loss, gradient = jax.value_and_grad(bowl)(params, jax.random.fold_in(batches, t))
        with jax.numpy_dtype_promotion("standard"):
            updates, opt_state = optimizer.update(gradient, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    for t in range(steps):
        params, opt_state, loss = step(t, params, opt_state)
        losses.append(loss)
    end = train(bowl, START, key, steps=steps, optimizer=optimizer)
    np.testing.assert_allclose(end.risk, losses, rtol=1e-5)
    np.testing.assert_allclose(end.params, params, rtol=1e-5)
    assert jax.tree.structure(end.opt_state) == jax.tree.structure(opt_state)
    # Negative control: other batches are seen.
    other = train(bowl, START, jax.random.key(4), steps=steps, optimizer=optimizer)
    assert abs(np.asarray(other.risk) - losses).max() > 1e-3


def test_seeds_are_trainings_of_their_own():
    options = {"steps": 20, "optimizer": ADAM, "snapshots": [0, 5, 20]}
    many = train(bowl, drawn, jax.random.key(0), seeds=3, **options)
    assert many.params.shape == (3, 2) and many.risk.shape == (3, 20) and many.snapshots.shape == (3, 3, 2)
    assert len(np.unique(np.asarray(many.risk)[:, 0])) == 3
    np.testing.assert_array_equal(many.snapshots[:, -1], many.params)
    third = train(bowl, drawn, jax.random.key(0), seeds=[2], **options).seed(0)
    alone = train(bowl, drawn, jax.random.key(0), **options)
    for mine, seed in ((third, 2), (alone, 0)):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), mine, many.seed(seed))
    start, _ = jax.random.split(jax.random.fold_in(jax.random.key(0), 0))
    np.testing.assert_array_equal(alone.snapshots[0], drawn(start))


def test_a_shorter_training_is_the_beginning_of_a_longer_one():
    long, short = (train(bowl, START, jax.random.key(1), steps=n, optimizer=ADAM, snapshots=[3, 6]) for n in (1100, 6))
    np.testing.assert_array_equal(long.risk[:6], short.risk)
    np.testing.assert_array_equal(long.snapshots, short.snapshots)
    assert np.abs(long.params - CENTRE).max() < 0.1 < np.abs(short.params - CENTRE).max()


def test_independent_losses_do_not_disturb_each_other():
    both = lambda params, key: jax.vmap(bowl, (0, None))(params, key)
    pair = train(both, np.stack([START, START + 5]), jax.random.key(2), steps=15, optimizer=ADAM)
    alone = train(bowl, START + 5, jax.random.key(2), steps=15, optimizer=ADAM)
    assert pair.risk.shape == (15, 2)
    np.testing.assert_allclose(pair.risk[:, 1], alone.risk, rtol=1e-5)
    np.testing.assert_allclose(pair.params[1], alone.params, rtol=1e-5)
    assert np.abs(pair.params[0] - alone.params).max() > 1


class Stop(Exception):
    pass


def test_a_stopped_training_goes_on_bit_for_bit_and_is_extended(tmp_path, monkeypatch):
    options = {"optimizer": ADAM, "seeds": 2, "snapshots": [0, 12]}
    stored = options | {"checkpoint": tmp_path / "a", "checkpoint_every": 8}
    save, count = checkpoint.Checkpoint.save, iter(range(9))
    stop = lambda self, arrays: save(self, arrays) or (next(count) == 1 and (_ for _ in ()).throw(Stop))
    with monkeypatch.context() as patched, pytest.raises(Stop):
        patched.setattr(checkpoint.Checkpoint, "save", stop)
        train(bowl, drawn, jax.random.key(0), steps=30, **stored)
    for steps in (30, 41):
        resumed = train(bowl, drawn, jax.random.key(0), steps=steps, **stored)
        assert_equal(resumed, train(bowl, drawn, jax.random.key(0), steps=steps, **options))
    with pytest.raises(ValueError, match="steps must be at least 41, which the checkpoint has reached, got 40"):
        train(bowl, drawn, jax.random.key(0), steps=40, **stored)
    with pytest.raises(ValueError, match=r"must lie beyond step 41, which the checkpoint has reached, got \[13\]"):
        train(bowl, drawn, jax.random.key(0), steps=50, **stored | {"snapshots": [12, 13]})
    others = (1, drawn, {}), (0, START, {}), (0, drawn, {"optimizer": optax.sgd(0.1)}), (0, drawn, {"seeds": 3})
    for key, start, change in others:
        with pytest.raises(ValueError, match="checkpoint must belong to this training"):
            train(bowl, start, jax.random.key(key), steps=50, **stored | change)


def test_a_snapshot_is_taken_where_a_checkpoint_ends(tmp_path):
    """Asked for only when the training is extended: the weights of that step are the stored ones."""
    stored = {"optimizer": ADAM, "checkpoint": tmp_path / "a"}
    first = train(bowl, START, jax.random.key(0), steps=5, **stored)
    longer = train(bowl, START, jax.random.key(0), steps=9, snapshots=[5, 9], **stored)
    np.testing.assert_array_equal(longer.snapshots, np.stack([first.params, longer.params]))


def test_what_is_stored_is_whole(tmp_path, monkeypatch):
    """Between two stored states the program returns to the host now and then, without the weights."""
    save, stored = checkpoint.Checkpoint.save, []
    monkeypatch.setattr(checkpoint.Checkpoint, "save", lambda self, arrays: stored.append(arrays) or save(self, arrays))
    steps = loop.PIECE + 6
    train(
        bowl, START, jax.random.key(0), steps=steps, optimizer=ADAM, checkpoint=tmp_path / "a", checkpoint_every=steps
    )
    assert [int(arrays["0 steps"]) for arrays in stored] == [steps]


def test_a_run_has_the_paper_s_values_by_default():
    """Appendix C.1, Table 1; ``fit`` and ``Run`` say the same."""
    of_fit, of_run = (inspect.signature(f).parameters for f in (fit, Run))
    paper = {"steps": 5000, "batch_size": 2048, "learning_rate": 5e-4}
    assert {name: of_fit[name].default for name in paper} == paper
    shared = of_fit.keys() & of_run.keys() - {"task", "heads"}
    assert {"learning_rate", "init_scale", "bias", "train_guess", "guess"} == shared
    assert [name for name in shared if of_fit[name].default != of_run[name].default] == []
