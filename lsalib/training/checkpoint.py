"""The state of a training in a folder, by Orbax. The first process alone reads and writes."""

import hashlib
import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

__all__ = ["Checkpoint", "digest"]


def digest(tree: PyTree) -> str:
    """A short text for the numbers in a tree, and for its structure."""
    leaves, structure = jax.tree.flatten(tree)
    arrays = [np.asarray(leaf) for leaf in jax.device_get(leaves)]
    about = [str(structure), *(f"{array.dtype}{array.shape}" for array in arrays)]
    return hashlib.sha256("".join(about).encode() + b"".join(array.tobytes() for array in arrays)).hexdigest()[:16]


class Checkpoint:
    """Checkpoints of one training in a folder; ``settings``, by name, must be the same when it goes on."""

    def __init__(self, folder, settings: dict[str, Any], snapshots: list[int]):
        import orbax.checkpoint as ocp

        self.args, self.told_to_end, self.manager = ocp.args, ocp.utils.reached_preemption, None
        self.folder, self.settings, self.snapshots = Path(folder).absolute(), settings, snapshots
        if jax.process_index() == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            options = ocp.CheckpointManagerOptions(
                preservation_policy=ocp.checkpoint_managers.LatestN(2),
                enable_async_checkpointing=False,
                create=False,
                multiprocessing_options=ocp.options.MultiprocessingOptions(primary_host=0, active_processes={0}),
            )
            self.manager = ocp.CheckpointManager(self.folder, options=options)

    def restored(self, steps: int, state: PyTree, loss: jax.ShapeDtypeStruct) -> tuple[int, tuple[PyTree, list, list]]:
        """The last stored step, at most ``steps``; the state there, the losses up to it, and the snapshots.

        ``state`` is that before the first step, and ``loss`` has the shape of the losses of one step.
        """
        at, problem = 0, ""
        if self.manager and (at := self.manager.latest_step() or 0):
            stored = self.manager.restore(at, args=self.args.Composite(settings=self.args.JsonRestore()))["settings"]
            mine = json.loads(json.dumps(self._settings_at(at)))
            if at > steps:
                problem = f"{at} steps, more than steps = {steps}"
            elif differ := [name for name in {**stored, **mine} if stored.get(name) != mine.get(name)]:
                problem = f"other settings: {', '.join(differ)}"
        at, refused = (int(each) for each in _from_first((at, bool(problem))))
        if refused:
            raise ValueError(f"checkpoint {self.folder} has {problem or 'other settings, as the first process says'}")
        if not at:
            return 0, (state, [], [])
        kept = [jax.tree.map(np.zeros_like, state[0])] * sum(step <= at for step in self.snapshots)
        tree = state, np.zeros((at, *loss.shape), loss.dtype), kept
        if self.manager:
            tree = self.manager.restore(at, args=self.args.Composite(training=self.args.StandardRestore(tree)))[
                "training"
            ]
        state, losses, kept = _from_first(tree)
        return at, (state, [losses], list(kept))

    def save(self, at: int, state: PyTree, losses: np.ndarray, kept: list) -> None:
        """Add the state at a step; if that is interrupted, the checkpoint before it stays."""
        if self.manager:
            training, settings = (
                self.args.StandardSave((state, losses, kept)),
                self.args.JsonSave(self._settings_at(at)),
            )
            self.manager.save(at, args=self.args.Composite(training=training, settings=settings), force=True)

    def _settings_at(self, at: int) -> dict[str, Any]:
        # A training that is extended may ask for more snapshots.
        return self.settings | {"snapshots": [step for step in self.snapshots if step <= at]}


def _from_first(tree: PyTree) -> PyTree:
    """What the first process has."""
    if jax.process_count() == 1:
        return tree
    from jax.experimental import multihost_utils

    return jax.tree.map(np.asarray, multihost_utils.broadcast_one_to_all(tree))
