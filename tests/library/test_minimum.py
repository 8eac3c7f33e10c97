"""Second-order minimization of an exact risk, against dense linear algebra and the closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsalib import training

VALLEY_START = np.array([-1.2, 1.0])


def valley(x):
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


def looks_at(function, start, **options):
    """The end of a search, and how often it looked at the function."""
    looks = []

    def watched(x):
        jax.debug.callback(lambda: looks.append(0))
        return function(x)

    end = training.minimize(watched, start, **options)
    jax.effects_barrier()
    return end, len(looks)


def test_a_quadratic_by_dense_linear_algebra(x64):
    """The end solves the normal equations; after one step it has only begun to fall."""
    rng = np.random.default_rng(0)
    root, target = rng.normal(size=(8, 8)), rng.normal(size=8)
    curvature = root @ root.T + np.eye(8)
    end = training.minimize(lambda x: x @ curvature @ x / 2 - x @ target, jnp.zeros(8), steps=60)
    np.testing.assert_allclose(end.params, np.linalg.solve(curvature, target), atol=1e-9)
    assert end.gradient < 1e-9
    one = training.minimize(lambda x: jnp.sum((x - 3.0) ** 2), jnp.zeros(2), steps=1)
    assert (np.asarray(one.params) > 0).all() and one.value < 18


def test_the_gradient_tells_an_unfinished_search_and_patience_ends_a_finished_one(x64):
    """Five steps leave a slope; patience stops where nothing gets lower, and without it the search goes on."""
    assert training.minimize(valley, jnp.asarray(VALLEY_START), steps=5).gradient > 1e-2
    for patience, ended in ((10, True), (None, False)):
        end, looks = looks_at(valley, jnp.asarray(VALLEY_START), steps=1000, patience=patience)
        np.testing.assert_allclose(end.params, [1.0, 1.0], atol=1e-9)
        assert end.gradient < 1e-9 and (looks < 500) == ended


def test_patience_is_counted_in_steps():
    """Where nothing gets lower, three steps of patience are three steps."""
    flat = lambda x: 0 * x.sum()
    patient, three, two = (looks_at(flat, jnp.ones(2), **o)[1] for o in ({"patience": 3}, {"steps": 3}, {"steps": 2}))
    assert patient == three > two


@pytest.mark.parametrize(
    ("start", "got"),
    [(np.arange(2), "int"), ({"a": True}, "bool"), ("x", "<U1"), ([0.5, 1j], "complex"), ({}, "nothing")],
)
def test_a_start_must_be_floats(start, got, unchecked):
    """Whole numbers, strings and empty trees are refused with what came."""
    with pytest.raises(ValueError, match=f"params must be a pytree of float arrays, got .*{got}"):
        training.minimize(lambda x: 0.0, start)
