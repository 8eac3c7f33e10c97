"""What numbers in a prompt do to a language model's answer, and which layers read the guess."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from lsalib.book import stored
from lsalib.sts import design, experiment, files, prompts
from lsalib.sts.design import items, prepare
from lsalib.sts.models import open_model
from lsalib.sts.models._answers import AnswerTree, answer_tree, score
from lsalib.sts.models._reading import read
from lsalib.sts.models.smollm2 import answer_tokens
from studies.experiments import looking
from studies.experiments.language_models import LOOKED_AT, entry

PROBED = {
    "guess": LOOKED_AT,
    "permuted": replace(LOOKED_AT, condition="permuted"),
    "neutral": replace(LOOKED_AT, condition="neutral"),
    "shuffled": replace(LOOKED_AT, condition="shuffled"),
    "concat": replace(LOOKED_AT, guess_model="concat"),
}
DOSED = ("guess", "shuffled", "concat")
DOSES = np.arange(0.5, 5.0)
GUESSES = (1.0, 4.0)
RANDOM_SETS = 12
_READ = ("guess", "sentences")


def probe(count: int = 12, keep: bool = True) -> dict[str, np.ndarray]:
    """Probabilities of the answers when all numbers are scaled by 0.8 and some are one higher, on one scale.

    One array for each of ``PROBED``, (runs, arms, answers), with the arms of ``design.CHOICES["moved"]``; and
    ``*_dose``, (runs, doses, answers), with ``DOSES`` as the query's guess and nothing moved.
    """
    model = open_model(LOOKED_AT.model)
    rows: dict[str, list] = {}
    for name, asked in PROBED.items():
        for item in items(asked, prepare(asked))[:count]:
            assert item.query.guess is not None  # all of PROBED show guesses
            low = 0.8 * item.query.guess
            arms = {"nothing": (low, low + 1), "context guess": (low,), "context score": (low,), "all": (low + 1,)}
            doses = {f"{name}_dose": {"nothing": tuple(DOSES)}} if name in DOSED else {}
            for what, parts in ({name: arms} | doses).items():
                make = partial(_moved, model, asked, item, parts)
                rows.setdefault(what, []).append(_kept(f"{what}-{item.run}", make, keep))
    return {"dose": DOSES} | {name: np.array(row, np.float32) for name, row in rows.items()}


def _moved(model, asked: design.Experiment, item: design.Item, parts: dict) -> np.ndarray:
    """A row for each query's guess, which is not scaled again; the context is read once for each part."""
    rows = []
    for part, guesses in parts.items():
        moved = design.move(item, part)
        rows.append(guessed(model, asked, [moved._replace(query=moved.query._replace(guess=g)) for g in guesses]))
    return np.concatenate(rows)


def guessed(model, asked: design.Experiment, runs: list[design.Item]) -> np.ndarray:
    """A row for each run; runs differ only in the query's guess.

    What comes before the guess is read once. We score how the prompt goes on after it, and divide by the probability of
    what comes before the answer.
    """
    texts = (design.prompt(asked, run) for run in runs)
    written = [text for text in texts if isinstance(text, str)]
    name = prompts.NUMBER_LINES[asked.condition == "neutral"] + ":"
    start = written[0].rindex(name) + len(name)
    answers = ["", *(f" {answer}" for answer in experiment.ANSWERS)]
    endings = [f"{prompt[start:]}{answer}" for prompt in written for answer in answers]
    before, *rows = np.reshape(model.score_logprobs([written[0][:start]], endings), (len(written), -1)).T
    return np.subtract(rows, before).T


def silence(count: int = 20, keep: bool = True) -> dict[str, np.ndarray]:
    """Probabilities of the answers with 1.00 and 4.00 as the query's guess, and something silent in six layers.

    ``layers`` are sets of layers: the six where the guess matters most in ``look``, the first six, and random ones.
    ``last``, (runs, 2 + sets, 2, answers), has the guess after the sentences: it is silent in no layer and in each set,
    and the sentences are silent in the first set. ``first``, (runs, 3, 2, answers), has the guess before the sentences;
    in the first set nothing is silent, the guess, and as many tokens at the end of the sentences. These are other runs
    than those of ``look``.
    """
    model, layers = open_model(LOOKED_AT.model), _sets()
    rows: dict[str, list] = {"last": [], "first": []}
    silent: dict[str, list[tuple]] = {
        "last": [("guess", ()), *(("guess", some) for some in layers), ("sentences", layers[0])],
        "first": [("guess", ()), ("guess", layers[0]), ("end", layers[0])],
    }
    for item in items(LOOKED_AT, prepare(LOOKED_AT))[12 : 12 + count]:
        for place, arms in silent.items():
            make = partial(_silenced, model, item, place == "first", arms)
            rows[place].append(_kept(f"silence-{place}-{item.run}", make, keep))
    return {"layers": layers} | {place: np.array(row, np.float32) for place, row in rows.items()}


