"""The trainer: any loss and optimizer against a plain loop; seeds, snapshots, trainings stopped and extended."""

import inspect
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsalib.training import Run, checkpoint, fit, train

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
OPTIMIZERS = {
    "clipped and scheduled": SCHEDULE,
    "l-bfgs": optax.lbfgs(),
    "reduce on plateau": optax.chain(ADAM, optax.contrib.reduce_on_plateau(patience=2, cooldown=1)),
    "several steps": optax.MultiSteps(ADAM, every_k_schedule=3),
    "schedule-free": optax.contrib.schedule_free_adamw(0.05),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_it_is_a_plain_loop(optimizer):
    """Step by step, an optimizer of Optax in a loop of plain Python gives the same weights and losses."""
    key, steps = jax.random.key(3), 30
    _, batches = jax.random.split(jax.random.fold_in(key, 0))
    losses = []

    @jax.jit
    def step(t, params, opt_state):
        now = jax.random.fold_in(batches, t)
        loss, gradient = jax.value_and_grad(bowl)(params, now)
        extra = {"value": loss, "grad": gradient, "value_fn": lambda params: bowl(params, now)}
        if not isinstance(optimizer, optax.GradientTransformationExtraArgs):
            extra = {}
        updates, opt_state = optimizer.update(gradient, opt_state, params, **extra)
        return optax.apply_updates(params, updates), opt_state, loss

    with jax.numpy_dtype_promotion("standard"):
        params = jnp.asarray(START)
        opt_state = optimizer.init(params)
        for t in range(steps):
            params, opt_state, loss = step(t, params, opt_state)
            losses.append(loss)
    end = train(bowl, START, key, steps=steps, optimizer=optimizer)
    np.testing.assert_allclose(end.risk, losses, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(end.params, params, rtol=1e-4, atol=1e-5)
    assert jax.tree.structure(end.opt_state) == jax.tree.structure(opt_state)
    # Negative control: other batches are seen.
    other = train(bowl, START, jax.random.key(4), steps=steps, optimizer=optimizer)
    assert abs(np.asarray(other.risk) - losses).max() > 1e-3


def test_an_optimizer_that_calls_for_more_is_refused():
    """One that needs another argument than value, gradient and function is named."""
    greedy = optax.contrib.sam(ADAM, ADAM, opaque_mode=True)
    with pytest.raises(ValueError, match="optimizer must work with value, grad and value_fn, got one that does not"):
        train(bowl, START, jax.random.key(0), steps=3, optimizer=greedy)


@jax.tree_util.register_dataclass
@dataclass
class Line:
    """A model that is called, as those of Equinox are."""

    slope: jax.Array

    def __call__(self, x):
        return self.slope * x


def test_a_model_that_can_be_called_is_a_start():
    """A pytree that can be called is a start; a function is not, and belongs to ``init``."""
    loss = lambda line, key: (line(2.0) - 3.0) ** 2
    end = train(loss, Line(jnp.zeros(())), jax.random.key(0), steps=200, optimizer=ADAM)
    assert isinstance(end.params, Line) and end.params(2.0) == pytest.approx(3.0, abs=1e-2)
    for init in (drawn, lambda key: {"a": drawn(key)}):
        with pytest.raises(ValueError, match=r"params must be a pytree of float arrays, got a function, .*write init="):
            train(bowl, init, jax.random.key(0), steps=3, optimizer=ADAM)
    with pytest.raises(ValueError, match="params must be None where init draws the start"):
        train(bowl, START, jax.random.key(0), init=drawn, steps=3, optimizer=ADAM)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float32], ids=lambda dtype: dtype.__name__)
def test_short_types_train_and_stay(dtype, tmp_path):
    """By SGD: of Adam's numbers float16 loses the smallest, and the loss is then no longer finite."""
    loss = lambda x, key: ((x - CENTRE.astype(dtype)) ** 2).sum()
    options = {"optimizer": optax.sgd(0.25), "checkpoint": tmp_path / "a"}
    train(loss, START.astype(dtype), jax.random.key(0), steps=3, **options)
    end = train(loss, START.astype(dtype), jax.random.key(0), steps=20, **options)
    assert end.params.dtype == dtype and end.risk.dtype == dtype
    np.testing.assert_allclose(end.params.astype(np.float32), CENTRE, atol=0.02)


def test_seeds_are_trainings_of_their_own():
    """Each seed has its own start and batches, and is alone what it is among others."""
    options = {"steps": 20, "optimizer": ADAM, "snapshots": [0, 5, 20]}
    many = train(bowl, None, jax.random.key(0), init=drawn, seeds=3, **options)
    assert many.params.shape == (3, 2) and many.risk.shape == (3, 20) and many.snapshots.shape == (3, 3, 2)
    assert len(np.unique(np.asarray(many.risk)[:, 0])) == 3
    np.testing.assert_array_equal(many.snapshots[:, -1], many.params)
    third = train(bowl, None, jax.random.key(0), init=drawn, seeds=[2], **options).seed(0)
    alone = train(bowl, None, jax.random.key(0), init=drawn, **options)
    for mine, seed in ((third, 2), (alone, 0)):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), mine, many.seed(seed))
    start, _ = jax.random.split(jax.random.fold_in(jax.random.key(0), 0))
    np.testing.assert_array_equal(alone.snapshots[0], drawn(start))


def test_a_shorter_training_is_the_beginning_of_a_longer_one():
    """Losses and snapshots do not depend on what comes after them."""
    long, short = (train(bowl, START, jax.random.key(1), steps=n, optimizer=ADAM, snapshots=[3, 6]) for n in (1100, 6))
    np.testing.assert_array_equal(long.risk[:6], short.risk)
    np.testing.assert_array_equal(long.snapshots, short.snapshots)
    assert np.abs(long.params - CENTRE).max() < 0.1 < np.abs(short.params - CENTRE).max()


