"""Sampled risks: errors that hardly vary, predictors that JAX cannot compile, and keys that are none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from refusals import refusals

from lsalib import metrics, tasks, training

KEY, TASK = jax.random.key(0), tasks.GaussianTask([1.0, -2.0], 3)
measure = lambda f, **options: metrics.sampled_risk(KEY, TASK, f, **{"batches": 3, "batch_size": 64} | options)


def first(X, y, x_q):
    return x_q[0]


class Constant:
    """Every target is zero."""

    dim = 2

    def __init__(self, spread=0.0):
        self.spread = spread

    def sample(self, key, n):
        X = self.spread * jax.random.normal(key, (n, 3, 2))
        return tasks.Batch(X, X[..., 0], X[:, 0], jnp.zeros(n))


def test_errors_that_hardly_vary_have_a_small_standard_error():
    """Of any size: the difference of the fourth moment and the squared second one is rounding there."""
    sizes = np.array([1e-3, 1.0, 1e3, 1e7])
    scale = jnp.asarray(sizes, jnp.float32)
    same = metrics.sampled_risk(KEY, Constant(), lambda X, y, x_q: scale + 0 * x_q[0], batches=3, batch_size=1000)
    np.testing.assert_allclose(same.mean, sizes**2, rtol=1e-6)
    assert (same.standard_error >= 0).all() and (same.standard_error <= 1e-7 * sizes**2).all()
    f = lambda X, y, x_q: scale * (1 + x_q[0])
    found = metrics.sampled_risk(KEY, Constant(1e-3), f, batches=3, batch_size=1000)
    keys = jax.random.split(KEY, 3)
    errors = np.concatenate([(1 + np.float64(Constant(1e-3).sample(key, 1000).x_q[:, 0])) ** 2 for key in keys])
    np.testing.assert_allclose(found.mean, sizes**2 * errors.mean(), rtol=1e-6)
    np.testing.assert_allclose(found.standard_error, sizes**2 * errors.std() / 3000**0.5, rtol=1e-3)


def test_the_standard_error_is_that_of_all_errors_at_once():
    """Batches whose means differ much: without what is between them it would be far smaller."""

    class Levels(Constant):
        def sample(self, key, n):
            batch = super().sample(key, n)
            return batch._replace(target=batch.target + 10 * jax.random.normal(key, ()))

    levels = np.array([10 * jax.random.normal(key, ()) for key in jax.random.split(KEY, 8)], np.float64)
    errors = np.repeat(levels**2, 50)
    found = metrics.sampled_risk(KEY, Levels(), lambda X, y, x_q: 0 * x_q[0], batches=8, batch_size=50)
    np.testing.assert_allclose(found, (errors.mean(), errors.std() / 400**0.5), rtol=1e-5)


def test_predictions_of_another_type_are_measured(unchecked):
    """Whole numbers and half precision, whose squares their own type would not hold."""
    exact = measure(lambda X, y, x_q: 300 + 0 * x_q[0])
    for dtype in (jnp.int8, jnp.int32, jnp.float16, jnp.bfloat16):
        size = 100 if dtype == jnp.int8 else 300
        found = measure(lambda X, y, x_q, d=dtype, size=size: jnp.asarray(size, d) + (0 * x_q[0]).astype(d))
        right = exact if size == 300 else measure(lambda X, y, x_q: 100 + 0 * x_q[0])
        np.testing.assert_allclose(found, right, rtol=1e-2 if dtype == jnp.bfloat16 else 1e-5)


@pytest.mark.parametrize(("asked", "drawn"), [(None, jnp.float64), ("float32", jnp.float32)])
def test_the_task_draws_in_the_type_that_is_asked_for(asked, drawn, x64):
    seen = []
    measure(lambda X, y, x_q: seen.append(X.dtype) or x_q[0], dtype=asked)
    assert set(seen) == {jnp.dtype(drawn)}


def test_a_task_that_ignores_its_key_is_refused():
    """A compiled program would draw one batch again and again; the control adds noise of the key."""

    class Drawn(Constant):
        def sample(self, key, n):
            X = np.random.default_rng().normal(size=(n, 3, 2)).astype(np.float32)
            noise = jax.random.normal(key, (n,)) if self.spread else jnp.zeros(n)
            return tasks.Batch(jnp.asarray(X), jnp.asarray(X[..., 0]), jnp.asarray(X[:, 0]), noise)

    with pytest.raises(ValueError, match=r"task must draw from the key in .* got a Drawn with one batch for all keys"):
        metrics.sampled_risk(KEY, Drawn(), first, batches=2, batch_size=8)
    assert metrics.sampled_risk(KEY, Drawn(spread=1.0), first, batches=2, batch_size=8).mean > 0


def of_numpy(X, y, x_q):
    return np.linalg.lstsq(np.asarray(X), np.asarray(y), rcond=None)[0] @ np.asarray(x_q)


class Model:
    """A model that holds arrays, and so has no hash."""

    __hash__ = None

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, X, y, x_q):
        return self.weight * x_q[0]


def test_a_model_that_has_no_hash_is_measured():
    """With the weights that it holds."""
    assert measure(Model(jnp.ones(()))).mean == measure(first).mean != measure(Model(jnp.zeros(()))).mean


class Mine(Constant):
    def sample(self, key, n):
        X = np.random.default_rng(np.asarray(jax.random.key_data(key))).normal(size=(n, 3, 2))
        return tasks.Batch(X, X[..., 0], X[:, 0], X[:, 0, 0])


trained = lambda: training.sweep(KEY, [training.Run(TASK, 1)], steps=1, batch_size=4)[0]


class Tuples:
    """A task that draws a plain tuple."""

    dim = 2

    def sample(self, key, n):
        return jnp.ones((n, 3, 2)), jnp.ones((n, 3)), jnp.ones((n, 2)), jnp.ones(n)


test_what_cannot_be_measured_is_refused = refusals(
    (
        lambda: metrics.sampled_risk(KEY, Tuples(), first),
        "the task's sample must return a Batch, got a tuple without X",
    ),
    (lambda: measure(trained()), "f must be a function .*, got a Fit; .* its predictions: fit.predict"),
    (lambda: measure(jnp.ones(2)), r"f must be a function of \(X, y, x_q\), got float32 of shape \(2,\)"),
    (lambda: measure(trained().predict), r"got shape \(1,\); of a sweep take one seed, .*seed\(0\)\.predict"),
    (lambda: measure(of_numpy), "f must be made of JAX's operations, .* draw batch = task.sample"),
    (lambda: measure(lambda X, y, x_q: 1.0 if x_q[0] > 0 else 0.0), "f must be made of JAX's operations"),
    (lambda: metrics.sampled_risk(KEY, Mine(), first), "the task's sample must be made of JAX's operations"),
    (lambda: measure(lambda X, y, x_q: (x_q[0], x_q[1])), "f must return a scalar, or at least two in a vector"),
    (lambda: measure(lambda X, y, x_q: x_q[0] > 0), "predictions must be an array of real numbers, got bool"),
    (lambda: measure(lambda X, y, x_q: jax.lax.complex(*x_q)), "predictions must be .*, got complex"),
    (lambda: metrics.prediction_difference(None, first, np.eye(2), [1, 2], [1, 1]), "f must be a function"),
)


def test_the_reason_is_kept():
    """JAX's own error is the cause, and a mistake of the predictor's own is not taken for one."""
    with pytest.raises(ValueError, match="made of JAX's operations") as caught:
        measure(of_numpy)
    assert isinstance(caught.value.__cause__, jax.errors.TracerArrayConversionError)
    with pytest.raises(IndexError):
        measure(lambda X, y, x_q: (x_q[0], 1)[2])
    with pytest.raises(ValueError, match="inv must have shape"):
        measure(lambda X, y, x_q: jnp.linalg.inv(X)[0] @ x_q)
