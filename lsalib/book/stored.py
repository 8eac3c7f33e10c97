"""Results of what takes too long for a page: arrays, and beside them what is needed to make them again."""

import io
import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lsalib import _files

__all__ = ["FOLDER", "Stored", "circuits", "load", "save"]

# Part of the package: a page finds it in a hosted notebook too.
FOLDER = Path(__file__).parents[1] / "data"


class Stored(NamedTuple):
    """Named arrays, and how they were made: the command, its settings, and the versions that ran it."""

    arrays: dict[str, np.ndarray]
    about: dict


def load(name: str, folder: Path = FOLDER) -> Stored:
    """Read a stored result.

    Args:
        name: the file's name without suffix.
        folder: where it lies.

    Returns:
        A ``Stored``.

    Raises:
        ValueError: if there is no such result; the message names those that there are.

    Example:
        >>> load("softmax_heads").about["heads"]
        [1, 2, 4, 8]
    """
    path = Path(folder) / f"{name}.npz"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in Path(folder).glob("*.npz"))) or "none"
        raise ValueError(f"name must be a stored result ({known}), got {name!r}")
    with np.load(path, allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files if key != "about"}
        return Stored(arrays, json.loads(str(file["about"])))


def circuits(run: Stored, seed: int, layer: int, snapshot: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """The circuits of a stored layer of softmax heads: what each head carries away, and where it looks.

    Args:
        run: a result that holds the heads of several layers one after the other, as ``about["heads"]`` counts them.
        seed: which of the random starts.
        layer: which of the layers.
        snapshot: which moment of the training; the last by default.

    Returns:
        b, (heads, outputs, tokens), and A, (heads, tokens, tokens), in float64.

    Raises:
        ValueError: if there is no such layer.

    Example:
        >>> b, A = circuits(load("softmax_heads"), seed=1, layer=2)
        >>> b.shape, A.shape
        ((4, 1, 6), (4, 6, 6))
    """
    heads = run.about["heads"]
    if not 0 <= layer < len(heads):
        raise ValueError(f"layer must be from 0 to {len(heads) - 1}, got {layer!r}")
    own = slice(sum(heads[:layer]), sum(heads[: layer + 1]))
    b, A = (np.asarray(run.arrays[name][snapshot, seed, own], np.float64) for name in "bA")
    return b, A


def save(path: Path, arrays: dict[str, np.ndarray], about: dict) -> None:
    """Write a result in one step: what is there is whole.

    Args:
        path: the file, with the suffix .npz.
        arrays: what to keep.
        about: how it was made, as JSON data.

    Raises:
        ValueError: if an array is of a type that such a file does not keep, as bfloat16 or objects.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> save(folder / "x.npz", {"a": np.arange(3)}, {"seed": 0})
        >>> load("x", folder).arrays["a"].tolist(), load("x", folder).about
        ([0, 1, 2], {'seed': 0})
    """
    for name, array in arrays.items():
        if (kind := np.asarray(array).dtype).kind not in "biufcU":
            raise ValueError(f"arrays[{name!r}] must be of a type that a .npz file keeps, got {kind}")
    buffer = io.BytesIO()
    np.savez_compressed(buffer, about=json.dumps(about), **arrays)  # type: ignore[arg-type]  # no array is allow_pickle
    _files.write(path, buffer.getvalue())
