"""The state of an unfinished training in one file, which is either the whole last state or not there at all."""

import json
import os
from pathlib import Path

import numpy as np

from lsalib import _files

__all__ = ["Checkpoint"]


class Checkpoint:
    """A safetensors file with named arrays and the fingerprint of the training they belong to.

    Args:
        path: the file.
        identity: what makes a training this training, as JSON data; another one's file is refused.

    Raises:
        ImportError: if safetensors is not installed.
        ValueError: if the file's folder does not exist.
    """

    def __init__(self, path: str | os.PathLike, identity: object):
        try:
            import safetensors.numpy  # noqa: F401
        except ImportError:
            raise ImportError("checkpoints need safetensors: pip install 'lsalib[checkpoint]'") from None
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise ValueError(f"checkpoint must be in a folder that exists, got {self.path}")
        self.identity = json.dumps(identity, sort_keys=True)

    def load(self) -> dict[str, np.ndarray]:
        """The stored arrays; none where there is no file.

        Raises:
            ValueError: if the file is damaged, or belongs to another training. It is left as it is.
        """
        from safetensors import SafetensorError, safe_open

        if not self.path.exists():
            return {}
        try:
            with safe_open(self.path, framework="numpy") as file:
                identity = (file.metadata() or {}).get("training")
                stored = {name: file.get_tensor(name) for name in file.keys()}
        except (SafetensorError, OSError) as error:
            raise ValueError(
                f"checkpoint must be a file that a training wrote, got {self.path}, which cannot be read: {error}"
            ) from None
        if identity != self.identity:
            owner = "no training" if identity is None else "a training with other runs, weights, seeds, key or options"
            raise ValueError(
                f"checkpoint must belong to this training, got {self.path}, of {owner}; choose another path"
            )
        return stored

    def save(self, arrays: dict[str, np.ndarray]) -> None:
        """Replace the file by these arrays, at once: who is interrupted here keeps the file from before."""
        from safetensors.numpy import save

        whole = {name: np.asarray(leaf, order="C") for name, leaf in arrays.items()}
        _files.write(self.path, save(whole, metadata={"training": self.identity}))
