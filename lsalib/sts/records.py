"""Read results: those stored in the book's repository, and a user's own.

The stored results contain no sentences: a record names pairs by their index, and with the data you can rebuild the
exact prompts.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lsalib.book import stored
from lsalib.sts import _store, files

__all__ = ["arrays", "own", "pick", "recorded"]


def recorded() -> list[dict]:
    """The stored results, as ``experiment.run`` returns them, without the text of the first prompt.

    Some hold only the first runs. A FileNotFoundError says what to do where the repository is missing.
    """
    found = [_store.read(path) for path in sorted(stored.path("sts").glob("*.json"))]
    return [one | {"records": [row for row in one["records"] if row.get("logprobs")]} for one in found]


def own(folder: str | os.PathLike | None = None, *, probes: bool = False) -> list[dict]:
    """The finished results in a folder and below; without one, where the command line keeps the user's own.

    A result is finished when all is answered. With ``probes`` it is the others, whose numbers were moved, and which are
    finished when all scores are there.
    """
    folders = sorted({path.parent for path in Path(folder or files.folder("results")).rglob(f"{_store.OLD}*")})
    found = [_store.read(path) for each in folders if (path := _store.present(each))]
    name = "logprobs" if probes else "answer"
    whole = lambda result: all(record.get(name) is not None for record in result["records"])
    return [result for result in found if bool(result["experiment"].get("moved")) == probes and whole(result)]


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
    """The stored arrays of "guesses", "look", "probe" or "silence"; their files say how they were made.

    The guesses come with the package, since experiments need them; the others are in the book's repository.

    Example:
        >>> arrays("guesses")["concat_test"].shape
        (3, 1379)
    """
    return stored.load(name, Path(__file__).parent if name == "guesses" else stored.path("sts")).arrays
