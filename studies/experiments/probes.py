"""What numbers in a prompt do to a language model's answer, and which layers read the guess: run by run, and kept."""

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np

from lsalib._files import write
from lsalib.book import stored
from lsalib.sts import design, experiment, files, looking, prompts
from lsalib.sts.design import items, prepare
from lsalib.sts.models import open_model
from lsalib.sts.models._answers import AnswerTree, answer_tree, score
from lsalib.sts.models._batching import read_prompts
from lsalib.sts.models._text import answer_tokens
from lsalib.sts.models.smollm2 import chat_prompt
from studies.experiments.experiment import Experiment
from studies.experiments.language_models import LOOKED_AT, entry

PROBED = {
    "guess": LOOKED_AT,
    "permuted": replace(LOOKED_AT, condition="permuted"),
    "neutral": replace(LOOKED_AT, condition="neutral"),
    "shuffled": replace(LOOKED_AT, condition="shuffled"),
    "concat": replace(LOOKED_AT, guess_model="concat"),
    "chat": replace(LOOKED_AT, style="chat"),
}
DOSED = ("guess", "shuffled", "concat", "chat")
DOSES = np.arange(0.5, 5.0)
GUESSES = (1.0, 4.0)
RANDOM_SETS = 12
_READ = ("guess", "sentences")


def probe(count: int = 12, keep: bool = True) -> dict[str, np.ndarray]:
    """Probabilities of the answers when all numbers are scaled by 0.8 and some are one higher, on one scale: an array
    for each of ``PROBED``, (runs, arms, answers), with the arms of ``design.CHOICES["moved"]``; and ``*_dose`` with
    ``DOSES`` as the query's guess and nothing moved, (runs, doses, answers)."""
    model, rows = open_model(LOOKED_AT.model), {}
    some = {name: items(asked, prepare(asked))[:count] for name, asked in PROBED.items()}
    for run, (name, asked) in product(range(count), PROBED.items()):
        item = some[name][run]
        arms = _kept(f"arms-{name}-{run}", partial(_arms, model, asked, item), keep)
        rows.setdefault(name, []).append(arms)
        if name in DOSED:
            doses = _kept(f"dose-{name}-{run}", partial(_moved, model, asked, item, "nothing", DOSES), keep)
            rows.setdefault(f"{name}_dose", []).append(doses)
    return {"dose": DOSES} | {name: np.array(row, np.float32) for name, row in rows.items()}


def _arms(model, asked: design.Experiment, item: design.Item) -> np.ndarray:
    low = 0.8 * item.query.guess
    arms = [("nothing", (low, low + 1)), ("context guess", (low,)), ("context score", (low,)), ("all", (low + 1,))]
    return np.concatenate([_moved(model, asked, item, part, guesses) for part, guesses in arms])


def _moved(model, asked: design.Experiment, item: design.Item, part: str, guesses) -> np.ndarray:
    """A row for each query's guess, which is not scaled again; the context is read once."""
    moved = design.move(item, part)
    return guessed(model, asked, [moved._replace(query=moved.query._replace(guess=value)) for value in guesses])


def guessed(model, asked: design.Experiment, runs: list[design.Item]) -> np.ndarray:
    """A row for each run, which differ in the query's guess alone. What comes before it is read once: valued is how
    the prompt goes on, and each guess's own probability is a constant, which normalising removes."""
    written = [_text(design.prompt(asked, run)) for run in runs]
    name = prompts.NUMBER_LINES[asked.condition == "neutral"] + ":"
    start = written[0].rindex(name) + len(name)
    before = "" if asked.style == "chat" else " "
    endings = [f"{prompt[start:]}{before}{answer}" for prompt in written for answer in experiment.ANSWERS]
    return np.reshape(model.score_logprobs([written[0][:start]], endings), (len(written), -1))


def _text(prompt) -> str:
    return prompt if isinstance(prompt, str) else chat_prompt(prompt)


