"""Every public name with arguments in all the forms that a user may write: lists, integers, NumPy's and JAX's types.

``TABLE`` has an entry for each name: a call, and what its arguments are. An argument knows its forms, which must all
give the same result, and values that must be refused by a ValueError with the argument's name in it.
"""

import inspect
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lsalib import attention, estimators, layers, metrics, tasks, theory

NUMPY = ("int32", "int64", "float16", "float32", "float64")
JAX = ("int32", "bfloat16", "float32")


class Numbers(NamedTuple):
    """An array whose values are exact in every float type: one of whole numbers, one of halves."""

    whole: np.ndarray
    halves: np.ndarray | None = None
    optional: bool = False
    least: float | None = None  # what is below is refused

    def values(self):
        return [self.whole] if self.halves is None else [self.whole, self.halves]

    def forms(self, value) -> dict[str, Callable]:
        whole = bool((value == np.round(value)).all())
        kept = lambda names: [name for name in names if whole or "int" not in name]
        # Written as a user would: 2, not 2.0.
        written = (value.astype(int) if whole else value).tolist()
        forms = {"python" if value.ndim == 0 else "list": lambda: written}
        forms |= {} if value.ndim == 0 else {"tuple": lambda: tuple(written)}
        forms |= {f"numpy {name}": lambda name=name: value.astype(name)[()] for name in kept(NUMPY)}
        return forms | {f"jax {name}": lambda name=name: jnp.asarray(value.astype(name)) for name in kept(JAX)}

    def refused(self) -> list:
        whole = self.whole
        bad = [np.zeros(whole.shape, bool), whole.astype(str), whole.astype(complex), "text", {"a": 1}]
        bad += [np.zeros((*whole.shape, 2)), whole.astype(object), jnp.zeros(whole.shape, bool), [[1.0], [1.0, 2.0]]]
        bad += [] if self.optional else [None]
        bad += [] if self.least is None else [self.least - 0.5]
        return [*bad, True if whole.ndim == 0 else np.ma.array(whole, mask=True)]


class Same(NamedTuple):
    """Something that has other forms than an array: its values in all of them, and what must be refused."""

    same: tuple
    bad: tuple = ()

    def values(self):
        return [self.same[0]]

    def forms(self, value) -> dict[str, Callable]:
        return {f"same {k}" if k else "same": lambda other=other: other for k, other in enumerate(self.same)}

    def refused(self) -> list:
        return list(self.bad)


class Built(NamedTuple):
    """A tuple of weights, or a task: made of parts that come in all forms, too."""

    make: Callable
    parts: dict


class Entry(NamedTuple):
    """A function and its arguments; ``least`` is the type it computes in at least, float64 for closed forms."""

    function: Callable
    arguments: dict
    least: str | None = None


def numbers(seed, *shape, optional=False):
    whole = np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float64)
    return Numbers(np.asarray(whole), np.asarray(whole + 0.5), optional)


def count(value):
    same = (value, np.int64(value), np.uint8(value), np.array(value), jnp.asarray(value))
    return Same(same, (True, np.True_, 0, -1, 2.5, float(value), str(value), None, [value]))


def flag(value):
    return Same((value, np.bool_(value)), (int(value), str(value), None, [value]))


def weights(make, seed, outputs=3):
    shapes = [(2, 3, 3)] * 3 + [(2, outputs, 3)]
    parts = [numbers(seed + k, *shape) for k, shape in enumerate(shapes)]
    return Built(make, dict(zip(make._fields, parts, strict=True)))


MATRIX = Numbers(np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([[2.5, 0.5], [0.5, 1.0]]), optional=True)
MULTIPLE = Numbers(2.0 * np.eye(2), 0.5 * np.eye(2), optional=True)
KEYS = Same(
    (jax.random.key(3), jax.random.PRNGKey(3), np.asarray(jax.random.PRNGKey(3))),
    (3, np.random.default_rng(3), None, jax.random.split(jax.random.key(3)), np.zeros(3, np.uint32), [0, 3]),
)
TYPES = Same(
    (np.float32, jnp.float32, "float32", np.dtype(np.float32)), (np.float64, float, int, str, "nonsense", bool)
)
POSITIVE = Numbers(np.array(1.0), np.array(0.5), least=0.0)


MEAN = numbers(0, 2)


def task(mean=MEAN, feature_cov=MATRIX, prior_cov=MATRIX, noise=POSITIVE, query_cov=None):
    fields = {"prior_mean": mean, "context_size": count(3), "feature_cov": feature_cov, "prior_cov": prior_cov}
    fields |= {"noise_std": noise} | ({} if query_cov is None else {"query_cov": query_cov})
    return Built(tasks.GaussianTask, fields)


