"""Sampled risks: always of the present predictor and task, with the right error; and
the distances of appendix C.2.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from refusals import refusals

from lsalib import attention, metrics, tasks

KEY, TASK = jax.random.key(0), tasks.GaussianTask([1.0, 1.0, 1.0], 5)
measure = lambda f, task=TASK, **options: metrics.sampled_risk(
    KEY, task, f, **{"batches": 2, "batch_size": 8} | options
)
zero = lambda X, y, x_q: 0 * x_q[0]


@dataclass
class Own:
    """A task of one's own, whose attributes may change: targets are ``size`` times a
    coordinate of the query.
    """

    size: float = 1.0
    spread: float = 1.0
    change: Callable = lambda batch, key: batch
    dim = 3

    def sample(self, key, n):
        X = self.spread * jax.random.normal(key, (n, 5, 3))
        return self.change(
            tasks.Batch(X, X[..., 0], X[:, 0], self.size * X[:, 0, 0]), key
        )


def squared_errors(f, task=TASK, batches=2, batch_size=8):
    """Of every sampled task, one after the other in Python."""
    rows = []
    for key in jax.random.split(KEY, batches):
        batch = task.sample(key, batch_size)[:4]
        rows += zip(*map(np.float64, batch), strict=True)
    return np.array([(f(X, y, x_q) - target) ** 2 for X, y, x_q, target in rows])


def assert_estimates(found, errors):
    assert_allclose(found.mean, errors.mean(0), rtol=1e-5)
    assert_allclose(
        found.standard_error, errors.std(0, ddof=1) / len(errors) ** 0.5, rtol=1e-4
    )


def test_a_sampled_risk_is_the_mean_of_squared_errors():
    """Of one prediction, and of two in one call."""
    f = lambda X, y, x_q: y @ X @ x_q / len(y)
    assert_estimates(measure(f), squared_errors(f))
    both = lambda X, y, x_q: (y @ X @ x_q / len(y), x_q.sum())
    errors = squared_errors(lambda *example: np.array(both(*example)))
    assert_estimates(measure(lambda *example: jnp.stack(both(*example))), errors)
    assert_estimates(measure(both), errors)  # as a list or a tuple, too
    assert_estimates(measure(lambda *example: [both(*example)[0]]), errors[:, :1])


def test_a_predictor_that_is_written_again_has_a_new_risk():
    """What it reads from outside is read again; unchanged, it is the same number."""
    params = attention.gd_weights(jnp.ones(3), 0.5)

    def f(X, y, x_q):
        return attention.yq_lsa(params, jnp.ones(3), X, y, x_q)

    first = measure(f)
    assert measure(f) == first
    assert_estimates(first, squared_errors(f))
    params = attention.gd_weights(jnp.ones(3), 0.0)
    assert_estimates(measure(f), squared_errors(f))


def test_a_task_that_changes_has_a_new_risk():
    task = Own()
    before = measure(zero, task).mean
    task.size = 3.0
    assert_allclose(measure(zero, task).mean, 9 * before, rtol=1e-6)


def test_a_task_may_draw_with_numpy_or_always_return_one_data_set():
    """And its targets may be bools."""
    data = np.random.default_rng(0).normal(size=(8, 5, 3))
    fixed = tasks.Batch(data, data[..., 0], data[:, 0], data[:, 0, 0] > 0)
    found = measure(zero, Own(change=lambda *_: fixed)).mean
    assert 0 < found == pytest.approx(fixed.target.mean(), rel=1e-6)


def test_errors_that_hardly_vary_have_a_small_standard_error():
    """Of any size: the difference of the fourth moment and the squared second one would
    be rounding there.
    """
    sizes = np.array([1e-3, 1.0, 1e7])
    f = lambda X, y, x_q: jnp.asarray(sizes, jnp.float32) * (1 + 1e-3 * x_q[0])
    exact = squared_errors(lambda X, y, x_q: sizes * (1 + 1e-3 * x_q[0]), Own(0.0))
    found = measure(f, Own(0.0))
    assert_allclose(found.mean, exact.mean(0), rtol=1e-6)
    assert_allclose(found.standard_error, exact.std(0, ddof=1) / 4, rtol=1e-3)


def test_the_standard_error_is_that_of_all_errors_at_once():
    """Batches whose means differ much: without what is between them it would be far
    smaller.
    """
    shift = lambda batch, key: batch._replace(
        target=batch.target + 10 * jax.random.normal(key, ())
    )
    assert_estimates(
        measure(zero, Own(change=shift)),
        squared_errors(lambda X, y, x_q: 0, Own(change=shift)),
    )


def test_a_single_task_has_no_standard_error():
    one = measure(zero, batches=1, batch_size=1)
    assert one.mean > 0 and np.isnan(one.standard_error)


def test_predictions_in_whole_numbers():
    """Their squares do not overflow in a type of their own."""
    found = measure(lambda X, y, x_q: jnp.int8(100), Own(0.0))
    assert found == (1e4, 0.0)


def test_the_distances_of_two_predictors(x64):
    """By NumPy, for two functions that are linear in the query.

    Control: a predictor and itself.
    """
    a, b = np.random.default_rng(0).normal(size=(2, 3))
    f, g = (lambda X, y, x_q: x_q @ a), (lambda X, y, x_q: x_q @ b + 0.1)
    X, y = np.ones((5, 3)), np.ones(5)
    x_q = np.array([1.0, 2.0, -1.0])
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    expected = [abs(x_q @ (a - b) - 0.1), np.linalg.norm(a - b), cosine]
    for *pair, known in ((f, g, expected), (g, f, expected), (f, f, [0, 0, 1])):
        distances = metrics.compare(*pair, X, y, x_q)
        assert_allclose(distances, known, rtol=1e-12, atol=1e-12)


COLUMNS = Own(change=lambda batch, _: batch._replace(target=batch.target[:, None]))
# queries have one feature less
SHORT = Own(change=lambda batch, _: batch._replace(x_q=batch.x_q[:, 1:]))
UNPACKED = Own(change=lambda batch, _: tuple(batch))
vector = lambda X, y, x_q: x_q
test_what_cannot_be_measured_is_refused = refusals(
    (
        "the task's sample must return a tasks.Batch, got a tuple",
        measure,
        zero,
        UNPACKED,
    ),
    (
        "predict must be a function of .* got <class 'lsalib.tasks.GaussianTask'>",
        measure,
        TASK,
    ),
    (
        "what predict returns must be an array of real numbers, got None",
        measure,
        lambda X, y, x_q: None,
    ),
    (
        r"the x_q of the task's sample must have shape \(8, 3\), got shape \(8, 2\)",
        measure,
        zero,
        SHORT,
    ),
    (
        r"the target of the task's sample must have shape \(8,\), got shape \(8, 1\)",
        measure,
        zero,
        COLUMNS,
    ),
    (
        r"predict must return a scalar or a vector, got shape \(5, 3\)",
        measure,
        lambda X, y, x_q: X,
    ),
    (
        "what g returns must have shape",
        metrics.compare,
        zero,
        vector,
        np.eye(3),
        np.ones(3),
        np.ones(3),
    ),
)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_a_risk_is_computed_in_the_type_of_the_data(x64, dtype):
    """With x64, tasks draw in float64; a task of one's own may draw in float32."""
    seen = []
    cast = lambda batch, _: jax.tree.map(lambda part: part.astype(dtype), batch)
    measure(lambda X, y, x_q: seen.append(X.dtype) or x_q[0], Own(change=cast))
    assert set(seen) == {jnp.dtype(dtype)}
