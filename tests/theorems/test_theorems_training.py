"""Training from small weights: the risk and the gradient flow of one head and its
guess, in eight numbers.
"""

import jax
import numpy as np
import pytest
from theory_reference import dense_risk, listed_moments

from lsalib import theory
from lsalib.attention import LSAParams
from lsalib.tasks import GaussianTask


def eight(z, d, C, size, variance=2.0):
    """The risk of the book's proposition; ``variance`` is that of the mean squared
    label, over d, for C without end.
    """
    b_1, b_y, a_11, a_1y, a_y1, a_yy, theta, nu = z
    b_1, a_y = b_1 + size * b_y, a_y1 + nu * a_yy
    a_1 = a_11 + nu * a_1y + size * a_y
    P, Q, T, step = b_1 * a_1, b_y * a_y, b_1 * a_y + b_y * a_1, C / (C + d + 1)
    stand_in = (
        (size - nu - P - d * Q) ** 2
        + variance * d * Q**2
        + 2 / C * (P**2 + 2 * P * Q + d * (d + 2) * Q**2)
    )
    others = (d - 1) * (1 - 2 * theta * b_y + theta**2 * (b_y**2 / step + b_1**2 / C))
    return stand_in + T**2 / step - 2 * T + 1 + others


def head(z, d):
    """The vector b, the matrix A and the guess."""
    b, A, v = np.zeros(d + 1), z[6] * np.eye(d + 1), np.zeros(d)
    b[[0, -1]], A[np.ix_([0, -1], [0, -1])], v[0] = z[:2], z[2:6].reshape(2, 2), z[7]
    return b, A, v


@pytest.mark.claim("training-time", kind="brute force")
def test_one_head_in_eight_numbers(x64):
    """The risk is the sum over all outcomes; four balanced matrices and (b, A, v) move
    as stated, others do not.
    """
    rng = np.random.default_rng(0)
    for d, C in ((2, 3), (3, 2)):
        size, z = 1.7, rng.normal(size=8)
        b, A, v = head(z, d)
        task = GaussianTask([size, *np.zeros(d - 1)], C)
        M = np.einsum("m,nj->jmn", b, A)
        risk = dense_risk(M, task, v, 0.0, listed_moments(task))
        assert eight(z, d, C, size) == pytest.approx(risk, rel=1e-10)
        assert abs(eight(z, d, C, size, variance=1.0) - risk) > 1e-3

    # The last case, with the gradient by all four matrices.
    slope = np.array(jax.grad(eight)(z, d, C, size)) / [*np.ones(6), d - 1, 1.0]
    by_b, by_A, by_v = head(slope, d)
    (U, values, V), norm = np.linalg.svd(A), np.linalg.norm(b)
    one, turned = (np.linalg.qr(rng.normal(size=(d + 1, d + 1)))[0] for _ in range(2))
    roots, p = np.sqrt(values)[:, None], one[0] * np.sqrt(norm)
    db = norm * by_b + b * (b @ by_b) / norm
    dA = (U * values) @ U.T @ by_A + by_A @ (V.T * values) @ V
    for stretch, balanced in ((1.0, True), (1.5, False)):
        W_K, W_Q = stretch * turned @ (roots * U.T), turned @ (roots * V) / stretch
        W_P, W_V = np.outer(np.eye(d + 1)[-1], p), np.outer(p, b) / norm
        params = LSAParams(*(W[None] for W in (W_K, W_Q, W_P, W_V)))
        by, by_guess = jax.grad(theory.population_risk, argnums=(0, 2))(params, task, v)
        K, Q, P, W = (np.array(part[0]) for part in by)
        np.testing.assert_allclose(W.T @ p + W_V.T @ P[-1], db, atol=1e-9)
        np.testing.assert_allclose(by_guess, by_v, atol=1e-9)
        assert (np.abs(K.T @ W_Q + W_K.T @ Q - dA).max() < 1e-9) == balanced
