"""The library compiles few programs: draws share them, a function is one program, and reading a result needs none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled import programs

from lsalib import _random, attention, metrics, theory, training
from lsalib.tasks import GaussianTask, sample

TASK = GaussianTask([2.0, -1.0, 0.5], context_size=5)
KEY = jax.random.key(0)


@pytest.mark.parametrize(("shape", "dtype"), [((7,), jnp.float32), ((1024,), jnp.float64), ((3, 700), jnp.float32)])
def test_the_draws_are_those_of_jax(shape, dtype, x64):
    """Whatever the size, and under jit, the shared program gives the numbers of ``jax.random.normal``."""
    key = jax.random.key(len(shape))
    expected = jax.random.normal(key, shape, dtype)
    for drawn in (_random.normal(key, shape, dtype), jax.jit(lambda key: _random.normal(key, shape, dtype))(key)):
        assert drawn.dtype == dtype
        np.testing.assert_allclose(drawn, expected, rtol=8 * jnp.finfo(dtype).eps, atol=8 * jnp.finfo(dtype).eps)
    assert not np.allclose(_random.normal(jax.random.key(99), shape, dtype), expected)


def test_initial_weights_of_all_head_counts_share_a_program():
    """The control: JAX's own draw compiles a program for each number of heads."""
    key = jax.random.key(0)
    attention.init(key, 5, 1, 0.1)
    assert programs(lambda: [attention.init(key, 5, heads, 0.1) for heads in (2, 3)]) == 0
    assert programs(lambda: [jax.random.normal(key, (4, heads, 6, 6)) for heads in (2, 3)]) >= 2


def test_a_task_of_the_same_shape_finds_its_programs():
    """Numbers of a task are arguments of the programs, not constants in them."""
    other = GaussianTask([0.0, 3.0, 1.0], context_size=5)
    params = attention.init(jax.random.key(0), 3, 2, 0.1)

    def use(task):
        batch = sample(jax.random.key(1), task, 6)
        theory.population_risk(params, task, guess=jnp.ones(3), bias=float(task.prior_mean[0]))
        return attention.embed(batch.X[0], batch.y[0], batch.x_q[0], 1.0)

    use(TASK)
    assert programs(lambda: use(other)) == 0


def test_another_number_of_steps_finds_its_program():
    """Also a number that takes several calls of the program, whose losses are joined on the host."""
    swept = lambda steps: training.sweep(KEY, [training.Run(TASK, 2)], steps=steps, objective="population")[0].losses
    first, longer = swept(4), []
    assert programs(lambda: longer.append(swept(1003))) == 0
    np.testing.assert_array_equal(longer[0][:, :4], first)


def test_several_predictors_see_the_same_tasks():
    """Measured together they have the risks that each has alone, and another key needs no other program."""

    def guesses(X, y, x_q):
        return jnp.stack([0 * x_q[0], x_q @ jnp.asarray(TASK.prior_mean, x_q.dtype)])

    risk = lambda f, key=0: metrics.sampled_risk(jax.random.key(key), TASK, f, batches=2, batch_size=5000)
    both = risk(guesses)
    each = [risk(lambda *task, k=k: guesses(*task)[k]) for k in range(2)]
    np.testing.assert_allclose(both.mean, [one.mean for one in each], rtol=1e-5)
    np.testing.assert_allclose(both.standard_error, [one.standard_error for one in each], rtol=1e-4)
    exact = np.array([TASK.prior_mean @ TASK.prior_mean + 3, 3.0])
    assert np.all(np.abs(both.mean - exact) < 5 * both.standard_error)
    assert np.all(np.abs(both.mean - exact[::-1]) > 5 * both.standard_error)
    assert programs(lambda: risk(guesses, key=1)) == 0


def test_a_search_from_the_minimum_does_not_end_above_it(x64):
    """At the minimum L-BFGS follows rounding errors only, and could go uphill."""
    best = tuple(map(np.asarray, attention.effective(theory.optimal_weights(TASK))))
    scales = 10.0 ** np.random.default_rng(0).uniform(-3, 3, 16)
    starts = tuple(map(jnp.asarray, (best[0] * scales[:, None, None], best[1] / scales[:, None, None, None])))
    risk = lambda pair: theory.population_risk(attention.from_effective(*pair), TASK)
    ends = jax.jit(jax.vmap(lambda start: training.minimize(risk, start, steps=100, memory=20)))(starts)
    before = jax.jit(jax.vmap(risk))(starts)
    assert np.isfinite(ends.value).all() and np.all(np.asarray(ends.value) <= np.asarray(before))
    np.testing.assert_allclose(ends.value, jax.jit(jax.vmap(risk))(ends.params), rtol=1e-12)
