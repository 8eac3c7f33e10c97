"""The pace of training with a linear MLP: the stored steps, some of them repeated, and what the page reads in them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsalib import tasks, theory, training
from lsalib.attention import LSAParams
from lsalib.book import stored
from studies.experiments import training_speed

STEPS, ABOUT = stored.load("training_speed")
LEVELS, WIDTHS = np.array(ABOUT["levels"]), np.array(ABOUT["widths"])
LINES = np.multiply.outer(LEVELS, WIDTHS)  # m w


def over_yq(name):
    """Steps over yq-LSA's, geometric means over seeds: (settings, levels, widths)."""
    return np.exp(np.log(STEPS[name] / STEPS["yq"][:, :, :1]).mean(-1))


def first_within(risk, task):
    return (np.asarray(risk) < 1.01 * theory.yq_risk(task)).argmax(-1)


def adam(risk, start, length):
    """The risk before each step, and the mean size of the steps of the second of the weights' parts."""
    optimizer, each = optax.adam(5e-4), jax.value_and_grad(risk)

    def step(carry, _):
        weights, state = carry
        value, gradient = each(weights)
        with jax.numpy_dtype_promotion("standard"):
            updates, state = optimizer.update(gradient, state)
        return (optax.apply_updates(weights, updates), state), (value, jnp.abs(updates[1]).mean() / 5e-4)

    return jax.lax.scan(step, (start, optimizer.init(start)), length=length)[1]


@pytest.mark.claim("training-speed-phase")
@pytest.mark.parametrize("seed", range(3))
def test_the_stored_steps_of_yq_lsa_are_those_of_the_sweep(seed, own_seeds):
    """The library's own training, from the stored run's start at w = 1/4; twice the prior mean takes another time."""
    head = LSAParams(*map(np.asarray, training_speed.start(seed, 1, 10, 0.1)[0]))
    task = tasks.GaussianTask([0.25] * 10, 10)
    run = training.Run(task, heads=1, train_guess=True, start=head)
    (fit,) = training.sweep(jax.random.key(0), [run], seeds=[0], steps=1500, objective="population")
    there = first_within(fit.risk[0], task)
    assert there == pytest.approx(STEPS["yq"][0, 0, 0, seed], abs=10)
    assert abs(there - STEPS["yq"][0, 1, 0, seed]) > 100


@pytest.mark.claim("training-speed-phase")
def test_the_stored_steps_of_the_block_are_those_of_its_full_matrices(own_seeds):
    """Adam on ``ltb_risk`` from the stored run's start, m = 64 at w = 2; half the width takes another time."""
    place, seeds, task = list(LEVELS).index(2.0), range(2), tasks.GaussianTask([2.0] * 10, 10)
    starts = []
    for seed in seeds:
        head, W_1, u = training_speed.start(seed, 64, 10, 0.1)
        starts.append((head, W_1, np.pad(u[:, None], ((0, 0), (10, 0)))))  # of W_2 only the last column is read
    train = lambda start: adam(lambda weights: theory.ltb_risk(*weights, task), start, 2000)[0]
    risks = jax.jit(jax.vmap(train))(jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts))
    there = first_within(risks, task)
    np.testing.assert_allclose(there, STEPS["block"][0, place, 6, :2], atol=10)
    assert (np.abs(there - STEPS["block"][0, place, 5, :2]) > 20).all()


@pytest.mark.claim("training-speed-phase")
def test_a_product_guess_is_faster_where_width_times_prior_mean_is_at_least_one():
    """In all four settings; where the product is a quarter it is slower, and near one half either can be first."""
    pace = over_yq("product")
    assert (pace[:, LINES >= 1] < 1).all()
    assert (pace[:, LINES == 0.25] > 1).all()
    assert pace[:, LINES == 0.5].min() < 1 < pace[:, LINES == 0.5].max()


@pytest.mark.claim("training-speed-phase")
def test_the_border_of_the_block_lies_between_one_half_and_two():
    """At the paper's scale: later from 3/4 down, sooner from 3/2 on; at one the two agree within 10%."""
    pace = over_yq("block")[0]
    assert (pace[LINES <= 0.75] > 1.1).all() and (pace[LINES >= 1.5] < 0.95).all()
    np.testing.assert_allclose(pace[LINES == 1], 1, atol=0.1)
    # In the other settings three quarters may go either way.
    assert over_yq("block")[1:, LINES == 0.75].min() < 1 < over_yq("block")[1:, LINES == 0.75].max()


@pytest.mark.claim("training-speed-phase")
def test_the_guess_of_the_block_comes_half_of_its_way_in_half_the_time_at_four_times_the_width():
    """Exercise 2, at w = 2; for yq-LSA with a product as its guess the time falls more slowly."""
    place = list(LEVELS).index(2.0)
    block, product = (STEPS[f"{name}_half"][0, place, ::2].mean(-1) for name in ("block", "product"))
    np.testing.assert_allclose(block[:-1] / block[1:], 2, atol=0.4)
    assert (product[:-1] / product[1:]).min() < 1.6


@pytest.mark.claim("training-speed-phase")
def test_the_head_imitates_the_guess_first_and_adam_takes_shorter_steps_on_it_then():
    """Exercise 2: at w = 2 the guess of yq-LSA starts with full steps; after the loss has fallen they are a fifth."""
    task, (head, *_) = tasks.GaussianTask([2.0] * 10, 10), training_speed.start(0, 1, 10, 0.1)
    start = jax.tree.map(jnp.asarray, (head, np.zeros(10, np.float32)))
    exact = lambda weights: theory.population_risk(weights[0], task, weights[1])
    risk, pace = jax.jit(lambda start: adam(exact, start, 300))(start)
    assert risk[0] > 45 and risk[200] < 20
    assert pace[:50].min() > 0.9 and pace[200:].max() < 0.3
