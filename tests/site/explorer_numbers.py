"""The numbers and the curves of the interactive figures, computed by the library."""

from itertools import product

import jax
import numpy as np
from scipy import stats

from lsalib import attention, estimators, theory
from lsalib.book import stored
from lsalib.tasks import GaussianTask
from tools.site.explorer_data import SHOWN, course, explorers


def states(name: str, **grid) -> list[dict]:
    """All combinations of some values of the controls, each of which the control can
    take.
    """
    controls = {control["name"]: control for control in explorers()[name]["controls"]}
    for key, values in grid.items():
        control = controls[key]
        own = control.get("values") or [
            value for value, _ in control.get("options", ())
        ]
        assert all(
            value in own if own else control["min"] <= value <= control["max"]
            for value in values
        )
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def task(d: int, C: int, noise: float = 0.0, mean: float = 0.0) -> GaussianTask:
    return GaussianTask([mean] * d, C, noise_std=float(noise))


def a_guess(d: int, error: float) -> np.ndarray:
    """A guess with this squared error, for the prior mean zero."""
    return np.full(d, np.sqrt(error / d))


def answer(d, C, noise, error, over) -> dict:
    t = task(d, C, noise)
    gd, yq, lsa = (
        theory.gd_risk(t),
        theory.yq_risk(t),
        theory.optimal_risk(t, a_guess(d, error)),
    )
    bayes = None if noise else theory.bayes_risk(t)
    said = [len(theory.optimal_weights(t, a_guess(d, error)).W_K), lsa, gd, lsa - gd]
    return {
        "gd": gd,
        "yq": yq,
        "lsa": lsa,
        "price": lsa - gd,
        "bayes": bayes,
        "said": said + [bayes] * (not noise),
    }


def minimum_risk(t: GaussianTask, heads: int, g: np.ndarray) -> float:
    """The risk of explicit weights; idle heads make it one program for all numbers of
    heads.
    """
    if heads >= t.dim:
        return theory.optimal_risk(t, g)
    with jax.enable_x64(True):
        params = theory.few_heads_weights(t, heads, g)
        idle = (0, t.dim - heads), (0, 0), (0, 0)
        return float(
            theory.population_risk(
                jax.tree.map(lambda W: np.pad(W, idle), params), t, g
            )
        )


def heads(d, C, error, heads) -> dict:
    t, gd = task(d, C), theory.gd_risk(task(d, C))
    risk = minimum_risk(t, heads, a_guess(d, error))
    best, enough = theory.optimal_risk(t, a_guess(d, error)), d if error else 1
    said = [heads, risk, risk - gd, gd, enough, best]
    return {"risk": risk, "gd": gd, "best": best, "price": risk - gd, "said": said}


def guess(guess, eta) -> dict:
    """The page's example by hand, in the attention layer and in the gradient step."""
    w, w_star, X, x_q = (
        np.array([2.0, 0.0]),
        np.array([1.0, 1.0]),
        np.array([[1.0, 0.0], [1.0, -1.0]]),
        [2.0, 1.0],
    )
    with jax.enable_x64(True):
        head = float(
            attention.lsa(
                attention.gd_weights(w_star, eta), attention.embed(X, X @ w, x_q, guess)
            )
        )
        gd = float(estimators.one_step_gd(X, X @ w, x_q, w_star, eta))
    target, prior = float(w @ x_q), float(w_star @ x_q)
    said = [guess, guess, head - guess, head, eta, prior, gd - prior, gd, target]
    return {
        "head": head,
        "gd": gd,
        "target": target,
        "agree": abs(guess - prior) < 1e-9,
        "said": said,
    }


def triangle(m, c) -> dict:
    """The risk of one head that takes the step m, with a guess c x_q, and of the best
    step.
    """
    t = task(1, 1)

    def risk(m, c) -> float:
        with jax.enable_x64(True):
            head = attention.from_effective(
                np.array([[0.0, 1.0]]), np.array([[[m, 0.0], [0.0, 0.0]]])
            )
            return float(theory.population_risk(head, t, np.array([float(c)])))

    base = theory.yq_risk(t)
    values = {
        "risk": risk(m, c),
        "base": base,
        "wrong": risk(m, 0) - base,
        "even": risk(1 / 3, c) - base,
    }
    return values | {"said": list(values.values())}


ENTRIES = {"xy": (0, -1, 0, -1), "yy": (-1, -1, -1, -1), "xx": (0, 0, 0, 0)}