def test_independent_losses_do_not_disturb_each_other():
    """A vector of losses trains each entry as it would be trained alone."""
    both = lambda params, key: jax.vmap(bowl, (0, None))(params, key)
    pair = train(both, np.stack([START, START + 5]), jax.random.key(2), steps=15, optimizer=ADAM)
    alone = train(bowl, START + 5, jax.random.key(2), steps=15, optimizer=ADAM)
    assert pair.risk.shape == (15, 2)
    np.testing.assert_allclose(pair.risk[:, 1], alone.risk, rtol=1e-5)
    np.testing.assert_allclose(pair.params[1], alone.params, rtol=1e-5)
    assert np.abs(pair.params[0] - alone.params).max() > 1


class Distance:
    """A loss with a number that its owner changes between two trainings, as in a notebook."""

    def __init__(self, centre):
        self.centre = centre

    def loss(self, x, key):
        return ((x - self.centre) ** 2).sum()


def test_a_loss_is_read_again_at_every_call():
    """The same function by name, with another number in it, is not the program that was compiled before."""
    target, options = Distance(CENTRE), {"steps": 5, "optimizer": ADAM}
    first = train(target.loss, START, jax.random.key(0), **options)
    target.centre = 2 * CENTRE
    fresh = train(Distance(2 * CENTRE).loss, START, jax.random.key(0), **options)
    assert_equal(train(target.loss, START, jax.random.key(0), **options), fresh)
    assert abs(np.asarray(first.risk) - fresh.risk).min() > 0.1


class Stop(Exception):
    pass


def test_a_stopped_training_goes_on_bit_for_bit_and_is_extended(tmp_path, monkeypatch):
    """Another key, start, loss, optimizer or set of seeds is refused by name."""
    options = {"optimizer": ADAM, "seeds": 2, "snapshots": [0, 12]}
    stored = options | {"checkpoint": tmp_path / "a", "checkpoint_every": 8}
    save, count = checkpoint.Checkpoint.save, iter(range(9))
    stop = lambda self, *new: save(self, *new) or (next(count) == 1 and (_ for _ in ()).throw(Stop))
    with monkeypatch.context() as patched, pytest.raises(Stop):
        patched.setattr(checkpoint.Checkpoint, "save", stop)
        train(bowl, None, jax.random.key(0), init=drawn, steps=30, **stored)
    for steps in (30, 41):
        resumed = train(bowl, None, jax.random.key(0), init=drawn, steps=steps, **stored)
        assert_equal(resumed, train(bowl, None, jax.random.key(0), init=drawn, steps=steps, **options))
    with pytest.raises(ValueError, match="steps must be at least 41, which the checkpoint has reached, got 40"):
        train(bowl, None, jax.random.key(0), init=drawn, steps=40, **stored)
    with pytest.raises(ValueError, match=r"must lie beyond step 41, which the checkpoint has reached, got \[13\]"):
        train(bowl, None, jax.random.key(0), init=drawn, steps=50, **stored | {"snapshots": [12, 13]})
    others = [
        (1, bowl, "key", {}),
        (0, bowl, "start", {"init": lambda key: 2 * drawn(key)}),
        (0, bowl, "loss, optimizer", {"optimizer": optax.adam(0.06)}),
        (0, bowl, "seeds", {"seeds": 3}),
        (0, bowl, "seeds", {"seeds": [0, 2]}),
        (0, lambda x, key: 1.01 * bowl(x, key), "loss, optimizer", {}),
    ]
    for key, loss, name, change in others:
        with pytest.raises(ValueError, match=f"checkpoint must belong to this training, .* another .*{name}"):
            train(loss, None, jax.random.key(key), steps=50, **{"init": drawn} | stored | change)


def test_losses_are_written_once(tmp_path):
    """Each stored state adds the losses since the last one, and a snapshot may be of the step where it ends."""
    stored = {"optimizer": ADAM, "checkpoint": tmp_path / "a", "checkpoint_every": 10}
    shorter = train(bowl, START, jax.random.key(0), steps=20, **stored)
    first = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    assert set(first) == {"training.json", "0-state.npz", "0-losses-0.npz", "0-losses-10.npz"}
    longer = train(bowl, START, jax.random.key(0), steps=25, snapshots=[20, 25], **stored)
    np.testing.assert_array_equal(longer.snapshots, np.stack([shorter.params, longer.params]))
    second = {path.name: path.read_bytes() for path in (tmp_path / "a").iterdir()}
    assert set(second) - set(first) == {"0-losses-20.npz", "0-snapshot-20.npz", "0-snapshot-25.npz"}
    assert [name for name in first if first[name] != second[name]] == ["0-state.npz"]


def test_a_run_has_the_paper_s_values_by_default():
    """Appendix C.1, Table 1; ``fit`` and ``Run`` say the same."""
    of_fit, of_run = (inspect.signature(f).parameters for f in (fit, Run))
    paper = {"steps": 5000, "batch_size": 2048, "learning_rate": 5e-4}
    assert {name: of_fit[name].default for name in paper} == paper
    shared = of_fit.keys() & of_run.keys() - {"task", "heads"}
    lsa = {"init_scale", "bias", "train_guess", "guess"}
    assert lsa | {"learning_rate", "start", "layer", "init", "optimizer"} == shared
    assert [name for name in shared if of_fit[name].default != of_run[name].default] == []
