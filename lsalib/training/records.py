"""What a training keeps and shows while its loop runs: losses, snapshots, checkpoints
and progress, on one device or on many.
"""

import json
import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, PyTree

from lsalib import _check

# The most steps of one call of the compiled loop. Its losses go into a buffer of this
# length: with a buffer for all steps, each number of steps would be another program.
# While a progress bar is shown, calls are shorter.
PIECE, SHORT_PIECE = 1000, 100


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


class Schedule(NamedTuple):
    """How long a training is, and what happens on the way (see ``train``)."""

    steps: int
    snapshots: Any = ()
    callback: Callable | None = None
    every: int = 500
    progress: bool = False
    checkpoint: Any = None

    def checked(self) -> "Schedule":
        steps, every = (
            _check.count("steps", self.steps),
            _check.count("every", self.every),
        )
        marks = whole_numbers("snapshots", self.snapshots, steps)
        return self._replace(steps=steps, every=every, snapshots=marks)


class Record:
    """All that a training leaves: after each piece of the loop it takes the losses, and
    does what the schedule says.

    The first ``batch_axes`` axes of all arrays are those of seeds and runs.
    """

    def __init__(self, state: State, losses, batch_axes: int, how: Schedule, settings):
        self.how, self.batch_axes = how, batch_axes
        self.state, self.at = jax.device_get(state), 0
        self.losses = np.full((how.steps, *losses.shape[1:]), np.nan, losses.dtype)
        self.snapshots = [self.state.params] if 0 in how.snapshots else []
        self.store, self.shown = None, None
        if how.checkpoint is not None:
            self.store = Checkpoint(how.checkpoint, settings, how.snapshots)
            self.at, (self.state, before, self.snapshots) = self.store.restored(
                self.state, self.losses
            )
            self.losses[: self.at] = before
        self.reported = self.at  # the step up to which the callback knows the losses
        self.alive = np.array(True)

    def bar(self) -> Any:
        """The bar of the first process, if there is to be one."""
        if not self.how.progress or jax.process_index() != 0:
            return nullcontext()
        from tqdm import tqdm

        self.shown = tqdm(total=self.how.steps, initial=self.at)
        return self.shown

    def next_stop(self) -> int | None:
        """Up to which step the loop runs before something happens; None at the end."""
        how, at = self.how, self.at
        if at >= how.steps or not self.alive.any():
            return None
        piece = SHORT_PIECE if how.progress else PIECE
        marks = [mark for mark in how.snapshots if mark > at]
        return min(at + piece, (at // how.every + 1) * how.every, how.steps, *marks)

    def add(self, stop: int, state: State, losses) -> None:
        """The state after the steps before ``stop``, and their losses."""
        self.state, losses = gathered((state, losses))
        at, self.at = self.at, stop
        self.losses[at:stop] = losses[: stop - at]
        bad = _first_bad(self.losses[at:stop], self.batch_axes)
        self.alive = self.alive & (bad == stop - at)
        if self.shown is not None:
            self.shown.update(stop - at)
        if stop in self.how.snapshots:
            self.snapshots.append(self.state.params)
        if stop % self.how.every == 0 or stop == self.how.steps:
            self._report()

    def _report(self) -> None:
        if self.how.callback:
            losses = np.moveaxis(
                self.losses[self.reported : self.at], 0, self.batch_axes
            )
            self.how.callback(self.at, losses.copy(), self.state.params)
            self.reported = self.at
        if self.store:
            self.store.save(self.at, self.state, self.losses[: self.at], self.snapshots)
            if self.store.told_to_end(self.at // self.how.every):
                raise SystemExit(143)

    def end(self) -> tuple[Trained, np.ndarray]:
        """What came out, and the step at which each seed or run diverged, or -1."""
        axes, steps, params = self.batch_axes, self.how.steps, self.state.params
        first = _first_bad(self.losses, axes)
        self.losses[np.arange(steps).reshape(-1, *[1] * axes) >= first] = np.nan
        # What the last update breaks only the params show.
        finite = [
            np.isfinite(leaf.reshape(*leaf.shape[:axes], -1)).all(-1)
            for leaf in jax.tree.leaves(params)
        ]
        diverged = np.where((first < steps) | ~np.all(finite, axis=0), first, -1)
        # A training that stopped early repeats its last params.
        marks = len(self.how.snapshots)
        taken = self.snapshots + [params] * (marks - len(self.snapshots))
        stacked = None
        if taken:
            stacked = jax.tree.map(lambda *leaves: np.stack(leaves, axes), *taken)
        losses = np.moveaxis(self.losses, 0, axes)
        return Trained(params, losses, stacked, self.state.opt_state), diverged


def _first_bad(losses: np.ndarray, batch_axes: int) -> np.ndarray:
    """The first step whose loss is not finite, or the number of steps."""
    good = np.isfinite(losses).reshape(*losses.shape[: 1 + batch_axes], -1).all(-1)
    return np.where(good.all(0), len(good), good.argmin(0))


def whole_numbers(name: str, given, last: int) -> list[int]:
    """Increasing whole numbers of 0 to ``last``."""
    numbers = np.ravel(given).tolist()
    whole = np.ndim(given) == 1 and all(
        type(number) is int and 0 <= number <= last for number in numbers
    )
    if not whole or numbers != sorted(set(numbers)):
        raise ValueError(
            f"{name} must be increasing whole numbers of 0 to {last}, got {given!r}"
        )
    return numbers


def spread(put, state: State, batch_axes: int) -> State:
    """Over all devices, in a grid of seeds and runs; what does not divide is computed
    several times.
    """
    if (devices := jax.device_count()) == 1:
        return state
    seeds, runs = (*jax.tree.leaves(state)[0].shape[:batch_axes], 1)[:2]
    rows = math.gcd(seeds, devices)
    columns = math.gcd(runs, devices // rows)
    grid = np.reshape(jax.devices(), (rows, columns, -1))
    mesh = Mesh(grid, ("seeds", "runs", "copies"))

    def place(leaf):
        axes = ("seeds", "runs")[: min(batch_axes, np.ndim(leaf))]
        return NamedSharding(mesh, PartitionSpec(*axes))

    return put(state, jax.tree.map(place, state))


def gathered(tree: PyTree) -> PyTree:
    """From all devices, on the host."""
    if jax.process_count() == 1:
        return jax.device_get(tree)
    together = partial(multihost_utils.process_allgather, tiled=True)
    return as_before(together(as_arrays(tree)), tree)


def as_arrays(tree: PyTree) -> PyTree:
    """Keys as their numbers, and one zero for an array without entries: Orbax stores
    neither.
    """

    def plain(leaf):
        if is_key(leaf):
            return jax.random.key_data(leaf)
        return leaf if np.size(leaf) else np.zeros(1)

    return jax.tree.map(plain, tree)


def as_before(arrays: PyTree, tree: PyTree) -> PyTree:
    """What ``as_arrays`` made of a tree like this one, with its keys."""

    def back(array, leaf):
        if is_key(leaf):
            numbers = jnp.asarray(array)
            return jax.random.wrap_key_data(numbers, impl=jax.random.key_impl(leaf))
        return array if np.size(leaf) else leaf

    return jax.tree.map(back, arrays, tree)


def is_key(leaf) -> bool:
    return jnp.issubdtype(getattr(leaf, "dtype", float), jax.dtypes.prng_key)


class Checkpoint:
    """Checkpoints of one training, by Orbax, that the first process alone reads and
    writes.
    """

    def __init__(self, folder, settings: dict[str, Any], snapshots: list[int]):
        import orbax.checkpoint as ocp

        self.folder, self.settings = Path(folder).absolute(), settings
        self.snapshots, self.manager = snapshots, None
        # On several machines, the step after which all processes end, since one of them
        # got SIGTERM.
        self.args, self.told_to_end = ocp.args, ocp.utils.reached_preemption
        if jax.process_index() != 0:
            return
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"checkpoint must be a folder, got the file {self.folder}")
        self.folder.mkdir(parents=True, exist_ok=True)
        alone = ocp.options.MultiprocessingOptions(primary_host=0, active_processes={0})
        options = ocp.CheckpointManagerOptions(
            preservation_policy=ocp.checkpoint_managers.LatestN(2),
            enable_async_checkpointing=False,
            create=False,
            multiprocessing_options=alone,
        )
        # without it, reading settings logs that a restore is impossible
        handler = ocp.StandardCheckpointHandler()
        self.manager = ocp.CheckpointManager(
            self.folder, options=options, item_handlers=handler
        )

    def restored(
        self, state: State, losses: np.ndarray
    ) -> tuple[int, tuple[PyTree, np.ndarray, list]]:
        """The last stored step; the state there, losses and snapshots.

        Given are the state at 0 and room for losses.
        """
        at, problem = 0, ""
        if self.manager and (at := self.manager.latest_step() or 0):
            problem = self._problem(at, len(losses))
        at, refused = (int(each) for each in _from_first((at, bool(problem))))
        if refused:
            problem = problem or "other settings, as the first process says"
            raise ValueError(f"checkpoint {self.folder} has {problem}")
        count = sum(step <= at for step in self.snapshots)
        like = state, losses[:at], [state.params] * count
        if not at:
            return at, like
        arrays = as_arrays(like)
        if self.manager:
            arrays = self.manager.restore(at, args=self.args.StandardRestore(arrays))
        return at, as_before(_from_first(arrays), like)

    def _problem(self, at: int, steps: int) -> str:
        """Why this training cannot go on from here, if it cannot."""
        if at > steps:
            return f"{at} steps, more than steps = {steps}"
        stored = self.manager.metadata(at).custom_metadata  # type: ignore[union-attr]
        mine = self._settings_at(at)
        names = {**stored, **mine}
        differ = [name for name in names if stored.get(name) != mine.get(name)]
        return f"other settings: {', '.join(differ)}" if differ else ""

    def save(self, at: int, state: PyTree, losses: np.ndarray, snapshots: list) -> None:
        """Add the state at a step; if that is interrupted, the checkpoint before it
        stays.
        """
        if self.manager:
            tree = self.args.StandardSave(as_arrays((state, losses, snapshots)))
            self.manager.save(
                at, args=tree, custom_metadata=self._settings_at(at), force=True
            )

    def _settings_at(self, at: int) -> dict[str, Any]:
        # A training that is extended may ask for more snapshots. Orbax keeps JSON,
        # which has lists for tuples.
        snapshots = [step for step in self.snapshots if step <= at]
        return json.loads(json.dumps(self.settings | {"snapshots": snapshots}))


def _from_first(tree: PyTree) -> PyTree:
    """What the first process has."""
    return jax.tree.map(np.asarray, multihost_utils.broadcast_one_to_all(tree))
