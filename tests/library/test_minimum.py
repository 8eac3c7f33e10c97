"""Second-order minimisation of an exact risk, against dense linear algebra and the closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsalib import attention, tasks, theory, training


def random_heads(seed, heads, dim, of=None):
    """Small random (b, A), with zeros up to ``of`` heads: each factor's gradient contains the other, so they stay."""
    rng, missing = np.random.default_rng(seed), (0, (of or heads) - heads)
    b, A = 0.3 * rng.standard_normal((heads, dim)), 0.1 * rng.standard_normal((heads, dim, dim))
    return jnp.asarray(np.pad(b, (missing, (0, 0)))), jnp.asarray(np.pad(A, (missing, (0, 0), (0, 0))))


def test_a_quadratic_by_dense_linear_algebra(x64):
    rng = np.random.default_rng(0)
    root, target = rng.normal(size=(8, 8)), rng.normal(size=8)
    curvature = root @ root.T + np.eye(8)
    end = training.minimize(lambda x: x @ curvature @ x / 2 - x @ target, jnp.zeros(8), steps=60)
    np.testing.assert_allclose(end.params, np.linalg.solve(curvature, target), atol=1e-9)
    assert end.gradient < 1e-9


def test_every_start_ends_at_the_closed_form(x64):
    """With as many heads as features and with one more; with one head less the search ends elsewhere, and higher."""
    task = tasks.GaussianTask([1.0, -2.0, 0.5], context_size=5)
    heads = np.repeat([3, 4, 2], [6, 6, 1])
    each = [random_heads(seed, h, 4, of=4) for seed, h in enumerate(heads)]
    starts = jax.tree.map(lambda *parts: np.stack(parts), *each)
    risk = lambda pair: theory.population_risk(attention.from_effective(*pair), task)
    values = np.asarray(jax.jit(jax.vmap(lambda start: training.minimize(risk, start).value))(starts))
    np.testing.assert_allclose(values[heads >= 3], np.full(12, theory.optimal_risk(task)), rtol=1e-9)
    assert values[heads == 2] > theory.optimal_risk(task) + 0.01


def test_the_gradient_tells_an_unfinished_search(x64):
    valley = lambda x: 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
    start = jnp.asarray(np.array([-1.2, 1.0]))
    assert training.minimize(valley, start, steps=5).gradient > 1e-2
    end = training.minimize(valley, start, steps=100)
    assert end.gradient < 1e-9
    np.testing.assert_allclose(end.params, [1.0, 1.0], atol=1e-9)


def test_a_search_ends_once_nothing_gets_lower(x64):
    looks = []

    def valley(x):
        jax.debug.callback(lambda: looks.append(0))
        return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2

    for patience, ended in ((10, True), (None, False)):
        looks.clear()
        end = training.minimize(valley, jnp.asarray(np.array([-1.2, 1.0])), steps=1000, patience=patience)
        jax.effects_barrier()
        np.testing.assert_allclose(end.params, [1.0, 1.0], atol=1e-9)
        assert (len(looks) < 500) == ended


def test_weights_from_effective_heads(x64):
    b, A = random_heads(2, 3, 5)
    again = attention.effective(attention.from_effective(b, A))
    np.testing.assert_array_equal(again[0], b)
    np.testing.assert_array_equal(again[1], A)


def test_one_step_is_one():
    end = training.minimize(lambda x: jnp.sum((x - 3.0) ** 2), jnp.zeros(2), steps=1)
    assert (np.asarray(end.params) > 0).all() and end.value < 18


def test_patience_is_counted_in_steps():
    """Where nothing gets lower, three steps of patience are three steps."""
    looks = []

    def flat(x):
        jax.debug.callback(lambda: looks.append(0))
        return 0 * x.sum()

    counts = []
    for options in ({"patience": 3}, {"steps": 3}, {"steps": 2}):
        looks.clear()
        training.minimize(flat, jnp.ones(2), **options)
        jax.effects_barrier()
        counts.append(len(looks))
    assert counts[0] == counts[1] > counts[2]


@pytest.mark.parametrize(
    ("start", "got"),
    [(np.arange(2), "int"), ({"a": True}, "bool"), ("x", "<U1"), ([0.5, 1j], "complex"), ({}, "nothing")],
)
def test_a_start_must_be_floats(start, got, unchecked):
    with pytest.raises(ValueError, match=f"params must be a pytree of float arrays, got .*{got}"):
        training.minimize(lambda x: 0.0, start)
    assert training.minimize(lambda x: (x[0] - 1) ** 2 + x[1] ** 2, [0.0, 2.0], steps=5).value < 1e-6
