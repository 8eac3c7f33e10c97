"""Results that take too long for a page: arrays, with the settings, command, commit and
date that made them.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lsalib import _check

__all__ = ["FOLDER", "Stored", "circuits", "load", "save"]

FOLDER = Path(__file__).parents[1] / "results"  #: The folder of the stored results.


class Stored(NamedTuple):
    """Named arrays, and how they were made: command, commit, date, settings and
    versions.
    """

    arrays: dict[str, np.ndarray]
    about: dict


def load(name: str, folder: Path = FOLDER) -> Stored:
    """Read a stored result, given by the file's name without suffix; by default from
    those of the book.

    Example:
        >>> load("softmax_heads").about["heads"]
        [1, 2, 4, 8]
    """
    _check.choice("name", name, sorted(each.stem for each in folder.glob("*.npz")))
    with np.load(folder / f"{name}.npz", allow_pickle=False) as content:
        arrays = dict(content)
    return Stored(arrays, json.loads(str(arrays.pop("about")))["about"])


def save(path: Path, arrays: dict[str, np.ndarray], about: dict) -> None:
    """Write a result to a .npz file, in one step: an interruption leaves the previous
    file.

    The arrays have names other than "about", which is JSON data.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> save(folder / "x.npz", {"a": np.arange(3)}, {"seed": 0})
        >>> load("x", folder).arrays["a"].tolist(), load("x", folder).about
        ([0, 1, 2], {'seed': 0})
    """
    part = path.with_suffix(".part.npz")
    text = np.array(json.dumps({"about": about}))
    try:
        np.savez_compressed(part, allow_pickle=False, about=text, **arrays)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def circuits(
    run: Stored, seed: int, layer: int, snapshot: int = -1
) -> tuple[np.ndarray, np.ndarray]:
    """The circuits of a stored layer of softmax heads: what each head carries away, b,
    and where it looks, A.

    The run holds the heads of several layers one after the other, as ``about["heads"]``
    counts them, for random starts (``seed``) at moments of the training (``snapshot``).
    b is (heads, outputs, tokens), A (heads, tokens, tokens).

    Example:
        >>> b, A = circuits(load("softmax_heads"), seed=1, layer=2)
        >>> b.shape, A.shape
        ((4, 1, 6), (4, 6, 6))
    """
    ends = np.cumsum(run.about["heads"])[:-1]
    b, A = (
        np.split(run.arrays[name][snapshot, seed].astype(np.float64), ends)[layer]
        for name in "bA"
    )
    return b, A