ZERO, UNIT = Numbers(np.array(0.0)), Numbers(np.eye(2), optional=True)
QUERY = Numbers(np.array([[3.0, -1.0], [-1.0, 2.0]]), np.array([[1.5, 0.5], [0.5, 2.5]]), optional=True)
TASK, QUIET, ISOTROPIC = task(query_cov=QUERY), task(noise=ZERO), task(MEAN, MULTIPLE, MULTIPLE, query_cov=MULTIPLE)
SILENT, CENTRED = task(MEAN, MULTIPLE, MULTIPLE, ZERO), task(Numbers(np.zeros(2)), UNIT, MULTIPLE)
FIELDS = {"prior_mean": numbers(18, 2), "basis": MATRIX, "prior_root": MATRIX}
FIELDS |= {"query_basis": QUERY, "query_root": QUERY}
FIELDS |= {"noise_std": POSITIVE._replace(least=None), "context_size": Numbers(np.array(4.0))}
STANDARD = Built(tasks.StandardTask, FIELDS)
LSA, SOFTMAX = weights(attention.LSAParams, 6), weights(attention.SoftmaxParams, 10, outputs=1)
# Small heads, so that narrow types do not overflow.
LAYER_KIND = layers.Layer("gated_delta", heads=2, normalize="step", key_size=1, value_size=1)
SHAPES = LAYER_KIND.shapes(2)
LAYER = Built(layers.LayerParams, {name: numbers(70 + k, *shape) for k, (name, shape) in enumerate(SHAPES.items())})
OPTIONAL_STEP = numbers(42, optional=True)

# What an argument of this name is, where an entry says nothing else.
USUAL = {"key": KEYS, "task": TASK, "params": LSA, "dtype": TYPES, "compress": flag(False), "scale": POSITIVE}
USUAL |= {"dim": count(2), "heads": count(3), "outputs": count(2), "layers": count(2), "batch_size": count(4)}
USUAL |= {"X": numbers(3, 3, 2), "y": numbers(4, 3), "x_q": numbers(5, 2), "y_q": numbers(19)}
USUAL |= {"guess": numbers(1, 2, optional=True), "bias": numbers(2), "w": numbers(33, 2), "w0": numbers(37, 2)}
USUAL |= {"E": numbers(25, 3, 4), "G": numbers(26, 3, 3), "M": numbers(22, 3, 3, 3), "Z": numbers(31, 4, 3)}
USUAL |= {"b": numbers(14, 2, 3), "A": numbers(15, 2, 3, 3), "c": numbers(48, 3), "offset": numbers(47, 3)}
USUAL |= {"W_1": numbers(16, 2, 3), "W_2": numbers(17, 2, 3), "z_q": numbers(32, 3), "step_size": numbers(38)}
USUAL |= {"omega": numbers(44, 2), "mu": numbers(45, 2), "prior_mean": numbers(23, 2), "prior_cov": MATRIX}
USUAL |= {"preconditioner": numbers(40, 2, 2), "noise_cumulant": POSITIVE._replace(least=None), "batches": count(2)}
USUAL |= {"other": weights(attention.LSAParams, 50), "other_guess": numbers(54, 2, optional=True)}
USUAL |= {"other_bias": numbers(55)}
USUAL |= {"start": numbers(56, 2, optional=True), "normalized": flag(False), "schedule": flag(False)}
USUAL |= {"decay": numbers(57)}
USUAL |= {"fourth": Numbers(np.ones((2,) * 4), np.full((2,) * 4, 0.5), True)}


def entry(function, least=None, **own):
    """A function with the usual arguments of its parameters' names, but for its own; None leaves one out."""
    arguments = {name: own.get(name, USUAL.get(name)) for name in inspect.signature(function).parameters}
    return Entry(function, {name: value for name, value in arguments.items() if value is not None}, least)


def point(task, M):
    risk = theory.lifted_risk(task)
    return risk.value(M), risk.gradient(M), risk.curvature(M)


def predictors(metric):
    f, g = (lambda X, y, x_q: (X @ x_q) @ y + x_q @ x_q), (lambda X, y, x_q: 3 * x_q[0] + x_q[1] + y[0])
    return entry(lambda X, y, x_q: metric(f, g, X, y, x_q))


def two_predictions(X, y, x_q):
    return jnp.stack([y @ (X @ x_q), x_q[0]])


def sampled(key, batches, batch_size, dtype):
    task = tasks.GaussianTask([1, 2], 3)
    return metrics.sampled_risk(key, task, two_predictions, batches=batches, batch_size=batch_size, dtype=dtype)


