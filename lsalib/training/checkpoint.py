"""The state of a training in a folder, by Orbax. The first process alone reads and writes."""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

__all__ = ["Checkpoint", "digest"]


def digest(tree: PyTree) -> str:
    """A short text for the numbers in a tree and its structure."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = [np.asarray(leaf) for leaf in jax.device_get(leaves)]
    about = [str(structure), *(f"{array.dtype}{array.shape}" for array in arrays)]
    return hashlib.sha256("".join(about).encode() + b"".join(array.tobytes() for array in arrays)).hexdigest()[:16]


class Checkpoint:
    """Checkpoints of one training.

    Args:
        folder: where they are; it is made if it is missing.
        settings: what must be the same when the training goes on, as JSON data by name.
        snapshots: the steps after which params are kept.
    """

    def __init__(self, folder: str | os.PathLike, settings: dict[str, Any], snapshots: Sequence[int]):
        try:
            import orbax.checkpoint as ocp
        except ImportError as error:
            raise ImportError("checkpoint needs Orbax: pip install orbax-checkpoint") from error
        self.args, self.snapshots = ocp.args, list(snapshots)
        self.folder = Path(folder).absolute()
        self.settings = json.loads(json.dumps(settings))
        self.reached_preemption = ocp.utils.reached_preemption
        self.manager = None
        if jax.process_index() == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            options = ocp.CheckpointManagerOptions(
                preservation_policy=ocp.checkpoint_managers.LatestN(2),
                enable_async_checkpointing=False,
                create=False,
                multiprocessing_options=ocp.options.MultiprocessingOptions(primary_host=0, active_processes={0}),
            )
            self.manager = ocp.CheckpointManager(self.folder, options=options)

    def restored(self, steps: int, state: PyTree, loss: jax.ShapeDtypeStruct) -> tuple[int, tuple[PyTree, Any, list]]:
        """The last stored step, and there the state, the losses (steps, ...) and the snapshots.

        Args:
            steps: how many the training shall have.
            state: the state before the first step.
            loss: the shape of the losses of one step.
        """
        at, problem = self._found(steps) if self.manager else (0, "")
        at, refused = _from_first((at, bool(problem)))
        if refused:
            raise ValueError(problem or "checkpoint was refused by the first process, which says why")
        if not at:
            return 0, (state, [], [])
        params = jax.tree.map(np.zeros_like, state[0])
        stored = state, np.zeros((int(at), *loss.shape), loss.dtype), [params] * sum(s <= at for s in self.snapshots)
        if self.manager:
            args = self.args.Composite(training=self.args.StandardRestore(stored))
            stored = self.manager.restore(int(at), args=args)["training"]
        state, losses, kept = _from_first(stored)
        return int(at), (state, [losses], list(kept))

    def _found(self, steps: int) -> tuple[int, str]:
        """The last stored step, or what speaks against it."""
        at = self.manager.latest_step()
        if at is None:
            return 0, ""
        if at > steps:
            return at, f"checkpoint {self.folder} has {at} steps, more than steps = {steps}"
        args = self.args.Composite(settings=self.args.JsonRestore())
        stored = self.manager.restore(at, args=args)["settings"]
        mine = self._settings_at(at)
        differ = [name for name in {**stored, **mine} if stored.get(name) != mine.get(name)]
        problem = f"checkpoint {self.folder} belongs to a training with other settings: {', '.join(differ)}"
        return at, problem if differ else ""

    def save(self, at: int, state: PyTree, losses: np.ndarray, kept: list) -> None:
        """Add the state at a step; an interrupted write leaves the checkpoint before it."""
        if self.manager:
            save = {"training": self.args.StandardSave((state, losses, kept))}
            save["settings"] = self.args.JsonSave(self._settings_at(at))
            self.manager.save(at, args=self.args.Composite(**save), force=True)

    def _settings_at(self, at: int) -> dict[str, Any]:
        # A training that is extended may ask for more snapshots.
        return self.settings | {"snapshots": [step for step in self.snapshots if step <= at]}


def _from_first(tree: PyTree) -> PyTree:
    """What the first process has."""
    if jax.process_count() == 1:
        return tree
    from jax.experimental import multihost_utils

    return jax.tree.map(np.asarray, multihost_utils.broadcast_one_to_all(tree))
