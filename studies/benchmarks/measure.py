"""What is measured, how, and the table that comes of it."""

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lsalib import _white
from lsalib.tasks import GaussianTask
from lsalib.training import Run, fit, sweep
from studies.benchmarks.references import literal, query_column, torch_query_column
from studies.benchmarks.text import installed, machine, table

__all__ = ["ONE_CORE", "SECTIONS", "Sizes", "describe", "report"]

BATCH = 2048
TASK = GaussianTask([2.0] * 10, context_size=10)
HEADS = (1, 11)


class Sizes(NamedTuple):
    """How much is measured."""

    blocks: int = 5
    seconds: float = 1.0
    largest_dim: int = 512
    largest_context: int = 10_000
    figure_steps: int = 5000
    seeds: int = 5

    @classmethod
    def quick(cls) -> "Sizes":
        return cls(blocks=2, seconds=0.05, largest_dim=20, largest_context=100, figure_steps=100, seeds=1)


def describe(quick: bool) -> str:
    """The machine and the libraries; no name of a host."""

    libraries = ", ".join(installed(name) for name in ("jax", "jaxlib", "optax", "numpy", "torch"))
    warning = "**A short run for development: the numbers mean nothing.**\n\n" if quick else ""
    return f"""# Benchmarks

{warning}One run of `python -m studies.benchmarks`. Medians of blocks, after a warm-up that compiles; float32,
batch {BATCH}, d = C = 10 unless said.

- Machine: {machine()}; JAX on {jax.devices()[0].device_kind}
- Python {platform.python_version()}, {libraries}
"""


def seconds_per_step(
    runs: dict[object, Callable[[int], object]], sizes: Sizes, steps: int | None = None
) -> dict[object, float]:
    """The median time of a step of each; their blocks take turns, so that a slow moment of the machine meets them all.

    A block lasts ``sizes.seconds``, or the given steps.
    """
    counts = {name: steps or block_length(run, sizes.seconds) for name, run in runs.items()}
    times = {name: [] for name in runs}
    for _ in range(sizes.blocks):
        for name, run in runs.items():
            began = time.perf_counter()
            run(counts[name])
            times[name].append((time.perf_counter() - began) / counts[name])
    return {name: statistics.median(each) for name, each in times.items()}


def block_length(run: Callable[[int], object], seconds: float) -> int:
    """Steps that take so long, by two calls of which the first one compiles."""
    n = 2
    while True:
        run(n)
        began = time.perf_counter()
        run(n)
        elapsed = time.perf_counter() - began
        if elapsed > seconds / 4:
            return max(2, round(n * seconds / elapsed))
        n *= 4


def trainer(task: GaussianTask, heads: int, **options) -> Callable[[int], object]:
    return lambda steps: fit(jax.random.key(0), task, heads, steps=steps, **options).risk.block_until_ready()


def report(sizes: Sizes, sections) -> Iterator[str]:
    """The tables, section by section."""
    ratios: dict[str, float] = {}
    for section in sections:
        for line in section(sizes, ratios):
            print(line, flush=True)
            yield line


# The ratio, its bound, and whether it is a least or a greatest value.
TARGETS = (
    ("(f) over (b), steps/s at H = 11", 200.0, "at least"),
    ("(d) over (b), steps/s at H = 11", 3.0, "at least"),
    ("a sampled sweep of 12 head counts over one run", 3.0, "at most"),
    ("a sampled step at the longest context over C = 10", 1.3, "at most"),
    ("Figs. 2-4 on the exact risk, s", 60.0, "at most"),
)


def targets(sizes: Sizes, ratios: dict[str, float]) -> Iterator[str]:
    yield "## Targets\n"
    rows = []
    for name, bound, sense in TARGETS:
        met = ratios[name] >= bound if sense == "at least" else ratios[name] <= bound
        rows.append([name, f"{ratios[name]:.2f}", f"{sense} {bound:g}", "yes" if met else "**no**"])
    yield from table(["", "measured", "target", "met"], rows)


