"""The data of the interactive figures: their controls, which start at the static figures' values, and stored runs."""

from collections.abc import Sequence
from functools import cache

import jax
import numpy as np
from scipy import stats

from lsalib import theory, training
from lsalib.book import stored
from lsalib.tasks import GaussianTask

# The paper's scale, where most figures start.
DIM, CONTEXT, MEAN = 10, 10, 2.0
LENGTHS = [digit * 10**power for power in range(5) for digit in (1, 2, 3, 5)] + [10**5]
# Full color in a picture of A and of b, as in the static figure.
FULL = {"A": 0.15, "b": 2.5}


def slider(name: str, label: str, low: float, high: float, step: float, value: float) -> dict:
    return {"name": name, "label": label, "min": low, "max": high, "step": step, "value": value}


def choice(name: str, label: str, options: dict[str, str]) -> dict:
    return {"name": name, "label": label, "options": list(options.items()), "value": next(iter(options))}


def lengths(values: Sequence[float], value: float, name: str = "C", label: str = "context length C") -> dict:
    """A slider over a list."""
    return {"name": name, "label": label, "values": values, "value": value}


def dimension(high: int) -> dict:
    return slider("d", "features d", 1, high, 1, DIM)


def error(low: int = 0) -> dict:
    return slider("error", "squared error of the guess, ‖w⋆ − g‖²", low, 60, 1, DIM * MEAN**2)


NOISE = slider("noise", "label noise σ", 0, 3, 0.1, 0)
AXES = {"error": "squared error of the guess", "C": "context length", "d": "features", "noise": "label noise"}
ENTRIES = {"xy": "one feature and the label", "yy": "the label with itself", "xx": "one feature with itself"}
ORDERS = {"given": "as drawn", "reversed": "reversed", "longest": "longest first", "shortest": "shortest first"}
# Steps m in sixtieths, so that the best one, a third, is among them.
STEPS = [k / 60 for k in range(-30, 71)]

ANSWER = {
    "controls": [
        choice("over", "drawn against", AXES),
        error(),
        slider("C", "context length C", 1, 100, 1, CONTEXT),
        dimension(12),
        NOISE,
    ],
    "cost": {"error": [0, 2], "C": [0, 10], "d": [0, 10], "noise": [0, 2]},
}
HEADS = {
    "controls": [
        slider("heads", "heads H", 1, 16, 1, 2),
        error(),
        slider("C", "context length C", 3, 50, 1, CONTEXT),
        dimension(16),
    ],
    "risk": [0, 20],
}
# The example that the page works out by hand.
GUESS = {
    "controls": [slider("guess", "the guess", 0, 6, 0.1, 0), slider("eta", "step size η", 0, 1, 0.05, 0.5)],
    "prediction": [0, 10],
    "X": [[1, 0], [1, 2]],
    "y": [1, 5],
    "x_q": [2, 1],
    "weights": [1, 2],
    "prior_mean": [1, 1],
}
TRIANGLE = {
    "controls": [
        lengths(STEPS, 1.0, "m", "step η"),
        slider("c", "c, which ignores the sign of ε", -1.5, 1.5, 0.05, 0.8),
    ]
}
PAIR = {
    "controls": [
        lengths(LENGTHS, 100),
        choice("entry", "entry of the Gram matrix G", ENTRIES),
        slider("mean", "prior mean, each coordinate of w⋆", 0, 3, 0.25, MEAN),
        dimension(20),
    ]
}
SHORTER = [length for length in LENGTHS if length <= 1000]
STAND_IN = {"controls": [lengths(SHORTER, CONTEXT), dimension(20), error(low=1), NOISE]}
FAST_WEIGHTS = {
    "controls": [
        slider("start", "start, in units of the prior mean", 0, 1.5, 0.1, 0),
        slider("beta", "step size η", 0, 0.5, 0.05, 0.25),
        choice("order", "order of the examples", ORDERS),
    ],
    "plane": [[-0.5, 2.5], [-0.5, 2]],
    "risk": [0, 5],
    "X": [[1.2, -0.4], [-0.5, 0.9], [0.3, 1.6], [-1.1, -0.7], [0.6, 0.2]],
    "w": [1.6, 0.3],
    "prior_mean": [1, 1],
}
DEPTH = {"controls": [slider("L", "layers L", 1, 3, 1, 1), lengths(SHORTER, CONTEXT), dimension(20)]}


def cloud() -> dict:
    """Clouds of 24 points: directions in a mixed order, and lengths at the quantiles of their distribution."""
    chance, angle = (np.arange(24) + 0.5) / 24, 2 * np.pi * np.random.default_rng(0).permutation(24) / 24
    normal, length = stats.norm.ppf(chance), np.sqrt(-2 * np.log(chance))
    around = lambda r: (r * np.array([np.cos(angle), np.sin(angle)])).T @ [[1.1, 0.4], [0, 0.7]]
    lines = np.column_stack([np.where(np.arange(24) % 2, 1, -1), normal])
    clouds = {"ellipse": around(2**0.5), "lines": lines, "gauss": around(length), "tails": around(length**2 / 2.2)}
    names = {"ellipse": "on an ellipse", "lines": "on two lines", "gauss": "Gaussian", "tails": "heavy tails"}
    more = [
        slider(name, f"one more point, feature {k}", -most, most, 0.1, at)
        for k, name, most, at in ((1, "x", 4, 1.0), (2, "y", 2.4, 0.6))
    ]
    controls = [choice("cloud", "cloud", names), lengths(SHORTER, CONTEXT), *more]
    points = {name: np.round(each, 3).tolist() for name, each in clouds.items()}
    return {"controls": controls, "clouds": points, "plane": [[-4, 4], [-2.4, 2.4]]}


