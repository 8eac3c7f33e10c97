"""The exact risk against sampling: what a number costs that is exact to rounding, and
one that is sampled to 1%.

For the layer with the minimum risk (d heads), at several dimensions with C = d and over
contexts. The exact risk is in float64, samples are in float32. Seconds are the
processor's, summed over threads, so that other processes change them little.
"""

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lsalib import attention, metrics, theory
from lsalib.book.stored import FOLDER
from lsalib.tasks import GaussianTask
from studies.benchmarks.measuring import medians, origin, sentence, table

SIZES = [(d, d) for d in (2, 5, 10, 20, 28, 40)]
SIZES += [(10, C) for C in (1, 100, 1000, 10_000)]
ACCURACY, BATCHES = 0.01, 30  # as many estimate the spread of squared errors


def batch_size(d: int, C: int) -> int:
    """Tasks that are drawn at once: about two million numbers."""
    return int(np.clip(2e6 / (C * d), 64, 2**14))


def ways(d: int, C: int) -> tuple[Callable, Callable, int]:
    """The exact risk and the sampled one as functions, and the most bytes at once of
    the compiled program of the exact one, with its input and output.
    """
    task = GaussianTask([2.0] * d, C)
    params = theory.optimal_weights(task)
    single = jax.tree.map(lambda W: jnp.asarray(W, jnp.float32), params)
    risk = lambda params: theory.population_risk(params, task)

    def layer(X, y, x_q):
        return attention.predict(single, attention.gram(X, y), x_q, 0.0)

    key, size = jax.random.key(0), batch_size(d, C)
    used: Any = jax.jit(risk).lower(params).compile().memory_analysis()
    return (
        lambda: float(risk(params)),
        partial(metrics.sampled_risk, key, task, layer, batch_size=size),
        used.temp_size_in_bytes
        + used.argument_size_in_bytes
        + used.output_size_in_bytes,
    )


def measure() -> list[dict]:
    """For each (d, C): seconds, bytes, and how many tasks an accuracy of 1% takes."""
    repeated = lambda call: lambda steps: [call() for _ in range(steps)]
    of_size, runs, rows = {size: ways(*size) for size in SIZES}, {}, []
    for size, (exact, sampled, _) in of_size.items():
        runs[size, "exact"] = repeated(exact)
        runs[size, "sampled"] = repeated(partial(sampled, batches=1))
    times = medians(runs, 0.02, time.process_time)
    for (d, C), (exact, sampled, memory) in of_size.items():
        mean, error = sampled(batches=BATCHES)
        tasks = BATCHES * batch_size(d, C) * (error / mean / ACCURACY) ** 2
        seconds = {
            "weights": times[(d, C), "exact"],
            "sampled": times[(d, C), "sampled"] / batch_size(d, C) * tasks,
        }
        row = {"d": d, "C": C, "tasks": tasks, "seconds": seconds}
        row |= {"bytes": {"weights": memory}, "weights": exact()}
        rows.append(row | {"sampled": mean, "error": error})
    return rows


def measured(name: str) -> str:
    """The table; the numbers are stored for the page ``beyond``, too."""
    with jax.enable_x64(True):
        kept = origin(name, "jax", "numpy") | {"accuracy": ACCURACY, "rows": measure()}
    (FOLDER / "engine_cost.json").write_text(json.dumps(kept, indent=1) + "\n")
    return text(kept)


def text(kept: dict) -> str:
    """The numbers in Markdown."""
    head = ["d", "C", "weights, ms", "sampled, ms", "sampled over weights"]
    body = []
    for row in kept["rows"]:
        exact, sampled = row["seconds"]["weights"], row["seconds"]["sampled"]
        cells = [str(row["d"]), str(row["C"])]
        cells += [
            f"{1e3 * exact:.3f}",
            f"{1e3 * sampled:.3f}",
            f"{sampled / exact:,.0f}",
        ]
        body.append([*cells, f"{row['bytes']['weights'] / 1e3:,.0f}"])
    return f"""# The exact risk against sampling

{sentence(kept)}

Processor seconds, medians of blocks that take turns. `weights`:
`theory.population_risk` of d heads; `sampled`: fresh tasks until the standard error of
the same heads' risk is 1%. Each further digit takes a hundred times as many.

{table([*head, "weights, kB"], body)}"""
