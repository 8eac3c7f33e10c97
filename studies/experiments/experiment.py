"""An experiment, and what can be done with it: store its result, or repeat a piece and compare."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lsalib.book import stored
from studies.provenance import provenance, versions


class Experiment(NamedTuple):
    """One line that says what it is; ``run`` returns everything, ``again`` the beginning of each array, in minutes.

    ``settings`` and the versions from ``made_with()`` are stored beside the numbers. A repeated entry may differ from
    the stored one by ``atol + rtol |stored|``.
    """

    line: str
    run: Callable[[], dict]
    again: Callable[[], dict] | None
    settings: dict[str, Any]
    made_with: Callable[[], dict] = partial(versions, "jax", "numpy")
    rtol: float = 0.0
    atol: float = 0.0
    save: Callable[[Path, dict, dict], None] = stored.save
    home: Path = stored.FOLDER


def store(name: str, experiment: Experiment, folder: Path | None = None) -> None:
    """Run everything, and write it to the folder, by default the experiment's own."""
    about = provenance(f"python -m studies.experiments {name}") | experiment.settings
    arrays = experiment.run()
    experiment.save((folder or experiment.home) / f"{name}.npz", arrays, about | {"versions": experiment.made_with()})


def differences(name: str, experiment: Experiment, folder: Path | None = None) -> list[str]:
    """Run the beginning again, and name the arrays that differ from the stored ones."""
    if experiment.again is None:
        return [f"{name}: nothing of it can be repeated in reasonable time"]
    kept, found = stored.load(name, folder or experiment.home).arrays, []
    for part, array in experiment.again().items():
        beginning = kept[part][tuple(map(slice, array.shape))]
        if beginning.shape != array.shape:
            found.append(f"{name}: {part} has shape {kept[part].shape}, which does not begin with {array.shape}")
        elif not np.allclose(array, beginning, rtol=experiment.rtol, atol=experiment.atol):
            found.append(f"{name}: {part} is off by up to {np.abs(array - beginning).max():.1e}")
    return found
