"""The exact risk against sampling: what a number costs that is exact to rounding, and
one that is sampled to 1%.

For the layer with the minimum risk (d heads), at several dimensions with C = d and over
contexts. Everything is in float64, except the samples, which are in float32. Seconds
are the processor's, summed over threads, so that other processes change them little.
"""

import json
import time
import tracemalloc
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from lsalib import attention, metrics, theory
from lsalib.book.stored import FOLDER
from lsalib.tasks import GaussianTask
from studies.benchmarks.measuring import medians, origin, sentence, table

DIMS, CONTEXTS = (2, 5, 10, 20, 28, 40), (1, 10, 100, 1000, 10_000)
ACCURACY = 0.01
ENGINES = ("law", "weights", "moments")


def batch_size(d: int, C: int) -> int:
    """Tasks that are drawn at once: about two million numbers."""
    return int(2 ** np.clip(np.round(np.log2(2e6 / (C * d))), 6, 14))


def batches(d: int, C: int) -> int:
    """How many of these estimate the spread of squared errors: about 2e8 numbers, at
    most 2^16 tasks.
    """
    size = batch_size(d, C)
    return int(max(1, min(2**16 // size, 2e8 // (C * d * size))))


def engines(d: int, C: int) -> dict:
    """The ways to a risk, as functions without arguments."""
    task = GaussianTask([2.0] * d, C)
    params = theory.optimal_weights(task)
    single = jax.tree.map(lambda W: jnp.asarray(W, jnp.float32), params)

    def layer(X, y, x_q):
        return attention.predict(single, attention.gram(X, y), x_q, 0.0)

    sampled = partial(metrics.sampled_risk, jax.random.key(0), task, layer)
    return {
        "law": lambda: theory.optimal_risk(task),
        "weights": lambda: float(theory.population_risk(params, task)),
        "moments": lambda: theory.gram_moments(task),
        "sampled": lambda: sampled(batches=1, batch_size=batch_size(d, C)),
        "spread": lambda: sampled(batches=batches(d, C), batch_size=batch_size(d, C)),
        "program": lambda: (
            jax.jit(lambda p: theory.population_risk(p, task)).lower(params).compile()
        ),
    }


def memory(ways: dict) -> dict[str, int]:
    """The most bytes at once: of NumPy's arrays, and of the compiled program with its
    input and output.
    """
    found = {}
    for name in ("law", "moments"):
        tracemalloc.start()
        ways[name]()
        found[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    used = ways["program"]().memory_analysis()
    return found | {
        "weights": used.temp_size_in_bytes
        + used.argument_size_in_bytes
        + used.output_size_in_bytes
    }


def measure(blocks: int, seconds: float, dims, contexts) -> list[dict]:
    """For each (d, C): seconds, bytes, and how many tasks an accuracy of 1% takes."""
    cases = list(dict.fromkeys([(d, d) for d in dims] + [(10, C) for C in contexts]))
    ways = {case: engines(*case) for case in cases}
    repeated = lambda way: lambda count: [way() for _ in range(count)]
    runs = {
        (case, name): repeated(ways[case][name])
        for case in cases
        for name in (*ENGINES, "sampled")
    }
    times = medians(runs, blocks, seconds, time.process_time)
    rows = []
    for case in cases:
        mean, error = ways[case]["spread"]()
        tasks = batches(*case) * batch_size(*case) * (error / mean / ACCURACY) ** 2
        spent = {name: times[case, name] for name in ENGINES}
        spent["sampled"] = times[case, "sampled"] / batch_size(*case) * tasks
        risk = {
            "law": ways[case]["law"](),
            "weights": ways[case]["weights"](),
            "sampled": mean,
            "error": error,
        }
        row = {
            "d": case[0],
            "C": case[1],
            "tasks": tasks,
            "seconds": spent,
            "bytes": memory(ways[case]),
        }
        rows.append(row | risk)
    return rows


def fitted(rows: list[dict]) -> dict[str, dict[str, float]]:
    """Exponents in d of seconds and bytes, where d is large."""
    large = [row for row in rows if row["d"] == row["C"] >= 20]
    sizes = np.log([row["d"] for row in large])
    power = lambda what, name: round(
        np.polyfit(sizes, np.log([row[what][name] for row in large]), 1)[0], 2
    )
    names = {"seconds": (*ENGINES, "sampled"), "bytes": ENGINES}
    return (
        {what: {name: power(what, name) for name in names[what]} for what in names}
        if len(large) > 1
        else {}
    )


def measured(name: str, quick: bool) -> str:
    """The table; the numbers are stored for the page ``beyond``, too."""
    jax.config.update("jax_enable_x64", True)
    rows = (
        measure(2, 0.01, DIMS[:3], CONTEXTS[:2])
        if quick
        else measure(5, 0.02, DIMS, CONTEXTS)
    )
    kept = origin(name, "jax", "numpy") | {
        "accuracy": ACCURACY,
        "exponents": fitted(rows),
        "rows": rows,
    }
    if not quick:
        (FOLDER / "engine_cost.json").write_text(json.dumps(kept, indent=1) + "\n")
    return text(kept)


def text(kept: dict) -> str:
    """The numbers in Markdown."""
    names = (*ENGINES, "sampled")
    head = [
        "d",
        "C",
        *(f"{name}, ms" for name in names),
        "sampled over weights",
        *(f"{n}, kB" for n in ENGINES),
    ]
    body = []
    for row in kept["rows"]:
        seconds = row["seconds"]
        cells = [f"{1e3 * seconds[name]:.3f}" for name in names]
        cells += [f"{seconds['sampled'] / seconds['weights']:,.0f}"]
        body.append(
            [
                str(row["d"]),
                str(row["C"]),
                *cells,
                *(f"{row['bytes'][name] / 1e3:,.0f}" for name in ENGINES),
            ]
        )
    powers = [
        f"- {what}: " + ", ".join(f"{name} {power}" for name, power in found.items())
        for what, found in kept["exponents"].items()
    ]
    return f"""# The exact risk against sampling

{sentence(kept)}

Processor seconds, medians of blocks that take turns. `law`: `theory.optimal_risk`;
`weights`: `theory.population_risk` of d heads; `moments`: `theory.gram_moments`;
`sampled`: fresh tasks until the standard error of the same heads' risk is 1%. Each
further digit takes a hundred times as many.

{table(head, body)}
Exponents in d, from d = 20:

{chr(10).join(powers)}
"""
