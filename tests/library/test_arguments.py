"""Every argument of a public function, in one good call each: it is read, and named
where it is wrong.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from theory_reference import TASKS

import lsalib
from lsalib import attention, estimators, layers, metrics, tasks, theory, training

d, C, H = 3, 5, 2
RNG = np.random.default_rng(0)
draw = lambda *shape: RNG.normal(size=shape)
SEEN = {"X": draw(C, d), "y": draw(C), "x_q": draw(d)}
LSA = attention.LSAParams(*draw(4, H, d + 1, d + 1))
SOFTMAX = attention.SoftmaxParams(draw(H, 1, d + 1), draw(H, d + 1, d + 1))
KEY, TASK, PLAIN = jax.random.key(0), TASKS["general, noisy"], TASKS["isotropic"]
COV = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 0.5]])
GUESS, W_1, W_2, M = draw(d), draw(d + 1, d + 1), draw(d + 1, d + 1), draw(*[d + 1] * 3)
LAYER = layers.Layer("delta", H)
PARAMS = LAYER.init(KEY, d)
RUN = training.Run(TASK, 1)
ONE = tasks.GaussianTask(GUESS, context_size=1)
FOURTH = 1.5 * theory.gram_moments(ONE).second[:d, :d, :d, :d]
quadratic = lambda params, key: (params**2).sum()
mean_label = lambda X, y, x_q: y.mean()
guess_and_bias = {"guess": GUESS, "bias": 0.4}
step = {"w0": GUESS, "step_size": 0.3}
long = {"steps": 2, "snapshots": [1], "callback": print, "every": 1, "progress": False}
sampling = {"batch_size": 2, "objective": "sampled", "dtype": np.float32}
of_run = guess_and_bias | {"train_guess": True, "learning_rate": 0.1, "init_scale": 0.3}
EXACT = [
    (attention.embed, SEEN | {"y_q": 0.5}),
    (attention.gram, {"X": SEEN["X"], "y": SEEN["y"]}),
    (attention.lsa, {"params": LSA, "E": draw(d + 1, C + 1)}),
    (attention.yq_lsa, {"params": LSA, "w": GUESS, **SEEN}),
    (
        attention.linear_transformer_block,
        {"params": LSA, "W_1": W_1, "W_2": W_2, **SEEN},
    ),
    (attention.predict, {"params": LSA, "G": W_1, "x_q": SEEN["x_q"], "y_q": 0.5}),
    (attention.effective, {"params": LSA}),
    (attention.lift, {"params": LSA}),
    (attention.from_effective, {"b": draw(H, d + 1), "A": LSA.W_K}),
    (attention.from_lift, {"M": M}),
    (attention.gd_weights, {"prior_mean": GUESS, "step_size": 0.5}),
    (attention.init, {"key": KEY, "dim": d, "heads": H, "scale": 0.3}),
    (attention.softmax_heads, {"params": SOFTMAX, "Z": W_1, "z_q": W_1[0]}),
    (attention.softmax_attention, {"params": SOFTMAX, "y_q": 0.5, **SEEN}),
    (attention.from_effective_softmax, {"b": SOFTMAX.b, "A": SOFTMAX.A}),
    (attention.reduced_softmax, {"omega": draw(H), "mu": draw(H), **SEEN}),
    (estimators.one_step_gd, SEEN | step),
    (estimators.debiased_gd, SEEN | step),
    (estimators.delta_rule, SEEN | step),
    (
        estimators.bayes,
        SEEN | {"prior_mean": GUESS, "prior_cov": COV, "noise_std": 0.5},
    ),
    (tasks.sample, {"key": KEY, "task": PLAIN, "batch_size": 2}),
    (LAYER.init, {"key": KEY, "dim": d, "scale": 0.3, "value_size": 1}),
    (LAYER.predict, {"params": PARAMS, **SEEN}),
    (theory.gd_risk, {"task": TASK, "step_size": 0.3}),
    (theory.optimal_risk, {"task": TASK, **guess_and_bias}),
    (theory.optimal_weights, {"task": TASK, "guess": TASK.prior_mean}),
    (theory.constant_regression, {"task": TASK, "noise_cumulant": 0.5}),
    (theory.debiased_risk, {"task": TASK, "step_size": 0.3}),
    (theory.delta_rule_risk, {"task": PLAIN, "step_size": 0.1, "start": GUESS}),
    (theory.depth_price, {"task": PLAIN, "layers": 2}),
    (theory.depth_risk, {"task": PLAIN, "layers": 2, "guess": GUESS}),
    (theory.few_heads_weights, {"task": PLAIN, "heads": 2, **guess_and_bias}),
    (theory.lifted_risk, {"task": PLAIN, "fourth": FOURTH, **guess_and_bias}),
    (theory.gram_moments, {"task": PLAIN, "fourth": FOURTH}),
    (theory.population_risk, {"params": LSA, "task": TASK, **guess_and_bias}),
    (theory.ltb_risk, {"params": LSA, "W_1": W_1, "W_2": W_2, "task": TASK}),
    (
        theory.squared_distance,
        {"params": LSA, "other_params": LSA, "task": TASK}
        | {"guess": GUESS, "other_guess": -GUESS},
    ),
]
OF_A_TASK = (
    *(theory.optimal_preconditioner, theory.optimal_step, theory.yq_risk),
    *(theory.yq_optimal_weights, theory.debiased_step),
)
EXACT += [(f, {"task": TASK}) for f in OF_A_TASK]
EXACT += [(theory.bayes_risk, {"task": PLAIN})]
OTHERS = [
    (theory.centered_task, {"task": TASK}),
    (metrics.compare, {"f": mean_label, "g": mean_label, **SEEN}),
    (theory.optimal_weights, {"task": TASK, **guess_and_bias}),
    (
        tasks.GaussianTask,
        {"prior_mean": GUESS, "context_size": C, "feature_cov": COV}
        | {"prior_cov": COV, "noise_std": 0.5},
    ),
    (
        layers.Layer,
        {"rule": "delta", "heads": H, "depth": 2, "frozen": ("W_K",)},
    ),
    (
        metrics.sampled_risk,
        {"key": KEY, "task": TASK, "predict": mean_label}
        | {"batches": 1, "batch_size": 2},
    ),
    (theory.least_risk, {"task": PLAIN, "heads": 2, **guess_and_bias}),
    (training.Run, {"task": TASK, "heads": H, **of_run}),
    (
        training.fit,
        {"key": KEY, "task": TASK, "heads": H, "start_from": None, "checkpoint": None}
        | {**of_run, **sampling, **long},
    ),
    (
        training.sweep,
        {"key": KEY, "runs": [RUN], "seeds": 1, "start_from": None}
        | {"checkpoint": None, **long, **sampling},
    ),
    (
        training.train,
        {"loss": quadratic, "params": [1.0], "key": KEY, "init": None, "seeds": 1}
        | {"optimizer": optax.sgd(0.1), "opt_state": None, "checkpoint": None, **long},
    ),
    (
        training.minimize,
        {"objective": quadratic, "params": [1.0], "steps": 2, "memory": 2},
    ),
]
# Functions, switches, places on the disk: other values of them are wrong elsewhere.
FREE = set("f g predict objective callback init checkpoint progress".split())


def test_the_table_has_all_arguments():
    table: dict[str, set] = {}
    for f, arguments in [*EXACT, *OTHERS]:
        table[f.__name__] = table.get(f.__name__, set()) | arguments.keys()
    for part in (getattr(lsalib, name) for name in lsalib.__all__):
        for name in set(part.__all__) - {"save", "load", "rows"}:
            if inspect.isfunction(f := getattr(part, name)):
                parameters = inspect.signature(f).parameters
                assert parameters.keys() - table.get(name, set()) == set(), name


def numbers(result) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(result)]


def test_an_argument_that_is_left_out_changes_the_result():
    """What is not read is a silently wrong number."""
    for f, arguments in EXACT:
        whole, parameters = numbers(f(**arguments)), inspect.signature(f).parameters
        for name in arguments:
            if parameters[name].default is inspect.Parameter.empty:
                continue
            others = {key: arguments[key] for key in arguments if key != name}
            try:
                without = numbers(f(**others))
            except ValueError:  # the others need it
                continue
            same = [*map(np.shape, whole)] == [*map(np.shape, without)]
            assert not (same and all(map(np.allclose, whole, without))), name


FORMS = (np.ndarray.tolist, np.float32, jnp.asarray, np.int64)


def of_form(form, value):
    """Arrays of whole numbers in this form, also those of weights."""
    if hasattr(value, "_fields"):
        return type(value)(*(of_form(form, part) for part in value))
    return form(np.round(3 * value)) if isinstance(value, np.ndarray) else value


def test_every_form_gives_the_same_numbers(unchecked):
    """Lists, NumPy and JAX, as users have JAX: types promote."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        for f, arguments in EXACT:
            expected, *others = (
                numbers(
                    f(**{name: of_form(form, each) for name, each in arguments.items()})
                )
                for form in (np.float64, *FORMS)
            )
            for result in others:
                for mine, its in zip(result, expected, strict=True):
                    np.testing.assert_allclose(mine, its, rtol=1e-4, atol=1e-4)


def test_a_wrong_argument_is_named(unchecked):
    """A text; an array of five axes; a count below zero."""
    silent = []
    for f, arguments in [*EXACT, *OTHERS]:
        for name, good in arguments.items():
            array = isinstance(good, np.ndarray | float) or hasattr(good, "_fields")
            wrong = [] if name in FREE else ["text"]
            wrong += [np.ones((2,) * 5)] if array else []
            wrong += [-1] if type(good) is int else []
            for value in wrong:
                try:
                    with pytest.raises(ValueError, match=rf"\b{name}\b.* (got|of) "):
                        f(**arguments | {name: value})
                except (Exception, pytest.fail.Exception) as error:
                    silent.append((f.__name__, name, repr(value)[:9], repr(error)))
    assert silent == []
