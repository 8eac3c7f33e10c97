"""What a training keeps and shows while its loop runs: losses, snapshots, checkpoints
and progress, on one device or on many.
"""

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, PyTree

from lsalib import _check

# The most steps of one call of the compiled loop. Its losses go into a buffer of this
# length: with a buffer for all steps, each number of steps would be another program.
PIECE = 1000


class State(NamedTuple):
    """What changes from step to step; each leaf has the seeds in front, and in a sweep
    the runs behind them.
    """

    params: PyTree
    opt_state: PyTree


class Trained(NamedTuple):
    """The end of a training; with ``seeds``, they are the first axis of every array.

    ``losses`` are those before each step, (steps, ...). ``snapshots`` holds the params
    after the steps of ``snapshots``, in their order, with one more axis in front of
    each leaf, and is None without any.
    """

    params: PyTree
    losses: Float[Array | np.ndarray, "..."]
    snapshots: PyTree
    opt_state: PyTree


class Record:
    """All that a training leaves: after each piece of the loop it takes the losses, and
    does what is to be done on the way (see ``train``).
    """

    def __init__(
        self,
        steps: int,
        snapshots,
        callback: Callable | None,
        every: int,
        progress: bool,
        checkpoint,
    ):
        self.steps = _check.count("steps", steps)
        self.every = _check.count("every", every)
        self.marks = whole_numbers("snapshots", snapshots, self.steps)
        self.callback, self.progress = callback, progress
        self.path = checkpoint and Path(checkpoint, "state.npz")

    def begin(self, state: State, losses, batch_axes: int, settings: dict) -> None:
        """With this state, unless there is a checkpoint of a training with the same
        settings. The first ``batch_axes`` axes of all arrays are those of seeds and
        runs.
        """
        self.batch_axes, self.state, self.at = batch_axes, state, 0
        self.losses = np.full((self.steps, *losses.shape[1:]), np.nan, losses.dtype)
        # Those that are still to come hold the last params: a training that stops early
        # repeats them.
        self.snapshots = dict.fromkeys(self.marks, state.params)
        if self.path:
            parts = settings | state._asdict()
            self.settings = {name: digest(part) for name, part in parts.items()}
            self.restore()
        self.reported = self.at  # the step up to which the callback knows the losses
        self.bar: Any = None
        if self.progress and jax.process_index() == 0:
            from tqdm import tqdm

            self.bar = tqdm(total=self.steps, initial=self.at)

    def stops(self) -> list[int]:
        """The steps after which something happens."""
        stops = {
            *range(0, self.steps, PIECE),
            *range(0, self.steps, self.every),
            *self.marks,
            self.steps,
        }
        return sorted(stop for stop in stops if stop > self.at)

    def add(self, stop: int, state: State, losses) -> None:
        """The state after the steps before ``stop``, and their losses."""
        if self.bar:
            self.bar.update(stop - self.at)
        self.losses[self.at : stop] = losses[: stop - self.at]
        self.state, self.at = state, stop
        for mark in self.marks:
            if mark >= stop:
                self.snapshots[mark] = state.params
        if stop % self.every and stop < self.steps:
            return
        if self.callback:
            news = np.moveaxis(self.losses[self.reported : stop], 0, self.batch_axes)
            self.callback(stop, news.copy(), state.params)
            self.reported = stop
        if self.path:
            if jax.process_index() == 0:
                write(self.path, *self.content())
            # On several machines one of them got SIGTERM: all end after this step.
            if multihost_utils.reached_preemption_sync_point(stop // self.every):
                raise SystemExit(143)

    def content(self) -> tuple[dict, PyTree]:
        """The settings up to this step, and what a checkpoint holds."""
        # A training that is extended may have more snapshots.
        taken = {
            mark: params for mark, params in self.snapshots.items() if mark <= self.at
        }
        content = self.losses[: self.at], self.state, taken
        return self.settings | {"snapshots": [*taken]}, content

    def restore(self) -> None:
        """Go on from the checkpoint that the first process has, if it has one."""
        folder = self.path.parent
        if folder.is_file():
            raise ValueError(f"checkpoint must be a folder, got the file {folder}")
        if jax.process_index() == 0 and self.path.exists():
            stored, leaves = read(self.path)
            self.at = len(leaves[0])
            if self.at > self.steps:
                raise ValueError(
                    f"checkpoint {folder} has {self.at} steps, more than steps = "
                    f"{self.steps}"
                )
            about, like = self.content()
            if differ := [name for name in about if stored.get(name) != about[name]]:
                raise ValueError(
                    f"checkpoint {folder} has other settings: {', '.join(differ)}"
                )
            # A file does not know the type of bfloat16.
            typed = map(lambda x, y: x.view(y.dtype), leaves, jax.tree.leaves(like))
            content = jax.tree.unflatten(jax.tree.structure(like), typed)
            self.losses[: self.at], self.state, taken = content
            self.snapshots = dict.fromkeys(self.marks, self.state.params) | taken
        content = np.int32(self.at), self.losses, self.state, self.snapshots
        at, losses, self.state, self.snapshots = multihost_utils.broadcast_one_to_all(
            content
        )
        self.at, self.losses[:] = int(at), losses

    def end(self) -> tuple[Trained, np.ndarray]:
        """What came out, and the step at which each seed or run diverged, or -1."""
        if self.bar:
            self.bar.close()
        axes, (params, opt_state) = self.batch_axes, self.state
        # What the last update breaks only the params show.
        last = [finite(leaf, axes) for leaf in jax.tree.leaves(params)]
        good = np.append(finite(self.losses, axes + 1), [np.all(last, axis=0)], axis=0)
        alive = np.logical_and.accumulate(good)
        self.losses[~alive[:-1]] = np.nan
        snapshots = None
        if taken := self.snapshots.values():
            snapshots = jax.tree.map(lambda *leaves: np.stack(leaves, axes), *taken)
        losses = np.moveaxis(self.losses, 0, axes)
        diverged = np.where(alive[-1], -1, alive.sum(axis=0))
        return Trained(params, losses, snapshots, opt_state), diverged


def finite(array: np.ndarray, axes: int) -> np.ndarray:
    """Whether all is finite at each place of the first axes."""
    return np.isfinite(array).reshape(*array.shape[:axes], -1).all(-1)


def whole_numbers(name: str, values, last: int) -> tuple[int, ...]:
    """Increasing whole numbers of 0 to ``last``."""
    numbers = np.atleast_1d(values).tolist()
    for number in numbers:
        _check.count(f"each of {name}", number, 0)
    if numbers != sorted(set(numbers)) or max(numbers, default=0) > last:
        raise ValueError(
            f"{name} must be increasing whole numbers of 0 to {last}, got {values!r}"
        )
    return tuple(numbers)


def spread(tree: PyTree, batch_axes: int) -> PyTree:
    """Over all devices, in a grid of seeds and runs; what does not divide is computed
    several times.
    """
    if (devices := jax.device_count()) == 1:
        return tree
    seeds, runs = (*jax.tree.leaves(tree)[0].shape[:batch_axes], 1, 1)[:2]
    rows = math.gcd(seeds, devices)
    columns = math.gcd(runs, devices // rows)
    grid = np.reshape(jax.devices(), (rows, columns, -1))
    mesh = Mesh(grid, ("seeds", "runs", "copies"))

    def place(leaf):
        axes = mesh.axis_names[: min(batch_axes, leaf.ndim)]
        return NamedSharding(mesh, PartitionSpec(*axes))

    return jax.lax.with_sharding_constraint(tree, jax.tree.map(place, tree))


def digest(tree: PyTree) -> str:
    """A short text for the numbers and texts in a tree, and for its structure."""
    values = jax.tree.map(lambda leaf: np.asarray(leaf).tolist(), tree)
    return hashlib.sha256(repr(values).encode()).hexdigest()


def write(path: str | Path, about, tree: PyTree) -> None:
    """A file in NumPy's npz format; an interrupted write leaves what was there."""
    part = Path(f"{path}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("wb") as file:
        np.savez(
            file,
            *jax.tree.leaves(tree),
            about=json.dumps(about, default=np.ndarray.tolist),
        )
    part.replace(path)


def read(path: str | Path) -> tuple[Any, list]:
    """What ``write`` was given: what the file is about, and the leaves of the tree."""
    with np.load(path) as file:
        if "about" not in file:
            raise ValueError(
                f"path must be a file that lsalib.training wrote, got {path}, which "
                f"holds {', '.join(file) or 'nothing'}"
            )
        leaves = [file[f"arr_{i}"] for i in range(len(file) - 1)]
        return json.loads(str(file["about"])), leaves