def pair(d, C, mean, entry) -> dict:
    at = ENTRIES[entry]
    of = lambda length: theory.gram_moments(task(d, length, mean=mean))
    exact, one, limit = (float(of(length).second[at]) for length in (C, 1, 10**14))
    paper = float(of(1).mean[at[:2]]) ** 2
    independent = (1 - 1 / C) * paper + one / C
    said = [C, exact, independent, limit, paper]
    values = {
        "exact": exact,
        "independent": independent,
        "limit": limit,
        "paper": paper,
        "said": said,
    }
    return values | {"agree": bool(np.isclose(limit, paper))}


def stand_in(d, C, error, noise) -> dict:
    constant = theory.constant_regression(task(d, C, noise))
    alpha, kappa, left = d * constant.features[0, 0], constant.residual, constant.error
    price = theory.optimal_risk(task(d, C, noise), a_guess(d, error)) - theory.yq_risk(
        task(d, C, noise)
    )
    said = [1, 2 / (C * d), alpha, *[kappa] * (noise > 0), left, error, price]
    values = {
        "alpha": alpha,
        "kappa": kappa,
        "left": left,
        "price": price,
        "said": said,
    }
    return values | {"variance": stats.chi2(C * d).var() / (C * d) ** 2}


def patterns(step, layer) -> dict:
    run = stored.load("softmax_heads")
    trained_on = GaussianTask([0] * 5, 40, prior_cov=np.eye(5) / 5, noise_std=0.1**0.5)
    at, best = run.about["snapshots"].index(step), theory.debiased_step(trained_on)
    A, b = (part[at] for part in course(run, *SHOWN[layer]))
    # The mean of A's diagonal on the features, and the entry of b for the label.
    omega, mu = np.einsum("hii->h", A[:, :-1, :-1]) / (A.shape[-1] - 1), b[:, -1]
    values = {
        "omega": omega,
        "mu": mu,
        "A": A,
        "b": b,
        "eta": omega @ mu,
        "sum": mu.sum(),
        "step": best,
    }
    return values | {
        "said": [step, int(layer[0]), omega @ mu, best, mu.sum(), 0.15, 2.5]
    }


ORDERS = {
    "given": lambda X: X,
    "reversed": lambda X: X[::-1],
    "longest": lambda X: X[np.argsort(-(X**2).sum(1))],
    "shortest": lambda X: X[np.argsort((X**2).sum(1))],
}


def fast_weights(start, beta, order) -> dict:
    """The descent of the library's estimator after each number of examples, and its
    exact risk.
    """
    data = explorers()["fast-weights"]
    w, mean, X = (
        np.array(data["w"]),
        np.array(data["prior_mean"], float),
        ORDERS[order](np.array(data["X"])),
    )
    with jax.enable_x64(True):
        after = lambda n, x_q: float(
            estimators.delta_rule(X[:n], X[:n] @ w, x_q, start * mean, float(beta))
        )
        path = np.array(
            [
                start * mean,
                *([after(n, x_q) for x_q in np.eye(2)] for n in range(1, len(X) + 1)),
            ]
        )
    errors = ((path - w) ** 2).sum(1)
    risk = lambda share, n: float(
        theory.delta_rule_risk(GaussianTask(mean, n), float(beta), share * mean)
    )
    values = {
        "found": path[-1],
        "error": errors[-1],
        "risk": risk(start, len(X)),
        "right": risk(1, len(X)),
    }
    said = [start, *path[-1], errors[-1], values["risk"], values["right"]]
    return values | {"said": said}


def cloud(cloud, C, x, y) -> dict:
    """Least squares of the constant 1 on the products of two features."""
    rows = np.array([*explorers()["cloud"]["clouds"][cloud], [x, y]])
    products = np.stack(
        [rows[:, 0] ** 2, rows[:, 0] * rows[:, 1], rows[:, 1] ** 2], axis=1
    )
    e_1 = np.linalg.lstsq(products, np.ones(len(rows)), rcond=None)[1][0] / len(rows)
    share = e_1 / (e_1 + C * (1 - e_1))
    return {"e1": e_1, "share": share, "said": [e_1, C, share]}