def least(task, heads, guess, bias):
    return theory.least_risk(task, heads, guess, bias).risk


def few_heads(task, heads, guess, bias):
    return theory.population_risk(theory.few_heads_weights(task, heads, guess, bias), task, guess, bias)


def layer(params, X, y, x_q):
    return LAYER_KIND.predict(params, X, y, x_q)


# Holders of what the library has computed, which compute nothing.
HOLDERS = {"tasks.Batch", "tasks.Task", "tasks.StandardTask", "attention.LSAParams", "attention.SoftmaxParams"}
HOLDERS |= {"layers.LayerParams"}
HOLDERS |= {"metrics.Estimate", "theory.ConstantRegression", "theory.GramMoments", "theory.LeastRisk"}
MODULES = {"tasks": tasks, "attention": attention, "estimators": estimators, "metrics": metrics, "theory": theory}
MODULES |= {"layers": layers}
STATE = {"state": numbers(60, 2, 4), "keys": numbers(61, 3, 4), "values": numbers(62, 3, 2), "delta": flag(True)}
STATE |= {"queries": numbers(63, 3, 4, optional=True), "step": numbers(64, 3), "gate": numbers(65, 3, optional=True)}
# Every public function with its usual arguments; closed forms of known numbers compute in float64 whatever comes in.
TABLE = {
    f"{module}.{name}": entry(getattr(has, name), "float64" if has is theory else None)
    for module, has in MODULES.items()
    for name in has.__all__
    if f"{module}.{name}" not in HOLDERS
}
# Those that take something else, or compute in another type at least.
TABLE |= {
    "tasks.GaussianTask": Entry(jax.tree.leaves, {"tree": TASK}, "float64"),
    "tasks.standardize": entry(tasks.standardize, "float64"),
    "attention.effective_softmax": entry(attention.effective_softmax, params=SOFTMAX),
    "attention.from_effective_softmax": entry(attention.from_effective_softmax, b=numbers(20, 2, 1, 3)),
    "attention.softmax_attention": entry(attention.softmax_attention, params=SOFTMAX),
    "attention.softmax_heads": entry(attention.softmax_heads, params=SOFTMAX),
    "layers.Layer": entry(layer, params=LAYER),
    "layers.chunked": entry(layers.chunked, **STATE, chunk=count(2)),
    "layers.recurrence": entry(layers.recurrence, **STATE),
    "estimators.bayes": entry(estimators.bayes, "float32", noise_std=Numbers(np.array(2.0), np.array(1.5))),
    "metrics.gradient_cosine": predictors(metrics.gradient_cosine),
    "metrics.gradient_difference": predictors(metrics.gradient_difference),
    "metrics.prediction_difference": predictors(metrics.prediction_difference),
    "metrics.sampled_risk": entry(sampled, "float32", batch_size=count(8)),
    "theory.LiftedRisk": entry(point, "float32"),
    "theory.bayes_risk": entry(theory.bayes_risk, "float64", task=ISOTROPIC),
    "theory.centred_task": entry(lambda task: jax.tree.leaves(theory.centred_task(task)), "float64"),
    "theory.debiased_risk": entry(theory.debiased_risk, "float64", step_size=OPTIONAL_STEP),
    "theory.delta_rule_risk": entry(theory.delta_rule_risk, "float64", schedule=None),
    "theory.delta_rule_step": entry(theory.delta_rule_step, "float64", task=SILENT),
    "theory.depth_price": entry(theory.depth_price, "float64", task=QUIET),
    "theory.depth_risk": entry(theory.depth_risk, "float64", task=SILENT),
    "theory.few_heads_weights": entry(few_heads, "float32", task=ISOTROPIC, heads=count(1)),
    "theory.gd_risk": entry(theory.gd_risk, "float64", step_size=OPTIONAL_STEP),
    "theory.least_risk": entry(least, "float64", task=ISOTROPIC, heads=count(1)),
    "theory.softmax_output": entry(theory.softmax_output, "float64", task=CENTRED),
    "theory.softmax_risk": entry(theory.softmax_risk, "float64", task=CENTRED, mu=numbers(45, 2, optional=True)),
    "theory.standard_form": entry(theory.standard_form, y_q=numbers(46, 3), task=STANDARD),
    "theory.standard_risk": entry(theory.standard_risk, task=STANDARD),
}
FLOAT32 = ("ltb_risk", "optimal_guess", "optimal_weights", "population_risk", "squared_distance", "yq_optimal_weights")
TABLE |= {f"theory.{name}": TABLE[f"theory.{name}"]._replace(least="float32") for name in FLOAT32}
