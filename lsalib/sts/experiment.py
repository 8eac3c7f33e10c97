"""The runs: each prompt is answered once, and each answer kept as it comes (section 5.3)."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from os import PathLike

import numpy as np

from lsalib import _validate
from lsalib._progress import Progress
from lsalib.sts import prompts
from lsalib.sts.design import Experiment, Item, Sources, items, prepare
from lsalib.sts.journal import Journal

__all__ = ["ANSWERS", "Experiment", "Sources", "prepare", "run"]

# The scores whose probabilities give an expected score: steps of a tenth, about as fine as the data.
ANSWERS = tuple(f"{tenths / 10:.1f}" for tenths in range(51))


def run(experiment: Experiment, model, sources: Sources, folder: str | PathLike, *, batch_size: int = 8) -> dict:
    """Ask the model whatever has not been answered yet, store each answer as it comes, and return the result.

    Two readouts: the text that the model writes, greedily; and, where it gives probabilities, those of the
    answers 0.0, 0.1, ..., 5.0.

    Args:
        experiment: the ``Experiment``.
        model: a ``models.LanguageModel``, opened from ``experiment.model``.
        sources: what ``prepare`` returned.
        folder: of this experiment alone; made if missing. An interrupted run goes on there.
        batch_size: prompts handed to the model at once.

    Returns:
        The result, as ``journal`` stores it.

    Raises:
        ValueError: if the folder belongs to another experiment, or the model does not answer every prompt.

    Example:
        >>> import tempfile
        >>> from lsalib.sts.data import Pairs
        >>> class Three:
        ...     name, version = "three", {}
        ...     def complete(self, prompts, *, max_new_tokens, stop=(), on_answer=None):
        ...         return [" 3" for prompt in prompts]
        ...     def score_logprobs(self, prompts, answers, *, on_answer=None):
        ...         return None
        >>> pairs = Pairs(list("abcd"), list("efgh"), np.arange(4.0))
        >>> experiment = Experiment("three", "none", runs=2, context_size=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     result = run(experiment, Three(), Sources(pairs, pairs), folder)
        >>> [(record["truth"], record["answer"]) for record in result["records"]]
        [(2.0, ' 3'), (0.0, ' 3')]
    """
    _validate.count("batch_size", batch_size)
    if model.name != experiment.model:
        raise ValueError(f"model must be the experiment's, {experiment.model!r}, got {model.name!r}")
    runs = items(experiment, sources)
    shows_guesses = experiment.condition != "none"
    asked = [prompts.build(item.context, item.query, guesses=shows_guesses, style=experiment.style) for item in runs]
    identity = {
        "experiment": asdict(experiment),
        "versions": dict(model.version),
        "prompts": prompts.digest(asked),
        "first_prompt": asked[0],
    }
    journal = Journal(folder, identity, [_facts(item) for item in runs])
    ask, score = _readouts(experiment, model)
    missing = {readout: set(journal.missing(readout)) for readout in ("answer", "logprobs")}
    # Prompts of like length together, and both questions about a batch in a row: a model may have read it only once.
    waiting = sorted(set.union(*missing.values()), key=lambda n: len(json.dumps(asked[n])))
    progress = Progress(2 * len(runs), 2 * len(runs) - sum(map(len, missing.values())))
    for batch in _batches(waiting, batch_size):
        for readout, question in (("answer", ask), ("logprobs", score)):
            if some := [n for n in batch if n in missing[readout]]:
                keep = _keeper(journal, readout, some)
                answers = question([asked[n] for n in some], keep)
                if answers is not None and len(answers) != len(some):
                    raise ValueError(
                        f"model {model.name} must give {len(some)} answers, one a prompt, got {len(answers)}"
                    )
                for place in range(len(some)):
                    keep(place, None if answers is None else answers[place])
                progress.add(len(some))
    return journal.finish()


def _readouts(experiment: Experiment, model) -> tuple[Callable, Callable]:
    """Two functions of (prompts, keep): the written answers, and the answers' log-probabilities."""
    chat = experiment.style == "chat"

    def ask(batch: list, keep: Callable) -> list[str]:
        if chat:
            return model.chat(batch, max_new_tokens=experiment.max_new_tokens, on_answer=keep)
        return model.complete(batch, max_new_tokens=experiment.max_new_tokens, stop=("\n",), on_answer=keep)

    def score(batch: list, keep: Callable) -> list[list[float]] | None:
        # A completion goes on after «Score:» with a space.
        endings = ANSWERS if chat else [f" {answer}" for answer in ANSWERS]
        rows = model.score_logprobs(batch, endings, on_answer=lambda n, row: keep(n, _row(model, row)))
        return None if rows is None else [_row(model, row) for row in rows]

    return ask, score


def _row(model, logprobs) -> list[float]:
    """What is stored of the answers' log-probabilities after one prompt."""
    row = np.asarray(logprobs, np.float64)
    _validate.shape(f"the log-probabilities of model {model.name}", row, (len(ANSWERS),))
    if not np.isfinite(row).all():
        raise ValueError(f"the log-probabilities of model {model.name} must be finite, got {row}")
    return row.round(6).tolist()


def _keeper(journal: Journal, readout: str, batch: Sequence[int]) -> Callable[[int, object], None]:
    """What stores an answer by its place in the batch, once."""
    kept = set()

    def keep(place: int, answer) -> None:
        if readout == "answer" and not isinstance(answer, str):
            raise ValueError(f"an answer of the model must be a text, got {answer!r}")
        if place not in kept:
            kept.add(place)
            journal.add(batch[place], readout, answer)

    return keep


def _batches(runs: Sequence[int], size: int) -> Iterable[Sequence[int]]:
    return (runs[begin : begin + size] for begin in range(0, len(runs), size))


def _facts(item: Item) -> dict:
    """What is known of a run before it is answered."""
    mean = float(np.mean([example.score for example in item.context]))
    known = {"run": item.run, "query": item.query_index, "context": item.context_index}
    return known | {"truth": item.query.score, "guess": item.query.guess, "context_mean": mean}
