"""Read results: those stored in the book's repository, and a user's own.

The stored results contain no sentences: a record names pairs by their index, and with the data you can rebuild the
exact prompts.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lsalib.book import stored
from lsalib.sts import files

__all__ = ["arrays", "own", "pick", "read", "recorded"]

FILE = "result.json"


def read(path: Path) -> dict:
    """One stored result, finished or not; a ValueError if the file is damaged, or another."""
    try:
        result = json.loads(path.read_bytes())
    except ValueError:
        result = None
    if not isinstance(result, dict) or not {"experiment", "versions", "records"} <= result.keys():
        raise ValueError(f"{path} must be an experiment's result, got a damaged or another file; move it elsewhere")
    return result


def recorded() -> list[dict]:
    """The stored results, as ``experiment.run`` returns them, without the text of the first prompt.

    Some hold only the first runs. A FileNotFoundError says what to do where the repository is missing.
    """
    found = map(read, sorted(stored.path("sts").glob("*.json")))
    return [one | {"records": [row for row in one["records"] if row.get("logprobs")]} for one in found]


def own(folder: str | os.PathLike | None = None, *, probes: bool = False) -> list[dict]:
    """The finished results in a folder and below; without one, where the command line keeps the user's own.

    They come from ``experiment.run`` and from finished logs of Inspect, of which each condition is a result. Finished
    means that all is answered. With ``probes`` it is those whose numbers were moved; there the scores do as well.
    """
    root = Path(folder or files.folder("results"))
    found = [read(path) for path in sorted(root.rglob(FILE))]
    found += [result for path in sorted(root.rglob("*.eval")) for result in _logged(path)]
    names = ("answer", "logprobs")[: 1 + probes]
    whole = lambda rows: any(all(row.get(name) is not None for row in rows) for name in names)
    return [one for one in found if bool(one["experiment"].get("moved")) == probes and whole(one["records"])]


def _logged(path: Path) -> list[dict]:
    """The results in a log of Inspect; none where it is unfinished, or of another task."""
    with files.needed(
        "logs of Inspect are read by inspect-ai", "pip install '.[sts,inspect]' in the book's repository"
    ):
        from inspect_ai.log import read_eval_log
    if (log := read_eval_log(str(path))).status != "success" or log.eval.task.rpartition("/")[2] != "stsb":
        return []
    made: dict[str, dict] = {}
    for sample in log.samples or []:
        known = dict(sample.metadata)
        about = {"experiment": known.pop("experiment") | {"model": log.eval.model}, "records": []}
        about["versions"] = log.eval.packages | (log.eval.metadata or {}).get("versions", {})
        said = {"answer": sample.output.completion, "finish": sample.output.stop_reason}
        made.setdefault(known.pop("arm"), about)["records"].append(known | said)
    for result in made.values():
        result["records"].sort(key=lambda row: row["run"])
    return list(made.values())


def pick(found: Sequence[dict], **fields) -> dict:
    """The one result whose ``Experiment`` has these values; a ValueError if there is none, or more than one.

    Example:
        >>> pick(recorded(), condition="none", draw=1, style="completion")["experiment"]["runs"]
        100
    """
    matching = [result for result in found if fields.items() <= result["experiment"].items()]
    if len(matching) != 1:
        raise ValueError(f"fields must single out one result, got {len(matching)} with {fields}")
    return matching[0]


def arrays(name: str) -> dict[str, np.ndarray]:
    """The stored arrays of "guesses", "networks", "look", "probe" or "silence"; their files say how they were made.

    The guesses come with the package, since experiments need them; the others are in the book's repository.

    Example:
        >>> arrays("guesses")["concat_test"].shape
        (3, 1379)
    """
    return stored.load(name, Path(__file__).parent if name == "guesses" else stored.path("sts")).arrays
