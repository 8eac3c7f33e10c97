"""An experiment, and what can be done with it: store its result, or repeat a piece and
compare.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lsalib.book import stored
from studies.provenance import provenance, versions


class Experiment(NamedTuple):
    """One line that says what it is; ``run`` returns everything, ``again`` the
    beginning of each array, in minutes.

    ``settings`` are stored beside the numbers. A repeated entry may differ from the
    stored one by ``atol + rtol |stored|``.
    """

    line: str
    run: Callable[[], dict]
    again: Callable[[], dict]
    settings: dict[str, Any]
    rtol: float = 0.0
    atol: float = 0.0


def store(name: str, experiment: Experiment, folder: Path) -> None:
    """Run everything, and write it to the folder with its settings and the versions of
    packages.
    """
    about = provenance(f"python -m studies.experiments {name}") | experiment.settings
    about["versions"] = versions("jax", "numpy", "optax", "scipy")
    stored.save(folder / f"{name}.npz", experiment.run(), about)


def differences(name: str, experiment: Experiment, folder: Path) -> list[str]:
    """Run the beginning again, and name the arrays that differ from the stored ones."""
    kept, found = stored.load(name, folder).arrays, []
    for part, array in experiment.again().items():
        beginning = kept[part][tuple(map(slice, array.shape))]
        if beginning.shape != array.shape:
            found.append(
                f"{name}: {part} has shape {kept[part].shape}, "
                f"which does not begin with {array.shape}"
            )
        elif not np.allclose(
            array, beginning, rtol=experiment.rtol, atol=experiment.atol
        ):
            found.append(
                f"{name}: {part} is off by up to {np.abs(array - beginning).max():.1e}"
            )
    return found
