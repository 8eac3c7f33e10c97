"""What is measured, how, and the table that comes of it."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.references import literal, query_column, torch_query_column
from lsalib import tasks
from lsalib.tasks import GaussianTask
from lsalib.training import Run, fit, sweep

__all__ = ["Sizes", "describe", "report"]

BATCH = 2048
TASK = GaussianTask([2.0] * 10, context_size=10)
HEADS = (1, 11)


class Sizes(NamedTuple):
    """How much is measured."""

    blocks: int = 5
    seconds: float = 1.0
    largest_dim: int = 512
    largest_context: int = 10_000
    exact_steps: int = 5000
    seeds: int = 5

    @classmethod
    def quick(cls) -> "Sizes":
        return cls(blocks=2, seconds=0.05, largest_dim=20, largest_context=100, exact_steps=100, seeds=1)


def describe(quick: bool) -> str:
    """The machine and the libraries; no name of a host."""

    def installed(name):
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            return f"no {name}"

    cpuinfo = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line] if cpuinfo.exists() else []
    libraries = ", ".join(installed(name) for name in ("jax", "jaxlib", "optax", "numpy", "torch"))
    warning = "**A short run for development: the numbers mean nothing.**\n\n" if quick else ""
    return f"""# Benchmarks

{warning}One run of `python -m benchmarks`. Medians of blocks, after a warm-up that compiles; float32, batch {BATCH}, d = C = 10 unless said.

