"""What the page on the gradient step says of one size holds at others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsalib import attention, estimators, tasks, theory, training

SIZES = [(1, 2), (4, 59), (12, 30), (29, 7)]


@pytest.mark.claim("gd-in-one-head")
@pytest.mark.parametrize("seed", range(8))
def test_one_head_takes_the_gradient_step_at_every_size(x64, seed):
    """Layer and library agree with automatic differentiation, for random prior means and step sizes."""
    rng, (d, C) = np.random.default_rng(seed), SIZES[seed % len(SIZES)]
    w_star, eta = rng.normal(size=d) * 3, rng.uniform(0.1, 2)
    X, y, x_q, _, _ = tasks.sample(jax.random.key(seed), tasks.GaussianTask(w_star, C), 200)

    def step(X, y, x_q):
        loss = lambda w: jnp.sum((X @ w - y) ** 2) / (2 * C)
        return x_q @ (w_star - eta * jax.grad(loss)(w_star))

    @jax.jit
    def layer(step_size, guess):
        one = lambda X, y, x_q: attention.lsa(
            attention.gd_weights(w_star, step_size), attention.embed(X, y, x_q, guess @ x_q)
        )
        return jax.vmap(one)(X, y, x_q)

    exact = np.asarray(jax.vmap(step)(X, y, x_q))
    library = jax.vmap(estimators.one_step_gd, (0, 0, 0, None, None))(X, y, x_q, w_star, eta)
    off = lambda predictions: np.abs(np.asarray(predictions) - exact).max() / np.abs(exact).max()
    assert max(off(layer(eta, w_star)), off(library)) < 1e-12
    # Controls: both factors 1/C, and the guess left at zero.
    assert min(off(layer(eta / C, w_star)), off(layer(eta, 0 * w_star))) > 1e-2


@pytest.mark.claim("fig1-persistent-gap")
def test_training_on_the_exact_risk_ends_at_the_minimum(x64):
    """One and eleven heads without a guess agree with their exact minima to one part in ten thousand."""
    task = tasks.GaussianTask([2.0] * 10, context_size=10)
    runs = [training.Run(task, heads=heads) for heads in (11, 1)]
    fits = training.sweep(jax.random.key(0), runs, seeds=range(3), objective="population", dtype=jnp.float64)
    ends = np.array([np.asarray(fit.risk)[:, -1] for fit in fits])
    minimum = [[theory.optimal_risk(task)], [theory.least_risk(task, 1).risk]]
    np.testing.assert_allclose(ends, np.broadcast_to(minimum, ends.shape), rtol=1e-4)
    # Control: a formula with 2/(Cd) in place of 2/(Cd + 2) is ruled out.
    neighbor = theory.gd_risk(task) + 2 * 40 / 100
    assert (np.abs(ends[0] / neighbor - 1) > 1e-3).all()
