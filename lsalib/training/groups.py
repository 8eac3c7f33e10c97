"""A group of runs that share one program: what it trains, how far it has come, and how far it has to go.

All arrays in here are NumPy's, on the host: they go into checkpoints as they are, and nothing is compiled for them.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from lsalib.training.checkpoint import Arrays, Checkpoint, digest
from lsalib.training.loop import Program, State
from lsalib.training.processes import gathered

__all__ = ["Group", "GroupRecord", "Plan"]


@dataclass
class GroupRecord:
    """How far a group has come, on the host.

    ``stopped`` holds, for each seed (in a sweep for each run of a seed), the step at which its loss was no longer
    finite, else -1. What has stopped keeps its last state with a finite loss.
    """

    state: State
    steps: int = 0
    losses: list[np.ndarray] = field(default_factory=list)
    snapshots: dict[int, PyTree] = field(default_factory=dict)
    stopped: np.ndarray = field(default_factory=lambda: np.array(-1))
    stored: int = 0  # the number of steps whose losses are in the checkpoint
    ended: bool = False  # whether a callback ended it

    def loss(self) -> np.ndarray:
        """The losses of all steps, (S, steps, ...)."""
        return np.concatenate(self.losses).swapaxes(0, 1)

    def store(self, store: Checkpoint, group: int) -> None:
        """Add what is new to the checkpoint."""
        state = {"steps": np.array(self.steps), "stopped": self.stopped, "snapshots": np.array([*self.snapshots], int)}
        state |= _numbered("state", self.state)
        pieces: dict[str, Arrays] = {
            f"snapshot-{step}": _numbered("params", tree)
            for step, tree in self.snapshots.items()
            if step >= self.stored
        }
        if self.steps > self.stored:
            pieces[f"losses-{self.stored}"] = {"losses": np.concatenate(self.losses)[self.stored :]}
        store.save(group, state, pieces)
        self.stored = self.steps

    def restored(self, arrays: Arrays) -> "GroupRecord":
        """The record that was stored as these arrays; this one if there are none."""
        if not arrays:
            return self

        def tree(name: str, template):
            leaves = [arrays[f"{name} {i}"] for i in range(len(jax.tree.leaves(template)))]
            return jax.tree.unflatten(jax.tree.structure(template), leaves)

        taken = sorted({int(name.split()[1]) for name in arrays if name.startswith("snapshot ")})
        snapshots = {step: tree(f"snapshot {step} params", self.state.params) for step in taken}
        steps = int(arrays["steps"])
        return GroupRecord(tree("state", self.state), steps, [arrays["losses"]], snapshots, arrays["stopped"], steps)


def _numbered(name: str, tree) -> Arrays:
    return {f"{name} {i}": leaf for i, leaf in enumerate(jax.tree.leaves(tree))}


class Group(NamedTuple):
    """What one compiled program trains: its record, its data, and the keys of its seeds, (S, ...) of key data.

    The program takes ``chunk`` runs after ``chunk`` runs, and a device gets whole chunks.
    """

    program: Program
    record: GroupRecord
    data: tuple
    keys: np.ndarray
    runs: int | None = None
    chunk: int = 1

    @property
    def lots(self) -> tuple[int, int]:
        """How many seeds there are, and chunks of runs: what is spread over devices."""
        return len(self.keys), (self.runs or 1) // self.chunk

    @property
    def units(self) -> tuple[int, ...]:
        """How many seeds there are, and in a sweep how many runs."""
        return (len(self.keys),) if self.runs is None else (len(self.keys), self.runs)


class Plan(NamedTuple):
    """How far a training goes, and where the host looks at it.

    ``watch(group, record, losses)`` is called every ``watch_every`` steps, with the losses since the last time; the
    group ends if it returns true. ``identity`` identifies the training, as JSON data by name; a single process without
    a checkpoint may leave it empty.
    """

    steps: int
    identity: dict[str, object]
    store: Checkpoint | None = None
    store_every: int = 500
    snapshots: Sequence[int] = ()
    watch: Callable[[int, GroupRecord, np.ndarray], object] | None = None
    watch_every: int = 500

    def next_mark(self, after: int) -> int:
        """The next step at which the host needs the state."""
        marks = [self.steps, *(step for step in self.snapshots if step > after)]
        marks += [(after // every + 1) * every for every, used in self._cycles() if used]
        return min(marks)

    def is_watched(self, step: int) -> bool:
        return self.watch is not None and (step == self.steps or step % self.watch_every == 0)

    def is_stored(self, step: int) -> bool:
        return self.store is not None and (step == self.steps or step % self.store_every == 0)

    def _cycles(self):
        return (self.store_every, self.store is not None), (self.watch_every, self.watch is not None)

    def agree(self) -> None:
        """Raise an error on all processes if they were given different trainings."""
        if jax.process_count() == 1:
            return
        mine: dict[str, object] = {"steps": self.steps, "checkpoint": self.store is not None}
        mine |= {"checkpoint_every": self.store_every, "snapshots": list(self.snapshots)}
        mine |= {"callback": self.watch is not None and self.watch_every, **self.identity}
        texts = [json.loads(text) for text in gathered(json.dumps({name: digest(mine[name]) for name in mine}))]
        differs = [name for name in texts[0] if len({text.get(name) for text in texts}) > 1]
        if differs:
            raise ValueError(f"{', '.join(differs)} must be the same in all {len(texts)} processes, got different ones")

    def check(self, record: GroupRecord) -> None:
        """Refuse a stored state that is beyond this plan."""
        if record.steps > self.steps:
            reached = f"{record.steps}, which the checkpoint has reached"
            raise ValueError(f"steps must be at least {reached}, got {self.steps}")
        if missed := [step for step in self.snapshots if step < record.steps and step not in record.snapshots]:
            raise ValueError(
                f"snapshots must lie beyond step {record.steps}, which the checkpoint has reached, got {missed}"
            )
