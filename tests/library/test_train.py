"""The trainer: any loss and optimizer against a plain loop; seeds, snapshots,
callbacks, and losses that diverge.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusals

from lsalib.training import train

CENTER = np.float32([1.0, -2.0])
START = np.zeros(2, np.float32)
ADAM = optax.adam(0.05)
KEY = jax.random.key(0)


def bowl(params, key):
    """Towards the center, with a little noise: an unbiased loss of its own at every
    step.
    """
    return ((params - CENTER + 0.1 * jax.random.normal(key, params.shape)) ** 2).sum()


def drawn(key):
    return jax.random.normal(key, (2,))


OPTIMIZERS = {
    "clipped, scheduled": optax.chain(
        optax.clip_by_global_norm(0.5), optax.sgd(optax.linear_schedule(0.2, 0.0, 30))
    ),
    "l-bfgs": optax.lbfgs(
        memory_size=1, linesearch=optax.scale_by_backtracking_linesearch(5)
    ),
    "with noise": optax.chain(
        optax.add_noise(0.1, 0.55, jax.random.key(1)), optax.sgd(0.1)
    ),
    "several steps": optax.MultiSteps(ADAM, every_k_schedule=3),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_it_is_a_plain_loop(optimizer):
    """Step by step, an optimizer of optax in a loop of plain Python gives the same
    params and losses.
    """
    key, losses = jax.random.key(3), []
    _, batches = jax.random.split(jax.random.fold_in(key, 0))
    rule = optax.with_extra_args_support(optimizer)

    @jax.jit
    def step(t, params, opt_state):
        loss_at = lambda params: bowl(params, jax.random.fold_in(batches, t))
        loss, slope = jax.value_and_grad(loss_at)(params)
        updates, opt_state = rule.update(
            slope, opt_state, params, value=loss, grad=slope, value_fn=loss_at
        )
        return optax.apply_updates(params, updates), opt_state, loss

    with jax.numpy_dtype_promotion("standard"):
        params = jnp.asarray(START)
        opt_state = optimizer.init(params)
        for t in range(30):
            params, opt_state, loss = step(t, params, opt_state)
            losses.append(loss)
    end = train(bowl, START, key, steps=30, optimizer=optimizer)
    assert_allclose(end.losses, losses, rtol=1e-4, atol=1e-6)
    assert_allclose(end.params, params, rtol=1e-4, atol=1e-5)


def test_seeds_are_trainings_of_their_own():
    """Each seed has its own start and batches, and is alone what it is among others."""
    options = {"init": drawn, "steps": 20, "optimizer": ADAM, "snapshots": [0, 5, 20]}
    many = train(bowl, None, KEY, seeds=3, **options)
    assert_array_equal(many.snapshots[:, -1], many.params)
    alone = train(bowl, None, KEY, **options)
    third = train(bowl, None, KEY, seeds=[2], **options)
    for every, its_third, first in zip(
        *map(jax.tree.leaves, (many, third, alone)), strict=True
    ):
        assert_allclose(its_third[0], every[2], rtol=1e-5)
        assert_allclose(first, every[0], rtol=1e-5)
    start, _ = jax.random.split(jax.random.fold_in(KEY, 0))
    assert_array_equal(alone.snapshots[0], drawn(start))
    assert len(np.unique(many.losses[:, 0])) == 3


def test_independent_losses_do_not_disturb_each_other():
    """A vector of losses trains each entry as it would be trained alone."""
    both = lambda params, key: jax.vmap(bowl, (0, None))(params, key)
    pair = train(both, np.stack([START, START + 5]), KEY, steps=15, optimizer=ADAM)
    alone = train(bowl, START + 5, KEY, steps=15, optimizer=ADAM)
    assert pair.losses.shape == (15, 2)
    assert_allclose(pair.losses[:, 1], alone.losses, rtol=1e-5)
    assert_allclose(pair.params[1], alone.params, rtol=1e-5)


class Distance:
    """A loss with a number that its owner changes between two trainings, as in a
    notebook.
    """

    center = 0.0

    def loss(self, x, key):
        return (x - self.center) ** 2


def test_a_loss_is_read_again_at_every_call():
    """The same method with another number in it has other losses."""
    target, first = Distance(), []
    for target.center in (3.0, 5.0):
        first.append(
            float(train(target.loss, 0, KEY, steps=1, optimizer=ADAM).losses[0])
        )
    assert first == [9.0, 25.0]


class Line(NamedTuple):
    slope: object
    level: object


def test_any_tree_of_numbers_is_a_start():
    """Whole numbers train as floats, and the tree keeps its type."""
    end = train(
        lambda line, key: (line.slope - 3) ** 2 + line.level**2,
        Line(0, 1),
        KEY,
        steps=300,
        optimizer=ADAM,
    )
    assert_allclose(end.params, Line(3.0, 0.0), atol=1e-2)


def test_a_curriculum_is_two_calls():
    """Twelve steps are six and six, with the optimizer's state, for one seed or two;
    without the state they are not.
    """
    ignores = lambda params, key: bowl(params, KEY)
    for seeds in (None, [0, 4]):
        given = lambda params, steps, seeds=seeds, **more: train(
            ignores, params, KEY, steps=steps, optimizer=ADAM, seeds=seeds, **more
        )
        whole, half = given(START, 12), given(START, 6)
        params = half.params if seeds is None else half.params[0]
        losses = whole.losses[..., 6:]
        rest = given(params, 6, opt_state=half.opt_state).losses
        assert_allclose(rest, losses, rtol=1e-6)
        assert not np.allclose(given(params, 6).losses, losses, rtol=1e-3)


def test_an_optimizer_that_keeps_keys_has_one_for_each_seed():
    """Seed 0 has the key that it was given."""
    ignores = lambda params, key: bowl(params, KEY)
    how = {"steps": 5, "optimizer": OPTIMIZERS["with noise"]}
    alone = train(ignores, START, KEY, **how).params
    one, other = train(ignores, START, KEY, seeds=[0, 3], **how).params
    assert_allclose(one, alone, rtol=1e-5)
    assert not np.allclose(one, other, rtol=1e-3)


GIVEN = {"loss": bowl, "params": START, "key": KEY, "steps": 3, "optimizer": ADAM}
refused = lambda words, **change: (words, lambda: train(**GIVEN | change))
SNAPSHOTS = "snapshots must be increasing whole numbers of 0 to 3"
SEEDS = "seeds must be increasing whole numbers of 0 to 4294967295"
test_what_cannot_be_right_is_refused = refusals(
    refused("params or init must say where .* starts, got both", init=drawn),
    refused("params or init must say where the training starts", params=None),
    refused(
        r"params\['act'\] must be an array of real numbers, got <",
        params={"x": jnp.ones(2), "act": jnp.tanh},
    ),
    refused(SNAPSHOTS, snapshots=[4]),
    refused("seeds must be a whole number of at least 0, got -1", seeds=[-1]),
    refused(SEEDS, seeds=[2**32]),
    refused(SEEDS, seeds=[1, 1]),
)


def breaks(params, key, at=0.35, to=jnp.inf):
    """The gradient is -1 and the learning rate .1, so step t has the loss -t/10, and
    from step 4 on ``to``.
    """
    return jnp.where(params < at, -params, to)


SGD = optax.sgd(0.1)


@pytest.mark.parametrize(
    ("start", "to", "step"),
    [(0.0, jnp.nan, 4), ([0.0, -10.0], jnp.inf, 4), (0.4, jnp.nan, 0)],
)
def test_a_loss_that_is_not_finite_is_an_error_with_its_step(start, to, step):
    """Whatever the loss is there, if it is one of several, and at the first step."""
    start = jnp.array(start)
    loss = lambda params, key: breaks(params, key, to=to)
    with pytest.raises(FloatingPointError, match=f"not finite at step {step}$"):
        train(loss, start, KEY, steps=2000, optimizer=SGD)


def test_an_update_that_breaks_in_the_last_step_is_seen():
    """All losses are finite, and the params are not: the root has an infinite slope at
    zero.
    """
    with pytest.raises(FloatingPointError, match="step 1"):
        train(lambda x, key: jnp.sqrt(jnp.abs(x)), 0.0, KEY, steps=1, optimizer=SGD)


def test_of_several_seeds_the_others_go_on():
    """A warning names the seeds and their steps; their losses are NaN from there on."""
    init = lambda key: jnp.where(jax.random.uniform(key) < 0.5, 0.0, -10.0)
    with pytest.warns(RuntimeWarning, match=r"not finite for seed \d at step 4"):
        end = train(
            breaks, None, KEY, init=init, seeds=8, steps=9, optimizer=SGD, snapshots=[0]
        )
    broken = np.asarray(end.snapshots)[:, 0] == 0
    assert 0 < broken.sum() < 8
    assert_array_equal(np.isnan(end.losses), broken[:, None] & (np.arange(9) >= 4))


def test_a_callback_gets_every_loss_once():
    """Every so many steps and at the end."""
    seen = []
    way = {"callback": lambda step, metrics: seen.append((step, metrics)), "every": 4}
    end = train(bowl, START, KEY, steps=9, optimizer=ADAM, **way)
    assert [step for step, _ in seen] == [4, 8, 9]
    assert_array_equal(
        np.concatenate([metrics["losses"] for _, metrics in seen]), end.losses
    )
    assert_array_equal(seen[-1][1]["params"], end.params)
