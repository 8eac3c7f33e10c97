"""The distribution of in-context regression tasks (section 2 of the paper) and its sampler."""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _validate

__all__ = ["Batch", "GaussianTask", "sample"]


@dataclass(frozen=True, eq=False)
class GaussianTask:
    """A Gaussian distribution over noisy linear regression tasks.

    Task weights ``w ~ N(prior_mean, prior_cov)``, features ``x ~ N(0, feature_cov)``,
    context labels ``y_i = w.x_i + noise_std * n_i``. The *target* ``w.x_q`` is free of
    noise: for the risk against a noisy label add ``noise_std**2``.

    Args:
        prior_mean: w*, shape (d,).
        context_size: C, the number of labelled examples, at least 1.
        feature_cov: Lambda, shape (d, d), positive definite; None means the identity.
        prior_cov: Psi, shape (d, d), positive definite; None means the identity.
        noise_std: standard deviation of the context's label noise.

    Raises:
        ValueError: if a field is not finite or does not have its shape, if
            ``context_size < 1``, if ``noise_std < 0`` or a covariance is not positive definite.

    Example:
        >>> task = GaussianTask(prior_mean=[2.0, 2.0], context_size=5)
        >>> task.dim
        2

    Source: section 2 of arXiv 2512.04268, where both covariances are the identity and there is no noise.
    """

    # Any array-like comes in; a float64 NumPy array is what is kept.
    prior_mean: npt.ArrayLike
    context_size: int
    feature_cov: npt.ArrayLike | None = None
    prior_cov: npt.ArrayLike | None = None
    noise_std: float = 0.0

    def __post_init__(self):
        prior_mean = _validate.vector("prior_mean", self.prior_mean)
        object.__setattr__(self, "prior_mean", prior_mean)
        object.__setattr__(self, "context_size", _validate.count("context_size", self.context_size))
        for name in ("feature_cov", "prior_cov"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, _validate.covariance(name, value, prior_mean.size))
        object.__setattr__(self, "noise_std", _validate.number("noise_std", self.noise_std, minimum=0.0))

    @property
    def dim(self) -> int:
        """d, the number of features."""
        return self.prior_mean.size


class Batch(NamedTuple):
    """B tasks: contexts, queries, targets and the weights behind them."""

    X: Float[Array, "B C d"]
    y: Float[Array, "B C"]
    x_q: Float[Array, "B d"]
    target: Float[Array, " B"]
    w: Float[Array, "B d"]


def sample(key: PRNGKeyArray, task: GaussianTask, batch_size: int, *, dtype=None) -> Batch:
    """Draw tasks: ``w ~ N(w*, Psi)``, ``x ~ N(0, Lambda)``, ``y = X w + noise`` (section 2).

    Args:
        key: a key of ``jax.random``.
        task: the distribution.
        batch_size: B, at least 1.
        dtype: a float type; None means JAX's default.

    Returns:
        A ``Batch`` of shapes (B, C, d), (B, C), (B, d), (B,), (B, d).

    Raises:
        ValueError: if ``batch_size < 1``.

    Example:
        >>> batch = sample(jax.random.key(0), GaussianTask([2.0, 2.0, 2.0], context_size=5), batch_size=4)
        >>> batch.X.shape, batch.y.shape, batch.x_q.shape, batch.target.shape
        ((4, 5, 3), (4, 5), (4, 3), (4,))

    Source: section 2 of arXiv 2512.04268.
    """
    batch_size = _validate.count("batch_size", batch_size)
    C, d = task.context_size, task.dim
    key_normal, key_noise = jax.random.split(key)
    # One draw for everything that is standard normal: fewer calls, one stream.
    normal = jax.random.normal(key_normal, (batch_size, C + 2, d), dtype=dtype)
    features = _colour(normal[:, : C + 1], task.feature_cov)
    X, x_q = features[:, :C], features[:, C]
    w = jnp.asarray(task.prior_mean, normal.dtype)[None] + _colour(normal[:, C + 1], task.prior_cov)
    y = jnp.einsum("bcd,bd->bc", X, w)
    if task.noise_std:
        y = y + task.noise_std * jax.random.normal(key_noise, y.shape, y.dtype)
    return Batch(X, y, x_q, jnp.einsum("bd,bd->b", x_q, w), w)


def _colour(normal: Float[Array, "... d"], cov: np.ndarray | None) -> Float[Array, "... d"]:
    """Standard normal vectors to N(0, cov)."""
    if cov is None:
        return normal
    return normal @ jnp.asarray(np.linalg.cholesky(cov).T, normal.dtype)
