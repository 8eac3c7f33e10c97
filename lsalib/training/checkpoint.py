"""The state of a training in a folder, by Orbax. The first process alone reads and writes."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

__all__ = ["Checkpoint"]


class Checkpoint:
    """Checkpoints of one training in a folder; ``settings``, by name, must be the same when it goes on."""

    def __init__(self, folder, settings: dict[str, Any], snapshots: list[int]):
        import orbax.checkpoint as ocp

        self.folder, self.settings, self.snapshots = Path(folder).absolute(), settings, snapshots
        self.args, self.manager = ocp.args, None
        if jax.process_index() == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            options = ocp.CheckpointManagerOptions(
                preservation_policy=ocp.checkpoint_managers.LatestN(2),
                enable_async_checkpointing=False,
                create=False,
                multiprocessing_options=ocp.options.MultiprocessingOptions(primary_host=0, active_processes={0}),
            )
            self.manager = ocp.CheckpointManager(self.folder, options=options)

    def restored(self, state: PyTree, losses: np.ndarray) -> tuple[int, tuple[PyTree, np.ndarray, list]]:
        """The last stored step; the state there, the losses up to it, and the snapshots.

        Given are the state before the first step, and room for the losses of all steps.
        """
        at, problem = 0, ""
        if self.manager and (at := self.manager.latest_step() or 0):
            stored, mine = self.manager.metadata(at).custom_metadata, self._settings_at(at)
            if at > len(losses):
                problem = f"{at} steps, more than steps = {len(losses)}"
            elif differ := [name for name in {**stored, **mine} if stored.get(name) != mine.get(name)]:
                problem = f"other settings: {', '.join(differ)}"
        at, refused = (int(each) for each in _from_first((at, bool(problem))))
        if refused:
            raise ValueError(f"checkpoint {self.folder} has {problem or 'other settings, as the first process says'}")
        kept = [jax.tree.map(np.zeros_like, state[0])] * sum(step <= at for step in self.snapshots)
        tree = state, losses[:at], kept
        if at and self.manager:
            tree = self.manager.restore(at, args=self.args.StandardRestore(tree))
        return at, _from_first(tree) if at else (state, losses[:0], [])

    def save(self, at: int, state: PyTree, losses: np.ndarray, kept: list) -> None:
        """Add the state at a step; if that is interrupted, the checkpoint before it stays."""
        if self.manager:
            tree = self.args.StandardSave((state, losses, kept))
            self.manager.save(at, args=tree, custom_metadata=self._settings_at(at), force=True)

    def _settings_at(self, at: int) -> dict[str, Any]:
        # A training that is extended may ask for more snapshots. Orbax keeps JSON, which has lists for tuples.
        snapshots = [step for step in self.snapshots if step <= at]
        return json.loads(json.dumps(self.settings | {"snapshots": snapshots}))


def _from_first(tree: PyTree) -> PyTree:
    """What the first process has."""
    if jax.process_count() == 1:
        return tree
    from jax.experimental import multihost_utils

    return jax.tree.map(np.asarray, multihost_utils.broadcast_one_to_all(tree))
