"""Moments of the Gram matrix: Wick's theorem against quadrature and against samples."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from theory_reference import TASKS, largest_z, listed_moments, sampled_gram, z_bound

from lsalib.tasks import GaussianTask
from lsalib.theory import gram_moments

BOUND = z_bound(3 * 256)


@pytest.mark.claim("eq21-cross-moment", "eq23-independence")
@pytest.mark.parametrize("name", TASKS)
def test_equal_quadrature(name):
    """All moments are those of brute force over Gauss-Hermite nodes, for every task."""
    for exact, brute in zip(gram_moments(TASKS[name]), listed_moments(TASKS[name]), strict=True):
        np.testing.assert_allclose(exact, brute, rtol=1e-12, atol=1e-12 * np.abs(brute).max())


@pytest.mark.claim("real-covariates")
@pytest.mark.parametrize(("d", "C", "noise"), [(1, 3, 0.0), (2, 1, 0.0), (3, 5, 0.7)])
def test_rows_of_a_table_in_place_of_gaussian_features(d, C, noise):
    """Off centre, skewed, fewer rows than quadratic forms of three features."""
    rng = np.random.default_rng(d)
    rows, Z = rng.exponential(size=(5, d)), rng.normal(size=(d, d + 1))
    task = GaussianTask(rng.normal(size=d), C, rows.T @ rows / 5, Z @ Z.T / d, noise)
    fourth = np.einsum("ni,nj,nk,nl->ijkl", rows, rows, rows, rows) / 5
    brute = listed_moments(task, features=(rows, np.full(5, 1 / 5)))
    for exact, listed in zip(gram_moments(task, fourth=fourth), brute, strict=True):
        np.testing.assert_allclose(exact, listed, rtol=1e-11, atol=1e-11 * np.abs(listed).max())
    gaussian = gram_moments(task).second
    assert np.abs(gaussian / brute[1] - 1).max() > 0.01, "the control: with the fourth moments of Gaussian features"
    pairings = lambda L: (
        np.einsum("ij,kl->ijkl", L, L) + np.einsum("ik,jl->ijkl", L, L) + np.einsum("il,jk->ijkl", L, L)
    )
    told = gram_moments(task, fourth=pairings(task.feature_cov)).second
    np.testing.assert_allclose(told, gaussian, rtol=1e-12, atol=1e-12 * np.abs(gaussian).max())
    with jax.enable_x64(True):
        traced = jax.jit(lambda fourth: gram_moments(task, fourth=fourth).second)(fourth)
    np.testing.assert_allclose(traced, brute[1], rtol=1e-11, atol=1e-11 * np.abs(brute[1]).max())


@pytest.mark.parametrize(
    ("fourth", "words"),
    [
        (np.ones((2, 2)), r"shape \(2, 2, 2, 2\), got shape \(2, 2\)"),
        (np.full((2, 2, 2, 2), np.nan), "finite"),
        (np.arange(16.0).reshape(2, 2, 2, 2), "symmetric, got a largest asymmetry of 9"),
    ],
)
def test_fourth_moments_that_are_none(fourth, words):
    """Wrong shapes, values that are not finite, and asymmetry are refused."""
    with pytest.raises(ValueError, match="fourth.*" + words):
        gram_moments(GaussianTask([1.0, 2.0], 3), fourth=fourth)


@pytest.mark.claim("eq21-cross-moment", "eq23-independence")
@pytest.mark.parametrize("name", ["isotropic", "general, noisy"])
def test_within_sampling_error(name, x64):
    """All entries of two samples; controls: tokens taken as independent, a pairing dropped, w taken as its mean."""
    task = TASKS[name]
    mean, second, cross = gram_moments(task)
    product = gram_moments(replace(task, context_size=10**12)).second
    for seed in range(2):
        G, w = sampled_gram(seed, task, 20_000)
        pairs, with_w = np.einsum("smn,spq->smnpq", G, G), np.einsum("si,smn->simn", w, G)
        assert max(largest_z(G, mean), largest_z(pairs, second), largest_z(with_w, cross)) < BOUND
        assert largest_z(pairs, np.multiply.outer(mean, mean)) > 2 * BOUND
        assert largest_z(pairs, second - product.transpose(0, 2, 1, 3) / task.context_size) > 2 * BOUND
        assert largest_z(with_w, np.multiply.outer(task.prior_mean, mean)) > 2 * BOUND
