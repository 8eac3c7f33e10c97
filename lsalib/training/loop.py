"""The compiled loop behind every training: seeds, and runs within them, step together, on all devices."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int, PyTree

from lsalib._progress import Progress
from lsalib.training.checkpoint import Checkpoint

__all__ = ["Group", "Program", "Record", "State", "advance", "make_mesh", "place"]

Step = int | Int[Array, ""]

# Losses of so many steps fit into the program's buffer. The host joins them, so that it is one program for any number.
PIECE = 1024
BAR = 50  # pieces, at least, where somebody watches


class State(NamedTuple):
    """What changes from step to step; leaves (S, ...) for S seeds, in a sweep (S, R, ...) for R runs."""

    params: PyTree
    opt_state: PyTree


class Program(NamedTuple):
    """What the compiled loop depends on besides shapes.

    ``loss(params, *data, key)`` gives one seed's loss, a scalar or an array of independent ones; ``data_axes`` says of
    each leaf of the data whether it varies over runs (0) or not (None), and is None where there are no runs.
    """

    loss: Callable
    optimizer: optax.GradientTransformation
    mesh: Mesh
    key_impl: str
    data_axes: tuple[int | None, ...] | None = None

    def spec(self, leaf) -> PartitionSpec:
        """How a leaf of the state is spread: in a sweep, what has a third axis has runs for its second."""
        over_runs = self.data_axes is not None and np.ndim(leaf) > 2
        return PartitionSpec("seeds", "runs") if over_runs else PartitionSpec("seeds")

    def data_specs(self) -> list[PartitionSpec]:
        return [PartitionSpec() if axis is None else PartitionSpec("runs") for axis in self.data_axes or ()]

    def loss_spec(self) -> PartitionSpec:
        return PartitionSpec(None, "seeds") if self.data_axes is None else PartitionSpec(None, "seeds", "runs")


@dataclass
class Record:
    """How far a group has come, on the host."""

    state: State
    steps: int = 0
    losses: list[np.ndarray] = field(default_factory=list)
    snapshots: dict[int, PyTree] = field(default_factory=dict)

    def loss(self) -> np.ndarray:
        """The losses of all steps, (S, steps, ...)."""
        return np.concatenate(self.losses).swapaxes(0, 1)

    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint keeps, by name; nothing of a group whose turn has not come."""
        if not self.steps:
            return {}
        kept = {"steps": np.array(self.steps), "losses": np.concatenate(self.losses)}
        for name, tree in {
            "state": self.state,
            **{f"snapshot {step}": t for step, t in self.snapshots.items()},
        }.items():
            kept |= {f"{name} {i}": leaf for i, leaf in enumerate(jax.tree.leaves(tree))}
        return kept

    def restored(self, arrays: dict[str, np.ndarray]) -> "Record":
        """The record that these are the ``arrays`` of; this one where there are none."""
        if not arrays:
            return self

        def tree(name: str, like):
            leaves = [arrays[f"{name} {i}"] for i in range(len(jax.tree.leaves(like)))]
            return jax.tree.unflatten(jax.tree.structure(like), leaves)

        taken = sorted({int(name.split()[1]) for name in arrays if name.startswith("snapshot ")})
        snapshots = {step: tree(f"snapshot {step}", self.state.params) for step in taken}
        return Record(tree("state", self.state), int(arrays["steps"]), [arrays["losses"]], snapshots)


class Group(NamedTuple):
    """What one compiled program trains: its record, its data, and the keys of its seeds, (S, ...) of key data."""

    program: Program
    record: Record
    data: tuple
    keys: np.ndarray
    runs: int | None = None


