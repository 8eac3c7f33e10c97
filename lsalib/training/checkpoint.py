"""The state of an unfinished training in a folder. Only the first process reads it, and only the first writes.

Each group of runs that share a program has its own files. ``state`` holds the weights and the optimizer, and is
replaced as a whole. Losses and snapshots never change, so each piece of them is written once. A state counts only
the pieces up to its own step, and is written after them: a process killed at any moment leaves the last whole state.
"""

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import numpy as np

from lsalib import _files, _npz
from lsalib.training.processes import from_first, gathered

__all__ = ["Checkpoint", "digest"]

Arrays = dict[str, np.ndarray]


class Checkpoint:
    """A folder with the state of one training, and what identifies that training.

    Args:
        path: the folder; it is made with the first state. Its parent must exist, on every process.
        identity: what makes a training this training, as JSON data by name; another one's folder is refused.

    Raises:
        ValueError: if the parent folder does not exist for some process.
    """

    def __init__(self, path: str | os.PathLike, identity: Mapping[str, object]):
        try:
            self.path = Path(path)
        except TypeError:
            raise ValueError(f"checkpoint must be the path of a folder, got {path!r}") from None
        self.identity = {name: digest(value) for name, value in identity.items()}
        here = [text == "yes" for text in gathered("yes" if self.path.parent.is_dir() else "no")]
        if not all(here):
            ranks = [rank for rank, there in enumerate(here) if not there]
            who = f", which process {', '.join(map(str, ranks))} of {len(here)} does not have" if len(here) > 1 else ""
            raise ValueError(f"checkpoint must be in a folder that exists, got {self.path}{who}")

    def load(self, groups: int) -> list[Arrays]:
        """The stored arrays of each group, none for a group that has not begun. Every process gets the same.

        Raises:
            ValueError: on every process, if a file is damaged or belongs to another training. It is left as it is.
        """
        arrays, _ = _npz.unpack(from_first(lambda: _npz.pack(self._read(groups))))
        kept: list[Arrays] = [{} for _ in range(groups)]
        for name, array in arrays.items():
            group, _, own = name.partition(" ")
            kept[int(group)][own] = array
        return kept

    def save(self, group: int, state: Arrays, pieces: Mapping[str, Arrays]) -> None:
        """Store a group's state, after the pieces that are new since the last time."""
        if not (self.path / "training.json").exists():
            _files.write(self.path / "training.json", json.dumps(self.identity, indent=1).encode())
        for name, arrays in pieces.items():
            _npz.write(self.path / f"{group}-{name}.npz", arrays)
        _npz.write(self.path / f"{group}-state.npz", state)

    def _read(self, groups: int) -> Arrays:
        """All arrays, by the number of their group and their name."""
        if not self.path.exists():
            return {}
        self._check_owner()
        try:
            return {
                f"{group} {name}": array for group in range(groups) for name, array in self._of_group(group).items()
            }
        except (_npz.Damaged, OSError) as error:
            raise ValueError(f"checkpoint must be whole, got {self.path}, of which {error}") from None

    def _of_group(self, group: int) -> Arrays:
        if not (self.path / f"{group}-state.npz").exists():
            return {}
        kept, _ = _npz.read(self.path / f"{group}-state.npz")
        steps, losses = int(kept["steps"]), []
        begin = 0
        while begin < steps:
            piece, _ = _npz.read(self.path / f"{group}-losses-{begin}.npz")
            losses.append(piece["losses"])
            begin += len(losses[-1])
        for step in kept.pop("snapshots").tolist():
            piece, _ = _npz.read(self.path / f"{group}-snapshot-{step}.npz")
            kept |= {f"snapshot {step} {name}": leaf for name, leaf in piece.items()}
        return kept | {"losses": np.concatenate(losses)[:steps]}

    def _check_owner(self) -> None:
        """Refuse what another training left, and say in what it differs."""
        try:
            owner = dict(json.loads((self.path / "training.json").read_text()))
        except (OSError, ValueError, TypeError):
            # A process killed while it writes the very first file leaves a partial one.
            if self.path.is_dir() and all(path.suffix == ".part" for path in self.path.iterdir()):
                return
            raise ValueError(
                f"checkpoint must be a folder that a training wrote, got {self.path}; choose another path"
            ) from None
        differs = [name for name in {**owner, **self.identity} if owner.get(name) != self.identity.get(name)]
        if differs:
            raise ValueError(
                f"checkpoint must belong to this training, got {self.path}, of a training with another "
                f"{', '.join(differs)}; choose another path"
            )


def digest(value: object) -> str:
    """A short text that is equal for equal JSON data."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