MEANS, RATES = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0], [5e-4, 1e-3, 2e-3]
STEPS_KEPT = [50, 70, 100, 150, 200, 300, 500, 700, *range(1000, 7000, 500), *range(7000, 10_001, 1000)]


def arrival() -> dict:
    """Trainings of one head and its guess on the exact risk, at the paper's scale."""
    steps = STEPS_KEPT
    places = [(mean, rate) for mean in MEANS for rate in RATES]
    runs = [
        training.Run(GaussianTask([mean] * DIM, CONTEXT), 1, train_guess=True, learning_rate=rate)
        for mean, rate in places
    ]
    fits = training.sweep(jax.random.key(0), runs, steps=steps[-1] + 1, objective="population", snapshots=steps)
    rounded = lambda values: [float(f"{value:.5g}") for value in np.asarray(values)]
    kept = {}
    for (mean, rate), fit in zip(places, fits, strict=True):
        guesses = [fit.snapshot(k).guess[0].mean() / mean for k in range(len(steps))]
        kept[f"{mean:g} {rate:g}"] = {"share": rounded(guesses), "risk": rounded(fit.losses[0, np.array(steps)])}
    controls = [
        lengths(MEANS, MEAN, "mean", "prior mean, each entry"),
        lengths(RATES, 5e-4, "rate", "learning rate"),
        lengths(steps, 5000, "step", "training step"),
    ]
    return {"controls": controls, "steps": steps, "runs": kept, "gd": theory.gd_risk(GaussianTask([0] * DIM, CONTEXT))}


def race() -> dict:
    """Steps until arrival, geometric means over the seeds of stored runs in the paper's setting."""
    run = stored.load("training_speed")
    block, guess = (np.exp(np.log(run.arrays[name][0]).mean(-1)) for name in ("block", "yq"))
    controls = [
        lengths(run.about["levels"], 1.0, "mean", "prior mean, each entry"),
        lengths(run.about["widths"], 8, "width", "width m of the linear MLP"),
    ]
    return {"controls": controls, "block": block.tolist(), "guess": guess[:, 0].tolist()}


def course(run: stored.Stored, layer: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A (snapshot, H, d+1, d+1) and b (snapshot, H, d+1) of a stored layer with one output."""
    moments = range(len(run.about["snapshots"]))
    b, A = zip(*(stored.circuits(run, seed, layer, snapshot) for snapshot in moments), strict=True)
    return np.array(A), np.array(b)[..., 0, :]


def shown() -> list[tuple[str, int, int]]:
    """Name, layer and seed of what can be looked at; of two heads a pair, and one that kept a single sign."""
    run = stored.load("softmax_heads")
    heads = run.about["heads"]
    two = heads.index(2)
    signs = [np.sign(stored.circuits(run, seed, two)[0][:, 0, -1]).sum() for seed in range(run.about["seeds"])]
    pair, single = (next(s for s, sign in enumerate(signs) if bool(sign) == alone) for alone in (False, True))
    rest = [(f"{H} head{'s' * (H > 1)}", k, 1) for k, H in enumerate(heads) if H not in (2, 4)]
    four = ("4 heads", heads.index(4), 1)
    return [four, ("2 heads", two, pair), ("2 heads of one sign", two, single), *rest]


def task_of(about: dict) -> GaussianTask:
    """What a stored layer was trained on."""
    mean, prior = np.full(about["dim"], about["prior_mean"]), about["prior_var"] * np.eye(about["dim"])
    return GaussianTask(mean, about["context_size"], None, prior, about["noise_var"] ** 0.5)


def patterns() -> dict:
    run = stored.load("softmax_heads")
    layers = {name: [part.round(4).tolist() for part in course(run, layer, seed)] for name, layer, seed in shown()}
    steps = run.about["snapshots"]
    return {
        "controls": [
            lengths(steps, steps[0], "step", "training step"),
            choice("layer", "layer", {name: name for name in layers}),
        ],
        "layers": layers,
        "full": FULL,
        "step": float(theory.debiased_step(task_of(run.about))),
    }


@cache
def explorers() -> dict[str, dict]:
    """The data of each explorer."""
    fixed: dict[str, dict] = {"answer": ANSWER, "heads": HEADS, "guess": GUESS, "triangle": TRIANGLE, "pair": PAIR}
    fixed |= {"stand-in": STAND_IN, "depth": DEPTH, "fast-weights": FAST_WEIGHTS}
    return fixed | {"cloud": cloud(), "arrival": arrival(), "race": race(), "patterns": patterns()}
