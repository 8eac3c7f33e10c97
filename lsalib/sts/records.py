"""Results: those stored for the book, and a user's own.

A result has an ``experiment``, the ``versions`` of what answered, and ``records``, one a run. The stored results
contain no sentences: a record names pairs by their index.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from lsalib.sts import needed

__all__ = ["own", "pick", "recorded"]

FOLDER = Path(__file__).parents[1] / "results/sts"


def recorded() -> list[dict]:
    """The stored results; some hold only the first runs."""
    found = [json.loads(path.read_bytes()) for path in sorted(FOLDER.glob("*.json"))]
    for one in found:
        one["experiment"].pop("moved", None)  # a field of earlier versions, always null
    answered = lambda row: row.get("answer") is not None or row.get("logprobs")
    return [one | {"records": list(filter(answered, one["records"]))} for one in found]


def own_folder() -> Path:
    """Where the command line keeps the user's results: where LSALIB_STS_RESULTS says, or in the folder sts-results."""
    return Path(os.environ.get("LSALIB_STS_RESULTS") or "sts-results")


def own(folder: str | os.PathLike | None = None) -> list[dict]:
    """The finished results, one a condition, in Inspect's logs in a folder and below; by default the user's own."""
    paths = sorted(Path(folder or own_folder()).rglob("*.eval"))
    return [result for path in paths for result in _logged(path)]


def _logged(path: Path) -> list[dict]:
    """The results in a log of Inspect; none where it is unfinished, or of another task."""
    with needed("logs of Inspect are read by inspect-ai", "sts,inspect"):
        from inspect_ai.log import read_eval_log
    if (log := read_eval_log(str(path))).status != "success" or log.eval.task.rpartition("/")[2] != "stsb":
        return []
    versions = log.eval.packages | (log.eval.metadata or {}).get("versions", {})
    made: dict[str, dict] = {}
    for sample in log.samples or []:
        known = dict(sample.metadata)
        asked = known.pop("experiment") | {"model": log.eval.model}
        about = {"experiment": asked, "versions": versions, "records": []}
        said = {"answer": sample.output.completion, "finish": sample.output.stop_reason}
        row = known | said | (sample.output.metadata or {})
        made.setdefault(row.pop("condition"), about)["records"].append(row)
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
