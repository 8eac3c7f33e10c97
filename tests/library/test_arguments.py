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
from lsalib import attention, layers, tasks, theory, training

d, C, H = 3, 5, 2
RNG = np.random.default_rng(0)
draw = lambda *shape: RNG.normal(size=shape)
LSA = attention.LSAParams(*draw(4, H, d + 1, d + 1))
SOFTMAX = attention.SoftmaxParams(draw(H, 1, d + 1), draw(H, d + 1, d + 1))
KEY, TASK, PLAIN = jax.random.key(0), TASKS["general, noisy"], TASKS["isotropic"]
COV = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.3], [0.0, 0.3, 0.5]])
GUESS, W = draw(d), draw(d + 1, d + 1)
LAYER = layers.Layer("delta", H)
ONE = tasks.GaussianTask(GUESS, context_size=1)
quadratic = lambda params, key: (params**2).sum()
mean_label = lambda X, y, x_q: y.mean()
# A good value of every argument, by its name.
GOOD = {
    "A": LSA.W_K,
    "E": draw(d + 1, C + 1),
    "G": W,
    "M": draw(*[d + 1] * 3),
    "W_1": W,
    "W_2": draw(d + 1, d + 1),
    "X": draw(C, d),
    "Z": W,
    "b": draw(H, d + 1),
    "batch_size": 2,
    "batches": 1,
    "bias": 0.4,
    "callback": print,
    "checkpoint": None,
    "context_size": C,
    "depth": 2,
    "dim": d,
    "dtype": np.float32,
    "every": 1,
    "f": mean_label,
    "feature_cov": COV,
    "fourth": 1.5 * theory.gram_moments(ONE).second[:d, :d, :d, :d],
    "frozen": ("W_K",),
    "g": mean_label,
    "guess": GUESS,
    "heads": H,
    "init": None,
    "init_scale": 0.3,
    "key": KEY,
    "layers": 2,
    "learning_rate": 0.1,
    "loss": quadratic,
    "memory": 2,
    "mu": draw(H),
    "noise_cumulant": 0.5,
    "noise_std": 0.5,
    "objective": "sampled",
    "omega": draw(H),
    "opt_state": None,
    "optimizer": optax.sgd(0.1),
    "other_guess": -GUESS,
    "other_params": LSA,
    "params": LSA,
    "predict": mean_label,
    "prior_cov": COV,
    "prior_mean": GUESS,
    "progress": False,
    "rule": "delta",
    "runs": [training.Run(TASK, 1)],
    "scale": 0.3,
    "seeds": 1,
    "snapshots": [1],
    "start": GUESS,
    "start_from": None,
    "step_size": 0.3,
    "steps": 2,
    "task": TASK,
    "train_guess": True,
    "value_size": 1,
    "w": GUESS,
    "w0": GUESS,
    "x_q": draw(d),
    "y": draw(C),
    "y_q": 0.5,
    "z_q": W[0],
}
softmax, number = {"params": SOFTMAX}, {"params": [1.0], "objective": quadratic}
ISOTROPIC = "bayes_risk delta_rule_risk depth_price depth_risk few_heads_weights"
ISOTROPIC += " least_risk lifted_risk gram_moments"
# What a function needs in its place.
OTHER = {
    **{name: {"task": PLAIN} for name in ISOTROPIC.split()},
    "from_effective_softmax": {"b": SOFTMAX.b},
    "softmax_heads": softmax,
    "softmax_attention": softmax,
    "Layer.predict": {"params": LAYER.init(KEY, d)},
    "train": number,
    "minimize": number,
}


def calls():
    """Every public function and class that takes arguments, and good ones."""
    found = [LAYER.init, LAYER.predict, tasks.GaussianTask, layers.Layer, training.Run]
    for part in (getattr(lsalib, name) for name in lsalib.__all__):
        for name in set(part.__all__) - {"save", "load", "rows"}:
            found += filter(inspect.isfunction, [getattr(part, name)])
    for f in found:
        given = GOOD | OTHER.get(f.__qualname__, {})
        yield f, {name: given[name] for name in inspect.signature(f).parameters}


CALLS = [*calls()]
# Functions, switches, places on the disk: other values of them are wrong elsewhere.
FREE = set("f g predict objective callback init checkpoint progress".split())
OMITTED = theory.centered_task, theory.optimal_weights
EXACT = [
    (f, given)
    for f, given in CALLS
    if not (inspect.isclass(f) or f in OMITTED or FREE & given.keys())
]
# Its weights depend on the guess only where that is right.
EXACT += [(theory.optimal_weights, {"task": TASK, "guess": TASK.prior_mean})]


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
    for f, arguments in CALLS:
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
