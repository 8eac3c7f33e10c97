"""The numbers of the explorable figures, computed by the library."""

from itertools import product

import jax
import numpy as np
from scipy import stats

from lsalib import theory
from lsalib.book import stored
from lsalib.tasks import GaussianTask
from tools.site.explorer_data import EXPLORERS, course, shown, sizes, task_of


def states(name: str, **grid) -> list[dict]:
    """All combinations of some values of the controls, each of which the control can take."""
    controls = {control["name"]: control for control in EXPLORERS[name]()["controls"]}
    for key, values in grid.items():
        control = controls[key]
        own = control.get("values") or [value for value, _ in control.get("options", ())]
        assert all(value in own if own else control["min"] <= value <= control["max"] for value in values)
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def task(d: int, C: int, noise: float = 0.0, mean: float = 0.0) -> GaussianTask:
    return GaussianTask([mean] * d, C, noise_std=float(noise))


def guess(d: int, error: float) -> np.ndarray:
    """A guess with this squared error, for the prior mean zero."""
    return np.full(d, np.sqrt(error / d))


def answer(d, C, noise, error, over) -> dict:
    t = task(d, C, noise)
    gd, yq, lsa = theory.gd_risk(t), theory.yq_risk(t), theory.optimal_risk(t, guess(d, error))
    bayes = None if noise else theory.bayes_risk(t)
    said = [len(theory.optimal_weights(t, guess(d, error)).W_K), lsa, gd, lsa - gd]
    return {"gd": gd, "yq": yq, "lsa": lsa, "price": lsa - gd, "bayes": bayes, "said": said + [bayes] * (not noise)}


def least_risk(t: GaussianTask, heads: int, g: np.ndarray) -> float:
    """The risk of explicit weights; idle heads make it one program for all numbers of heads."""
    if heads >= t.dim:
        return theory.optimal_risk(t, g)
    with jax.enable_x64(True):
        params = theory.few_heads_weights(t, heads, g)
        idle = (0, t.dim - heads), (0, 0), (0, 0)
        return float(theory.population_risk(jax.tree.map(lambda W: np.pad(W, idle), params), t, g))


def heads(d, C, error, heads) -> dict:
    t, gd = task(d, C), theory.gd_risk(task(d, C))
    least = least_risk(t, heads, guess(d, error))
    best, enough = theory.optimal_risk(t, guess(d, error)), d if error else 1
    said = [heads, least, least - gd, gd, enough, best]
    return {"risk": least, "gd": gd, "best": best, "price": least - gd, "said": said}


ENTRIES = {"xy": (0, -1, 0, -1), "yy": (-1, -1, -1, -1), "xx": (0, 0, 0, 0)}


def pair(d, C, mean, entry) -> dict:
    at = ENTRIES[entry]
    of = lambda length: theory.gram_moments(task(d, length, mean=mean))
    exact, one, limit = (float(of(length).second[at]) for length in (C, 1, 10**14))
    paper = float(of(1).mean[at[:2]]) ** 2
    independent = (1 - 1 / C) * paper + one / C
    said = [C, exact, independent, limit, paper]
    return {"exact": exact, "independent": independent, "limit": limit, "paper": paper, "said": said}


def stand_in(d, C, error, noise) -> dict:
    constant = theory.constant_regression(task(d, C, noise))
    alpha, kappa, left = d * constant.features[0, 0], constant.residual, constant.error
    price = theory.optimal_risk(task(d, C, noise), guess(d, error)) - theory.yq_risk(task(d, C, noise))
    said = [1, 2 / (C * d), alpha, *[kappa] * (noise > 0), left, error, price]
    values = {"alpha": alpha, "kappa": kappa, "left": left, "price": price, "said": said}
    values["variance"] = stats.chi2(C * d).var() / (C * d) ** 2
    return values | {"density": C * d * stats.chi2.pdf(C * d, C * d)}


def patterns(step, layer) -> dict:
    run = stored.load("softmax_heads")
    A, b = course(run, *next(place for name, *place in shown() if name == layer))
    at = run.about["snapshots"].index(step)
    (omega, mu), best = (part[at] for part in sizes(A, b)), theory.debiased_step(task_of(run.about))
    values = {"omega": omega, "mu": mu, "A": A[at], "b": b[at], "eta": omega @ mu, "sum": mu.sum(), "step": best}
    return values | {"said": [step, int(layer[0]), omega @ mu, best, mu.sum(), 0.15, 2.5]}


# For each explorer: its page, its numbers, and the grid of its controls on which they are compared.
FORMULAS = {
    "answer": (
        "intro",
        answer,
        {"d": [1, 10, 30], "C": [1, 10, 100], "noise": [0, 0.5, 3], "error": [0, 40], "over": ["C"]},
    ),
    "heads": ("heads", heads, {"d": [2, 10], "C": [1, 10, 100], "error": [0, 40], "heads": [1, 2, 9, 12]}),
    "pair": ("gradients", pair, {"d": [1, 10], "C": [1, 10, 1000], "mean": [0, 0.5, 2], "entry": list(ENTRIES)}),
    "stand-in": (
        "initial_guess",
        stand_in,
        {"d": [1, 10, 30], "C": [1, 10, 1000], "error": [1, 40], "noise": [0, 0.5, 3]},
    ),
}
