"""Gradient steps, the delta rule and the posterior mean, against NumPy and against each
other.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from refusals import refusals
from theory_reference import root

from lsalib.estimators import bayes, debiased_gd, delta_rule, one_step_gd

d, C = 3, 5
rng = np.random.default_rng(0)
X, y = rng.normal(size=(C, d)), rng.normal(size=C)
x_q, w0 = rng.normal(size=(2, d))


def test_a_debiased_step_is_a_plain_one_on_one_example_fewer(x64):
    """A rotation that takes the mean to one coordinate leaves C - 1 examples.

    A shift of labels changes nothing.
    """
    rotation = np.linalg.qr(np.column_stack([np.ones(C), np.eye(C)[:, 1:]]))[0][:, 1:].T
    shorter = one_step_gd(rotation @ X, rotation @ y, x_q, w0, 0.7 * (C - 1) / C)
    debiased = float(debiased_gd(X, y, x_q, w0, 0.7))
    assert_allclose(debiased, shorter, rtol=1e-12)
    assert_allclose(debiased_gd(X, y + 5, x_q, w0, 0.7), debiased, rtol=1e-12)
    assert abs(float(one_step_gd(X, y + 5, x_q, w0, 0.7)) - debiased) > 1e-2


def test_delta_rule_by_loops(x64):
    """Control: the examples in another order."""
    w = w0
    for x, label in zip(X, y, strict=True):
        w = w - 0.3 * (w @ x - label) * x
    found = delta_rule(X, y, x_q, w0, 0.3)
    assert_allclose(found, w @ x_q, rtol=1e-12)
    assert abs(delta_rule(X[::-1], y[::-1], x_q, w0, 0.3) - found) > 1e-3


def posterior_by_pinv(X, y, q, P, noise_std):
    """The answers of the posterior means of a batch, in NumPy's float64."""
    gram = X @ P @ X.swapaxes(1, 2) + noise_std**2 * np.eye(X.shape[1])
    gain = P @ X.swapaxes(1, 2) @ np.linalg.pinv(gram, rcond=1e-9, hermitian=True)
    return np.einsum("bi,bi->b", q, w0 + np.einsum("bic,bc->bi", gain, y - X @ w0))


of_batch = jax.jit(jax.vmap(bayes, (0, 0, 0, None, None, None)))
FULL = np.diag([1.0, 2.0, 0.5]) + 0.3
SINGULAR = np.outer([1.0, 2.0, -1.0], [1.0, 2.0, -1.0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("noise_std", [0.0, 0.5, 3.0])
def test_bayes_is_the_posterior_mean(x64, noise_std, dtype):
    """By NumPy's pseudo-inverse, for fewer examples than features, as many and more,
    and a singular covariance.

    Control: the noise's standard deviation in place of its variance is another
    prediction.
    """
    rng = np.random.default_rng(7)
    for P in (FULL, SINGULAR):
        X, q = rng.normal(size=(40, C, d)), rng.normal(size=(40, d))
        w = w0 + rng.normal(size=(40, d)) @ root(P, d).T
        y = np.einsum("bcd,bd->bc", X, w) + noise_std * rng.normal(size=(40, C))
        for size in (2, 3, 5):
            given = [jnp.asarray(part, dtype) for part in (X[:, :size], y[:, :size], q)]
            rest = [jnp.asarray(part, dtype) for part in (w0, P, noise_std)]
            found = of_batch(*given, *rest)
            known = partial(posterior_by_pinv, X[:, :size], y[:, :size], q, P)
            # Without noise the prediction is as ill-conditioned as the context.
            rounding = 1e-7 if dtype == np.float64 else 2e-2 if noise_std == 0 else 1e-4
            assert found.dtype == dtype
            close = {"rtol": rounding, "atol": rounding}
            assert_allclose(found, known(noise_std), **close)
            if noise_std:
                assert np.abs(np.float64(found) - known(noise_std**0.5)).max() > 1e-2


def test_bayes_under_noise_of_any_size():
    """So much noise that its square overflows leaves the prior, and so little that it
    hardly counts is averaged.
    """
    assert float(bayes(X, y, x_q, w0, noise_std=1e20)) == np.float32(x_q) @ np.float32(
        w0
    )
    small = bayes(np.repeat(X[:1], 2, 0), [0.0, 1.0], X[0], 0 * w0, noise_std=1e-4)
    assert_allclose(small, 0.5, rtol=1e-3)


def test_bayes_has_a_gradient_without_noise(x64):
    """More examples than features, so that some add nothing: the prior mean has no
    influence, the labels have.
    """
    predict = lambda w, y: bayes(X, y, x_q, w, FULL)
    of_prior, of_labels = jax.grad(predict, (0, 1))(
        jnp.asarray(w0), jnp.asarray(X @ w0)
    )
    assert_allclose(of_prior, 0, atol=1e-9)
    assert_allclose(X.T @ of_labels, x_q, rtol=1e-9)


def test_bayes_factorizes_nothing():
    """Factorizations in one program can block each other's threads.

    Control: a solve calls LAPACK.
    """
    text = lambda f: jax.jit(f).lower(X, y, x_q).as_text()
    assert "lapack" not in text(lambda X, y, x_q: bayes(X, y, x_q, w0, FULL, 0.5))
    assert "lapack" in text(lambda X, y, x_q: x_q @ jnp.linalg.solve(X.T @ X, X.T @ y))


given = X, y, x_q


@pytest.mark.parametrize("size", [1e-18, 1e-9, 1e9, 1e18])
def test_bayes_in_any_units(size):
    """Features and labels in other units, in float32: the posterior mean's formula."""
    X, w = np.random.default_rng(0).normal(size=(4, 3)), np.array([1.0, 2.0, 3.0])
    gain = np.linalg.solve(X.T @ X + 0.09 * np.eye(3), X.T @ X @ w)
    zero, at = np.zeros(3, np.float32), np.float32([1.0, -1.0, 2.0])
    noise = {"noise_std": 0.3 * size}
    for features, query, prior in (
        (X, at, {"prior_cov": size**2 * np.eye(3)}),
        (size * X, size * at, {}),
    ):
        found = bayes(
            np.float32(features), np.float32(size * X @ w), query, zero, **prior | noise
        )
        assert_allclose(found / size, at @ gain, rtol=1e-4)


test_bad_input_is_named = refusals(
    (
        "X must have no masked entries",
        lambda: one_step_gd(
            np.ma.masked_less(np.eye(2), 0.5), [1, 2], [1, 1], [0, 0], 1.0
        ),
    ),
    (
        "noise_std must be a finite number of at least 0, got -1",
        lambda: bayes(*given, w0, noise_std=-1.0),
    ),
)
