"""The exact risk against sampling: ``python -m studies.benchmarks.engine [--quick]``; float64, but samples in float32.

What a number costs that is exact to rounding, beside what it costs to sample it to one per cent, for the layer with the
least risk (d heads), over dimensions with C = d and over contexts. Seconds are the processor's, summed over threads:
others on the machine change them little. Kept where the page ``beyond`` reads it, in lsalib/data/engine_cost.json, and
as a table in engine.md.
"""

import argparse
import json
import platform
import statistics
import time
import tracemalloc
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from lsalib import attention, metrics, theory
from lsalib._files import write
from lsalib.book.stored import FOLDER
from lsalib.tasks import GaussianTask
from studies.benchmarks.measure import exponent
from studies.benchmarks.text import installed, machine, table

DIMS, CONTEXTS = (2, 5, 10, 20, 28, 40), (1, 10, 100, 1000, 10_000)
ACCURACY = 0.01
KEPT, TEXT = FOLDER / "engine_cost.json", Path(__file__).with_name("engine.md")
ENGINES = ("law", "weights", "moments")


def batch_size(d: int, C: int) -> int:
    """Tasks that are drawn at once: about two million numbers."""
    return int(2 ** np.clip(np.round(np.log2(2e6 / (C * d))), 6, 14))


def batches(d: int, C: int) -> int:
    """How many of these tell the spread of squared errors: about two hundred million numbers, 2^16 tasks at most."""
    size = batch_size(d, C)
    return int(max(1, min(2**16 // size, 2e8 // (C * d * size))))


def engines(d: int, C: int) -> dict[str, object]:
    """The ways to a risk, as functions without arguments."""
    task = GaussianTask([2.0] * d, C)
    params = theory.optimal_weights(task)
    single = jax.tree.map(lambda W: jnp.asarray(W, jnp.float32), params)

    def layer(X, y, x_q):
        return attention.predict(single, attention.gram(X, y), x_q, 0.0)

    sampled = partial(metrics.sampled_risk, jax.random.key(0), task, layer, dtype=jnp.float32)
    return {
        "law": lambda: theory.optimal_risk(task),
        "weights": lambda: float(theory.population_risk(params, task)),
        "moments": lambda: theory.gram_moments(task),
        "sampled": lambda: sampled(batches=1, batch_size=batch_size(d, C)),
        "spread": lambda: sampled(batches=batches(d, C), batch_size=batch_size(d, C)),
        "program": lambda: jax.jit(lambda p: theory.population_risk(p, task)).lower(params).compile(),
    }


def memory(ways: dict) -> dict[str, int]:
    """The most bytes at once: of NumPy's arrays, and of the compiled program with what goes in and out."""
    found = {}
    for name in ("law", "moments"):
        tracemalloc.start()
        ways[name]()
        found[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    used = ways["program"]().memory_analysis()
    return found | {"weights": used.temp_size_in_bytes + used.argument_size_in_bytes + used.output_size_in_bytes}


def spent(way, count: int) -> float:
    """Processor seconds of a call."""
    began = time.process_time()
    for _ in range(count):
        way()
    return (time.process_time() - began) / count


def processor_seconds(ways: dict, blocks: int, seconds: float) -> dict:
    """The median over blocks of so many seconds, which take turns; the first call compiles, and does not count."""
    once = {name: [way(), spent(way, 2)][1] for name, way in ways.items()}
    counts = {name: max(1, round(seconds / each)) for name, each in once.items()}
    turns = [{name: spent(way, counts[name]) for name, way in ways.items()} for _ in range(blocks)]
    return {name: statistics.median(turn[name] for turn in turns) for name in ways}


def measure(blocks: int, seconds: float, dims, contexts) -> list[dict]:
    """For each (d, C): seconds, bytes, and how many tasks one per cent takes."""
    cases = list(dict.fromkeys([(d, d) for d in dims] + [(10, C) for C in contexts]))
    ways = {case: engines(*case) for case in cases}
    runs = {(case, name): ways[case][name] for case in cases for name in (*ENGINES, "sampled")}
    times = processor_seconds(runs, blocks, seconds)
    rows = []
    for case in cases:
        mean, error = ways[case]["spread"]()
        tasks = batches(*case) * batch_size(*case) * (error / mean / ACCURACY) ** 2
        seconds = {name: times[case, name] for name in ENGINES}
        seconds["sampled"] = times[case, "sampled"] / batch_size(*case) * tasks
        risk = {"law": ways[case]["law"](), "weights": ways[case]["weights"](), "sampled": mean, "error": error}
        rows.append(
            {"d": case[0], "C": case[1], "tasks": tasks, "seconds": seconds, "bytes": memory(ways[case])} | risk
        )
    return rows


def lines(kept: dict) -> list[str]:
    """The table in Markdown."""
    head = ["d", "C", *(f"{name}, ms" for name in (*ENGINES, "sampled")), "sampled over weights"]
    head += [f"{name}, kB" for name in ENGINES]
    body = []
    for row in kept["rows"]:
        seconds = [row["seconds"][name] for name in (*ENGINES, "sampled")]
        cells = [f"{1e3 * s:.3f}" for s in seconds] + [f"{seconds[-1] / seconds[1]:,.0f}"]
        body.append([str(row["d"]), str(row["C"]), *cells, *(f"{row['bytes'][name] / 1e3:,.0f}" for name in ENGINES)])
    return [
        "# The exact risk against sampling",
        "",
        "One run of `python -m studies.benchmarks.engine`: processor seconds, medians of blocks that take turns.",
        "`law`:",
        "`theory.optimal_risk`; `weights`: `theory.population_risk` of d heads; `moments`: `theory.gram_moments`;",
        "`sampled`: fresh tasks until the standard error of the same heads' risk is one per cent; each further digit",
        "takes a hundred times as many.",
        "",
        f"{kept['machine']}; {kept['versions']}.",
        "",
        *table(head, body),
        "Exponents in d, from d = 20:",
        "",
        *(
            f"- {what}: " + ", ".join(f"{name} {power}" for name, power in powers.items())
            for what, powers in kept["exponents"].items()
        ),
    ]


def fitted(rows: list[dict]) -> dict[str, dict[str, float]]:
    """Exponents in d of seconds and bytes, where d is large."""
    large = [row for row in rows if row["d"] == row["C"] >= 20]
    dims = [row["d"] for row in large]
    names = {"seconds": (*ENGINES, "sampled"), "bytes": ENGINES}
    powers = lambda what: {n: round(exponent(dims, [r[what][n] for r in large]), 2) for n in names[what]}
    return {what: powers(what) for what in names} if len(dims) > 1 else {}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.benchmarks.engine", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="for development: measures little and keeps nothing")
    quick = parser.parse_args().quick
    jax.config.update("jax_enable_x64", True)
    rows = measure(2, 0.01, DIMS[:3], CONTEXTS[:2]) if quick else measure(5, 0.02, DIMS, CONTEXTS)
    versions = ", ".join([f"Python {platform.python_version()}", *map(installed, ("jax", "numpy"))])
    kept = {"machine": machine(), "versions": versions, "accuracy": ACCURACY, "exponents": fitted(rows), "rows": rows}
    print("\n".join(lines(kept)))
    if not quick:
        write(KEPT, json.dumps(kept, indent=1).encode() + b"\n")
        TEXT.write_text("\n".join(lines(kept)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