def advance(
    groups: Sequence[Group],
    steps: int,
    *,
    store: Checkpoint | None = None,
    every: int = 500,
    snapshots: Sequence[int] = (),
) -> list[Record]:
    """Train each group up to ``steps``, from where it is, and store all of them ``every`` so many steps.

    Raises:
        ValueError: if the stored state is beyond ``steps``, or beyond a snapshot that it does not hold.
    """
    kept = store.load() if store else {}
    own = [
        {name[len(f"{g} ") :]: leaf for name, leaf in kept.items() if name.startswith(f"{g} ")}
        for g in range(len(groups))
    ]
    records = [group.record.restored(arrays) for group, arrays in zip(groups, own, strict=True)]
    for record in records:
        _check_reach(record, steps, snapshots)
    progress = Progress(steps * len(groups), done=sum(record.steps for record in records))
    piece = min(PIECE, -(-steps // BAR)) if progress.shown else PIECE
    for group, record in zip(groups, records, strict=True):
        for taken, whole in _forward(group, record, steps, every if store else None, snapshots, piece):
            progress.add(taken)
            if store and whole and jax.process_index() == 0:
                store.save({f"{g} {name}": leaf for g, r in enumerate(records) for name, leaf in r.arrays().items()})
    return records


def _check_reach(record: Record, steps: int, snapshots: Sequence[int]) -> None:
    if record.steps > steps:
        raise ValueError(f"steps must be at least {record.steps}, which the checkpoint has reached, got {steps}")
    if missed := [step for step in snapshots if step < record.steps and step not in record.snapshots]:
        raise ValueError(
            f"snapshots must lie beyond step {record.steps}, which the checkpoint has reached, got {missed}"
        )


def _forward(group: Group, record: Record, steps: int, every, snapshots, piece: int) -> Iterator[tuple[int, bool]]:
    """Bring the record forward; after each piece, the steps that it took and whether the record is whole again."""
    program, runs = group.program, group.runs
    if record.steps in snapshots:
        record.snapshots[record.steps] = record.state.params
    marks = {steps, *snapshots, *(range(0, steps, every) if every else ())}
    state = jax.tree.map(lambda leaf: place(leaf, program.mesh, program.spec(leaf)), record.state)
    leaves, structure = jax.tree.flatten(group.data)
    specs = program.data_specs() or [PartitionSpec()] * len(leaves)
    placed = [place(leaf, program.mesh, spec) for leaf, spec in zip(leaves, specs, strict=True)]
    data = jax.tree.unflatten(structure, placed)
    keys = place(group.keys, program.mesh, PartitionSpec("seeds"))
    while record.steps < steps:
        begin, end = record.steps, min([record.steps + piece, *(mark for mark in marks if mark > record.steps)])
        state, losses = _steps(state, data, keys, begin, end, program=program)
        record.steps = end
        record.losses.append(_fetch(losses, runs, 2)[: end - begin])
        if end in marks:
            record.state = jax.tree.map(lambda leaf: _fetch(leaf, runs if np.ndim(leaf) > 2 else None, 1), state)
        if end in snapshots:
            record.snapshots[end] = record.state.params
        yield end - begin, end in marks


@partial(jax.jit, static_argnames="program", donate_argnames="state")
def _steps(state: State, data: tuple, keys: jax.Array, begin: Step, end: Step, *, program: Program):
    """Steps begin..end-1, at most ``PIECE``: the state after them, and their losses, (PIECE, S, ...).

    The bounds are not constants of the program: however a training is cut into pieces, the same program runs.
    Devices do not talk to each other: each draws the batches of its seeds and keeps its runs.
    """
    specs = jax.tree.map(program.spec, state)
    leaves, structure = jax.tree.flatten(data)
    data_specs = jax.tree.unflatten(structure, program.data_specs() or [PartitionSpec()] * len(leaves))
    everywhere, over_seeds = PartitionSpec(), PartitionSpec("seeds")

    def local(state, data, keys, begin, end):
        keys = jax.random.wrap_key_data(keys, impl=program.key_impl)

        def total(params, key):
            each = program.loss(params, *data, key)
            return each.sum(), each

        def update(state, key):
            gradient, each = jax.grad(total, has_aux=True)(state.params, key)
            # Adam raises a float to the power of its integer count, which a strict setting would refuse.
            with jax.numpy_dtype_promotion("standard"):
                updates, opt_state = program.optimizer.update(gradient, state.opt_state, state.params)
            return State(optax.apply_updates(state.params, updates), opt_state), each

        def step(t, carry):
            state, losses = carry
            now = jax.vmap(jax.random.fold_in, (0, None))(keys, t)
            state, each = jax.vmap(update)(state, now)
            return state, losses.at[t - begin].set(each)

        each = jax.eval_shape(jax.vmap(lambda params, key: program.loss(params, *data, key)), state.params, keys)
        losses = jnp.zeros((PIECE, *each.shape), each.dtype)
        return jax.lax.fori_loop(begin, end, step, (state, losses))

    return jax.shard_map(
        local,
        mesh=program.mesh,
        in_specs=(specs, data_specs, over_seeds, everywhere, everywhere),
        out_specs=(specs, program.loss_spec()),
        check_vma=False,
    )(state, data, keys, begin, end)


def make_mesh(seeds: int, runs: int = 1) -> Mesh:
    """Devices in a grid (seeds, runs): seeds first, since runs of one seed share their batches.

    In one process no more devices are taken than there are runs; several processes all take part.
    """
    devices = jax.devices()
    rows = math.gcd(len(devices), seeds)
    columns = len(devices) // rows
    if jax.process_count() == 1:
        columns = min(columns, runs)
    return Mesh(np.array(devices[: rows * columns]).reshape(rows, columns), ("seeds", "runs"))


def place(leaf, mesh: Mesh, spec: PartitionSpec) -> jax.Array:
    """A host array to the mesh; runs are repeated until they fill it."""
    leaf = np.asarray(leaf)
    if "runs" in spec:
        axis = list(spec).index("runs")
        missing = -leaf.shape[axis] % mesh.shape["runs"]
        leaf = np.concatenate([leaf, leaf.take([-1] * missing, axis)], axis)
    return jax.make_array_from_callback(leaf.shape, NamedSharding(mesh, spec), lambda index: leaf[index])


def _fetch(leaf: jax.Array, runs: int | None, axis: int) -> np.ndarray:
    """An array on the host of every process, without the runs that only filled the mesh."""
    whole = multihost_utils.process_allgather(leaf, tiled=True) if jax.process_count() > 1 else jax.device_get(leaf)
    return np.asarray(whole) if runs is None else np.asarray(whole).take(range(runs), axis)
