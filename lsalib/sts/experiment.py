"""The runs of an experiment on a model in this process: each prompt is answered once, and each answer kept."""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from os import PathLike
from pathlib import Path

import numpy as np

from lsalib import _validate
from lsalib._files import write
from lsalib._progress import Progress
from lsalib.sts import prompts
from lsalib.sts.design import Experiment, Item, Sources, items, prompt
from lsalib.sts.records import FILE, read

__all__ = ["ANSWERS", "facts", "run"]

# The scores whose probabilities give an expected score: steps of a tenth, about as fine as the data.
ANSWERS = tuple(f"{tenths / 10:.1f}" for tenths in range(51))

READOUTS = ("written", "expected")
_SECONDS = 1.0  # between two writes of the file
# What a record keeps of each readout, and in words.
_KEPT = {"written": ("answer", "answers"), "expected": ("logprobs", "rows of scores")}


def run(
    experiment: Experiment,
    model,
    sources: Sources,
    folder: str | PathLike,
    *,
    readouts: Sequence[str] = READOUTS,
    first: int | None = None,
) -> dict:
    """Ask the model whatever has not been answered yet, store the answers as they come, and return the result.

    There are two readouts: the text that the model writes, greedily; and, where it gives probabilities, those of the
    answers 0.0, 0.1, ..., 5.0.

    Args:
        experiment: the ``Experiment``.
        model: ``models.open_model()``, or any object with ``name``, ``version``, ``complete`` and ``score_logprobs``.
        sources: what ``design.prepare`` returned.
        folder: where result.json is, or will be; an interrupted run continues there, with any version of the packages.
        readouts: "written", "expected" or both; a later call may ask for the other.
        first: how many of the runs are asked, the first ones; None means all. A later call may ask for more.

    Returns:
        The experiment, versions, prompts (their digest), first_prompt, and a record for each run.

    Raises:
        ValueError: if the folder holds another experiment, or other data; or an answer is no text.
        OSError: if the folder cannot be written; or what the model raises. A note says what was kept.
    """
    if not readouts or not set(readouts) <= set(READOUTS):
        raise ValueError(f"readouts must be among {', '.join(READOUTS)}, got {readouts!r}")
    if model.name != experiment.model:
        raise ValueError(f"model must be the experiment's, {experiment.model!r}, got {model.name!r}")
    runs = items(experiment, sources)
    first = len(runs) if first is None else _validate.count("first", first)
    asked = [prompt(experiment, item) for item in runs]
    result: dict = {"experiment": asdict(experiment), "versions": dict(model.version), "prompts": prompts.digest(asked)}
    result |= {"first_prompt": asked[0], "records": [facts(item) for item in runs]}
    if (path := Path(folder) / FILE).exists():
        result["records"] = _same(read(path), result, path)["records"]
    records = result["records"][:first]
    missing = lambda record, readout: not record.get(_KEPT[readout][0])
    progress = Progress(len(records), sum(not any(missing(row, one) for one in readouts) for row in records))
    saved = -_SECONDS
    try:
        for record, text in zip(records, asked, strict=False):
            if left := [readout for readout in readouts if missing(record, readout)]:
                for readout in left:
                    record |= _answered(readout, experiment, model, text)
                if time.monotonic() - saved > _SECONDS:
                    _save(path, result)
                    saved = time.monotonic()
                progress.add(1)
        _save(path, result)
    except BaseException as error:
        progress.close()
        with suppress(OSError):
            _save(path, result)
        stored = read(path)["records"] if path.exists() else []
        count = lambda readout: sum(not missing(record, readout) for record in stored)
        kept = " and ".join(f"{count(readout)} of {len(runs)} {_KEPT[readout][1]}" for readout in readouts)
        error.add_note(f"kept in {folder}: {kept}; the same command continues from there")
        raise
    return result


def facts(item: Item) -> dict:
    """What is known of a run before it is answered."""
    mean = float(np.mean([example.score for example in item.context]))
    known = {"run": item.run, "query": item.query_index, "context": item.context_index, "truth": item.query.score}
    return known | {"guess": item.query.guess, "context_mean": mean}


def _answered(readout: str, experiment: Experiment, model, text) -> dict:
    """The written answer, or the answers' log-probabilities, which follow "Score:" with a space, if that is there."""
    stop, space = ((), "") if experiment.style == "chat" else (("\n",), " ")
    if readout == "written":
        (words,) = model.complete([text], max_new_tokens=experiment.max_new_tokens, stop=stop)
        if not isinstance(words, str):
            raise ValueError(f"an answer of the model must be a text, got {words!r}")
        return {"answer": words}
    rows = model.score_logprobs([text], [space + answer for answer in ANSWERS])
    if rows is None:
        return {"logprobs": None}
    row = _validate.vector("the log-probabilities of the model", rows[0], len(ANSWERS))
    return {"logprobs": row.round(6).tolist()}


def _save(path: Path, result: dict) -> None:
    try:
        write(path, json.dumps(result, ensure_ascii=False).encode())
    except OSError as error:
        raise OSError(f"folder must be one where files can be written, got {path.parent} ({error.strerror})") from None


def _same(found: dict, asked: dict, path: Path) -> dict:
    """Refuse a result of another experiment, or of other data: model, settings and prompts must agree."""
    ours, theirs = (one["experiment"] | {"prompts": one.get("prompts")} for one in (asked, found))
    names = [name for name in theirs | ours if theirs.get(name) != ours.get(name)]
    if apart := "; ".join(f"{name}: {theirs.get(name)!r:.60}, not {ours.get(name)!r:.60}" for name in names):
        raise ValueError(f"folder must belong to this experiment, got {path.parent}, which has {apart}")
    return found
