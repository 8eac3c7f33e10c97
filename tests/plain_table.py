"""Every public name with arguments in all the forms that a user may write: lists, integers, NumPy's and JAX's types.

``TABLE`` has an entry for each name: a call, and what its arguments are. An argument knows its forms, which must all
give the same result, and values that must be refused by a ValueError with the argument's name in it.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lsalib import attention, estimators, metrics, tasks, theory
from lsalib.attention.layer import query_token

NUMPY = ("int32", "int64", "float16", "float32", "float64")
JAX = ("int32", "bfloat16", "float32")
# The first words of those forms that have a float type of their own; Python's numbers fit any.
STRONG = {"list", "tuple", "numpy", "jax"}


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


def task(mean=MEAN, feature_cov=MATRIX, prior_cov=MATRIX, noise=POSITIVE):
    fields = {"prior_mean": mean, "context_size": count(3), "feature_cov": feature_cov, "prior_cov": prior_cov}
    return Built(tasks.GaussianTask, fields | {"noise_std": noise})


ZERO, UNIT = Numbers(np.array(0.0)), Numbers(np.eye(2), optional=True)
TASK, QUIET, ISOTROPIC = {"task": task()}, {"task": task(noise=ZERO)}, {"task": task(MEAN, MULTIPLE, MULTIPLE)}
SILENT = {"task": task(MEAN, MULTIPLE, MULTIPLE, ZERO)}
CENTRED = {"task": task(Numbers(np.zeros(2)), UNIT, MULTIPLE)}
GUESS = {"guess": numbers(1, 2, optional=True), "bias": numbers(2)}
CONTEXT = {"X": numbers(3, 3, 2), "y": numbers(4, 3), "x_q": numbers(5, 2)}
START = CONTEXT | {"w0": numbers(37, 2)}
STEP = {"step_size": numbers(38)}
LSA = {"params": weights(attention.LSAParams, 6)}
SOFTMAX = {"params": weights(attention.SoftmaxParams, 10, outputs=1)}
HEADS = {"b": numbers(14, 2, 3), "A": numbers(15, 2, 3, 3)}
MLP = {"W_1": numbers(16, 2, 3), "W_2": numbers(17, 2, 3)}
FIELDS = {"prior_mean": numbers(18, 2), "basis": MATRIX, "prior_root": MATRIX}
FIELDS |= {"noise_std": POSITIVE._replace(least=None)}
STANDARD = {"task": Built(tasks.StandardTask, FIELDS | {"context_size": Numbers(np.array(4.0))})}


def closed(function, arguments):
    """A closed form of known numbers, computed in float64 whatever comes in."""
    return Entry(function, arguments, "float64")


def point(task, M):
    risk = theory.lifted_risk(task)
    return risk.value(M), risk.gradient(M), risk.curvature(M)


def predictors(metric):
    f, g = (lambda X, y, x_q: (X @ x_q) @ y + x_q @ x_q), (lambda X, y, x_q: 3 * x_q[0] + x_q[1] + y[0])
    return Entry(lambda X, y, x_q: metric(f, g, X, y, x_q), CONTEXT)


def two_predictions(X, y, x_q):
    return jnp.stack([y @ (X @ x_q), x_q[0]])


def sampled(key, batches, batch_size, dtype):
    task = tasks.GaussianTask([1, 2], 3)
    return metrics.sampled_risk(key, task, two_predictions, batches=batches, batch_size=batch_size, dtype=dtype)


def least(task, heads, guess, bias):
    return theory.least_risk(task, heads, guess, bias).risk


def few_heads(task, heads, guess, bias):
    return theory.population_risk(theory.few_heads_weights(task, heads, guess, bias), task, guess, bias)


# Holders of what the library has computed, which compute nothing.
HOLDERS = {"tasks.Batch", "tasks.Task", "tasks.StandardTask", "attention.LSAParams", "attention.SoftmaxParams"}
HOLDERS |= {"metrics.Estimate", "theory.ConstantRegression", "theory.GramMoments", "theory.LeastRisk"}

TABLE = {
    "tasks.GaussianTask": closed(jax.tree.leaves, {"tree": TASK["task"]}),
    "tasks.sample": Entry(
        tasks.sample, {"key": KEYS} | TASK | {"batch_size": count(4), "compress": flag(False), "dtype": TYPES}
    ),
    "tasks.standardize": closed(tasks.standardize, TASK),
    "attention.effective": Entry(attention.effective, LSA),
    "attention.effective_softmax": Entry(attention.effective_softmax, SOFTMAX),
    "attention.embed": Entry(attention.embed, CONTEXT | {"y_q": numbers(19)}),
    "attention.from_effective": Entry(attention.from_effective, HEADS),
    "attention.from_effective_softmax": Entry(
        attention.from_effective_softmax, {"b": numbers(20, 2, 1, 3), "A": numbers(21, 2, 3, 3)}
    ),
    "attention.from_lift": Entry(attention.from_lift, {"M": numbers(22, 3, 3, 3)}),
    "attention.gd_weights": Entry(attention.gd_weights, {"prior_mean": numbers(23, 2)} | STEP),
    "attention.gram": Entry(attention.gram, {name: CONTEXT[name] for name in ("X", "y")}),
    "attention.init": Entry(
        attention.init, {"key": KEYS, "dim": count(2), "heads": count(3), "scale": POSITIVE, "dtype": TYPES}
    ),
    "attention.init_softmax": Entry(
        attention.init_softmax, {"key": KEYS, "dim": count(2), "heads": count(3), "outputs": count(2), "dtype": TYPES}
    ),
    "attention.lift": Entry(attention.lift, LSA),
    "attention.linear_transformer_block": Entry(attention.linear_transformer_block, LSA | MLP | CONTEXT),
    "attention.lsa": Entry(attention.lsa, LSA | {"E": numbers(25, 3, 4)}),
    "attention.predict": Entry(
        attention.predict, LSA | {"G": numbers(26, 3, 3), "x_q": CONTEXT["x_q"], "y_q": numbers(27)}
    ),
    "attention.reduced_softmax": Entry(
        attention.reduced_softmax, {"omega": numbers(28, 2), "mu": numbers(29, 2)} | CONTEXT
    ),
    "attention.softmax_attention": Entry(attention.softmax_attention, SOFTMAX | CONTEXT | {"y_q": numbers(30)}),
    "attention.softmax_heads": Entry(
        attention.softmax_heads, SOFTMAX | {"Z": numbers(31, 4, 3), "z_q": numbers(32, 3)}
    ),
    "attention.yq_lsa": Entry(attention.yq_lsa, LSA | {"w": numbers(33, 2)} | CONTEXT),
    "estimators.bayes": Entry(
        estimators.bayes,
        CONTEXT
        | {"prior_mean": numbers(34, 2), "prior_cov": MATRIX, "noise_std": Numbers(np.array(2.0), np.array(1.5))},
        "float32",
    ),
    "estimators.debiased_gd": Entry(estimators.debiased_gd, START | STEP),
    "estimators.one_step_gd": Entry(estimators.one_step_gd, START | STEP),
    "estimators.preconditioned_gd": Entry(estimators.preconditioned_gd, START | {"preconditioner": numbers(40, 2, 2)}),
    "metrics.gradient_cosine": predictors(metrics.gradient_cosine),
    "metrics.gradient_difference": predictors(metrics.gradient_difference),
    "metrics.prediction_difference": predictors(metrics.prediction_difference),
    "metrics.sampled_risk": Entry(
        sampled, {"key": KEYS, "batches": count(2), "batch_size": count(8), "dtype": TYPES}, "float32"
    ),
    "theory.LiftedRisk": Entry(point, TASK | {"M": numbers(41, 3, 3, 3)}, "float32"),
    "theory.bayes_risk": closed(theory.bayes_risk, QUIET),
    "theory.centred_task": closed(lambda task: jax.tree.leaves(theory.centred_task(task)), TASK),
    "theory.constant_regression": closed(
        theory.constant_regression, TASK | {"noise_cumulant": POSITIVE._replace(least=None)}
    ),
    "theory.debiased_risk": closed(theory.debiased_risk, TASK | {"step_size": numbers(42, optional=True)}),
    "theory.debiased_step": closed(theory.debiased_step, TASK),
    "theory.depth_price": closed(theory.depth_price, QUIET | {"layers": count(2)}),
    "theory.depth_risk": closed(theory.depth_risk, SILENT | {"layers": count(2), "guess": GUESS["guess"]}),
    "theory.few_heads_weights": Entry(few_heads, ISOTROPIC | {"heads": count(1)} | GUESS, "float32"),
    "theory.gd_risk": closed(theory.gd_risk, TASK | {"step_size": numbers(43, optional=True)}),
    "theory.gram_moments": closed(
        theory.gram_moments, TASK | {"fourth": Numbers(np.ones((2,) * 4), np.full((2,) * 4, 0.5), True)}
    ),
    "theory.least_risk": closed(least, ISOTROPIC | {"heads": count(1)} | GUESS),
    "theory.lifted_risk": closed(theory.lifted_risk, TASK | GUESS),
    "theory.ltb_risk": Entry(theory.ltb_risk, LSA | MLP | TASK, "float32"),
    "theory.optimal_preconditioner": closed(theory.optimal_preconditioner, TASK),
    "theory.optimal_risk": closed(theory.optimal_risk, TASK | GUESS),
    "theory.optimal_step": closed(theory.optimal_step, TASK),
    "theory.optimal_weights": Entry(theory.optimal_weights, TASK | GUESS, "float32"),
    "theory.population_risk": Entry(theory.population_risk, LSA | TASK | GUESS, "float32"),
    "theory.softmax_output": closed(theory.softmax_output, CENTRED | {"omega": numbers(44, 2)}),
    "theory.softmax_risk": closed(
        theory.softmax_risk, CENTRED | {"omega": numbers(44, 2), "mu": numbers(45, 2, optional=True)}
    ),
    "theory.standard_form": Entry(
        theory.standard_form, HEADS | {"y_q": numbers(46, 3), "offset": numbers(47, 3)} | STANDARD
    ),
    "theory.standard_risk": Entry(theory.standard_risk, HEADS | {"c": numbers(48, 3)} | STANDARD),
    "theory.yq_optimal_weights": Entry(theory.yq_optimal_weights, TASK, "float32"),
    "theory.yq_risk": closed(theory.yq_risk, TASK),
}
MODULES = {"tasks": tasks, "attention": attention, "estimators": estimators, "metrics": metrics, "theory": theory}


def annotations_are_checked() -> bool:
    """Whether a matrix is refused where the annotation, and nothing else, asks for a vector."""
    try:
        query_token(jnp.zeros((2, 2)), 0.0)
    except Exception:
        return True
    return False
