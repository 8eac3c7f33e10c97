"""The compiled loop behind every training: seeds, and runs within them, step together, on the devices of one mesh."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Int, PyTree

__all__ = ["PIECE", "Program", "State", "run_steps", "update"]

Step = int | Int[Array, ""]

# Losses of so many steps fit into the program's buffer. The host joins them, so that it is one program for any number.
PIECE = 1024


class State(NamedTuple):
    """What changes from step to step; leaves (S, ...) for S seeds, in a sweep (S, R, ...) for R runs."""

    params: PyTree
    opt_state: PyTree


class Program(NamedTuple):
    """What the compiled loop depends on besides shapes.

    ``loss(params, *data, key)`` gives one seed's loss, a scalar or an array of independent ones; ``data_axes`` says of
    each leaf of the data whether it varies over runs (0) or not (None), and is None where there are no runs. ``step``
    is the digest of one traced step: when a number that the loss reads from outside changes, so does the program.
    """

    loss: Callable
    optimizer: optax.GradientTransformation
    key_impl: str
    data_axes: tuple[int | None, ...] | None = None
    mesh: Mesh | None = None
    step: str = ""

    def over_runs(self, leaf) -> bool:
        """Whether a leaf of the state has an axis of runs: in a sweep, what has a third axis."""
        return self.data_axes is not None and np.ndim(leaf) > 2

    def spec(self, leaf) -> PartitionSpec:
        """How a leaf of the state is spread over the mesh."""
        return PartitionSpec("seeds", "runs") if self.over_runs(leaf) else PartitionSpec("seeds")

    def data_specs(self, data) -> PyTree:
        leaves, structure = jax.tree.flatten(data)
        axes = self.data_axes or [None] * len(leaves)
        specs = [PartitionSpec() if axis is None else PartitionSpec("runs") for axis in axes]
        return jax.tree.unflatten(structure, specs)

    def units(self) -> tuple[str, ...]:
        """The axes of what trains on its own."""
        return ("seeds",) if self.data_axes is None else ("seeds", "runs")


def update(program: Program, state: State, data: tuple, key) -> tuple[State, Array]:
    """One step of one seed: the state after it, and the losses before it."""

    def total(params):
        each = jnp.asarray(program.loss(params, *data, key))
        return each.sum(), each

    (value, each), gradient = jax.value_and_grad(total, has_aux=True)(state.params)
    # Optimizers that search along a line, or look at the loss, get what they need; the others never see it.
    optimizer = optax.with_extra_args_support(program.optimizer)
    extra = {"value": value, "grad": gradient, "value_fn": lambda params: total(params)[0]}
    # Adam raises a float to the power of its integer count, which a strict setting would refuse.
    with jax.numpy_dtype_promotion("standard"):
        updates, opt_state = optimizer.update(gradient, state.opt_state, state.params, **extra)
    return State(optax.apply_updates(state.params, updates), opt_state), each


@partial(jax.jit, static_argnames="program")
def run_steps(state: State, data: tuple, keys: jax.Array, begin: Step, end: Step, *, program: Program):
    """Steps begin..end-1, at most ``PIECE``: the state after them, their losses, (PIECE, S, ...), and what is finite.

    The last says of every unit, a seed or a run of a seed, whether its parameters are finite at the end.
    The bounds are not constants of the program: however a training is cut into pieces, the same program runs.
    Devices do not talk to each other: each draws the batches of its seeds and keeps its runs.
    The state is not donated, since whoever finds a loss that is not finite goes back to the beginning of the piece.
    """
    specs = jax.tree.map(program.spec, state)
    over_seeds, everywhere, units = PartitionSpec("seeds"), PartitionSpec(), program.units()

    def local(state, data, keys, begin, end):
        keys = jax.random.wrap_key_data(keys, impl=program.key_impl)

        def step(t, carry):
            state, losses = carry
            now = jax.vmap(jax.random.fold_in, (0, None))(keys, t)
            state, each = jax.vmap(lambda state, key: update(program, state, data, key))(state, now)
            return state, losses.at[t - begin].set(each)

        each = jax.eval_shape(jax.vmap(lambda params, key: program.loss(params, *data, key)), state.params, keys)
        losses = jnp.zeros((PIECE, *each.shape), each.dtype)
        state, losses = jax.lax.fori_loop(begin, end, step, (state, losses))
        axes = lambda leaf: tuple(range(len(units), leaf.ndim))
        finite = [jnp.isfinite(leaf).all(axes(leaf)) for leaf in jax.tree.leaves(state.params)]
        return state, losses, jnp.stack(finite).all(0)

    return jax.shard_map(
        local,
        mesh=program.mesh,
        in_specs=(specs, program.data_specs(data), over_seeds, everywhere, everywhere),
        out_specs=(specs, PartitionSpec(None, *units), PartitionSpec(*units)),
        check_vma=False,
    )(state, data, keys, begin, end)
