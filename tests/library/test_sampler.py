"""The sampler's law, by moments and by distribution, and the same for compressed contexts."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from theory_reference import GENERAL, largest_z, z_bound

from lsalib import _white, theory
from lsalib.attention import embed, gram, init, lsa
from lsalib.tasks import sample

SEEDS = (0, 1, 2)
ALPHA = 1e-4  # chance that a right sampler fails one of these tests, over all its comparisons


def general_task(context_size=7, noise_std=0.7):
    return replace(GENERAL, context_size=context_size, noise_std=noise_std)


def fit(values, expected):
    """Whether the means of rows may be these; where they are, it says no with probability ALPHA."""
    return largest_z(values, expected) < z_bound(values[0].size, ALPHA)


def projection_p_value(vectors, cov, mean=0.0, seed=0):
    """Kolmogorov-Smirnov of random projections of rows against their normal law; Bonferroni over projections."""
    directions = np.random.default_rng(seed).standard_normal((10, vectors.shape[1]))
    scale = np.sqrt(np.einsum("ki,ij,kj->k", directions, cov, directions))
    p = [stats.kstest((vectors - mean) @ v / s, "norm").pvalue for v, s in zip(directions, scale, strict=True)]
    return min(p) * len(p)


@pytest.mark.parametrize("seed", SEEDS)
def test_features_queries_and_weights_are_normal(seed):
    """Their joint law, by random projections; the control is a factor of the covariance on the wrong side."""
    task = general_task()
    batch = jax.tree.map(np.asarray, sample(jax.random.key(seed), task, 20_000))
    tokens = np.concatenate([batch.X[:, 0], batch.x_q, batch.w], axis=1)
    cov = np.zeros((9, 9))
    cov[:3, :3] = cov[3:6, 3:6] = task.feature_cov
    cov[6:, 6:] = task.prior_cov
    mean = np.concatenate([np.zeros(6), task.prior_mean])
    assert projection_p_value(tokens, cov, mean) > ALPHA
    assert projection_p_value(batch.X[:, 0], task.feature_cov) > ALPHA
    L = np.linalg.cholesky(task.feature_cov)
    assert projection_p_value(batch.X[:, 0] @ np.linalg.inv(L).T @ L, task.feature_cov) < ALPHA


@pytest.mark.parametrize("seed", SEEDS)
def test_moments_to_order_four(seed):
    """Of features, query, task and noise; the control has a fourth moment of 2.6 where 3 is right."""
    task = general_task()
    X, y, x_q, _, w = map(np.asarray, sample(jax.random.key(seed), task, 100_000, dtype=jnp.float32))
    noise = y - np.einsum("bcd,bd->bc", X, w)
    whitened = lambda cov, rows: np.linalg.solve(np.linalg.cholesky(cov), rows.T).T
    parts = (task.feature_cov, X[:, 1]), (task.feature_cov, x_q), (task.prior_cov, w - task.prior_mean)
    white = np.column_stack([*(whitened(*part) for part in parts), noise[:, :2] / task.noise_std]).astype(np.float64)
    n = white.shape[1]
    pairs = np.einsum("bi,bj->bij", white, white)
    assert fit(white, 0.0) and fit(pairs, np.eye(n)) and fit(pairs * white[:, :, None], 0.0)
    squares = white**2
    assert fit(np.einsum("bi,bj->bij", squares, squares), 1.0 + 2 * np.eye(n))
    # The control: a sum of three uniform numbers.
    near = 2 * np.random.default_rng(seed).random((100_000, 3)).sum(1) - 3
    assert fit(near**2, 1.0) and not fit(near**4, 3.0)


normal = jax.jit(_white.normal, static_argnums=(1, 2))
chi_numbers = jax.jit(_white.chi, static_argnums=2)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_normal_numbers_pass_kolmogorov_smirnov(dtype, x64):
    """In both types, and without correlations inside a draw; 2% of another scale are seen."""
    numbers = np.asarray(normal(jax.random.key(3), (400_001,), dtype)).astype(np.float64)
    assert stats.kstest(numbers, "norm").pvalue > ALPHA
    assert stats.kstest(1.02 * numbers, "norm").pvalue < ALPHA
    # The two words of one threefry block lie half the array apart: they must not know of each other.
    half = len(numbers) // 2
    first, second = numbers[:half], numbers[half : 2 * half]
    for a, b in ((first, second), (first**2, second**2), (first[1:], first[:-1])):
        assert abs(np.corrcoef(a, b)[0, 1]) * np.sqrt(len(a)) < stats.norm.isf(ALPHA / 2 / 3)


@pytest.mark.parametrize("degrees", [[2.0, 3.0, 11.0], [9_991.0, 10_000.0, 1e6]])
def test_chi_numbers_have_their_law(degrees):
    """For few degrees of freedom and for many; the control has 2% more."""
    chi = np.asarray(chi_numbers(jax.random.key(1), np.float32(degrees), 200_000)).astype(np.float64)
    for row, k in zip(chi, degrees, strict=True):
        assert stats.kstest(row, stats.chi(k).cdf).pvalue > ALPHA / len(degrees)
    assert stats.kstest(chi[0], stats.chi(degrees[0] * 1.02 + 1).cdf).pvalue < ALPHA


def gram_statistics(batch):
    """What a prediction reads of a context, and its relation to the task: projections of (G, w), (B, 12)."""
    G = np.asarray(jax.vmap(gram)(batch.X, batch.y))
    rng = np.random.default_rng(7)
    M = rng.standard_normal((8, *G.shape[1:]))
    read = np.einsum("bij,kij->bk", G, M)
    volume = np.linalg.slogdet(G + 1e-3 * np.eye(4))[1]
    return np.column_stack([read, read[:, :3] * np.asarray(batch.w), volume])


def smallest_p(a, b):
    p = [stats.ks_2samp(x, y).pvalue for x, y in zip(a.T, b.T, strict=True)]
    return min(p) * len(p)


@pytest.mark.parametrize("noise_std", [0.0, 0.7])
@pytest.mark.parametrize("context_size", [5, 40])
def test_compressed_contexts_have_the_law_of_the_gram_matrix(context_size, noise_std):
    """What a prediction reads has one law; the controls are a longer context and a wrong divisor."""
    task = general_task(context_size, noise_std)
    tokens = sample(jax.random.key(0), task, 30_000)
    short = sample(jax.random.key(1), task, 30_000, compress=True)
    assert tokens.X.shape[1] == context_size and short.X.shape[1] == 3 + (noise_std > 0)
    assert smallest_p(gram_statistics(tokens), gram_statistics(short)) > ALPHA
    longer = general_task(context_size + max(1, context_size // 4), noise_std)
    other = sample(jax.random.key(1), longer, 30_000, compress=True)
    assert smallest_p(gram_statistics(tokens), gram_statistics(other)) < ALPHA
    X, y = (jnp.asarray(np.asarray(part) * np.float32(1.05**0.5)) for part in (short.X, short.y))
    scaled = short._replace(X=X, y=y)
    assert smallest_p(gram_statistics(tokens), gram_statistics(scaled)) < ALPHA


@pytest.mark.parametrize("compress", [False, True])
def test_predictions_from_samples_have_the_exact_risk(compress):
    """The literal layer on fresh samples has the risk of the formula, and not that of a longer context."""
    task = general_task(context_size=9)
    params = init(jax.random.key(9), 3, 2, 0.4)

    @jax.jit
    @jax.vmap
    def error(X, y, x_q, target):
        return (lsa(params, embed(X, y, x_q, 0.3)) - target) ** 2

    batches = [sample(jax.random.key(seed), task, 50_000, compress=compress) for seed in SEEDS]
    errors = np.concatenate([error(*batch[:4]) for batch in batches]).astype(np.float64)
    assert fit(errors, float(theory.population_risk(params, task, bias=0.3)))
    longer = general_task(context_size=10)
    assert not fit(errors, 1.05 * float(theory.population_risk(params, longer, bias=0.3)))


def test_a_short_context_is_not_compressed_and_keys_repeat():
    """The same key gives the same batch, another one another."""
    for context_size in (3, 4):  # with label noise tokens have p = 4 entries: four of them are no more than these
        task = general_task(context_size)
        a, b = (sample(jax.random.key(0), task, 5, compress=compress) for compress in (False, True))
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
    assert not np.array_equal(a.X, sample(jax.random.key(1), task, 5).X)
