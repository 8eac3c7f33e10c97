"""What the page on softmax attention says of rare noise, of single heads and of the patterns' order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsalib import attention, tasks, theory
from lsalib.book import sampling, stored

RUN = stored.load("softmax_heads")
DIM, LENGTH, NOISE = (RUN.about[name] for name in ("dim", "context_size", "noise_var"))
TASK = tasks.GaussianTask(np.zeros(DIM), LENGTH, None, np.eye(DIM) / DIM, NOISE**0.5)


@pytest.fixture(scope="module")
def rare_spikes():
    """One feature, six examples, noise of variance one that is zero but for rare spikes: 400 batches of 1000 tasks."""
    rng, rare = np.random.default_rng(0), 0.01
    points, white = rng.normal(size=(2, 400, 1000, 6))
    slopes, queries = rng.normal(size=(2, 400, 1000))
    spikes = rng.choice([-1, 1], points.shape) * (rng.random(points.shape) < rare) / rare**0.5
    return points, slopes, queries, white, spikes, rare


def centered(points):
    return points - points.mean(-1, keepdims=True)


@pytest.mark.claim("softmax-one-example-less")
def test_rare_spikes_leave_the_risk_of_one_example_fewer(rare_spikes):
    points, slopes, queries, white, spikes, _ = rare_spikes
    exact = theory.debiased_risk(tasks.GaussianTask([0.0], 6, noise_std=1.0), 1.0)

    def off(noise):
        labels = points * slopes[..., None] + noise
        errors = queries * ((centered(points) * labels).mean(-1) - slopes)
        return abs(sampling.z_score((errors**2).mean(1)[:, None], exact))

    assert off(spikes) < 5
    # Control: noise of the same variance that grows with the features.
    assert off(points * white) > 5


@pytest.mark.claim("softmax-one-example-less")
def test_rare_spikes_do_not_leave_the_distribution(rare_spikes):
    """If all weights are one point, a debiased step on six examples errs where one of six labels has a spike."""
    points, _, _, _, spikes, rare = rare_spikes
    expected, error = 1 - (1 - rare) ** 6, (0.06 / spikes[..., 0].size) ** 0.5
    share = lambda noise: (noise != 0).mean()
    assert abs(share((centered(points) * spikes).mean(-1)) - expected) < 5 * error
    # Control: a plain step on five examples errs less often.
    assert abs(share((points * spikes)[..., :5].mean(-1)) - expected) > 5 * error


@pytest.mark.claim("softmax-multi-beats-single")
def test_trained_single_heads_reach_the_best_single_reduced_head():
    """A scan of omega on common samples, the best mu for each, against the stored losses; so does no pair."""
    omegas = np.float32(np.linspace(0.4, 0.64, 13))

    def both(X, y, x_q):
        every = jax.vmap(attention.reduced_softmax, (0, None, None, None, None))
        return every(omegas[:, None], jnp.ones(1, jnp.float32), X, y, x_q)

    def products(key):
        batch = tasks.sample(key, TASK, 2**12, dtype=jnp.float32)
        out = jax.vmap(both)(batch.X, batch.y, batch.x_q)
        return jnp.stack([(out * batch.target[:, None]).mean(0), (out**2).mean(0)])

    cross, square = sampling.by_batch(products, [2], 32).mean(0)
    risks = 1 - cross**2 / square
    assert 0 < risks.argmin() < len(omegas) - 1
    ends = RUN.arrays["loss"][:, -40:, 0].mean(1)
    np.testing.assert_allclose(ends, risks.min(), rtol=0.02)
    # The single heads' own scale is the scan's, and not that of the approximation, d^(-1/2).
    circuits = [stored.circuits(RUN, seed, 0)[1][0, :DIM, :DIM] for seed in range(4)]
    sizes = [abs(np.trace(A)) / DIM for A in circuits]
    np.testing.assert_allclose(sizes, omegas[risks.argmin()], atol=0.03)
    assert min(sizes) - DIM**-0.5 > 0.03
    # The control: a debiased step has half the risk.
    assert theory.debiased_risk(TASK) < 0.5 * risks.min()


@pytest.mark.claim("softmax-ov-zero-sum", "softmax-kq-homogeneous")
@pytest.mark.parametrize("layer", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_sums_vanish_first_and_sizes_agree_last(layer, seed):
    """Four and eight heads: zero sums by step 1,000, when sizes differ; equal sizes at the end."""

    def sum_and_spread(step):
        b, A = stored.circuits(RUN, seed, layer, RUN.about["snapshots"].index(step))
        mu, omega = b[:, 0, -1], np.trace(A[:, :DIM, :DIM], axis1=1, axis2=2) / DIM
        active = abs(omega[abs(mu) > 0.1 * abs(mu).max()])
        return abs(mu.sum()) / abs(mu).sum(), active.max() / active.min()

    (early_sum, early_spread), (late_sum, late_spread) = map(sum_and_spread, (1000, 100_000))
    assert max(early_sum, late_sum) < 0.02 and late_spread < 1.15
    # Control: when the sums vanish, the sizes still differ.
    assert early_spread > 1.15


@pytest.mark.claim("softmax-kq-homogeneous")
@pytest.mark.parametrize("seed", range(3))
def test_heads_of_one_multiple_and_zero_sum_predict_zero(seed, x64):
    """So the multiples of a layer with a zero sum cannot all be equal."""
    rng = np.random.default_rng(seed)
    X, y, x_q = rng.normal(size=(7, 4)), rng.normal(size=7), rng.normal(size=4)
    mu = rng.normal(size=3)
    mu -= mu.mean()
    predict = lambda omega: float(attention.reduced_softmax(jnp.asarray(omega), jnp.asarray(mu), X, y, x_q))
    assert abs(predict([0.3, 0.3, 0.3])) < 1e-12
    # Control: one sign differs.
    assert abs(predict([0.3, -0.3, 0.3])) > 1e-3
