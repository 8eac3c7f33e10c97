"""The compiled loop: every run of a group takes its steps together, on as many devices as there are."""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from lsalib.training.objectives import Sampler, Setting, Weights, risk

__all__ = ["SPECS", "Plan", "State", "advance", "gather", "make_mesh", "place", "start"]

Step = int | Int[Array, ""]

# The learning rate differs between runs, so it comes after optax.
_ADAM = optax.scale_by_adam()


class State(NamedTuple):
    """A group of runs between two steps, leaves (S, R, ...): S seeds, R runs; risk is (steps or more, S, R)."""

    weights: Weights
    opt_state: optax.OptState
    risk: jax.Array


class Plan(NamedTuple):
    """What a compiled program depends on besides shapes: batch, mesh, key type and which settings vary over runs."""

    sampler: Sampler | None
    mesh: Mesh
    key_impl: str
    axes: tuple[int | None, ...]


def start(weights: Weights, steps: int) -> State:
    """The state before the first step, for weights with leaves (S, R, ...); on the host, as everything between pieces.

    There is room for more losses than steps, so that other numbers of steps find their program made.
    """
    runs = weights.guess.shape[:2]
    opt_state = jax.tree.map(
        lambda leaf: np.zeros((*runs, *leaf.shape[2:]), leaf.dtype),
        jax.eval_shape(jax.vmap(jax.vmap(_ADAM.init)), weights),
    )
    return State(weights, opt_state, np.zeros((max(2**13, 1 << (steps - 1).bit_length()), *runs), weights.guess.dtype))


def make_mesh(seeds: int, runs: int) -> Mesh:
    """Devices in a grid (seeds, runs): seeds first, since runs of one seed share their batches.

    In one process no more devices are taken than there are runs; several processes all take part.
    """
    devices = jax.devices()
    rows = math.gcd(len(devices), seeds)
    columns = len(devices) // rows
    if jax.process_count() == 1:
        columns = min(columns, runs)
    return Mesh(np.array(devices[: rows * columns]).reshape(rows, columns), ("seeds", "runs"))


def place(tree, mesh: Mesh, spec: PartitionSpec):
    """Host arrays to the mesh; runs are repeated until they fill it."""
    axis = list(spec).index("runs") if "runs" in spec else None

    def put(leaf):
        leaf = np.asarray(leaf)
        if axis is not None:
            missing = -leaf.shape[axis] % mesh.shape["runs"]
            leaf = np.concatenate([leaf, leaf.take([-1] * missing, axis)], axis)
        return jax.make_array_from_callback(leaf.shape, NamedSharding(mesh, spec), lambda index: leaf[index])

    return jax.tree.map(put, tree)


def gather(state: State, runs: int) -> State:
    """The state on the host of every process, without the runs that only filled the mesh."""
    whole = multihost_utils.process_allgather(state, tiled=True) if jax.process_count() > 1 else jax.device_get(state)
    weights, opt_state = jax.tree.map(lambda leaf: leaf[:, :runs], (whole.weights, whole.opt_state))
    return State(weights, opt_state, whole.risk[:, :, :runs])


SPECS = State(PartitionSpec("seeds", "runs"), PartitionSpec("seeds", "runs"), PartitionSpec(None, "seeds", "runs"))


@partial(jax.jit, static_argnames="plan", donate_argnames="state")
def advance(state: State, setting: Setting, keys: jax.Array, begin: Step, end: Step, *, plan: Plan) -> State:
    """Steps begin..end-1 of every run.

    The bounds are not constants of the program: however a run is cut into pieces, it is the same program that runs.
    Devices do not talk to each other: each draws the batches of its seeds and keeps its runs.

    Args:
        state: the state before step ``begin``; its buffers are given up.
        setting: leaves (R, ...), or without R where all runs agree.
        keys: key data, one row a seed.
        begin, end: the steps.
        plan: the rest.

    Returns:
        The state after step ``end - 1``.
    """
    settings, structure = jax.tree.flatten(setting)
    axes = jax.tree.unflatten(structure, plan.axes)
    specs = jax.tree.unflatten(
        structure, [PartitionSpec() if axis is None else PartitionSpec("runs") for axis in plan.axes]
    )

    parts = [leaf.shape[2:] for leaf in state.weights]

    def update(row, opt_state, setting, key):
        loss, gradient = jax.value_and_grad(lambda row: risk(_unpack(row, parts), setting, key, plan.sampler))(row)
        # Adam raises a float to the power of its integer count, which a strict setting would refuse.
        with jax.numpy_dtype_promotion("standard"):
            updates, opt_state = _ADAM.update(gradient, opt_state)
        return row - setting.learning_rate * updates, opt_state, loss

    runs = jax.vmap(update, (0, 0, axes, None))
    seeds = jax.vmap(runs, (0, 0, None, 0))

    def local(state, setting, keys, begin, end):
        keys = jax.random.wrap_key_data(keys, impl=plan.key_impl)

        def step(t, state):
            now = jax.vmap(jax.random.fold_in, (0, None))(keys, t)
            row, opt_state, loss = seeds(state.weights, state.opt_state, setting, now)
            return State(row, opt_state, state.risk.at[t].set(loss))

        def rows(change, state):
            """Weights, and Adam's moments beside them, changed from tree to row or back."""
            count, mu, nu = state.opt_state
            return State(change(state.weights), type(state.opt_state)(count, change(mu), change(nu)), state.risk)

        # One row of numbers a run: over the leaves of a tree, one by one, Adam takes a CPU ten times as long.
        packed = rows(_pack, state)
        return rows(lambda row: _unpack(row, parts), jax.lax.fori_loop(begin, end, step, packed))

    everywhere = PartitionSpec()
    return jax.shard_map(
        local,
        mesh=plan.mesh,
        in_specs=(SPECS, specs, PartitionSpec("seeds"), everywhere, everywhere),
        out_specs=SPECS,
        check_vma=False,
    )(state, setting, keys, begin, end)


def _pack(weights: Weights) -> jax.Array:
    """All numbers of each run in a row, (S, R, ...) to (S, R, P)."""
    return jnp.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in weights], axis=-1)


def _unpack(row: jax.Array, shapes: list[tuple[int, ...]]) -> Weights:
    """The weights in the last axis of a row."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    return Weights(
        *(
            part.reshape(*row.shape[:-1], *shape)
            for part, shape in zip(jnp.split(row, ends, axis=-1), shapes, strict=True)
        )
    )
