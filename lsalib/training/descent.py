"""Adam on any sampled loss: for models that ``sweep`` does not know."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from lsalib import _validate

__all__ = ["Descent", "descend"]


class Descent(NamedTuple):
    """``params``, one snapshot for each of the step counts asked for, in front; and ``loss`` before each step, (steps, ...)."""

    params: PyTree[Float[Array, "..."]]
    loss: Float[Array, "steps *runs"]


def descend(
    loss: Callable,
    params: PyTree[Float[Array, "..."]],
    key: PRNGKeyArray,
    snapshots: Sequence[int],
    *,
    learning_rate: float = 1e-3,
) -> Descent:
    """Train by Adam on ``loss(params, key)``, with a fresh key at every step, and keep the weights after given numbers of steps.

    The loss may be an array: its sum is what is minimised. Runs whose parameters are parts of one pytree, each with
    its own entry of the loss, do not disturb each other (Adam works entry by entry) and share their batches;
    ``jax.vmap`` adds seeds. Step t uses ``fold_in(key, t)``, so a shorter training is the beginning of a longer one.

    Args:
        loss: from (params, key) to an array of losses.
        params: the start.
        key: a key of ``jax.random``.
        snapshots: increasing numbers of steps; the last is the length of the training.
        learning_rate: Adam's.

    Returns:
        A ``Descent``.

    Raises:
        ValueError: if ``snapshots`` is empty, negative or not increasing, or ``learning_rate`` is not positive.

    Example:
        >>> end = descend(lambda x, key: (x - 3.0) ** 2, jnp.zeros(2), jax.random.key(0), [0, 10], learning_rate=1.0)
        >>> end.params.shape, end.loss.shape, end.loss[0].tolist()
        ((2, 2), (10, 2), [9.0, 9.0])

    Source: Kingma and Ba's method, as optax has it.
    """
    ends = np.asarray(snapshots)
    if (
        ends.ndim != 1
        or not ends.size
        or not np.issubdtype(ends.dtype, np.integer)
        or ends[0] < 0
        or (np.diff(ends) <= 0).any()
    ):
        raise ValueError(f"snapshots must be increasing whole numbers of at least 0, got {snapshots!r}")
    optimizer = optax.adam(_validate.number("learning_rate", learning_rate, above=0.0))
    shape = jax.eval_shape(loss, params, key)

    def total(params, key):
        each = loss(params, key)
        return each.sum(), each

    def step(t, state):
        params, moments, losses = state
        gradient, each = jax.grad(total, has_aux=True)(params, jax.random.fold_in(key, t))
        # Adam raises a float to the power of its integer count, which a strict setting would refuse.
        with jax.numpy_dtype_promotion("standard"):
            updates, moments = optimizer.update(gradient, moments, params)
        return optax.apply_updates(params, updates), moments, losses.at[t].set(each)

    def piece(state, bounds):
        state = jax.lax.fori_loop(*bounds, step, state)
        return state, state[0]

    start = params, optimizer.init(params), jnp.zeros((int(ends[-1]), *shape.shape), shape.dtype)
    bounds = jnp.asarray(np.append(0, ends[:-1])), jnp.asarray(ends)
    (_, _, losses), kept = jax.lax.scan(piece, start, bounds)
    return Descent(kept, losses)
