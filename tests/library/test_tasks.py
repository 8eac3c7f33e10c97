"""Tasks: what they accept and refuse, and samples of them."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose
from refusals import refusals
from theory_reference import TASKS

from lsalib.tasks import GaussianTask, sample

KEY, GENERAL = jax.random.key(0), TASKS["general, noisy"]


def test_a_task_is_made_of_anything_and_keeps_float64(unchecked):
    """Lists, whole numbers, NumPy and JAX; later changes of what was given do not reach
    it.
    """
    mean = np.array([1, 2])
    task = GaussianTask(
        mean, np.int64(3), jnp.eye(2), [[2, 0], [0, 1]], np.float32(0.5)
    )
    mean[:] = 0
    assert task.prior_mean.tolist() == [1.0, 2.0]
    assert (task.dim, task.context_size, task.noise_std) == (2, 3, 0.5)
    for kept in (task.prior_mean, task.feature_cov, task.prior_cov):
        assert kept.dtype == np.float64
    assert sample(KEY, task, 2).X.dtype == jnp.float32


def test_a_task_s_numbers_may_be_traced():
    """Sampled under jit, from a covariance and a noise that JAX traces."""
    of = lambda cov, noise_std: replace(GENERAL, feature_cov=cov, noise_std=noise_std)
    traced = jax.jit(lambda *numbers: sample(KEY, of(*numbers), 2))
    numbers = GENERAL.feature_cov / 2, 0.5
    for mine, its in zip(traced(*numbers), sample(KEY, of(*numbers), 2), strict=True):
        assert_allclose(mine, its, rtol=1e-5, atol=1e-6)


def test_a_task_s_own_sample_is_that_of_the_function():
    mine, other = GENERAL.sample(KEY, 2), sample(KEY, GENERAL, 2)
    assert all(map(np.array_equal, mine, other))


test_bad_input_is_refused = refusals(
    ("prior_mean must hold finite numbers", GaussianTask, [np.nan], 3),
    (
        "context_size must have a size between 1e-30 and 1e30, got 1000",
        GaussianTask,
        [1.0],
        10**400,
    ),
    (
        "feature_cov must have a size between 1e-30 and",
        GaussianTask,
        [1.0],
        3,
        [[1e-140]],
    ),
    (
        "feature_cov must have a size between 1e-30 and",
        GaussianTask,
        [1.0],
        3,
        [[1e200]],
    ),
    (
        "noise_std must be a finite number of at least 0, got -1",
        lambda: GaussianTask([1.0], 3, noise_std=-1),
    ),
    (
        "noise_std must have a size between 1e-30 and",
        lambda: GaussianTask([1.0], 3, noise_std=1e200),
    ),
)
