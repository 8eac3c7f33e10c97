"""What ``fit`` and ``sweep`` minimize: the exact risk, or the mean squared error of a
fresh batch.

A Gaussian task is trained in the coordinates of ``tasks.standardize``: features are
white, labels are residuals, and prior mean, guess and bias are part of the heads. So
runs that differ in these have the same data, and what does not depend on a run, the
batch and its Gram matrices, is computed once: most of a step.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsalib._arrays import HeadMatrices, HeadVectors
from lsalib._draw import contract, data_from_draw, draw
from lsalib.attention import LSAParams, effective
from lsalib.tasks import StandardTask, checked_sample
from lsalib.theory.risk import standard_form, standard_risk


@jax.tree_util.register_static
class GaussianSampler(NamedTuple):
    """Tokens (m, D, B), queries (d, B) and targets (B,) of a Gaussian task in its
    standard coordinates.
    """

    size: int
    tokens: int | None  # of a context; None if it is compressed
    noisy: bool

    def __call__(self, key, task: StandardTask, dtype):
        white = draw(
            key,
            len(task.prior_mean),
            self.tokens or task.context_size,
            self.size,
            noisy=self.noisy,
            compress=self.tokens is None,
            dtype=dtype,
        )
        # In standard coordinates the prior mean is zero and the features are white.
        X, r, x_q, eps = data_from_draw(
            white, None, None, task.prior_root, task.noise_std if self.noisy else None
        )
        # The barrier keeps the compiler from computing the labels again for each entry
        # of the Gram matrix.
        Z = jax.lax.optimization_barrier(jnp.concatenate([X, r[:, None]], axis=1))
        return Z, x_q, contract(x_q, eps)


@jax.tree_util.register_static
class OwnSampler(NamedTuple):
    """The same of any other task, in its own coordinates."""

    size: int
    dim: int
    sample: Callable  # of the task, equal only to that of the same task

    def __call__(self, key, task: StandardTask, dtype):
        drawn = checked_sample(self, key, self.size)
        X, y, x_q, target = (jnp.moveaxis(part, 0, -1).astype(dtype) for part in drawn)
        return jnp.concatenate([X, y[:, None]], axis=1), x_q, target


class Data(NamedTuple):
    """The constants of a run, and how its batches are drawn; None: the exact risk needs
    no batch.
    """

    sampler: GaussianSampler | OwnSampler | None
    task: StandardTask
    bias: float | Array
    train_guess: float | Array  # 1 or 0


def loss(row, data: Data, key):
    """The loss of a run: the mean of ``(sum_k t_k (<G, N_k> + c_k) - target)^2``, t =
    [x_q; 1], over a batch; without a sampler the exact risk.
    """
    # By default a GPU rounds the factors of float32 products: too few digits for an
    # exact risk.
    with jax.default_matmul_precision("highest"):
        params, guess = unpack(row, len(data.task.prior_mean))
        # Whether the guess is trained is data, so that runs of both kinds share a
        # program.
        guess = jnp.where(data.train_guess, guess, jax.lax.stop_gradient(guess))
        y_q = jnp.append(guess, data.bias)
        b, A, c = standard_form(*effective(params), y_q, y_q, data.task)
        if data.sampler is None:
            return standard_risk(b, A, c, data.task)
        Z, x_q, target = data.sampler(key, data.task, row.dtype)
        t = jnp.concatenate([x_q, jnp.ones_like(x_q[:1])])
        return jnp.mean((attend(b, A, Z, t) + c @ t - target) ** 2)


def unpack(rows, dim: int):
    """The weights and the guess in rows (..., P): Adam is faster on one long row than
    on the leaves of a tree.
    """
    # The derivative of a split is one concatenation; that of slices adds up whole rows.
    xp, size = rows.__array_namespace__(), (rows.shape[-1] - dim) // 4
    *params, guess = xp.split(rows, size * np.arange(1, 5), axis=-1)
    shape = (*rows.shape[:-1], -1, dim + 1, dim + 1)
    return LSAParams(*(W.reshape(shape) for W in params)), guess


def attend(
    b: HeadVectors, A: HeadMatrices, Z: Float[Array, "m D B"], t: Float[Array, "D B"]
):
    """What attention adds to the guess, ``sum_h b_h^T G A_h t`` with ``G = Z^T Z / m``,
    (B,).
    """
    m, D, _ = Z.shape
    # G is symmetric: its upper triangle is enough. Off the diagonal an entry meets two
    # entries of N.
    rows, columns = np.triu_indices(D)
    N = jnp.einsum("hm,hnk->kmn", b, A)
    N = (N + N.swapaxes(1, 2))[:, rows, columns] * np.where(
        rows == columns, 0.5, 1.0
    ).astype(N.dtype)[None]
    if m * D > 256:
        gram = jnp.einsum("cib,cjb->bij", Z, Z)[:, rows, columns].T
    else:
        # Written out, it is vector operations over the batch: twice as fast on a CPU,
        # but the program grows with the tokens.
        parts = (Z[c][rows] * Z[c][columns] for c in range(m))
        gram = jax.lax.optimization_barrier(sum(parts))
    # A product with ones, since a sum over the first axis is slow on a CPU.
    return jnp.ones(D, t.dtype) @ ((N / m) @ gram * t)
