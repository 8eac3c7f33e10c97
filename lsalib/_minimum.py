"""L-BFGS, for ``training.minimize``."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from lsalib import _check
from lsalib._arrays import Scalar


class Minimum(NamedTuple):
    """The lowest point of the search: ``params``, the objective's ``value``, and the
    norm of its ``gradient`` there.
    """

    params: PyTree[Float[Array, "..."]]
    value: Scalar
    gradient: Scalar


def minimize(
    objective: Callable,
    params: PyTree[Float[Array, "..."]],
    *,
    steps: int = 1000,
    memory: int = 40,
) -> Minimum:
    """Search for a minimum of a smooth, deterministic function from one start, by
    L-BFGS.

    Made for exact risks in float64; ``jax.vmap`` runs many starts side by side. Search
    in ``(b_h, A_h)``, which ``attention.from_effective`` turns into weights: a search
    in the four matrices themselves, which describe the same function in many ways,
    takes many times as long.

    Args:
        objective: from a pytree like ``params`` to a scalar.
        params: the start, a pytree of float arrays.
        steps: how many steps. The result is the lowest point of all.
        memory: how many steps the model of the curvature remembers.

    Returns:
        A ``Minimum``. If its ``gradient`` is far from zero, the search needs more
        steps.

    Example:
        >>> end = minimize(lambda x: jnp.sum((x - 3.0) ** 2), jnp.zeros(2), steps=5)
        >>> end.params.tolist(), float(end.value)
        ([3.0, 3.0], 0.0)
    """
    steps, memory = _check.count("steps", steps), _check.count("memory", memory)
    params = _check.pytree("params", params)
    optimizer = optax.lbfgs(memory_size=memory)
    value_and_grad = optax.value_and_grad_from_state(objective)

    def step(_, carry):
        params, state, lowest = carry
        value, gradient = value_and_grad(params, state=state)
        lowest = jax.tree.map(
            partial(jnp.where, value < lowest.value),
            Minimum(params, value, optax.tree.norm(gradient)),
            lowest,
        )
        updates, state = optimizer.update(
            gradient, state, params, value=value, grad=gradient, value_fn=objective
        )
        return optax.apply_updates(params, updates), state, lowest

    @jax.jit
    def search(params):
        value, gradient = jax.value_and_grad(objective)(params)
        start = Minimum(params, value, optax.tree.norm(gradient))
        # One step more, which evaluates the point after the last one.
        carry = params, optimizer.init(params), start
        return jax.lax.fori_loop(0, steps + 1, step, carry)[-1]

    # The line search mixes weak and strong types, which a strict setting would refuse.
    with jax.numpy_dtype_promotion("standard"):
        return search(params)
