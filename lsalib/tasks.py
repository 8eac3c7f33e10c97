"""The distribution of in-context regression tasks (section 2 of the paper) and its sampler.

Attention reads of a context only the Gram matrix of its tokens. Of C > p tokens in p dimensions
that is a Wishart matrix, and ``compress`` draws p tokens with the same Gram law: the triangular
factor of a QR decomposition, whose entries are independent, normal above the diagonal and chi on it
(Bartlett). The cost of a batch then no longer grows with the context.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _random, _validate

__all__ = ["Batch", "Draw", "GaussianTask", "draw", "sample"]


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


class Draw(NamedTuple):
    """White randomness of B tasks, batch last: all that is random before a task gives it its covariances.

    Tokens (m, p, B) with p = d features, and one entry more with label noise; queries and task weights, (d, B) each.
    """

    tokens: Float[Array, "m p B"]
    query: Float[Array, "d B"]
    weights: Float[Array, "d B"]


def sample(key: PRNGKeyArray, task: GaussianTask, batch_size: int, *, compress: bool = False, dtype=None) -> Batch:
    """Draw tasks: ``w ~ N(w*, Psi)``, ``x ~ N(0, Lambda)``, ``y = X w + noise`` (section 2).

    Args:
        key: a key of ``jax.random``.
        task: the distribution.
        batch_size: B, at least 1.
        compress: whether a context of C > p tokens, p = d or d+1 with label noise, may be replaced by p tokens
            whose Gram matrix ``attention.gram`` has the same law jointly with w: every prediction of
            linear attention then has its law too. The single tokens do not, and softmax sees the difference.
        dtype: a float type; None means JAX's default.

    Returns:
        A ``Batch`` of shapes (B, C, d), (B, C), (B, d), (B,), (B, d), with p for C where it is compressed.

    Raises:
        ValueError: if ``batch_size < 1``.

    Example:
        >>> task = GaussianTask([2.0, 2.0, 2.0], context_size=5)
        >>> batch = sample(jax.random.key(0), task, batch_size=4)
        >>> batch.X.shape, batch.y.shape, batch.x_q.shape, batch.target.shape
        ((4, 5, 3), (4, 5), (4, 3), (4,))
        >>> sample(jax.random.key(0), task, batch_size=4, compress=True).X.shape
        (4, 3, 3)

    Source: section 2 of arXiv 2512.04268.
    """
    batch_size = _validate.count("batch_size", batch_size)
    noisy = task.noise_std > 0
    dtype = np.dtype(jnp.result_type(float) if dtype is None else dtype)
    roots = [
        None if cov is None else np.linalg.cholesky(cov).T.astype(dtype) for cov in (task.feature_cov, task.prior_cov)
    ]
    compress = compress and task.context_size > task.dim + noisy
    shape = None if compress else task.context_size, batch_size, noisy, dtype
    return _sample(
        key, task.prior_mean.astype(dtype), *roots, dtype.type(task.noise_std), dtype.type(task.context_size), shape
    )


@partial(jax.jit, static_argnames="shape")
def _sample(key, prior_mean, feature_root, prior_root, noise_std, context_size, shape) -> Batch:
    """One program for all tasks of one shape; compressed contexts have one shape, whatever their size."""
    tokens, batch_size, noisy, dtype = shape
    d, compress = len(prior_mean), tokens is None
    white = draw(key, d, context_size if compress else tokens, batch_size, noisy=noisy, compress=compress, dtype=dtype)
    tokens, query, weights = (jnp.moveaxis(part, -1, 0) for part in white)
    X, x_q = _colour(tokens[..., :d], feature_root), _colour(query, feature_root)
    w = prior_mean[None] + _colour(weights, prior_root)
    y = jnp.einsum("bcd,bd->bc", X, w)
    if noisy:
        y = y + noise_std * tokens[..., d]
    return Batch(X, y, x_q, jnp.einsum("bd,bd->b", x_q, w), w)


def draw(
    key: PRNGKeyArray, dim: int, context_size, batch_size: int, *, noisy: bool, compress: bool, dtype=None
) -> Draw:
    """The randomness behind ``sample``, in the layout that training works on.

    Compressed tokens are the rows of ``sqrt(p/C) R``, ``Z = Q R`` the white context: R has
    ``chi(C - k)`` at (k, k), k = 0..p-1, standard normal numbers to the right of it, and zeros to the left.

    Args:
        key: a key of ``jax.random``.
        dim: d.
        context_size: C; compressed, it may be a traced number, and is greater than p.
        batch_size: B.
        noisy: whether the context's labels are noisy: tokens then have p = d+1 entries instead of d.
        compress: whether to draw p tokens instead of C.
        dtype: a float type; None means JAX's default.

    Returns:
        A ``Draw``.

    Example:
        >>> draw(jax.random.key(0), 3, 100, 8, noisy=True, compress=True).tokens.shape
        (4, 4, 8)
    """
    dtype = jnp.result_type(float) if dtype is None else jnp.dtype(dtype)
    p = dim + noisy
    key_normal, key_chi = jax.random.split(key)
    drawn = p * (p - 1) // 2 if compress else context_size * p
    # One call for everything that is standard normal; the barrier keeps the compiler from repeating it for every use.
    normal = lax.optimization_barrier(_normal(key_normal, (drawn + 2 * dim, batch_size), dtype))
    tokens, query, weights = normal[:drawn], normal[drawn : drawn + dim], normal[drawn + dim :]
    if not compress:
        return Draw(tokens.reshape(context_size, p, batch_size), query, weights)
    degrees = jnp.asarray(context_size, dtype) - jnp.arange(p, dtype=dtype)
    entries = jnp.concatenate([tokens, _chi(key_chi, degrees, batch_size), jnp.zeros((1, batch_size), dtype)])
    return Draw(jnp.sqrt(jnp.asarray(p / context_size, dtype)) * entries[_triangle(p)], query, weights)


def _triangle(p: int) -> np.ndarray:
    """Where R finds its entries among p(p-1)/2 numbers from above the diagonal, the diagonal, and a zero."""
    above = p * (p - 1) // 2
    index = np.full((p, p), above + p)
    index[np.triu_indices(p, 1)] = np.arange(above)
    np.fill_diagonal(index, above + np.arange(p))
    return index


def _normal(key: PRNGKeyArray, shape: tuple[int, ...], dtype) -> Float[Array, "..."]:
    """Standard normal numbers."""
    if dtype != jnp.float32 or jax.random.key_data(key).shape != (2,):
        return _random.normal(key, shape, dtype)
    from jax.extend.random import threefry_2x32  # here, since it takes as long to import as a quarter of this library

    # Random numbers are most of a training step on a CPU. jax.random xors the two words that
    # threefry computes into one; here both are used, each for 23 random bits as in jax.random.
    words = threefry_2x32(jax.random.key_data(key), lax.iota(jnp.uint32, math.prod(shape)))
    unit = lax.bitcast_convert_type((words >> 9) | jnp.uint32(0x3F800000), jnp.float32) - 1
    least = np.nextafter(np.float32(-1), np.float32(0))
    return (np.float32(math.sqrt(2)) * lax.erf_inv(jnp.maximum(2 * unit + least, least))).reshape(shape)


def _chi(key: PRNGKeyArray, degrees: Float[Array, " p"], batch_size: int) -> Float[Array, "p B"]:
    """Chi-distributed numbers with p degrees of freedom of at least 2, by Marsaglia and Tsang's rejection method.

    ``g (1 + t)^3``, ``t = normal/sqrt(9 g)``, ``g = degrees/2 - 1/3``, is accepted when
    ``log(uniform) < 3 g (log(1+t) - t + t^2/2 - t^3/3)``: in this form nothing large cancels.
    ``jax.random.gamma`` has the same law, but loops over the entries one by one, ten times as slowly on a CPU.
    """
    shape, g = (len(degrees), batch_size), (degrees / 2 - 1 / 3)[:, None]

    def attempt(state):
        trial, t, waiting = state
        key_normal, key_uniform = jax.random.split(jax.random.fold_in(key, trial))
        new = _normal(key_normal, shape, degrees.dtype) / jnp.sqrt(9 * g)
        # t <= -1 is never accepted: the logarithm is then -inf or nan.
        log_ratio = 3 * g * (jnp.log1p(new) - new + new**2 / 2 - new**3 / 3)
        accepted = waiting & (-jax.random.exponential(key_uniform, shape, degrees.dtype) < log_ratio)
        return trial + 1, jnp.where(accepted, new, t), waiting & ~accepted

    start = (0, jnp.zeros(shape, degrees.dtype), jnp.ones(shape, bool))
    _, t, _ = lax.while_loop(lambda state: state[2].any(), attempt, start)
    return jnp.sqrt(2 * g * (1 + t) ** 3)


def _colour(normal: Float[Array, "... d"], root: Float[Array, "d d"] | None) -> Float[Array, "... d"]:
    """Standard normal vectors to N(0, root^T root)."""
    return normal if root is None else normal @ root
