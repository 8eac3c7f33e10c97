"""Results: those stored for the book, and a user's own.

A result has an ``experiment``, the ``versions`` of what answered, and ``records``, one
a run. The stored results contain no sentences: a record names pairs by their index.
"""

import json
import os
from pathlib import Path

from lsalib.sts import needed

__all__ = ["own", "recorded"]

FOLDER = Path(__file__).parents[1] / "results/sts"


def recorded() -> list[dict]:
    """The stored results; some hold only the first runs.

    Where ``set`` is in a result, each record has ``set_answers``, those to the same
    prompt with these numbers in the place of the last guess.  ``expected`` is the mean
    of the score over the probabilities of its digits, which no rounding touches.
    """
    found = [json.loads(path.read_bytes()) for path in sorted(FOLDER.glob("*.json"))]
    for result in found:  # stored by columns
        columns = result["records"]
        rows = zip(*columns.values(), strict=True)
        result["records"] = [dict(zip(columns, row, strict=True)) for row in rows]
    return found


def own_folder() -> Path:
    """Where the command line keeps the user's results: where LSALIB_STS_RESULTS says,
    or in the folder sts-results.
    """
    return Path(os.environ.get("LSALIB_STS_RESULTS") or "sts-results")


def own(folder: str | os.PathLike | None = None) -> list[dict]:
    """The results in Inspect's logs in a folder and below, one a condition; by default
    the user's own.

    Of an unfinished log, those queries that are answered in all of its conditions.
    """
    logged = {}
    for path in sorted(Path(folder or own_folder()).rglob("*.eval")):
        task, found = _logged(path)
        logged[task] = found  # of what was continued, the last log
    return [result for found in logged.values() for result in found]


def _logged(path: Path) -> tuple[str, list[dict]]:
    """The task in a log of Inspect, and its results; none where it is another task."""
    with needed("logs of Inspect are read by inspect-ai", "sts,inspect"):
        from inspect_ai.log import read_eval_log
    log = read_eval_log(str(path))
    if log.eval.task.rpartition("/")[2] != "stsb":
        return log.eval.task_id, []
    versions = log.eval.packages | (log.eval.metadata or {}).get("versions", {})
    rows: dict[int, list[dict]] = {}
    for sample in log.samples or []:
        if sample.output.choices and not sample.error:
            row = sample.metadata | {"answer": sample.output.completion}
            rows.setdefault(row["run"], []).append(row)
    conditions = len(
        {str(sample).partition(":")[0] for sample in log.eval.dataset.sample_ids or []}
    )
    made: dict[str, dict] = {}
    for _, each in sorted(rows.items()):
        for row in each if len(each) == conditions else []:
            asked = row.pop("experiment") | {"model": log.eval.model}
            new = {"experiment": asked, "versions": versions, "records": []}
            made.setdefault(row.pop("condition"), new)["records"].append(row)
    return log.eval.task_id, list(made.values())
