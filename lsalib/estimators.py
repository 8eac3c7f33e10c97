"""Predictors to compare attention with: one-step gradient descent and its relatives,
for one example each.
"""

import jax
import jax.numpy as jnp

from lsalib import _check
from lsalib._arrays import Covariance, Features, Labels, Real, Scalar, Vector

__all__ = ["bayes", "debiased_gd", "delta_rule", "one_step_gd"]


@_check.compiled
def one_step_gd(
    X: Features, y: Labels, x_q: Vector, w0: Vector, step_size: Real
) -> Scalar:
    r"""Prediction after one gradient step on the context's squared loss (eqs. 9-10).

    .. math:: f = w_1^\top x_q, \qquad w_1 = w_0 - \frac{\eta}{C} X^\top (X w_0 - y)

    The loss is `\| X w_0 - y \|^2 / (2C)`; its factor 1/2 matters when step sizes are
    compared.

    Args:
        X, y, x_q: context and query, (C, d), (C,), (d,).
        w0: where the step starts, (d,).
        step_size: `\eta`, a number.

    Example:
        >>> X, y, x_q, w_0 = jnp.eye(2), [1.0, 2.0], [1.0, 1.0], [0.0, 0.0]
        >>> float(one_step_gd(X, y, x_q, w_0, step_size=2.0))
        3.0

    Source: section 4.1 of arXiv 2512.04268.
    """
    return _step(X, y, x_q, w0, step_size, centered=False)


@_check.compiled
def debiased_gd(
    X: Features, y: Labels, x_q: Vector, w0: Vector, step_size: Real
) -> Scalar:
    r"""Prediction after one gradient step on the *centered* context: the means of
    labels and features are subtracted.

    .. math:: f = w_1^\top x_q, \qquad w_1 = w_0 + \frac{\eta}{C} \sum_i (x_i - \bar x)
       (r_i - \bar r),
       \qquad r = y - X w_0

    Adding a constant to all labels changes nothing. The division is by C, as in
    ``one_step_gd``.

    Args:
        X, y, x_q, w0, step_size: as in ``one_step_gd``.

    Example:
        >>> float(debiased_gd([[0.0], [2.0]], [5.0, 7.0], [1.0], [0.0], step_size=1.0))
        1.0

    Source: the predictor that He et al. (arXiv 2503.12734) find in trained softmax
    attention, started from w0.
    """
    return _step(X, y, x_q, w0, step_size, centered=True)


@_check.compiled
def delta_rule(
    X: Features, y: Labels, x_q: Vector, w0: Vector, step_size: Real
) -> Scalar:
    r"""Prediction after gradient descent on one example at a time: the delta rule of
    fast weights.

    .. math:: f = w_C^\top x_q, \qquad w_i = w_{i-1} + \eta (y_i - w_{i-1}^\top x_i) \,
       x_i

    Args:
        X, y, x_q, step_size: as in ``one_step_gd``.
        w0: the first state, (d,).

    Example:
        >>> X, y, x_q, w_0 = jnp.eye(2), [1.0, 2.0], [1.0, 1.0], [0.0, 0.0]
        >>> float(delta_rule(X, y, x_q, w_0, step_size=0.5))
        1.5

    Source: the update of DeltaNet (Schlag et al., 2021).
    """
    _check.context(X, y, x_q)
    _check.shape("w0", w0, x_q.shape)
    _check.shape("step_size", step_size, ())

    def step(w, example):
        x, label = example
        return w + step_size * (label - w @ x) * x, None

    return x_q @ jax.lax.scan(step, w0, (X, y))[0]


def bayes(
    X: Features,
    y: Labels,
    x_q: Vector,
    prior_mean: Vector,
    prior_cov: Covariance = None,
    noise_std: Real = 0.0,
) -> Scalar:
    r"""Prediction of the posterior mean: no predictor has a smaller risk.

    .. math:: f = w^\top x_q, \qquad w = w_\star + \Psi X^\top (X \Psi X^\top + \sigma^2
       I)^+ (y - X w_\star)

    The posterior is conditioned on one example after the other. This factorizes no
    matrix, so several such predictors can run in one program. Without noise, an example
    adds nothing if those before it determine its label.

    Args:
        X, y, x_q: context and query, (C, d), (C,), (d,).
        prior_mean: `w_\star`, (d,).
        prior_cov: `\Psi`, (d, d); None means the identity.
        noise_std: `\sigma`, the standard deviation of the label noise.

    Example:
        >>> round(float(bayes(jnp.eye(2), [1.0, 2.0], [1.0, 1.0], [0.0, 0.0])), 5)
        3.0

    Source: Gaussian conditioning; the ridge predictor when Psi is the identity.
    """
    noise_std = _check.number("noise_std", noise_std, minimum=0.0)
    X, y, x_q, prior_mean, cov, noise_std = _check.floats(
        ("prior_cov",),
        X=X,
        y=y,
        x_q=x_q,
        prior_mean=prior_mean,
        prior_cov=prior_cov,
        noise_std=noise_std,
    )
    _check.context(X, y, x_q)  # before the covariance is compared with it
    if cov is None:
        cov = jnp.eye(len(x_q), dtype=X.dtype)
    else:
        _check.covariance("prior_cov", prior_cov, len(x_q))
    _check.shape("prior_mean", prior_mean, x_q.shape)
    return _bayes(X, y, x_q, prior_mean, cov, noise_std)


def _step(X, y, x_q, w0, step_size, *, centered: bool):
    _check.context(X, y, x_q)
    _check.shape("w0", w0, x_q.shape)
    _check.shape("step_size", step_size, ())
    residual = y - X @ w0
    residual = residual - residual.mean() if centered else residual
    return x_q @ w0 + step_size * (x_q @ (X.T @ residual)) / len(y)


@jax.jit
def _bayes(X, y, x_q, prior_mean, prior_cov, noise_std):
    # In units in which neither features nor weights are so large or small that a
    # product of four of them leaves float32.
    units = jnp.abs(X).max(), jnp.sqrt(jnp.trace(prior_cov) / len(x_q))
    length, deviation = (jnp.where(unit > 0, unit, 1) for unit in units)
    prior_cov = (prior_cov + prior_cov.T) / 2 / deviation / deviation
    y = (y - X @ prior_mean) / length / deviation
    X, noise_std = X / length, noise_std / length / deviation
    rounding = 8 * len(x_q) * jnp.finfo(X.dtype).eps

    def next_column(rest, j):
        new = rest[j, j] > rounding * prior_cov[j, j]
        column = jnp.where(new, rest[:, j] / jnp.sqrt(jnp.where(new, rest[j, j], 1)), 0)
        return rest - jnp.outer(column, column), column

    def condition(posterior, example):
        # A root of the covariance instead of the covariance itself keeps twice as many
        # digits (Potter's update).
        w, root = posterior
        x, label = example
        spread = root.T @ x
        variance = spread @ spread
        # Where earlier examples determine x'w, only rounding is left.
        new = variance > rounding**2 * (x @ prior_cov @ x)
        total = jnp.where(new, variance + noise_std**2, 1)
        gain = jnp.where(new, root @ spread / total, 0)
        root = root - jnp.outer(gain, spread) / (1 + noise_std / jnp.sqrt(total))
        return (w + gain * (label - x @ w), root), None

    columns = jax.lax.scan(next_column, prior_cov, jnp.arange(len(x_q)))[1]
    start = jnp.zeros_like(prior_mean), columns.T
    w = jax.lax.scan(condition, start, (X, y))[0][0]
    return x_q @ (prior_mean + deviation * w)