- Machine: {os.cpu_count()} cores, {names[0] if names else platform.processor()}; JAX on {jax.devices()[0].device_kind}
- Python {platform.python_version()}, {libraries}
"""


def seconds_per_step(run: Callable[[int], object], sizes: Sizes, steps: int | None = None) -> float:
    """The median over blocks of the time of a step; blocks last ``sizes.seconds`` unless their steps are given."""
    run(steps or 2)
    if steps is None:
        began = time.perf_counter()
        run(2)
        steps = max(2, round(2 * sizes.seconds / (time.perf_counter() - began)))
        run(steps)
    times = []
    for _ in range(sizes.blocks):
        began = time.perf_counter()
        run(steps)
        times.append((time.perf_counter() - began) / steps)
    return statistics.median(times)


def trainer(task: GaussianTask, heads: int, **options) -> Callable[[int], object]:
    return lambda steps: fit(jax.random.key(0), task, heads, steps=steps, **options).risk.block_until_ready()


def report(sizes: Sizes) -> Iterator[str]:
    """The tables, section by section."""
    for section in (side_by_side, many_runs, against_context, against_dimension, random_numbers, figures):
        for line in section(sizes):
            print(line, flush=True)
            yield line


def table(header: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(header) + " |"
    yield "|" + "|".join(["---"] + ["---:"] * (len(header) - 1)) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""


def side_by_side(sizes: Sizes) -> Iterator[str]:
    yield "## Steps per second\n"
    torch = {heads: torch_query_column(TASK, heads, BATCH, os.cpu_count()) for heads in HEADS}
    implementations = {
        "(a) the literal formula, jitted step": {h: (literal(TASK, h, BATCH), None) for h in HEADS},
        "(b) query column only, jitted step": {h: (query_column(TASK, h, BATCH), None) for h in HEADS},
        "(c) query column only, PyTorch": {h: (run, None) for h, run in torch.items() if run},
        "(d) lsalib, sampled": {h: (trainer(TASK, h), None) for h in HEADS},
        "(f) lsalib, population": {h: (trainer(TASK, h, objective="population"), sizes.exact_steps) for h in HEADS},
    }
    times = {name: {h: seconds_per_step(run, sizes, n) for h, (run, n) in runs.items()} for name, runs in implementations.items()}
    base = times["(b) query column only, jitted step"]
    rows = [
        [name] + [cell for h in HEADS for cell in (f"{1 / of[h]:,.1f}", f"{base[h] / of[h]:.2f}")]
        for name, of in times.items()
        if of
    ]
    yield from table(["", *(cell for h in HEADS for cell in (f"H = {h}", "over (b)"))], rows)
    if not any(torch.values()):
        yield "(c) PyTorch is not installed here: skipped.\n"


def many_runs(sizes: Sizes) -> Iterator[str]:
    yield "## A sweep against single runs\n"
    runs = [Run(TASK, heads=h) for h in range(1, 13)]
    rows = []
    for objective, steps in (("sampled", None), ("population", sizes.exact_steps)):
        single = seconds_per_step(trainer(TASK, 12, objective=objective), sizes, steps)
        together = seconds_per_step(lambda n, o=objective: sweep(jax.random.key(0), runs, steps=n, objective=o), sizes, steps)
        rows.append([f"(e) {objective}", f"{1e3 * together:.3f}", f"{together / single:.2f}", f"{12 / together:,.0f}"])
    yield from table(["12 head counts, H = 1..12", "ms a step", "over one run, H = 12", "steps/s, summed over runs"], rows)


def exponent(x, y) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def against_context(sizes: Sizes) -> Iterator[str]:
    yield "## A sampled step against the context, H = 11\n"
    contexts = [C for C in (10, 30, 100, 300, 1000, 3000, 10_000) if C <= sizes.largest_context]
    columns = {}
    for compress in (True, False):
        sizes_here = [C for C in contexts if compress or C <= 300]
        tasks_here = [GaussianTask([2.0] * 10, C) for C in sizes_here]
        columns[compress] = [seconds_per_step(trainer(task, 11, compress=compress), sizes) for task in tasks_here]
    rows = [[str(C), f"{1e3 * t:.3f}", f"{t / columns[True][0]:.2f}"] for C, t in zip(contexts, columns[True], strict=True)]
    for row, t in zip(rows, columns[False], strict=False):
        row.append(f"{1e3 * t:.3f}")
    yield from table(["C", "ms a step", "over C = 10", "ms, every token drawn"], [row + ["–"] * (4 - len(row)) for row in rows])
    exponents = [exponent(contexts[: len(t)], t) for t in (columns[True], columns[False])]
    yield f"Fitted exponents in C: {exponents[0]:.2f}, and {exponents[1]:.2f} with every token drawn.\n"


def against_dimension(sizes: Sizes) -> Iterator[str]:
    yield "## A step against the dimension, C = d, H = 1, batch 64\n"
    dims = [d for d in (5, 10, 20, 40, 80, 160, 320, 512) if d <= sizes.largest_dim]
    objectives = ("sampled", "population")
    times = {
        o: [seconds_per_step(trainer(GaussianTask([1.0] * d, d), 1, objective=o, batch_size=64), sizes) for d in dims] for o in objectives
    }
    yield from table(["d", "sampled, ms", "exact, ms"], [[str(d), *(f"{1e3 * times[o][i]:.3f}" for o in objectives)] for i, d in enumerate(dims)])
    large = [i for i, d in enumerate(dims) if d >= min(80, dims[-2])]
    fitted = {o: exponent([dims[i] for i in large], [times[o][i] for i in large]) for o in objectives}
    yield f"Fitted exponents in d, from d = {dims[large[0]]}: {fitted['sampled']:.2f} sampled, {fitted['population']:.2f} exact.\n"


def random_numbers(sizes: Sizes) -> Iterator[str]:
    """The floor under a sampled step: its standard normal numbers alone."""
    yield "## A sampled step against its random numbers, H = 11\n"
    shape = (12 * 10, BATCH)
    rng, out = np.random.Generator(np.random.SFC64(0)), np.empty(shape, np.float32)

    def in_a_loop(normal, impl):
        @jax.jit
        def run(key, steps):
            return jax.lax.fori_loop(0, steps, lambda i, _: normal(jax.random.fold_in(key, i)), jnp.zeros(shape))

        return lambda steps: run(jax.random.key(0, impl=impl), steps).block_until_ready()

    draw = {"lsalib": (tasks._normal, "threefry2x32"), "jax.random.normal": (jax.random.normal, "threefry2x32"), "jax.random.normal, rbg": (jax.random.normal, "rbg")}
    times = {
        name: seconds_per_step(in_a_loop(lambda key, n=normal: n(key, shape, jnp.float32), impl), sizes)
        for name, (normal, impl) in draw.items()
    }
    times["NumPy, SFC64"] = seconds_per_step(lambda n: [rng.standard_normal(dtype=np.float32, out=out) for _ in range(n)], sizes)
    step = seconds_per_step(trainer(TASK, 11), sizes)
    yield from table(["generator", "ms", "step over it"], [[name, f"{1e3 * t:.3f}", f"{step / t:.2f}"] for name, t in times.items()])
    yield f"The step takes {1e3 * step:.3f} ms, {step / min(times.values()):.2f} times the fastest generator here.\n"


def figures(sizes: Sizes) -> Iterator[str]:
    """Every point of the paper's Figs. 2-4 on the exact risk, compilation included."""
    yield "## The whole of Figs. 2–4 on the exact risk\n"
    still = GaussianTask([0.0] * 10, 10)
    runs = {
        "Fig. 2, 12 head counts": [Run(TASK, h) for h in range(1, 13)],
        "Fig. 3, 6 prior means": [Run(GaussianTask([w] * 10, 10), 11) for w in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)],
        "Fig. 4, 6 guesses and 6 biases": [Run(still, 11, guess=[g] * 10) for g in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)]
        + [Run(still, 11, bias=b) for b in (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)],
    }
    rows, total = [], 0.0
    for name, points in runs.items():
        began = time.perf_counter()
        sweep(jax.random.key(0), points, seeds=sizes.seeds, steps=sizes.exact_steps, objective="population")
        total += (elapsed := time.perf_counter() - began)
        rows.append([name, str(len(points) * sizes.seeds), f"{elapsed:.1f}"])
    rows.append(["all", str(sum(int(row[1]) for row in rows)), f"{total:.1f}"])
    yield from table([f"{sizes.exact_steps} steps, {sizes.seeds} seeds", "runs", "s"], rows)
