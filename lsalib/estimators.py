"""Predictors to compare attention with: one-step gradient descent and its relatives.

Arguments may be lists, numbers, or arrays of NumPy or JAX: all become arrays of the widest float type among them.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsalib import _arrays, _validate

__all__ = ["bayes", "debiased_gd", "delta_rule", "one_step_gd", "preconditioned_gd"]

Scalar = Float[Array, ""]


@_arrays.promoted
@jax.jit
def one_step_gd(
    X: Float[Array, "C d"],
    y: Float[Array, " C"],
    x_q: Float[Array, " d"],
    w0: Float[Array, " d"],
    step_size: float | Scalar,
) -> Scalar:
    r"""Prediction after one gradient step on the context's squared loss (eqs. 9-10).

    .. math:: f = w_1^\top x_q, \qquad w_1 = w_0 - \frac{\eta}{C} X^\top (X w_0 - y)

    The loss is `\| X w_0 - y \|^2 / (2C)`; its factor 1/2 matters when step sizes are compared.

    Args:
        X: context features, (C, d).
        y: context labels, (C,).
        x_q: query, (d,).
        w0: where the step starts, (d,).
        step_size: `\eta`.

    Returns:
        The prediction, a scalar.

    Raises:
        ValueError: if a shape does not fit.

    Example:
        >>> float(one_step_gd(jnp.eye(2), jnp.array([1.0, 2.0]), jnp.ones(2), jnp.zeros(2), 2.0))
        3.0

    Source: section 4.1 of arXiv 2512.04268.
    """
    _check_context(X, y, x_q, "w0", w0, step_size)
    residual = y - X @ w0
    return x_q @ w0 + step_size * (x_q @ (X.T @ residual)) / len(y)


@_arrays.promoted
@jax.jit
def preconditioned_gd(
    X: Float[Array, "C d"],
    y: Float[Array, " C"],
    x_q: Float[Array, " d"],
    w0: Float[Array, " d"],
    preconditioner: Float[Array, "d d"],
) -> Scalar:
    r"""Prediction after one preconditioned step.

    .. math:: f = w_1^\top x_q, \qquad w_1 = w_0 - \frac{1}{C} N X^\top (X w_0 - y)

    Args:
        X, y, x_q, w0: as in ``one_step_gd``.
        preconditioner: N, (d, d); a multiple of the identity gives ``one_step_gd``.

    Returns:
        The prediction, a scalar.

    Raises:
        ValueError: if a shape does not fit.

    Example:
        >>> N = jnp.diag(jnp.array([2.0, 0.0]))
        >>> float(preconditioned_gd(jnp.eye(2), jnp.array([1.0, 2.0]), jnp.ones(2), jnp.zeros(2), N))
        1.0

    Source: Ahn et al. (2023), in the notation of arXiv 2512.04268.
    """
    _check_context(X, y, x_q, "w0", w0)
    _validate.shape("preconditioner", preconditioner, (X.shape[1], X.shape[1]))
    return x_q @ w0 + x_q @ (preconditioner @ (X.T @ (y - X @ w0))) / len(y)


@_arrays.promoted
@jax.jit
def debiased_gd(
    X: Float[Array, "C d"],
    y: Float[Array, " C"],
    x_q: Float[Array, " d"],
    w0: Float[Array, " d"],
    step_size: float | Scalar,
) -> Scalar:
    r"""Prediction after one gradient step on the *centered* context: the means of labels and features are subtracted.

    .. math:: f = w_1^\top x_q, \qquad w_1 = w_0 + \frac{\eta}{C} \sum_i (x_i - \bar x) (r_i - \bar r),
       \qquad r = y - X w_0

    Adding a constant to all labels changes nothing. The division is by C, as in ``one_step_gd``.

    Args:
        X, y, x_q, w0, step_size: as in ``one_step_gd``.

    Returns:
        The prediction, a scalar.

    Raises:
        ValueError: if a shape does not fit.

    Example:
        >>> X, y = jnp.array([[0.0], [2.0]]), jnp.array([5.0, 7.0])
        >>> float(debiased_gd(X, y, jnp.ones(1), jnp.zeros(1), 1.0))
        1.0

    Source: the predictor that He et al. (arXiv 2503.12734) find in trained softmax attention, started from w0.
    """
    _check_context(X, y, x_q, "w0", w0, step_size)
    residual = y - X @ w0
    return x_q @ w0 + step_size * (x_q @ (X.T @ (residual - residual.mean()))) / len(y)


@partial(_arrays.promoted, skip=("normalized",))
def delta_rule(
    X: Float[Array, "C d"],
    y: Float[Array, " C"],
    x_q: Float[Array, " d"],
    w0: Float[Array, " d"],
    step_size: float | Scalar | Float[Array, " C"],
    decay: float | Scalar = 1.0,
    *,
    normalized: bool = False,
) -> Scalar:
    r"""Prediction after one gradient step on each example in turn, as fast-weight layers update their state.

    .. math:: f = w_C^\top x_q, \qquad w_{t+1} = \alpha w_t + \beta_t x_t (y_t - \alpha w_t^\top x_t)

    Args:
        X, y, x_q: as in ``one_step_gd``.
        w0: the first state, (d,).
        step_size: `\beta`, a number, or one for each example, (C,).
        decay: `\alpha`, by which the state is multiplied before each step.
        normalized: whether each step is divided by its example's squared length.

    Returns:
        The prediction, a scalar; its risk is ``theory.delta_rule_risk``.

    Raises:
        ValueError: if a shape does not fit or ``normalized`` is not True or False.

    Example:
        >>> float(delta_rule(jnp.eye(2), jnp.array([1.0, 2.0]), jnp.ones(2), jnp.zeros(2), [1.0, 0.5]))
        2.0

    Source: the update of DeltaNet (Schlag et al., 2021), with the decay of its gated form (Yang et al., 2025).
    """
    _check_context(X, y, x_q, "w0", w0)
    if jnp.ndim(step_size):
        _validate.shape("step_size", step_size, y.shape)
    _validate.shape("decay", decay, ())
    return _delta_rule(X, y, x_q, w0, step_size, decay, _validate.flag("normalized", normalized))


@partial(jax.jit, static_argnames="normalized")
def _delta_rule(X, y, x_q, w0, step_size, decay, normalized: bool) -> Scalar:
    def step(w, example):
        x, label, beta = example
        w = decay * w
        square = x @ x if normalized else jnp.ones_like(label)
        # An example of length zero adds nothing.
        return w + beta / jnp.where(square == 0, 1, square) * (label - w @ x) * x, None

    steps = jnp.broadcast_to(jnp.asarray(step_size, X.dtype), y.shape)
    return x_q @ jax.lax.scan(step, w0, (X, y, steps))[0]


# Matrices are not inverted in half precision.
@partial(_arrays.promoted, least=np.float32)
def bayes(
    X: Float[Array, "C d"],
    y: Float[Array, " C"],
    x_q: Float[Array, " d"],
    prior_mean: Float[Array, " d"],
    prior_cov: Float[Array, "d d"] | None = None,
    noise_std: float | Scalar = 0.0,
) -> Scalar:
    r"""Prediction of the posterior mean: no predictor has a smaller risk.

    .. math:: f = w^\top x_q, \qquad w = w_\star + \Psi X^\top (X \Psi X^\top + \sigma^2 I)^+ (y - X w_\star)

    Without noise the pseudo-inverse makes this the weights that fit the context and lie nearest to `w_\star`.

    Args:
        X, y, x_q: context and query, (C, d), (C,), (d,).
        prior_mean: `w_\star`, (d,).
        prior_cov: `\Psi`, (d, d); None means the identity.
        noise_std: `\sigma`, the standard deviation of the label noise.

    Returns:
        The prediction, a scalar.

    Raises:
        ValueError: if a shape does not fit, ``prior_cov`` is not symmetric or ``noise_std < 0``.

    Example:
        >>> round(float(bayes(jnp.eye(2), jnp.array([1.0, 2.0]), jnp.ones(2), jnp.zeros(2))), 5)
        3.0

    Source: Gaussian conditioning; the ridge predictor when Psi is the identity.
    """
    _check_context(X, y, x_q, "prior_mean", prior_mean)
    noise_std = _validate.number("noise_std", noise_std, minimum=0.0)
    if prior_cov is not None:
        _validate.shape("prior_cov", prior_cov, (X.shape[1], X.shape[1]))
        if not _arrays.traced(prior_cov):
            _validate.symmetric("prior_cov", np.asarray(prior_cov), float(jnp.finfo(prior_cov.dtype).eps))
    return _bayes(X, y, x_q, prior_mean, prior_cov, noise_std)


@jax.jit
def _bayes(X, y, x_q, prior_mean, prior_cov, noise_std) -> Scalar:
    # The pseudo-inverse reads one triangle of the Gram matrix, so that this must be symmetric.
    prior_cov = jnp.eye(X.shape[1], dtype=X.dtype) if prior_cov is None else (prior_cov + prior_cov.T) / 2
    gram = X @ prior_cov @ X.T + noise_std**2 * jnp.eye(len(y), dtype=X.dtype)
    coefficients = jnp.linalg.pinv(gram, hermitian=True) @ (y - X @ prior_mean)
    return x_q @ (prior_mean + prior_cov @ (X.T @ coefficients))


def _check_context(X, y, x_q, start: str, w0, step_size=0.0) -> None:
    _validate.context(X, y, x_q)
    _validate.shape(start, w0, x_q.shape)
    _validate.shape("step_size", step_size, ())