def depth(L, C, d) -> dict:
    price, one = (theory.depth_price(task(d, C), layers) for layers in (L, 1))
    t = max(1 - np.sqrt(2 / (C * d)), 0)
    k, moment = (
        np.arange(1, L + 1),
        np.cumprod([1, *(1 + 2 * np.arange(2 * L) / (C * d))]),
    )
    left = 1 - np.linalg.solve(moment[np.add.outer(k, k)], moment[k]) @ t**k
    return {
        "price": price,
        "one": one,
        "left": left,
        "said": [L, price, *[one] * (L > 1), left],
    }


def arrival(mean, rate, step) -> dict:
    """The number of steps is that of the kept ones at which the risk has come within
    1%.
    """
    data = explorers()["arrival"]
    run, at, gd = (
        data["runs"][f"{mean:g} {rate:g}"],
        data["steps"].index(step),
        theory.gd_risk(task(10, 10)),
    )
    near = np.array(run["risk"]) < 1.01 * gd
    after = [data["steps"][near.argmax()]] if near.any() else []
    values = {"share": run["share"][at], "risk": run["risk"][at], "gd": gd}
    return values | {"said": [step, *values.values(), *after, 1]}


PAGES = {
    "answer": "intro",
    "guess": "embedding",
    "triangle": "pythagoras",
    "heads": "heads",
    "pair": "gradients",
    "stand-in": "initial_guess",
    "patterns": "softmax",
    "fast-weights": "fast_weights",
    "cloud": "other_inputs",
    "depth": "depth",
    "arrival": "yq_lsa",
}
STEPS = explorers()["triangle"]["controls"][0]["values"]
# The numbers of each explorer, and the grid of its controls on which they are compared.
FORMULAS = {
    "answer": (
        answer,
        {
            "d": [1, 10, 12],
            "C": [1, 10, 100],
            "noise": [0, 0.5, 3],
            "error": [0, 40],
            "over": ["C"],
        },
    ),
    "heads": (
        heads,
        {"d": [2, 10], "C": [3, 10, 50], "error": [0, 40], "heads": [1, 2, 9, 12]},
    ),
    "guess": (guess, {"guess": [0, 2.7, 3, 4], "eta": [0.5, 0.25, 0.05]}),
    "triangle": (
        triangle,
        {"m": [STEPS[0], STEPS[50], STEPS[-1]], "c": [-1.5, 0, 0.8]},
    ),
    "pair": (
        pair,
        {"d": [1, 10], "C": [1, 10, 1000], "mean": [0, 0.5, 2], "entry": list(ENTRIES)},
    ),
    "stand-in": (
        stand_in,
        {"d": [1, 10, 20], "C": [1, 10, 1000], "error": [1, 40], "noise": [0, 0.5, 3]},
    ),
    "cloud": (
        cloud,
        {
            "cloud": ["on an ellipse", "on two lines", "heavy tails"],
            "C": [1, 10],
            "x": [-4, 1.6],
            "y": [0, 2.4],
        },
    ),
    "depth": (depth, {"L": [1, 2, 3], "C": [1, 10, 1000], "d": [1, 10]}),
    "arrival": (
        arrival,
        {"mean": [0.5, 2.0, 3.0], "rate": [5e-4, 2e-3], "step": [50, 5000, 10_000]},
    ),
    "fast-weights": (
        fast_weights,
        {"start": [0, 0.7, 1.5], "beta": [0.05, 0.25, 0.4], "order": list(ORDERS)},
    ),
}


# The charts with logarithmic axes, and the states in which the drawings are compared.
LOG = {
    ("pair", 0): "x",
    ("stand-in", 1): "xy",
    ("depth", 1): "xy",
    ("arrival", 0): "x",
    ("arrival", 1): "xy",
}
DRAWINGS = [
    *[
        ("answer", {"d": 7, "C": 5, "noise": 0, "error": 59, "over": over})
        for over in ("error", "C", "d")
    ],
    ("answer", {"d": 7, "C": 5, "noise": 0.5, "error": 59, "over": "noise"}),
    ("heads", {"d": 10, "C": 10, "error": 40, "heads": 3}),
    ("guess", {"guess": 1, "eta": 0.25}),
    ("fast-weights", {"start": 0.5, "beta": 0.2, "order": "longest"}),
    ("pair", {"d": 3, "C": 30, "mean": 1, "entry": "yy"}),
    *[("depth", {"d": 3, "C": 10, "L": layers}) for layers in (1, 3)],
    ("arrival", {"mean": 1.0, "rate": 1e-3, "step": 5000}),
    *[("stand-in", {"d": 3, "C": 10, "error": 40, "noise": noise}) for noise in (0, 3)],
]
