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
    """The stored results; some hold only the first runs."""
    return [json.loads(path.read_bytes()) for path in sorted(FOLDER.glob("*.json"))]


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
            said = {
                "answer": sample.output.completion,
                "finish": sample.output.stop_reason,
            }
            rows.setdefault(sample.metadata["run"], []).append(sample.metadata | said)
    conditions = len(
        {str(sample).partition(":")[0] for sample in log.eval.dataset.sample_ids or []}
    )
    made: dict[str, dict] = {}
    for row in [
        row
        for _, each in sorted(rows.items())
        if len(each) == conditions
        for row in each
    ]:
        about = {
            "experiment": row.pop("experiment") | {"model": log.eval.model},
            "versions": versions,
            "records": [],
        }
        made.setdefault(row.pop("condition"), about)["records"].append(row)
    return log.eval.task_id, list(made.values())
