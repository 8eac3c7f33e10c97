"""The sampler's distribution, by moments, and the same for compressed contexts by what
a prediction reads.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from theory_reference import GENERAL, batch_of, largest_z, z_bound

from lsalib import _draw

ALPHA = 1e-4  # chance that a right sampler fails one of these tests
MEAN = jnp.float32(GENERAL.prior_mean)
ROOTS = [
    jnp.float32(np.linalg.cholesky(cov))
    for cov in (GENERAL.feature_cov, GENERAL.prior_cov)
]


def fits(values, expected):
    """Whether the means of rows may be these; where they are, it says no with
    probability ALPHA.
    """
    return largest_z(values, expected) < z_bound(values[0].size, ALPHA)


def test_moments_to_order_four():
    """Of features, query, task and noise, all white; the control has a fourth moment of
    2.6 where 3 is right.
    """
    task = replace(GENERAL, context_size=5)
    X, y, x_q, target, w = batch_of(0, task, 100_000)
    assert_allclose(target, (x_q * w).sum(1), rtol=1e-4, atol=1e-4)
    noise = y - np.einsum("bcd,bd->bc", X, w)
    whitened = lambda cov, rows: np.linalg.solve(np.linalg.cholesky(cov), rows.T).T
    parts = (
        (task.feature_cov, X[:, 1]),
        (task.feature_cov, x_q),
        (task.prior_cov, w - task.prior_mean),
    )
    white = [*(whitened(*part) for part in parts), noise[:, :2] / task.noise_std]
    white = np.float64(np.column_stack(white))
    n, pairs = white.shape[1], np.einsum("bi,bj->bij", white, white)
    assert fits(white, 0.0) and fits(pairs, np.eye(n))
    assert fits(pairs * white[:, :, None], 0.0)
    assert fits(np.einsum("bi,bj->bij", white**2, white**2), 1.0 + 2 * np.eye(n))
    # a sum of three uniform numbers
    near = 2 * np.random.default_rng(0).random((100_000, 3)).sum(1) - 3
    assert fits(near**2, 1.0) and not fits(near**4, 3.0)


@pytest.mark.parametrize("degrees", [[2.0, 3.0, 11.0], [9_991.0, 10_000.0, 1e6]])
def test_chi_numbers(degrees):
    """For few degrees of freedom and for many, by Kolmogorov and Smirnov's test; the
    control has 2% more, and one.
    """
    chi = np.float64(_draw._chi(jax.random.key(1), jnp.float32(degrees), 100_000))
    for row, k in zip(chi, degrees, strict=True):
        assert stats.kstest(row, stats.chi(k).cdf).pvalue > ALPHA / len(degrees)
    assert stats.kstest(chi[0], stats.chi(degrees[0] * 1.02 + 1).cdf).pvalue < ALPHA


def read_by_predictions(X, y, w):
    """Projections of the Gram matrix, its volume, and its products with the task, (B,
    12).
    """
    z = np.concatenate([X, y[..., None]], 2)
    G = np.swapaxes(z, 1, 2) @ z / z.shape[1]
    read = G.reshape(len(G), -1) @ np.random.default_rng(7).standard_normal((16, 8))
    return np.column_stack(
        [read, read[:, :3] * w, np.linalg.slogdet(G + 1e-3 * np.eye(4))[1]]
    )


@pytest.mark.parametrize(("context_size", "noise_std"), [(5, 0.7), (40, 0.0)])
def test_compressed_contexts_have_the_distribution_of_the_gram_matrix(
    context_size, noise_std
):
    """Two samples against each other; the controls are a longer context and a wrong
    divisor.
    """

    def of(size, seed, compress):
        noisy = noise_std > 0
        key, n = jax.random.key(seed), 20_000
        white = _draw.draw(key, 3, size, n, noisy=noisy, compress=compress)
        data = _draw.data_from_draw(white, MEAN, *ROOTS, noise_std if noisy else None)
        X, y, _, w = (np.moveaxis(part, -1, 0) for part in data)
        return X, y, w

    X, y, w = short = of(context_size, 1, True)
    assert X.shape[1] == 3 + (noise_std > 0)
    tokens = read_by_predictions(*of(context_size, 0, False))

    def p(*batch):
        columns = zip(tokens.T, read_by_predictions(*batch).T, strict=True)
        return 12 * min(stats.ks_2samp(*pair).pvalue for pair in columns)

    assert p(*short) > ALPHA
    longer = of(context_size + max(1, context_size // 2), 1, True)
    assert max(p(*longer), p(1.05**0.5 * X, 1.05**0.5 * y, w)) < ALPHA


def test_long_sums_are_contracted_as_short_ones():
    x = jnp.asarray(np.random.default_rng(1).normal(size=(2, 40, 3)), jnp.float32)
    for d in (3, 40):
        assert_allclose(
            _draw.contract(x[:, :d], x[0, :d]),
            np.einsum("mdb,db->mb", x[:, :d], x[0, :d]),
            rtol=1e-4,
            atol=1e-5,
        )
