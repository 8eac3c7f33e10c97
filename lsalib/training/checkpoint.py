"""The state of an unfinished sweep in one file, which is either the whole last state or not there at all."""

import json
import os
from pathlib import Path

import jax
import numpy as np

from lsalib import _files

__all__ = ["Checkpoint"]


class Checkpoint:
    """A safetensors file with the leaves of a pytree and the fingerprint of the sweep they belong to.

    Args:
        path: the file.
        identity: what makes a sweep this sweep, as JSON data; another one's file is refused.

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

    def load(self, like):
        """The stored tree, in the structure of ``like``; ``like`` itself where there is no file.

        Raises:
            ValueError: if the file is damaged, or belongs to another sweep. It is left as it is.
        """
        from safetensors import SafetensorError, safe_open

        if not self.path.exists():
            return like
        leaves, structure = jax.tree.flatten(like)
        try:
            with safe_open(self.path, framework="numpy") as file:
                identity = (file.metadata() or {}).get("sweep")
                stored = {name: file.get_tensor(name) for name in file.keys()}
        except (SafetensorError, OSError) as error:
            raise ValueError(
                f"checkpoint must be a file that a sweep wrote, got {self.path}, which cannot be read: {error}"
            ) from None
        if identity != self.identity:
            owner = "no sweep" if identity is None else "a sweep with other runs, seeds, key or options"
            raise ValueError(
                f"checkpoint must belong to this sweep, got {self.path}, which belongs to {owner}; choose another path"
            )
        return jax.tree.unflatten(structure, [stored[str(i)] for i in range(len(leaves))])

    def save(self, tree) -> None:
        """Replace the file by the tree, at once: who is interrupted here keeps the file from before."""
        from safetensors.numpy import save

        leaves = {str(i): np.asarray(leaf, order="C") for i, leaf in enumerate(jax.tree.leaves(tree))}
        _files.write(self.path, save(leaves, metadata={"sweep": self.identity}))