def side_by_side(sizes: Sizes, ratios: dict[str, float]) -> Iterator[str]:
    yield "## Steps per second\n"
    torch = {h: torch_query_column(TASK, h, BATCH, len(os.sched_getaffinity(0))) for h in HEADS}
    base = "(b) query column only, jitted step"
    implementations = {
        "(a) the literal formula, jitted step": lambda h: literal(TASK, h, BATCH),
        base: lambda h: query_column(TASK, h, BATCH),
        "(c) query column only, PyTorch": torch.get,
        "(d) lsalib, sampled": lambda h: trainer(TASK, h),
        "(f) lsalib, population": lambda h: trainer(TASK, h, objective="population"),
    }
    if not any(torch.values()):
        del implementations["(c) query column only, PyTorch"]
    times = {h: seconds_per_step({name: make(h) for name, make in implementations.items()}, sizes) for h in HEADS}
    for letter, name in (("(d)", "(d) lsalib, sampled"), ("(f)", "(f) lsalib, population")):
        ratios[f"{letter} over (b), steps/s at H = 11"] = times[11][base] / times[11][name]
    rows = [
        [name]
        + [cell for h in HEADS for cell in (f"{1 / times[h][name]:,.1f}", f"{times[h][base] / times[h][name]:.2f}")]
        for name in implementations
    ]
    yield from table(["", *(cell for h in HEADS for cell in (f"H = {h}", "over (b)"))], rows)
    if not any(torch.values()):
        yield "(c) PyTorch is not installed here: skipped.\n"


def many_runs(sizes: Sizes, ratios: dict[str, float]) -> Iterator[str]:
    yield "## A sweep against single runs\n"
    runs = [Run(TASK, heads=h) for h in range(1, 13)]
    rows = []
    for objective in ("sampled", "population"):

        def together(steps, objective=objective):
            return sweep(jax.random.key(0), runs, steps=steps, objective=objective)

        times = seconds_per_step({"one": trainer(TASK, 12, objective=objective), "all": together}, sizes)
        ratios[f"a {objective} sweep of 12 head counts over one run"] = times["all"] / times["one"]
        rows.append(
            [
                f"(e) {objective}",
                f"{1e3 * times['all']:.3f}",
                f"{times['all'] / times['one']:.2f}",
                f"{12 / times['all']:,.0f}",
            ]
        )
    yield from table(
        ["12 head counts, H = 1..12", "ms a step", "over one run, H = 12", "steps/s, summed over runs"], rows
    )
    yield "Sampled runs share what costs most, their batches. Runs on the exact risk have nothing to share: each has"
    yield "its own arithmetic, padded to the most heads, so that twelve cost about twelve, less what devices save.\n"


def exponent(x, y) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def against_context(sizes: Sizes, ratios: dict[str, float]) -> Iterator[str]:
    yield "## A sampled step against the context, H = 11\n"
    contexts = [C for C in (10, 30, 100, 300, 1000, 3000, 10_000) if C <= sizes.largest_context]
    direct = [C for C in contexts if C <= 300]
    cases = [(C, True) for C in contexts] + [(C, False) for C in direct]
    times = seconds_per_step(
        {case: trainer(GaussianTask([2.0] * 10, case[0]), 11, compress=case[1]) for case in cases}, sizes
    )
    ratios["a sampled step at the longest context over C = 10"] = times[contexts[-1], True] / times[10, True]
    rows = [
        [
            str(C),
            f"{1e3 * times[C, True]:.3f}",
            f"{times[C, True] / times[10, True]:.2f}",
            f"{1e3 * times[C, False]:.3f}" if C in direct else "–",
        ]
        for C in contexts
    ]
    yield from table(["C", "ms a step", "over C = 10", "ms, every token drawn"], rows)
    short, full = (
        exponent(contexts, [times[C, True] for C in contexts]),
        exponent(direct, [times[C, False] for C in direct]),
    )
    yield f"Fitted exponents in C: {short:.2f}, and {full:.2f} with every token drawn.\n"


