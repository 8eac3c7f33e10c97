"""The library compiles few programs: draws share them, a function is one program, and reading a result needs none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled import programs

from lsalib import _random, attention, metrics, theory, training
from lsalib.tasks import GaussianTask, sample
from lsalib.training import rows

TASK = GaussianTask([2.0, -1.0, 0.5], context_size=5)


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


def test_mixed_sweeps_take_few_programs(monkeypatch):
    """Seven context sizes and four head counts; the control gives each size up to d its own program."""
    d, key = 5, jax.random.key(0)
    runs = [training.Run(GaussianTask([1.0] * d, C), heads=1 + C % 4) for C in range(1, 8)]
    needed = lambda: programs(lambda: training.sweep(key, runs, steps=2, batch_size=8))
    # One for contexts up to d, one for longer ones, the keys of the seeds, the initial weights.
    assert needed() <= 4
    monkeypatch.setattr(rows, "_padded", lambda shapes: {})
    assert needed() == 5


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("d", [5, 10, 50])
def test_forty_context_sizes_and_sixteen_head_counts_take_two_programs(d, compress):
    """The groups of 64 runs; with keys and initial weights that is four. The control does not pad contexts."""
    runs = [training.Run(GaussianTask([1.0] * d, 1 + i % 40), heads=1 + i % 16) for i in range(64)]
    groups = lambda pads: len(rows.row_groups(runs, range(64), (8, compress), pads))
    # Contexts of up to d examples, of which each has a shape of its own, and one more shape for all longer ones.
    shapes = min(d, 39) + 1 if compress else 40
    assert groups(pads=True) <= 2 and groups(pads=False) == shapes > 4
    # Other numbers of heads are no other programs: one context size is one group.
    same_size = [training.Run(TASK, heads) for heads in range(1, 17)]
    assert len(rows.row_groups(same_size, range(16), (8, compress), False)) == 1


def test_another_number_of_steps_finds_its_program():
    """Also a number that takes several calls of the program, whose losses are joined on the host."""
    options = {"objective": "population"}
    first = training.fit(jax.random.key(0), TASK, 2, steps=4, **options)
    steps, longer = training.loop.PIECE + 3, []
    assert programs(lambda: longer.append(training.fit(jax.random.key(0), TASK, 2, steps=steps, **options))) == 0
    assert (first.risk.shape, longer[0].risk.shape) == ((4,), (steps,))
    np.testing.assert_array_equal(longer[0].risk[:4], first.risk)


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
