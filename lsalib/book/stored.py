"""Results that take too long for a page: arrays, with the settings, command, commit and date that made them."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from lsalib import _npz

__all__ = ["FOLDER", "Stored", "circuits", "load", "path", "save"]

# The results belong to the book's repository and not to the installed package.
FOLDER = Path(__file__).parents[2] / "studies" / "results"


class Stored(NamedTuple):
    """Named arrays, and how they were made: command, commit, date, settings and versions."""

    arrays: dict[str, np.ndarray]
    about: dict


def path(name: str = "") -> Path:
    """The path of a stored file.

    Args:
        name: relative to the folder of stored results; empty for the folder itself.

    Returns:
        The path.

    Raises:
        FileNotFoundError: if there is no such file, with what to do when all results are missing.

    Example:
        >>> path("engine_cost.json").name
        'engine_cost.json'
    """
    if not FOLDER.is_dir():
        raise FileNotFoundError(
            f"the stored results are not in {FOLDER}: clone the book's repository, "
            "and run `pip install -e .` in the clone"
        )
    found = FOLDER / name
    if not found.exists():
        raise FileNotFoundError(f"name must be a file or folder in {FOLDER}, got {name!r}")
    return found


def load(name: str, folder: Path | None = None) -> Stored:
    """Read a stored result.

    Args:
        name: the file's name without suffix.
        folder: its folder; by default the repository's ``studies/results``.

    Returns:
        A ``Stored``.

    Raises:
        FileNotFoundError: if the repository's results are missing.
        ValueError: if there is no such result; the message names the existing ones.

    Example:
        >>> load("softmax_heads").about["heads"]
        [1, 2, 4, 8]
    """
    folder = path() if folder is None else Path(folder)
    file = folder / f"{name}.npz"
    if not file.is_file():
        known = ", ".join(sorted(each.stem for each in folder.glob("*.npz"))) or "none"
        raise ValueError(f"name must be a stored result ({known}), got {name!r}")
    arrays, about = _npz.read(file)
    return Stored(arrays, dict(about))  # type: ignore[call-overload]  # ``save`` writes a dict


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
        ValueError: if there is no such layer, seed or snapshot.

    Example:
        >>> b, A = circuits(load("softmax_heads"), seed=1, layer=2)
        >>> b.shape, A.shape
        ((4, 1, 6), (4, 6, 6))
    """
    heads = run.about["heads"]
    moments, seeds = run.arrays["b"].shape[:2]
    places = {"layer": (layer, 0, len(heads)), "seed": (seed, 0, seeds), "snapshot": (snapshot, -moments, moments)}
    for argument, (place, low, end) in places.items():
        if np.ndim(place) or not np.issubdtype(np.asarray(place).dtype, np.integer) or not low <= place < end:
            raise ValueError(f"{argument} must be a whole number from {low} to {end - 1}, got {place!r}")
    own = slice(sum(heads[:layer]), sum(heads[: layer + 1]))
    b, A = (np.asarray(run.arrays[name][snapshot, seed, own], np.float64) for name in "bA")
    return b, A


def save(path: Path, arrays: dict[str, np.ndarray], about: dict) -> None:
    """Write a result in one step.

    Args:
        path: the file, with the suffix .npz.
        arrays: what to keep.
        about: how it was made, as JSON data.

    Raises:
        ValueError: if an array holds objects or records.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> save(folder / "x.npz", {"a": np.arange(3)}, {"seed": 0})
        >>> load("x", folder).arrays["a"].tolist(), load("x", folder).about
        ([0, 1, 2], {'seed': 0})
    """
    _npz.write(path, arrays, about, compress=True)
