"""What was run once and comes with the package: answers, guesses and looks inside; and where a user's own results lie.

Sentences are not among it: a record names pairs by their index, and whoever has the data can build
the very prompts again.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lsalib.book import stored
from lsalib.sts import data, results
from lsalib.sts.design import Experiment, Sources
from lsalib.sts.guess import Network

__all__ = ["arrays", "network", "own", "pick", "recorded", "sources"]

FOLDER = stored.FOLDER / "sts"
FOLDER_VARIABLE = "LSALIB_STS_RESULTS"


def recorded() -> list[dict]:
    """The results that come with the package.

    Returns:
        Results as ``experiment.run`` returns them, without the text of their first prompt.

    Example:
        >>> {result["experiment"]["model"] for result in recorded()}
        {'smollm2-135m-instruct'}
    """
    return [results.read(path) for path in sorted(FOLDER.glob("*.json"))]


def own_folder() -> Path:
    """Where a user's own results are kept: the folder that LSALIB_STS_RESULTS names, else one in the user's data folder.

    Returns:
        The folder; it need not exist yet.

    Raises:
        ImportError: if platformdirs, which knows the rule of each system, is not installed.

    Example:
        >>> own_folder().is_absolute() or FOLDER_VARIABLE in os.environ
        True
    """
    if folder := os.environ.get(FOLDER_VARIABLE):
        return Path(folder)
    try:
        import platformdirs
    except ImportError:
        raise ImportError("the place of your results is found by platformdirs: pip install 'lsalib[sts]'") from None
    return platformdirs.user_data_path("lsalib", appauthor=False) / "sts-results"


def own() -> list[dict]:
    """The user's own finished results.

    Returns:
        The results; none where there are none.

    Raises:
        ValueError: if one is damaged.

    Example:
        >>> isinstance(own(), list)
        True
    """
    folder = own_folder()
    return results.find(folder) if any(folder.rglob("result.json")) else []


def pick(found: Sequence[dict], **fields) -> dict:
    """The one result whose experiment has these values.

    Args:
        found: results.
        fields: of ``Experiment``.

    Returns:
        The result.

    Raises:
        ValueError: if there is none, or more than one.

    Example:
        >>> pick(recorded(), condition="none", draw=0, style="completion")["experiment"]["runs"]
        100
    """
    matching = [result for result in found if fields.items() <= result["experiment"].items()]
    if len(matching) != 1:
        raise ValueError(f"fields must single out one result, got {len(matching)} with {fields}")
    return matching[0]


def arrays(name: str) -> dict[str, np.ndarray]:
    """Stored arrays by their names.

    Args:
        name: of the file in ``FOLDER``, without its ending.

    Returns:
        The arrays; how they were made, ``stored.load`` says too.

    Raises:
        ValueError: if there is no such file.

    Example:
        >>> arrays("guesses")["concat_test"].shape
        (3, 1379)
    """
    return stored.load(name, FOLDER).arrays


def network(guess_model: str) -> Network:
    """The trained networks behind the recorded prompts, seeds 0, 1, 2.

    Args:
        guess_model: "concat" or "strong".

    Returns:
        A ``Network`` with the seeds in front.

    Example:
        >>> network("concat").W_1.shape
        (3, 16, 768)
    """
    kept = arrays("guesses")
    return Network(*(kept[f"{guess_model}_{name}"] for name in Network._fields))


def sources(experiment: Experiment, folder: str | os.PathLike | None = None) -> Sources:
    """As ``design.prepare``, with stored guesses in place of trained ones: nothing is embedded.

    Args:
        experiment: its seed is 0, 1 or 2, its contexts are of the split "dev".
        folder: of the data; None means as in ``data.load``.

    Returns:
        The ``Sources``.

    Raises:
        ValueError: if no guesses are stored for the experiment.
        OSError: as ``data.load``.

    Example:
        >>> sources(Experiment("any", "guess", context_split="train"))
        Traceback (most recent call last):
        ValueError: experiment must have its contexts from 'dev' and a seed of at most 2, got 'train' and 0
    """
    if experiment.context_split != "dev" or experiment.seed > 2:
        raise ValueError(
            f"experiment must have its contexts from 'dev' and a seed of at most 2, got {experiment.context_split!r} and {experiment.seed}"
        )
    pairs = data.load("dev", folder), data.load("test", folder)
    if experiment.guess_model is None:
        return Sources(*pairs)
    kept = arrays("guesses")
    return Sources(
        *pairs, *(np.float64(kept[f"{experiment.guess_model}_{split}"][experiment.seed]) for split in ("dev", "test"))
    )
