"""The runs: each prompt is answered once, and each answer kept as it comes (section 5.3)."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from os import PathLike
from pathlib import Path

import numpy as np

from lsalib import _validate
from lsalib._files import write
from lsalib._progress import Progress
from lsalib.sts import prompts, records
from lsalib.sts.design import Experiment, Item, Sources, items

__all__ = ["ANSWERS", "run"]

# The scores whose probabilities give an expected score: steps of a tenth, about as fine as the data.
ANSWERS = tuple(f"{tenths / 10:.1f}" for tenths in range(51))


def run(experiment: Experiment, model, sources: Sources, folder: str | PathLike, *, batch_size: int = 8) -> dict:
    """Ask the model whatever has not been answered yet, store each answer as it comes, and return the result.

    Two readouts: the text that the model writes, greedily; and, where it gives probabilities, those of the
    answers 0.0, 0.1, ..., 5.0.

    Args:
        experiment: the ``Experiment``.
        model: a ``models.LanguageModel``, opened from ``experiment.model``.
        sources: what ``design.prepare`` returned.
        folder: of this experiment alone, and of one process at a time; an interrupted run goes on there.
        batch_size: prompts handed to the model at once.

    Returns:
        What result.json in the folder holds: experiment, versions, prompts (their digest), first_prompt, and a record
        for each run.
    """
    _validate.count("batch_size", batch_size)
    if model.name != experiment.model:
        raise ValueError(f"model must be the experiment's, {experiment.model!r}, got {model.name!r}")
    runs, style = items(experiment, sources), experiment.style
    shows = experiment.condition != "none"
    asked = [prompts.build(item.context, item.query, guesses=shows, style=style) for item in runs]
    about = {"experiment": asdict(experiment), "versions": dict(model.version), "prompts": prompts.digest(asked)}
    path = Path(folder) / "result.json"
    result = _begun(path, about | {"first_prompt": asked[0], "records": [_facts(item) for item in runs]})
    questions: dict[str, Callable] = {"answer": _ask, "logprobs": _score}
    left = [[name for name in questions if name not in record] for record in result["records"]]
    # Prompts of like length together, and both questions about a batch in a row: a model may have read it only once.
    waiting = sorted((n for n in range(len(runs)) if left[n]), key=lambda n: len(json.dumps(asked[n])))
    progress = Progress(2 * len(runs), 2 * len(runs) - sum(map(len, left)))
    for begin in range(0, len(waiting), batch_size):
        for name, question in questions.items():
            if some := [n for n in waiting[begin : begin + batch_size] if name in left[n]]:
                keep = partial(_keep, path, result, name, some)
                answers = question(experiment, model, [asked[n] for n in some], keep)
                if len(answers) != (n := len(some)):
                    raise ValueError(f"model {model.name} must give {n} answers, one a prompt, got {len(answers)}")
                for place, answer in enumerate(answers):
                    keep(place, answer)
                progress.add(len(some))
    return result


def _begun(path: Path, new: dict) -> dict:
    """The result as an earlier sitting left it, or a new one; what is not of this experiment is left as it is."""
    if not path.exists():
        if any(path.parent.glob("[!.]*")):
            text = "out must be a new or empty folder, or one where this experiment began"
            raise ValueError(f"{text}, got {path.parent}")
        return new
    found = records.read(path)
    parts = [({"prompts": found.get("prompts")}, {"prompts": new["prompts"]})]
    parts += [(found[part], new[part]) for part in ("experiment", "versions")]
    entries = [(name, a.get(name), b.get(name)) for a, b in parts for name in sorted(a | b)]
    if apart := "; ".join(f"{name}: {a!r:.60}, not {b!r:.60}" for name, a, b in entries if a != b):
        text = f"out must belong to this experiment, got {path.parent}, which has {apart}"
        raise ValueError(f"{text}; choose another folder")
    return found


def _keep(path: Path, result: dict, name: str, runs: Sequence[int], place: int, answer) -> None:
    """Store an answer, the first, by its place in the batch; it is on the disk when this returns."""
    if name == "answer" and not isinstance(answer, str):
        raise ValueError(f"an answer of the model must be a text, got {answer!r}")
    if name not in (record := result["records"][runs[place]]):
        record[name] = answer
        write(path, json.dumps(result, ensure_ascii=False).encode())


def _ask(experiment: Experiment, model, batch: list, keep: Callable) -> list[str]:
    """The written answers."""
    if experiment.style == "chat":
        return model.chat(batch, max_new_tokens=experiment.max_new_tokens, on_answer=keep)
    return model.complete(batch, max_new_tokens=experiment.max_new_tokens, stop=("\n",), on_answer=keep)


def _score(experiment: Experiment, model, batch: list, keep: Callable) -> list:
    """The answers' log-probabilities, or None; a completion goes on after «Score:» with a space."""
    before = "" if experiment.style == "chat" else " "
    name, endings = f"the log-probabilities of model {model.name}", [before + answer for answer in ANSWERS]
    row = lambda found: _validate.vector(name, found, len(ANSWERS)).round(6).tolist()
    rows = model.score_logprobs(batch, endings, on_answer=lambda n, found: keep(n, row(found)))
    return [None] * len(batch) if rows is None else list(map(row, rows))


def _facts(item: Item) -> dict:
    """What is known of a run before it is answered."""
    mean = float(np.mean([example.score for example in item.context]))
    known = {"run": item.run, "query": item.query_index, "context": item.context_index, "truth": item.query.score}
    return known | {"guess": item.query.guess, "context_mean": mean}
