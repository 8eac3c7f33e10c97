"""What ``fit`` and ``sweep`` minimize: the exact risk, or the mean squared error of a
fresh batch.

A Gaussian task is trained in the coordinates of ``tasks.standardize``: features are
white, labels are residuals, and prior mean, guess and bias are part of the heads. So
runs that differ in these have the same data, and what does not depend on a run, the
batch and its Gram matrices, is computed once: most of a step.
"""

import math
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsalib._draw import contract, data_from_draw, draw
from lsalib.attention import LSAParams
from lsalib.tasks import StandardTask, checked_sample
from lsalib.theory.risk import standard_form, standard_risk


class Data(NamedTuple):
    """The constants of a run."""

    task: Any  # a StandardTask, or None
    bias: float | Array
    train_guess: bool | Array


def unpack(rows, heads: int, dim: int) -> tuple[LSAParams, Array | np.ndarray]:
    """The weights and the guess in rows (..., P): Adam is faster on one long row than
    on the leaves of a tree.
    """
    D = dim + 1
    shapes: list[tuple[int, ...]] = [(heads, D, D)] * 4 + [(dim,)]
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    # The derivative of a split is one concatenation; that of slices adds up whole rows.
    parts = (np if isinstance(rows, np.ndarray) else jnp).split(rows, ends, axis=-1)
    *params, guess = (
        part.reshape(*rows.shape[:-1], *shape)
        for part, shape in zip(parts, shapes, strict=True)
    )
    return LSAParams(*params), guess


@cache
def gaussian_loss(heads: int, dim: int, batch: tuple[int, int | None, bool] | None):
    """The loss of a run, ``loss(row, data, key)``; the same function for the same
    program.

    ``batch``: its size, the context size (None if compressed), whether labels have
    noise; None for the exact risk.
    """

    def loss(row, data: Data, key):
        # By default a GPU rounds the factors of float32 products: too few digits for an
        # exact risk.
        with jax.default_matmul_precision("highest"):
            b, A, guess = _heads(row, heads, dim, data)
            y_q = jnp.append(guess, data.bias)
            form = standard_form(b, A, y_q, y_q, data.task)
            return (
                standard_risk(*form, data.task)
                if batch is None
                else _sampled(*form, data.task, key, batch)
            )

    return loss


def own_loss(heads: int, task, batch_size: int, dtype):
    """The same for any task that can be sampled."""

    def loss(row, data: Data, key):
        b, A, guess = _heads(row, heads, task.dim, data)
        drawn = checked_sample(task, key, batch_size)
        X, y, x_q, target = (jnp.moveaxis(part, 0, -1).astype(dtype) for part in drawn)
        y_q = guess @ x_q + data.bias
        Z = jnp.concatenate([X, y[:, None]], axis=1)
        return jnp.mean(
            (y_q + attend(b, A, Z, jnp.concatenate([x_q, y_q[None]])) - target) ** 2
        )

    return loss


def _heads(row, heads: int, dim: int, data: Data):
    """The effective heads, as ``attention.effective``, and the guess."""
    params, guess = unpack(row, heads, dim)
    b = jnp.einsum("hi,hij->hj", params.W_P[:, -1], params.W_V)
    A = jnp.einsum("hki,hkj->hij", params.W_K, params.W_Q)
    # Whether the guess is trained is data, so that runs of both kinds share a program.
    return b, A, jnp.where(data.train_guess, guess, jax.lax.stop_gradient(guess))


def _sampled(b, A, c, task: StandardTask, key, batch: tuple[int, int | None, bool]):
    """The mean of ``(sum_k t_k (<G, N_k> + c_k) - eps.x_q)^2``, t = [x_q; 1], in
    standard coordinates.
    """
    size, tokens, noisy = batch
    context_size = task.context_size if tokens is None else tokens
    white = draw(
        key,
        len(c) - 1,
        context_size,
        size,
        noisy=noisy,
        compress=tokens is None,
        dtype=b.dtype,
    )
    # In standard coordinates the prior mean is zero and the features are white.
    X, r, x_q, eps = data_from_draw(
        white, None, None, task.prior_root, task.noise_std if noisy else None
    )
    # The barrier keeps the compiler from computing the labels again for each entry of
    # the Gram matrix.
    Z = jax.lax.optimization_barrier(jnp.concatenate([X, r[:, None]], axis=1))
    t = jnp.concatenate([x_q, jnp.ones_like(x_q[:1])])
    return jnp.mean((attend(b, A, Z, t) + c @ t - contract(x_q, eps)) ** 2)


def attend(
    b: Float[Array, "H D"],
    A: Float[Array, "H D D"],
    Z: Float[Array, "m D B"],
    t: Float[Array, "D B"],
):
    """What attention adds to the guess, ``sum_h b_h^T G A_h t`` with ``G = Z^T Z / m``,
    (B,).
    """
    m, D, _ = Z.shape
    if D > max(16, 3 * len(b)):
        # Few heads on many features: H D^2 operations an example, instead of D^3 with
        # the Gram matrix.
        values = jnp.einsum("cmb,hm->bch", Z, b)
        keys = jnp.einsum("cnb,bhn->bch", Z, jnp.einsum("hnk,kb->bhn", A, t))
        return (values * keys).sum((1, 2)) / m
    # G is symmetric: its upper triangle is enough. Off the diagonal an entry meets two
    # entries of N.
    rows, columns = np.triu_indices(D)
    N = jnp.einsum("hm,hnk->kmn", b, A)
    N = (N + N.swapaxes(1, 2))[:, rows, columns] * np.where(
        rows == columns, 0.5, 1.0
    ).astype(N.dtype)[None]
    # A product with ones, since a sum over the first axis is slow on a CPU.
    return jnp.ones(D, t.dtype) @ ((N / m) @ _upper_gram(Z) * t)


def _upper_gram(Z: Float[Array, "m D B"]) -> Float[Array, "F B"]:
    """The upper triangle of Z^T Z, row by row."""
    m, D, _ = Z.shape
    if m * D > 256:
        return jnp.einsum("cib,cjb->bij", Z, Z)[:, *np.triu_indices(D)].T
    # Written out, it is vector operations over the batch: five times as fast on a CPU,
    # but a larger program.
    parts = [sum(Z[c, i][None] * Z[c, i:] for c in range(m)) for i in range(D)]
    return jax.lax.optimization_barrier(jnp.concatenate(parts))