def digits(count: int = 32) -> dict[str, np.ndarray]:
    """Probabilities of the answers when only the digits of the examples' guesses change, (runs, 2, answers).

    Each example's guess misses its score by one half: first on the side where it begins with the score's digit, then on
    the other side. ``agree``, (runs, 2), counts the examples whose digits agree; ``guess``, (runs,), are the queries'.
    """
    model = open_model(LOOKED_AT.model)
    rows, agree, guesses = [], [], []
    for item in items(LOOKED_AT, prepare(LOOKED_AT))[:count]:
        scores = np.array([example.score for example in item.context], float)
        shown = np.array([[beside(score, same) for score in scores] for same in (True, False)])
        agree.append((shown // 1 == scores[None] // 1).sum(1))
        contexts = [[e._replace(guess=g) for e, g in zip(item.context, row, strict=True)] for row in shown.tolist()]
        texts = [prompts.build(context, item.query, guesses=True) for context in contexts]
        rows.append(model.score_logprobs(texts, [f" {answer}" for answer in experiment.ANSWERS]))
        guesses.append(item.query.guess)
        print(item.run, flush=True)
    return {"answers": np.array(rows, np.float32), "agree": np.array(agree), "guess": np.array(guesses)}


def beside(score: float, same: bool) -> float:
    """A guess one half beside the score, with the same first digit or another one; where 0 ... 5 leaves one side, that.

    Example:
        >>> beside(3.2, True), beside(3.2, False), beside(5.0, True)
        (3.7, 2.7, 4.5)
    """
    sides = [guess for guess in (score - 0.5, score + 0.5) if 0 <= guess <= 5]
    return next((guess for guess in sides if (guess // 1 == score // 1) == same), sides[0])


def _sets() -> np.ndarray:
    seen = stored.load("sts/look").arrays
    share = seen["tokens"] / seen["tokens"].sum(1, keepdims=True)
    mass = seen["relevance"] / seen["relevance"].sum(2, keepdims=True) / share[:, None]
    deep = np.sort(np.argsort(mass.mean(0)[:, prompts.ROLES.index("query guess")])[-6:])
    rng = np.random.default_rng(0)
    drawn = (np.sort(rng.choice(len(mass[0]), 6, replace=False)) for _ in range(RANDOM_SETS))
    return np.array([deep, np.arange(6), *drawn])


def _silenced(model, item: design.Item, first: bool, arms: Sequence[tuple]) -> np.ndarray:
    """A row for each arm and guess. The examples are read once; the query and the answers follow them as a tree."""
    texts = [str(prompts.build(item.context, item.query._replace(guess=v), guesses=True)) for v in GUESSES]
    texts = [guess_first(text) for text in texts] if first else texts
    config, params, tokenizer = model.stored.config, model.stored.params, model.stored.tokenizer
    encode = lambda some: [each.ids for each in tokenizer.encode_batch(some)]
    start = texts[0].rindex("\n\n") + 1
    endings = [f"{text[start:]} {answer}" for text in texts for answer in experiment.ANSWERS]
    ids, tokens = answer_tokens(encode, texts[0][:start], endings)
    tree = answer_tree(tokens)
    nodes = _nodes(model, tree, texts, len(ids))
    tree = _padded(tree, len(encode([f" {experiment.ANSWERS[0]}"])[0]))
    reading, rows = read(params, config, ids, tree.used.shape[1]), []
    for what, layers in arms:
        gain = np.ones((config.layers, len(tree.tokens)), np.float32)
        gain[np.array(layers, int)[:, None], nodes[what]] = 0
        rows.append(score(params, config, reading, tree, gain))
    return np.reshape(rows, (len(rows), len(texts), -1))


def _nodes(model, tree: AnswerTree, texts: list[str], begin: int) -> dict[str, list[int]]:
    """The tree's nodes of the guesses, of the sentences, and of as many tokens at the end of the sentences."""
    found: dict[str, set] = {"guess": set(), "sentences": set(), "end": set()}
    for n, text in enumerate(texts):
        roles = looking._taken_apart(model, text)[1][begin:]
        path = tree.parent[n * len(experiment.ANSWERS)][1:]
        guess, sentences = (path[np.flatnonzero(roles == prompts.ROLES.index(f"query {w}"))] for w in _READ)
        for what, some in zip(found, (guess, sentences, sentences[-len(guess) :]), strict=True):
            found[what] |= set(some.tolist())
    return {what: sorted(some) for what, some in found.items()}


def _padded(tree: AnswerTree, used: int, step: int = 32) -> AnswerTree:
    """A tree of few possible shapes, so that few programs are compiled; answers count by their last tokens."""
    more = -len(tree.tokens) % step
    pad = lambda part: np.pad(part, (0, more))
    ancestors = np.pad(tree.ancestors, ((0, more), (0, more))) | np.eye(len(tree.tokens) + more, dtype=bool)
    answers = (part[:, -used:] for part in (tree.parent, tree.token, tree.used))
    return AnswerTree(pad(tree.tokens), pad(tree.depth), ancestors, *answers)


def guess_first(prompt: str) -> str:
    """The same prompt with each guess before its pair of sentences.

    Example:
        >>> guess_first("Rate.\\n\\nSentence 1: A.\\nSentence 2: B.\\nInitial guess: 1.00\\nScore:").split("\\n")[2:4]
        ['Initial guess: 1.00', 'Sentence 1: A.']
    """
    return re.sub(r"(Sentence 1: .*\nSentence 2: .*\n)(Initial guess: .*\n)", r"\2\1", prompt)


def _kept(name: str, make: Callable[[], np.ndarray], keep: bool) -> np.ndarray:
    """With ``keep``, an interrupted experiment continues from what it has already made."""
    if not keep:
        return make()
    folder = files.folder("cache") / "probes"
    if not (folder / f"{name}.npz").exists():
        stored.save(folder / f"{name}.npz", {"rows": make()}, {})
        print(name, flush=True)
    return stored.load(name, folder).arrays["rows"]


EXPERIMENTS = {
    "sts/probe": entry("answers when numbers move, on one scale, in six kinds of prompt", probe, keep=False),
    "sts/digits": entry("answers when only the digits of the examples' guesses change", digits),
    "sts/silence": entry("answers when the query's guess is silent in some layers", silence, keep=False),
}
