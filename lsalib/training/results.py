"""Fits in files, and the parts of a sweep that was divided among jobs."""

import os
from collections.abc import Iterable, Sequence

import jax
import numpy as np

from lsalib import _npz
from lsalib._arrays import describe
from lsalib.attention import LSAParams
from lsalib.tasks import GaussianTask
from lsalib.training.runs import Fit, Run, Snapshots

__all__ = ["load", "merge", "save"]

_TASK = ("prior_mean", "context_size", "feature_cov", "prior_cov", "noise_std")


def save(path: str | os.PathLike, fits: Sequence[Fit]) -> None:
    """Write fits to one file, at once: arrays in NumPy's npz format, runs as JSON; no pickle.

    Args:
        path: the file; its folder is made if it is missing.
        fits: what ``sweep`` or ``fit`` returned.

    Raises:
        ValueError: if ``fits`` is not a sequence of at least one ``Fit``.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "fits.npz"
        >>> params = LSAParams(*np.ones((4, 3, 2, 2), np.float32))
        >>> save(path, [Fit(params, np.ones(1), np.ones(5), Run(GaussianTask([2.0], 4), heads=3))] * 2)
        >>> [fit.heads for fit in load(path)]
        [3, 3]
    """
    if isinstance(fits, Fit) or not isinstance(fits, Sequence) or not fits or not all(isinstance(f, Fit) for f in fits):
        raise ValueError(f"fits must be a sequence of at least one Fit, got a {type(fits).__name__}")
    arrays: dict[str, np.ndarray] = {}
    for place, fit in enumerate(fits):
        leaves = {"guess": fit.guess, "risk": fit.risk, **fit.params._asdict()}
        if fit.snapshots is not None:
            leaves |= {f"snapshot {name}": W for name, W in fit.snapshots.params._asdict().items()}
            leaves["snapshot guess"] = fit.snapshots.guess
        arrays |= {f"{place} {name}": np.asarray(leaf) for name, leaf in leaves.items()}
    _npz.write(path, arrays, {"fits": [fit.run.to_json() for fit in fits]})


def load(path: str | os.PathLike) -> list[Fit]:
    """Read the fits of a file, bit for bit.

    Raises:
        ValueError: if there is no such file, or ``save`` did not write it.
    """
    try:
        arrays, about = _npz.read(path)
        runs = [_run(numbers) for numbers in about["fits"]]  # type: ignore[index]  # other data raise errors that are caught below
    except FileNotFoundError:
        raise ValueError(f"path must be a file that save wrote, got {path}, which does not exist") from None
    except (_npz.Damaged, IsADirectoryError, TypeError, KeyError) as error:
        raise ValueError(f"path must be a file that save wrote, got {path}: {error}") from None
    return [_fit(arrays, place, run) for place, run in enumerate(runs)]


def merge(parts: Iterable[Iterable[Fit]], runs: Iterable[Run] | None = None) -> list[Fit]:
    """Put the results of ``sweep(key, runs[i::n])``, i = 0..n-1, into the order of ``runs``.

    Args:
        parts: the result of each job, in the order of their i, as ``sweep`` or ``load`` returned it.
        runs: all runs; where they are given, each fit must be that of its run.

    Returns:
        One ``Fit`` a run.

    Raises:
        ValueError: if a part has too many or too few fits for its place, or a fit belongs to another run.

    Example:
        >>> params = LSAParams(*np.ones((4, 1, 2, 2), np.float32))
        >>> fits = [Fit(params, np.ones(1), np.ones(5), Run(GaussianTask([2.0], C), heads=1)) for C in (1, 2, 3, 4, 5)]
        >>> [fit.task.context_size for fit in merge([fits[0::2], fits[1::2]])]
        [1, 2, 3, 4, 5]
    """
    # A Fit is a sequence itself: two of them are not two parts.
    jobs = [list(part) if np.iterable(part) else [part] for part in parts]
    if not all(isinstance(fit, Fit) for part in jobs for fit in part):
        raise ValueError(f"parts must be one list of fits from each job, got {describe(jobs)}")
    lengths = [len(part) for part in jobs]
    total = sum(lengths)
    if not total or lengths != [len(range(i, total, len(jobs))) for i in range(len(jobs))]:
        raise ValueError(f"parts must be the results of all runs[i::n], in the order of their i, got {lengths} fits")
    merged: list[Fit | None] = [None] * total
    for i, part in enumerate(jobs):
        merged[i :: len(jobs)] = part
    whole = [fit for fit in merged if fit is not None]
    if runs is not None:
        runs = list(runs)
        if len(runs) != total:
            raise ValueError(f"runs must be those that were trained, got {len(runs)} for {total} fits")
        for place, (fit, run) in enumerate(zip(whole, runs, strict=True)):
            if fit.run != run:
                raise ValueError(
                    f"parts must be in the order of their i, but run {place} is another one than the merged fit's"
                )
    return whole


def _run(numbers: dict) -> Run:
    rest = {name: value for name, value in numbers.items() if name not in _TASK}
    if rest["start"] is not None:
        rest["start"] = LSAParams._make(map(np.array, rest["start"]))
    return Run(GaussianTask(**{name: numbers[name] for name in _TASK}), **rest)


def _fit(arrays: dict[str, np.ndarray], place: int, run: Run) -> Fit:
    # Without jax_enable_x64, JAX would turn float64 into float32; NumPy keeps it.
    fits = lambda leaf: leaf.dtype == jax.dtypes.canonicalize_dtype(leaf.dtype)
    kept = lambda leaf: jax.device_put(leaf) if fits(leaf) else leaf
    named = lambda name: kept(arrays[f"{place} {name}"])
    params = lambda prefix: LSAParams(*(named(f"{prefix}{name}") for name in LSAParams._fields))
    taken = None
    if f"{place} snapshot guess" in arrays:
        taken = Snapshots(params("snapshot "), named("snapshot guess"))
    return Fit(params(""), named("guess"), named("risk"), run, taken)
