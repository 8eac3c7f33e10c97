"""The runs: each prompt is answered once, and each answer kept as it comes (section 5.3)."""

import json
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path

import numpy as np

from lsalib import _validate
from lsalib._progress import Progress
from lsalib.sts import _store, prompts
from lsalib.sts.design import Experiment, Item, Sources, items, prompt

__all__ = ["ANSWERS", "run"]

# The scores whose probabilities give an expected score: steps of a tenth, about as fine as the data.
ANSWERS = tuple(f"{tenths / 10:.1f}" for tenths in range(51))

READOUTS = ("written", "expected")
# What is kept of each: its name in a record, in words, and what a server is asked for one.
_KEPT = {"answer": ("answers", 1), "logprobs": ("rows of scores", len(ANSWERS))}


def run(
    experiment: Experiment,
    model,
    sources: Sources,
    folder: str | PathLike,
    *,
    batch_size: int = 8,
    readouts: Sequence[str] = READOUTS,
    first: int | None = None,
) -> dict:
    """Ask the model whatever has not been answered yet, store each answer as it comes, and return the result.

    Two readouts: the text that the model writes, greedily; and, where it gives probabilities, those of the
    answers 0.0, 0.1, ..., 5.0. An empty answer is a failure, of which a warning tells: the next call asks again.

    Args:
        experiment: the ``Experiment``.
        model: a ``models.LanguageModel``, opened from ``experiment.model``.
        sources: what ``design.prepare`` returned.
        folder: of this experiment alone, and of one process at a time; an interrupted run goes on there.
        batch_size: prompts handed to the model at once.
        readouts: "written", "expected" or both; a later call may ask for the other.
        first: how many of the runs are asked, the first ones; None means all. A later call may ask for more.

    Returns:
        The experiment, versions, prompts (their digest), first_prompt, and a record for each run.

    Raises:
        ValueError: if the folder holds something else, or the model does not keep to its protocol.
        OSError: if another process asks in this folder; or what the model raises, with a note on what was kept.
    """
    _validate.count("batch_size", batch_size)
    if not readouts or not set(readouts) <= set(READOUTS):
        raise ValueError(f"readouts must be among {', '.join(READOUTS)}, got {readouts!r}")
    if model.name != experiment.model:
        raise ValueError(f"model must be the experiment's, {experiment.model!r}, got {model.name!r}")
    runs = items(experiment, sources)
    first = len(runs) if first is None else _validate.count("first", first)
    asked = [prompt(experiment, item) for item in runs]
    about = {"experiment": asdict(experiment), "versions": dict(model.version), "prompts": prompts.digest(asked)}
    new = about | {"first_prompt": asked[0], "records": [_facts(item) for item in runs]}
    names = [name for readout, name in zip(READOUTS, _KEPT, strict=True) if readout in readouts]
    with _store.opened(Path(folder), new) as store:
        try:
            _ask_all(experiment, model, asked[:first], store, batch_size, names)
        except BaseException as error:
            count = lambda name: sum(not _missing(record, name) for record in store.result["records"])
            kept = " and ".join(f"{count(name)} of {len(runs)} {_KEPT[name][0]}" for name in names)
            error.add_note(f"kept in {folder}: {kept}; the same command goes on from there")
            raise
    _warn_of_empty(store.result["records"])
    return store.result


def _missing(record: dict, name: str) -> bool:
    """Also where there are no words, or no scores yet: a server may learn to give them."""
    return not record.get(name) or (name == "answer" and not record[name].strip())


def _ask_all(experiment: Experiment, model, asked: list, store: _store.Store, size: int, names: list[str]) -> None:
    """Prompts of like length together, and both questions about a batch in a row: a model may read it only once."""
    records = store.result["records"][: len(asked)]
    left = {name: {n for n, record in enumerate(records) if _missing(record, name)} for name in names}
    waiting = sorted(set.union(*left.values()), key=lambda n: len(json.dumps(asked[n])))
    total = len(asked) * sum(_KEPT[name][1] for name in names)
    known = sum(len(record.get("scores", {})) for record in records) if "logprobs" in names else 0
    progress = Progress(total, total + known - sum(len(left[name]) * _KEPT[name][1] for name in names))
    for begin in range(0, len(waiting), size):
        for name in names:
            if some := [n for n in waiting[begin : begin + size] if n in left[name]]:
                _ask(name, experiment, model, [asked[n] for n in some], _Keep(store, progress, some))


class _Keep(dict):
    """What comes back for a batch goes to the store, once; single scores as ``LanguageModel.score_logprobs`` says."""

    def __init__(self, store: _store.Store, progress: Progress, some: Sequence[int]):
        self.store, self.progress, self.some, self.left = store, progress, some, set(range(len(some)))
        kept = ((place, store.result["records"][n].get("scores", {})) for place, n in enumerate(some))
        super().__init__({(place, int(a)): value for place, scores in kept for a, value in scores.items()})

    def answer(self, place: int, words) -> None:
        if not isinstance(words, str):
            raise ValueError(f"an answer of the model must be a text, got {words!r}")
        self._once(place, 1, answer=str(words), finish=getattr(words, "finish", None))

    def logprobs(self, place: int, row) -> None:
        if row is not None:
            row = _validate.vector("the log-probabilities of the model", row, len(ANSWERS)).round(6).tolist()
        self._once(place, len(ANSWERS) - sum(place == other for other, _ in self), logprobs=row)

    def __setitem__(self, key: tuple[int, int], value: float) -> None:
        super().__setitem__(key, value)
        self.store.add(self.some[key[0]], scores={str(key[1]): round(float(value), 6)})
        self.progress.add(1)

    def _once(self, place: int, steps: int, **kept) -> None:
        if place in self.left:
            self.left.remove(place)
            self.store.add(self.some[place], **kept)
            self.progress.add(steps)


def _ask(name: str, experiment: Experiment, model, batch: list, keep: _Keep) -> None:
    """The written answers, or the answers' log-probabilities; a completion goes on after «Score:» with a space."""
    stop, space = ((), "") if experiment.style == "chat" else (("\n",), " ")
    if name == "answer":
        answers = model.complete(batch, max_new_tokens=experiment.max_new_tokens, stop=stop, on_answer=keep.answer)
    else:
        answers = model.score_logprobs(batch, [space + a for a in ANSWERS], on_answer=keep.logprobs, parts=keep)
        answers = [None] * len(batch) if answers is None else answers
    if len(answers) != (n := len(batch)):
        raise ValueError(f"model {model.name} must give {n} answers, one a prompt, got {len(answers)}")
    for place, answer in enumerate(answers):  # of a model that gives them all at once
        getattr(keep, name)(place, answer)


def _warn_of_empty(records: list[dict]) -> None:
    if empty := [record for record in records if "answer" in record and _missing(record, "answer")]:
        ends = Counter(record.get("finish") or "not known" for record in empty)
        why = ", ".join(f"{reason} ({n})" for reason, n in ends.items())
        text = f"{len(empty)} of {len(records)} answers are empty, and count as failed; finish reasons: {why}"
        warnings.warn(f"{text}; the same command asks for them again", stacklevel=3)


def _facts(item: Item) -> dict:
    """What is known of a run before it is answered."""
    mean = float(np.mean([example.score for example in item.context]))
    known = {"run": item.run, "query": item.query_index, "context": item.context_index, "truth": item.query.score}
    return known | {"guess": item.query.guess, "context_mean": mean}
