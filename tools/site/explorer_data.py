"""The data of the interactive figures: their controls, which start at the static
figures' values, and stored runs.
"""

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


def slider(
    name: str, label: str, low: float, high: float, step: float, value: float
) -> dict:
    return {
        "name": name,
        "label": label,
        "min": low,
        "max": high,
        "step": step,
        "value": value,
    }


def choice(name: str, label: str, options: dict[str, str]) -> dict:
    return {
        "name": name,
        "label": label,
        "options": list(options.items()),
        "value": next(iter(options)),
    }


def lengths(
    values: Sequence[float],
    value: float,
    name: str = "C",
    label: str = "context length C",
) -> dict:
    """A slider over a list."""
    return {"name": name, "label": label, "values": values, "value": value}


def dimension(high: int) -> dict:
    return slider("d", "features d", 1, high, 1, DIM)


def error(low: int = 0) -> dict:
    return slider(
        "error", "squared error of the guess, ‖w⋆ − g‖²", low, 60, 1, DIM * MEAN**2
    )


NOISE = slider("noise", "label noise σ", 0, 3, 0.1, 0)
AXES = {
    "error": "squared error of the guess",
    "C": "context length",
    "d": "features",
    "noise": "label noise",
}
ENTRIES = {
    "xy": "one feature and the label",
    "yy": "the label with itself",
    "xx": "one feature with itself",
}
ORDERS = {
    "given": "as drawn",
    "reversed": "reversed",
    "longest": "longest first",
    "shortest": "shortest first",
}
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
    "controls": [
        slider("guess", "the guess", 0, 6, 0.1, 0),
        slider("eta", "step size η", 0, 1, 0.05, 0.4),
    ],
    "prediction": [0, 10],
    "X": [[1, 0], [1, -1]],
    "y": [2, 2],
    "x_q": [2, 1],
    "weights": [2, 0],
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
DEPTH = {
    "controls": [
        slider("L", "layers L", 1, 3, 1, 1),
        lengths(SHORTER, CONTEXT),
        dimension(20),
    ]
}


# The trainings: prior means, learning rates, and the steps that are kept.
MEANS, RATES = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0], [5e-4, 1e-3, 2e-3]
KEPT = [
    50,
    70,
    100,
    150,
    200,
    300,
    500,
    700,
    *range(1000, 7000, 500),
    *range(7000, 10_001, 1000),
]
# The stored circuits: layer and seed; of two heads a pair, and one that kept a single
# sign.
SHOWN = {
    "4 heads": (2, 1),
    "2 heads": (1, 1),
    "2 heads of one sign": (1, 0),
    "1 head": (0, 1),
    "8 heads": (3, 1),
}


def cloud() -> dict:
    """Clouds of 24 points: directions in a mixed order, and lengths at the quantiles of
    their distribution.
    """
    chance, angle = (
        (np.arange(24) + 0.5) / 24,
        2 * np.pi * np.random.default_rng(0).permutation(24) / 24,
    )
    normal, length = stats.norm.ppf(chance), np.sqrt(-2 * np.log(chance))
    around = lambda r: (
        (r * np.array([np.cos(angle), np.sin(angle)])).T @ [[1.1, 0.4], [0, 0.7]]
    )
    lines = np.column_stack([np.where(np.arange(24) % 2, 1, -1), normal])
    clouds = {
        "on an ellipse": around(2**0.5),
        "on two lines": lines,
        "Gaussian": around(length),
    }
    clouds["heavy tails"] = around(length**2 / 2.2)
    controls = [
        choice("cloud", "cloud", {name: name for name in clouds}),
        lengths(SHORTER, CONTEXT),
        slider("x", "one more point, feature 1", -4, 4, 0.1, 1.0),
        slider("y", "one more point, feature 2", -2.4, 2.4, 0.1, 0.6),
    ]
    points = {name: np.round(each, 3).tolist() for name, each in clouds.items()}
    return {"controls": controls, "clouds": points, "plane": [[-4, 4], [-2.4, 2.4]]}


def arrival() -> dict:
    """Trainings of one head and its guess on the exact risk, at the paper's scale."""
    task = lambda mean: GaussianTask([mean] * DIM, CONTEXT)
    places = [(mean, rate) for mean in MEANS for rate in RATES]
    runs = [
        training.Run(task(mean), 1, train_guess=True, learning_rate=rate)
        for mean, rate in places
    ]
    fits = training.sweep(
        jax.random.key(0),
        runs,
        steps=KEPT[-1] + 1,
        objective="population",
        snapshots=KEPT,
    )
    rounded = lambda values: [float(f"{value:.5g}") for value in values]
    kept = {}
    for (mean, rate), fit in zip(places, fits, strict=True):
        share = [fit.snapshot(step).guess[0].mean() / mean for step in KEPT]
        kept[f"{mean:g} {rate:g}"] = {
            "share": rounded(share),
            "risk": rounded(fit.losses[0, np.array(KEPT)]),
        }
    controls = [
        lengths(MEANS, MEAN, "mean", "prior mean, each entry"),
        lengths(RATES, 5e-4, "rate", "learning rate"),
        lengths(KEPT, 5000, "step", "training step"),
    ]
    return {
        "controls": controls,
        "steps": KEPT,
        "runs": kept,
        "gd": theory.gd_risk(task(0)),
    }


def course(run: stored.Stored, layer: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A (snapshot, H, d+1, d+1) and b (snapshot, H, d+1) of a stored layer with one
    output.
    """
    moments = range(len(run.about["snapshots"]))
    b, A = zip(
        *(stored.circuits(run, seed, layer, snapshot) for snapshot in moments),
        strict=True,
    )
    return np.array(A), np.array(b)[..., 0, :]


def patterns() -> dict:
    """Circuits of stored layers during their training, and the best step on their
    tasks.
    """
    run = stored.load("softmax_heads")
    steps, d, C, variance = (
        run.about[name] for name in ("snapshots", "dim", "context_size", "prior_var")
    )
    task = GaussianTask(
        np.zeros(d), C, None, variance * np.eye(d), run.about["noise_var"] ** 0.5
    )
    layers = {
        name: [part.round(4).tolist() for part in course(run, *place)]
        for name, place in SHOWN.items()
    }
    controls = [
        lengths(steps, steps[0], "step", "training step"),
        choice("layer", "layer", {name: name for name in layers}),
    ]
    return {
        "controls": controls,
        "layers": layers,
        "full": FULL,
        "step": float(theory.debiased_step(task)),
    }


@cache
def explorers() -> dict[str, dict]:
    """The data of each explorer."""
    fixed: dict[str, dict] = {
        "answer": ANSWER,
        "heads": HEADS,
        "guess": GUESS,
        "triangle": TRIANGLE,
        "pair": PAIR,
    }
    fixed |= {"stand-in": STAND_IN, "depth": DEPTH, "fast-weights": FAST_WEIGHTS}
    return fixed | {
        "cloud": cloud(),
        "arrival": arrival(),
        "patterns": patterns(),
    }
