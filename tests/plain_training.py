"""The entries of ``lsalib.training`` in the table of ``plain_table``: small trainings of two steps."""

import tempfile
from functools import wraps
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from plain_table import LSA, POSITIVE, QUERY, USUAL, Built, Entry, Numbers, Same, count, entry, flag, task

from lsalib import attention, tasks, training

SEEDS = Same((2, np.int64(2), [0, 1], (0, 1), np.array([0, 1])), (True, 0, -1, 2.0, "2", None, [], [1, 1], [0.5], [-1]))
SNAPSHOTS = Same(([1, 2], (1, 2), np.array([1, 2]), np.array([1, 2], np.uint8)), ([2, 1], [3], [-1], [0.5], 1, "1"))
SINGLE = Same((np.float32, jnp.float32, "float32"), (np.float64, np.float16, jnp.bfloat16, int, str, "nonsense", None))
FIXED = tasks.GaussianTask([1.0, -1.0], 3)
OWN = {"task": task(noise=Numbers(np.array(1.0)), query_cov=QUERY), "heads": count(2), "train_guess": flag(True)}
OWN |= {"learning_rate": POSITIVE, "init_scale": POSITIVE}
# What comes out is float32, whatever came in.
FLOAT32 = "float32"


def single(function):
    """A training in float32, also where the table computes what is right in float64: its batches would be others."""

    @wraps(function)
    def called(*given, **named):
        with jax.enable_x64(False):
            return function(*given, **named)

    return called


def arrays(fit):
    return fit.params, fit.guess, fit.risk, fit.snapshots


@single
def fitted(key, task, heads, guess, bias, train_guess, learning_rate, init_scale, steps, batch_size, dtype):
    options = {"guess": guess, "bias": bias, "train_guess": train_guess, "learning_rate": learning_rate}
    options |= {"init_scale": init_scale, "steps": steps, "batch_size": batch_size, "dtype": dtype}
    return arrays(training.fit(key, task, heads, **options))


@single
def swept(key, seeds, steps, compress, snapshots, callback_every):
    seen = []
    options = {"seeds": seeds, "steps": steps, "compress": compress, "snapshots": snapshots, "batch_size": 8}
    options |= {"callback": lambda step, metrics: seen.append(step), "callback_every": callback_every}
    fits = training.sweep(key, [training.Run(FIXED, 2)], **options)
    return arrays(fits[0]), seen


@single
def trained(key, steps, seeds, snapshots, callback_every):
    options = {"optimizer": SGD, "seeds": seeds, "snapshots": snapshots, "callback": NOTHING}
    return training.train(NOISY, jnp.zeros(2), key, steps=steps, callback_every=callback_every, **options)[:3]


def minimized(steps, memory, patience):
    return training.minimize(BOWL, jnp.zeros(2), steps=steps, memory=memory, patience=patience)


def used(params, bias, X, y, x_q, task):
    fit = training.Fit(params, np.ones(2, np.float32), np.zeros(1), training.Run(FIXED, 2, bias=bias))
    return fit.predict(X, y, x_q), fit.population_risk(task)


def kept(path):
    fit = training.Fit(WEIGHTS, np.ones(2), np.zeros(3), training.Run(FIXED, 2))
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / path
        training.save(str(where) if isinstance(path, str) else where, [fit])
        return [arrays(fit) for fit in training.merge([training.load(str(where))])]


SGD, NOTHING = optax.sgd(0.1), lambda step, metrics: None
NOISY = lambda x, key: ((x - 1.0 + jax.random.normal(key, x.shape)) ** 2).sum()
BOWL = lambda x: ((x - 1.0) ** 2).sum()
WEIGHTS = attention.LSAParams(*np.ones((4, 2, 3, 3), np.float32))
PATH = Entry(kept, {"path": Same(("a.npz", Path("a.npz")))}, FLOAT32)
TIMES = {"steps": count(2), "seeds": SEEDS, "snapshots": SNAPSHOTS, "callback_every": count(1)}
PATIENCE = Same(count(2).same, (True, 0, 2.5, "2"))
RUN = Built(training.Run, OWN | {"guess": USUAL["guess"], "bias": USUAL["bias"], "start": LSA})

HOLDERS = {f"training.{name}" for name in ("OBJECTIVES", "Minimum", "Seeds", "Snapshots", "Trained")}
HOLDERS |= {"training.DivergedError", "training.Preempted"}
TABLE = {
    "training.Run": Entry(
        lambda run: [np.float64(leaf) for leaf in jax.tree.leaves(run.to_json())], {"run": RUN}, "float64"
    ),
    "training.fit": entry(fitted, FLOAT32, **OWN, steps=count(2), batch_size=count(8), dtype=SINGLE),
    "training.sweep": entry(swept, FLOAT32, **TIMES, compress=flag(True)),
    "training.train": entry(trained, FLOAT32, **TIMES | {"seeds": SEEDS._replace(bad=(True, 0, "2", [], [1, 1]))}),
    "training.minimize": entry(minimized, FLOAT32, steps=count(5), memory=count(3), patience=PATIENCE),
    "training.Fit": entry(used, FLOAT32),
    "training.save": PATH,
    "training.load": PATH,
    "training.merge": PATH,
}
