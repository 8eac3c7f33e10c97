"""The compiled loop behind every training: seeds, and runs within them, step together, on the devices of one mesh.

The host calls it for some hundred steps at a time, a piece, and looks at the losses in between (``schedule``).
"""

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

# The most steps of a piece. Its losses go into a buffer of this length, whose shape is part of the program: with a
# buffer for all steps of a training, each number of steps would be another program. The host joins the pieces.
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

    If ``separate``, loss and optimizer are those of one run, and each run has a state of the optimizer of its own. Else
    the loss gives the losses of all runs, and the optimizer, which works entry by entry, updates all of them at once.
    """

    loss: Callable
    optimizer: optax.GradientTransformation
    key_impl: str
    data_axes: tuple[int | None, ...] | None = None
    mesh: Mesh | None = None
    step: str = ""
    separate: bool = False

    def over_runs(self, leaf) -> bool:
        """Whether a leaf of the state has an axis of runs. What all runs of a sweep share has no third axis."""
        return self.data_axes is not None and (self.separate or np.ndim(leaf) > 2)

    def spec(self, leaf) -> PartitionSpec:
        """How a leaf of the state is spread over the mesh."""
        return PartitionSpec("seeds", "runs") if self.over_runs(leaf) else PartitionSpec("seeds")

    def data_specs(self, data) -> PyTree:
        leaves, structure = jax.tree.flatten(data)
        axes = self.data_axes or [None] * len(leaves)
        specs = [PartitionSpec() if axis is None else PartitionSpec("runs") for axis in axes]
        return jax.tree.unflatten(structure, specs)

    def each_run(self, function: Callable, data: tuple) -> Callable:
        """A function of (one run's state, its data), for all runs of a seed where they are separate."""
        if not self.separate:
            return function
        return jax.vmap(function, (0, jax.tree.unflatten(jax.tree.structure(data), self.data_axes or ())))

    def losses(self, params: PyTree, data: tuple, key) -> Array:
        """The losses of one seed."""
        return self.each_run(lambda params, data: self.loss(params, *data, key), data)(params, data)

    def units(self) -> tuple[str, ...]:
        """The axes of what trains on its own."""
        return ("seeds",) if self.data_axes is None else ("seeds", "runs")


def update(program: Program, state: State, data: tuple, key) -> tuple[State, Array]:
    """One step of one seed: the state after it, and the losses before it."""
    # The key is the same for all runs: what does not depend on a run, such as a batch of the same task, is drawn once.
    return program.each_run(lambda state, data: _update(program, state, data, key), data)(state, data)


def _update(program: Program, state: State, data: tuple, key) -> tuple[State, Array]:
    def total(params):
        each = jnp.asarray(program.loss(params, *data, key))
        return each.sum(), each

    (value, each), gradient = jax.value_and_grad(total, has_aux=True)(state.params)
    # The loss may be an array of independent losses: the gradient of their sum is the gradient of each.
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
    """
    # ``begin`` and ``end`` are traced, not constants of the program: however a training is cut into pieces, the same
    # program runs, and so a training that was resumed is the same bit for bit.
    # The state is not donated to the program: if a loss is not finite, ``schedule`` goes back to the beginning of the
    # piece and repeats the good steps. The price is memory for two more states.
    specs = jax.tree.map(program.spec, state)
    over_seeds, everywhere, units = PartitionSpec("seeds"), PartitionSpec(), program.units()

    def local(state, data, keys, begin, end):
        """What one device does with its seeds and runs."""
        # Keys come as plain numbers, since NumPy arrays, from which ``devices.place`` builds them, cannot hold keys.
        keys = jax.random.wrap_key_data(keys, impl=program.key_impl)

        def step(t, carry):
            state, losses = carry
            # The key of a step depends on its number alone, not on the steps before: a shorter training is the
            # beginning of a longer one, and a training can go on at any step.
            now = jax.vmap(jax.random.fold_in, (0, None))(keys, t)
            state, each = jax.vmap(lambda state, key: update(program, state, data, key))(state, now)
            return state, losses.at[t - begin].set(each)

        # The buffer's type and shape, without computing a loss.
        each = jax.eval_shape(jax.vmap(lambda params, key: program.losses(params, data, key)), state.params, keys)
        losses = jnp.zeros((PIECE, *each.shape), each.dtype)
        state, losses = jax.lax.fori_loop(begin, end, step, (state, losses))
        # The losses show every earlier step; what the last update breaks only the parameters show.
        axes = lambda leaf: tuple(range(len(units), leaf.ndim))
        finite = [jnp.isfinite(leaf).all(axes(leaf)) for leaf in jax.tree.leaves(state.params)]
        return state, losses, jnp.stack(finite).all(0)

    # Devices do not talk to each other: each keeps its runs and draws the batches of its seeds itself, also where other
    # devices have runs of the same seeds.
    # check_vma=False: the check refuses loops that start from the same constants on all devices, as in ``_white.chi``.
    return jax.shard_map(
        local,
        mesh=program.mesh,
        in_specs=(specs, program.data_specs(data), over_seeds, everywhere, everywhere),
        out_specs=(specs, PartitionSpec(None, *units), PartitionSpec(*units)),
        check_vma=False,
    )(state, data, keys, begin, end)
