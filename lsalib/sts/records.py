"""Results, read again: what was run once and comes with the package, and a user's own.

Sentences are not among what comes with the package: a record names pairs by their index, and whoever has the data
can build the very prompts again.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lsalib.book import stored
from lsalib.sts import files

__all__ = ["arrays", "own", "pick", "read", "recorded"]

_FOLDER = stored.FOLDER / "sts"


def recorded() -> list[dict]:
    """The results that come with the package, as ``experiment.run`` returns them, without their first prompt's text."""
    return [read(path) for path in sorted(_FOLDER.glob("*.json"))]


def own(folder: str | os.PathLike | None = None) -> list[dict]:
    """The finished results in a folder and below; without one, where the command line keeps the user's own."""
    found = map(read, sorted(Path(folder or files.folder("results")).rglob("result.json")))
    return [result for result in found if all("logprobs" in record for record in result["records"])]


def read(path: Path) -> dict:
    """One stored result, finished or not; a ValueError if the file is damaged, or another."""
    try:
        result = json.loads(path.read_bytes())
    except ValueError:
        result = None
    if not isinstance(result, dict) or not {"experiment", "versions", "records"} <= result.keys():
        raise ValueError(f"{path} must be a result that an experiment wrote, got a damaged or another file")
    return result


def pick(found: Sequence[dict], **fields) -> dict:
    """The one result whose ``Experiment`` has these values; a ValueError if there is none, or more than one.

    Example:
        >>> pick(recorded(), condition="none", draw=0, style="completion")["experiment"]["runs"]
        100
    """
    matching = [result for result in found if fields.items() <= result["experiment"].items()]
    if len(matching) != 1:
        raise ValueError(f"fields must single out one result, got {len(matching)} with {fields}")
    return matching[0]


def arrays(name: str) -> dict[str, np.ndarray]:
    """Arrays that come with the package, "guesses", "look", "shift" or "swap"; how they were made, their file says.

    Example:
        >>> arrays("guesses")["concat_test"].shape
        (3, 1379)
    """
    return stored.load(name, _FOLDER).arrays