def silence(count: int = 20, keep: bool = True) -> dict[str, np.ndarray]:
    """Probabilities of the answers with 1.00 and 4.00 as the query's guess, and something silent in six layers.

    ``layers`` are the sets: the six where the guess matters most by ``look``, the first six, random ones. Where the
    guess stands last it is silent in no layer, and in each of the sets, and then the sentences in the first set,
    ``last`` (runs, 2 + sets, 2, answers). Where the guess stands before the sentences, ``first`` has nothing, the
    guess, and as many tokens at the end of the sentences silent in the first set, (runs, 3, 2, answers). The runs are
    others than those of ``look``.
    """
    model, layers = open_model(LOOKED_AT.model), _sets()
    rows: dict[str, list] = {"last": [], "first": []}
    for item in items(LOOKED_AT, prepare(LOOKED_AT))[12 : 12 + count]:
        silent: dict[str, list[tuple]] = {
            "last": [("guess", ()), *(("guess", some) for some in layers), ("sentences", layers[0])],
            "first": [("guess", ()), ("guess", layers[0]), ("end", layers[0])],
        }
        for place, arms in silent.items():
            make = partial(_silenced, model, item, place == "first", arms)
            rows[place].append(_kept(f"silence-{place}-{item.run}", make, keep))
    return {"layers": layers} | {place: np.array(row, np.float32) for place, row in rows.items()}


def _sets() -> np.ndarray:
    seen = stored.load("sts/look").arrays
    share = seen["tokens"] / seen["tokens"].sum(1, keepdims=True)
    mass = seen["relevance"] / seen["relevance"].sum(2, keepdims=True) / share[:, None]
    deep = np.sort(np.argsort(mass.mean(0)[:, prompts.ROLES.index("query guess")])[-6:])
    rng = np.random.default_rng(0)
    drawn = (np.sort(rng.choice(len(mass[0]), 6, replace=False)) for _ in range(RANDOM_SETS))
    return np.array([deep, np.arange(6), *drawn])


def _silenced(model, item: design.Item, first: bool, arms: Sequence[tuple]) -> np.ndarray:
    """A row for each arm and guess: the examples are read once, the query and the answers as a tree after them."""
    texts = [prompts.build(item.context, item.query._replace(guess=v), guesses=True) for v in GUESSES]
    texts = [guess_first(text) for text in texts] if first else texts
    config, params, tokenizer = model.stored.config, model.stored.params, model.stored.tokenizer
    encode = lambda some: [each.ids for each in tokenizer.encode_batch(some)]
    start = texts[0].rindex("\n\n") + 1
    endings = [f"{text[start:]} {answer}" for text in texts for answer in experiment.ANSWERS]
    ids, tokens = answer_tokens(encode, texts[0][:start], endings)
    tree = answer_tree(tokens)
    nodes = _nodes(model, tree, texts, len(ids))
    tree = _padded(tree, len(encode([f" {experiment.ANSWERS[0]}"])[0]))
    reading, rows = read_prompts(params, config, [ids], tree.used.shape[1]), []
    for what, layers in arms:
        gain = np.ones((config.layers, len(tree.tokens)), np.float32)
        gain[np.array(layers, int)[:, None], nodes[what]] = 0
        rows.append(score(params, config, reading, tree, gain)[0])
    return np.reshape(rows, (len(rows), len(texts), -1))


def _nodes(model, tree: AnswerTree, texts: list[str], begin: int) -> dict[str, list[int]]:
    """The nodes of the queries' guesses, of their sentences, and of as many tokens at the end of the sentences."""
    found: dict[str, set] = {"guess": set(), "sentences": set(), "end": set()}
    for n, text in enumerate(texts):
        roles = looking._taken_apart(model, text)[1][begin:]
        path = tree.parent[n * len(experiment.ANSWERS)][1:]
        guess, sentences = (path[np.flatnonzero(roles == prompts.ROLES.index(f"query {w}"))] for w in _READ)
        for what, some in zip(found, (guess, sentences, sentences[-len(guess) :]), strict=True):
            found[what] |= set(some.tolist())
    return {what: sorted(some) for what, some in found.items()}


def _padded(tree: AnswerTree, used: int, step: int = 32) -> AnswerTree:
    """Of few shapes, so that few programs are compiled; an answer is worth its last tokens, after what is common."""
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
    """What an experiment that was stopped has made before, or what is made now; without ``keep`` always the latter."""
    path = files.folder("cache") / "probes" / f"{name}.npy"
    if keep and path.exists():
        return np.load(path)
    made, content = make(), io.BytesIO()
    if keep:
        np.save(content, made)
        write(path, content.getvalue())
        print(name, flush=True)
    return made


def _entry(line: str, measure: Callable) -> Experiment:
    return entry(line, measure)._replace(again=partial(measure, 1, keep=False))


EXPERIMENTS = {
    "sts/probe": _entry("answers when numbers in the prompt are moved, on one scale, in six kinds of prompt", probe),
    "sts/silence": _entry("answers when the query's guess is silent in some layers", silence),
}
