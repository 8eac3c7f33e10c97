"""An experiment, and what can be done with each: store what comes out, or repeat a piece and compare."""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lsalib.book import stored


class Experiment(NamedTuple):
    """What it is, in a line; ``run`` gives everything, ``again`` the beginning of each array, in minutes.

    Beside the numbers stand ``about``, ``versions()`` and the command. An entry may differ by ``atol + rtol |stored|``.
    """

    line: str
    run: Callable[[], dict]
    again: Callable[[], dict] | None
    about: dict
    versions: Callable[[], dict]
    rtol: float = 0.0
    atol: float = 0.0
    save: Callable[[Path, dict, dict], None] = stored.save


def versions(*packages: str) -> dict[str, str]:
    return {package: version(package) for package in packages}


def about(name: str, experiment: Experiment) -> dict:
    """What is stored beside the numbers, but for the versions: enough to make them again."""
    return {"command": f"python -m studies.experiments {name}"} | experiment.about


def store(name: str, experiment: Experiment, folder: Path = stored.FOLDER) -> None:
    """Run it all, and write it to the folder."""
    made = experiment.run()
    experiment.save(folder / f"{name}.npz", made, about(name, experiment) | {"versions": experiment.versions()})


def differences(name: str, experiment: Experiment, folder: Path = stored.FOLDER) -> list[str]:
    """Run the beginning again, and say which arrays are not those that are stored."""
    if experiment.again is None:
        return [f"{name}: nothing of it can be repeated in reasonable time"]
    kept, found = stored.load(name, folder).arrays, []
    for part, array in experiment.again().items():
        beginning = kept[part][tuple(map(slice, array.shape))]
        if beginning.shape != array.shape:
            found.append(f"{name}: {part} has shape {kept[part].shape}, which does not begin with {array.shape}")
        elif not np.allclose(array, beginning, rtol=experiment.rtol, atol=experiment.atol):
            found.append(f"{name}: {part} is off by up to {np.abs(array - beginning).max():.1e}")
    return found