def against_dimension(sizes: Sizes, ratios: dict[str, float]) -> Iterator[str]:
    yield "## A step against the dimension, C = d, H = 1, batch 64\n"
    dims = [d for d in (5, 10, 20, 40, 80, 160, 320, 512) if d <= sizes.largest_dim]
    objectives = ("sampled", "population")
    runs = {
        (d, o): trainer(GaussianTask([1.0] * d, d), 1, objective=o, batch_size=64) for d in dims for o in objectives
    }
    times = seconds_per_step(runs, sizes)
    yield from table(
        ["d", "sampled, ms", "exact, ms"], [[str(d), *(f"{1e3 * times[d, o]:.3f}" for o in objectives)] for d in dims]
    )
    large = [d for d in dims if d >= min(80, dims[-2])]
    fitted = [exponent(large, [times[d, o] for d in large]) for o in objectives]
    yield f"Fitted exponents in d, from d = {large[0]}: {fitted[0]:.2f} sampled, {fitted[1]:.2f} exact.\n"


def random_numbers(sizes: Sizes, ratios: dict[str, float]) -> Iterator[str]:
    """The floor under a sampled step: its standard normal numbers alone."""
    yield "## A sampled step against its random numbers, H = 11\n"
    shape = (12 * 10, BATCH)
    rng, out = np.random.Generator(np.random.SFC64(0)), np.empty(shape, np.float32)

    def in_a_loop(normal, impl):
        @jax.jit
        def run(key, steps):
            return jax.lax.fori_loop(0, steps, lambda i, _: normal(jax.random.fold_in(key, i)), jnp.zeros(shape))

        return lambda steps: run(jax.random.key(0, impl=impl), steps).block_until_ready()

    runs = {
        "lsalib": in_a_loop(lambda key: _white.normal(key, shape, jnp.float32), "threefry2x32"),
        "jax.random.normal": in_a_loop(lambda key: jax.random.normal(key, shape, jnp.float32), "threefry2x32"),
        "jax.random.normal, rbg": in_a_loop(lambda key: jax.random.normal(key, shape, jnp.float32), "rbg"),
        "NumPy, SFC64, one thread": lambda steps: [
            rng.standard_normal(dtype=np.float32, out=out) for _ in range(steps)
        ],
        "the step": trainer(TASK, 11),
    }
    times = seconds_per_step(runs, sizes)
    step = times.pop("the step")
    yield from table(
        ["generator", "ms", "step over it"], [[name, f"{1e3 * t:.3f}", f"{step / t:.2f}"] for name, t in times.items()]
    )
    yield f"The step takes {1e3 * step:.3f} ms, {step / min(times.values()):.2f} times the fastest generator here.\n"


def figures(sizes: Sizes, ratios: dict[str, float]) -> Iterator[str]:
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
        sweep(jax.random.key(0), points, seeds=sizes.seeds, steps=sizes.figure_steps, objective="population")
        total += (elapsed := time.perf_counter() - began)
        rows.append([name, str(len(points) * sizes.seeds), f"{elapsed:.1f}"])
    ratios["Figs. 2-4 on the exact risk, s"] = total
    rows.append(["all", str(sum(int(row[1]) for row in rows)), f"{total:.1f}"])
    yield from table([f"{sizes.figure_steps} steps, {sizes.seeds} seeds", "runs", "s"], rows)


def alone(sizes: Sizes, ratios: dict[str, float]) -> Iterator[str]:
    yield "With several cores the references run on all of them, and a single run on the exact risk, too small for"
    yield "threads, on one. Here everything has one core.\n"
    yield from side_by_side(sizes, ratios)


# The last section holds the ratios of the others against their targets.
SECTIONS = (side_by_side, many_runs, against_context, against_dimension, random_numbers, figures, targets)
ONE_CORE = (alone,)
