"""What the page on language models reads: the small model's answers when guesses in its prompts are changed."""

from dataclasses import asdict, replace
from functools import partial

import numpy as np

from lsalib.sts import design, prompts, results
from lsalib.sts.models import open_model
from studies.experiments.experiment import Experiment

ASKED = design.Experiment("smollm2-135m-instruct", "guess", "strong")
DOSED = {
    "guess": ASKED,
    "concat": replace(ASKED, guess_model="concat"),
    "shuffled": replace(ASKED, condition="shuffled"),
}
DOSES = np.arange(0.5, 5.0)
ENDS = np.array([1.0, 4.0])


def doses(count: int = 32) -> dict[str, np.ndarray]:
    """Probabilities of the answers when only the query's guess changes, (runs, guesses, answers).

    In runs 0 to 11 of each of ``DOSED`` it takes the values ``DOSES``, and all numbers of the examples are scaled by
    0.8; in runs 12 to 31 it takes the values ``ENDS``.
    """
    found = {"dose": DOSES}
    for name, asked in DOSED.items():
        runs = design.items(asked, design.prepare(asked))[: min(count, 12)]
        scale = lambda example: example._replace(score=0.8 * example.score, guess=0.8 * example.guess)
        found[name] = _answers([_dosed(item, DOSES, list(map(scale, item.context))) for item in runs])
    runs = design.items(ASKED, design.prepare(ASKED))[12 : 12 + min(count, 20)]
    return found | {"ends": _answers([_dosed(item, ENDS, item.context) for item in runs])}


def digits(count: int = 32) -> dict[str, np.ndarray]:
    """Probabilities of the answers when only the digits of the examples' guesses change, (runs, 2, answers).

    Each example's guess misses its score by one half: first on the side where it begins with the score's digit, then on
    the other side. ``agree``, (runs, 2), counts the examples whose digits agree; ``guess``, (runs,), are the queries'.
    """
    runs = design.items(ASKED, design.prepare(ASKED))[:count]
    scores = np.array([[example.score for example in item.context] for item in runs], float)
    sides = np.stack([np.vectorize(beside)(scores, same) for same in (True, False)], axis=1)
    texts = []
    for item, shown in zip(runs, sides.tolist(), strict=True):
        contexts = [[e._replace(guess=g) for e, g in zip(item.context, row, strict=True)] for row in shown]
        texts.append([prompts.build(context, item.query, guesses=True) for context in contexts])
    agree = (sides // 1 == scores[:, None] // 1).sum(2)
    return {"answers": _answers(texts), "agree": agree, "guess": np.array([item.query.guess for item in runs])}


def beside(score: float, same: bool) -> float:
    """A guess one half beside the score, with the same first digit or another one; where 0 ... 5 leaves one side, that.

    Example:
        >>> beside(3.2, True), beside(3.2, False), beside(5.0, True)
        (3.7, 2.7, 4.5)
    """
    sides = [guess for guess in (score - 0.5, score + 0.5) if 0 <= guess <= 5]
    return next((guess for guess in sides if (guess // 1 == score // 1) == same), sides[0])


def _dosed(item: design.Item, guesses: np.ndarray, context: list) -> list:
    return [prompts.build(context, item.query._replace(guess=guess), guesses=True) for guess in guesses.tolist()]


def _answers(texts: list[list]) -> np.ndarray:
    """Log-probabilities of the scores after each text, in rows of equal length."""
    rows = []
    for row in texts:
        rows.append(open_model().score_logprobs(row, [f" {score}" for score in results.ANSWERS]))
        print(len(rows), flush=True)
    return np.array(rows, np.float32)


def _entry(line: str, measure) -> Experiment:
    """A measurement on the model's first runs; ``again`` is the same on the first run."""
    about = {"experiment": {name: value for name, value in asdict(ASKED).items() if value is not None}}
    return Experiment(
        line, measure, partial(measure, 1), about, lambda: dict(open_model().version), rtol=1e-3, atol=2e-3
    )


EXPERIMENTS = {
    "sts/doses": _entry("answers when only the query's guess changes", doses),
    "sts/digits": _entry("answers when only the digits of the examples' guesses change", digits),
}
