"""What the page on the gradient step says of one size holds at others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsalib import attention, estimators, tasks

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
    yq = jax.vmap(attention.yq_lsa, (None, None, 0, 0, 0))(attention.gd_weights(w_star, eta), w_star, X, y, x_q)
    off = lambda predictions: np.abs(np.asarray(predictions) - exact).max() / np.abs(exact).max()
    assert max(off(layer(eta, w_star)), off(library), off(yq)) < 1e-12
    # Controls: both factors 1/C, and the guess left at zero.
    assert min(off(layer(eta / C, w_star)), off(layer(eta, 0 * w_star))) > 1e-2
