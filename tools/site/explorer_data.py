"""The data of the interactive figures: their controls, which start at the static figures' values, and stored runs."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from lsalib import theory
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
    return fixed | {"stand-in": STAND_IN, "patterns": patterns(), "fast-weights": FAST_WEIGHTS}
