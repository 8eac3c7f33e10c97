"""The library's training against plain implementations: ratios of speeds, measured in one run."""

import os
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lsalib.tasks import GaussianTask
from lsalib.training import Run, fit, sweep
from studies.benchmarks.measuring import exponent, medians, origin, sentence, table
from studies.benchmarks.references import literal, query_column, torch_query_column

BATCH, HEADS = 2048, (1, 11)
TASK = GaussianTask([2.0] * 10, context_size=10)
# The ratio, its bound, and whether the bound is a minimum or a maximum.
TARGETS = (
    ("(f) over (b), steps/s at H = 11", 200.0, "at least"),
    ("(d) over (b), steps/s at H = 11", 3.0, "at least"),
    ("a sampled sweep of 12 head counts over one run", 3.0, "at most"),
    ("a sampled step at the longest context over C = 10", 1.3, "at most"),
    ("Figs. 2-4 on the exact risk, s", 60.0, "at most"),
)


class Sizes(NamedTuple):
    """How much is measured."""

    blocks: int
    seconds: float
    largest_dim: int
    largest_context: int
    figure_steps: int
    seeds: int


FULL, QUICK = Sizes(5, 1.0, 512, 10_000, 5000, 5), Sizes(2, 0.05, 20, 100, 100, 1)


def trainer(task: GaussianTask, heads: int, **options) -> Callable[[int], object]:
    return lambda steps: fit(jax.random.key(0), task, heads, steps=steps, **options).risk.block_until_ready()


def against_references(sizes: Sizes, ratios: dict[str, float]) -> str:
    makers: dict[str, Callable] = {
        "(a) the literal formula, jitted step": lambda h: literal(TASK, h, BATCH),
        "(b) query column only, jitted step": lambda h: query_column(TASK, h, BATCH),
        "(c) query column only, PyTorch": lambda h: torch_query_column(TASK, h, BATCH),
        "(d) lsalib, sampled": lambda h: trainer(TASK, h),
        "(f) lsalib, population": lambda h: trainer(TASK, h, objective="population"),
    }
    base = "(b) query column only, jitted step"
    times: dict[tuple[str, int], float] = {}
    for heads in HEADS:
        runs = {name: run for name, make in makers.items() if (run := make(heads))}
        times |= {(name, heads): t for name, t in medians(runs, sizes.blocks, sizes.seconds).items()}
    for name in ("(d) lsalib, sampled", "(f) lsalib, population"):
        ratios[f"{name[:3]} over (b), steps/s at H = 11"] = times[base, 11] / times[name, 11]
    cells = lambda name, h: [f"{1 / times[name, h]:,.1f}", f"{times[base, h] / times[name, h]:.2f}"]
    rows = [[name, *cells(name, 1), *cells(name, 11)] for name in makers if (name, 1) in times]
    return "## Steps per second\n\n" + table(["", "H = 1", "over (b)", "H = 11", "over (b)"], rows)


def many_runs(sizes: Sizes, ratios: dict[str, float]) -> str:
    runs, rows = [Run(TASK, heads=h) for h in range(1, 13)], []
    for objective in ("sampled", "population"):
        together = lambda steps, o=objective: sweep(jax.random.key(0), runs, steps=steps, objective=o)
        both = {"one": trainer(TASK, 12, objective=objective), "all": together}
        times = medians(both, sizes.blocks, sizes.seconds)
        ratio = ratios[f"a {objective} sweep of 12 head counts over one run"] = times["all"] / times["one"]
        rows.append([f"(e) {objective}", f"{1e3 * times['all']:.3f}", f"{ratio:.2f}", f"{12 / times['all']:,.0f}"])
    header = ["12 head counts, H = 1..12", "ms a step", "over one run, H = 12", "steps/s, summed over runs"]
    return f"""## A sweep against single runs

{table(header, rows)}
Sampled runs share their batches, which cost most. Runs on the exact risk share nothing: each has its own arithmetic,
padded to the largest number of heads. So twelve runs cost about twelve times as much as one, less what devices save.
"""


def against_context(sizes: Sizes, ratios: dict[str, float]) -> str:
    contexts = [C for C in (10, 30, 100, 300, 1000, 3000, 10_000) if C <= sizes.largest_context]
    direct = [C for C in contexts if C <= 300]
    cases = [(C, True) for C in contexts] + [(C, False) for C in direct]
    run = lambda C, compress: trainer(GaussianTask([2.0] * 10, C), 11, compress=compress)
    times = medians({case: run(*case) for case in cases}, sizes.blocks, sizes.seconds)
    over = {C: times[C, True] / times[10, True] for C in contexts}
    ratios["a sampled step at the longest context over C = 10"] = over[contexts[-1]]
    ms = {case: f"{1e3 * each:.3f}" for case, each in times.items()}
    rows = [[str(C), ms[C, True], f"{over[C]:.2f}", ms.get((C, False), "–")] for C in contexts]
    short, full = (exponent(some, [times[C, c] for C in some]) for some, c in ((contexts, True), (direct, False)))
    return f"""## A sampled step against the context, H = 11

{table(["C", "ms a step", "over C = 10", "ms, every token drawn"], rows)}
Fitted exponents in C: {short:.2f}, and {full:.2f} with every token drawn.
"""


def against_dimension(sizes: Sizes, ratios: dict[str, float]) -> str:
    dims = [d for d in (5, 10, 20, 40, 80, 160, 320, 512) if d <= sizes.largest_dim]
    objectives = ("sampled", "population")
    run = lambda d, objective: trainer(GaussianTask([1.0] * d, d), 1, objective=objective, batch_size=64)
    times = medians({(d, o): run(d, o) for d in dims for o in objectives}, sizes.blocks, sizes.seconds)
    rows = [[str(d), *(f"{1e3 * times[d, o]:.3f}" for o in objectives)] for d in dims]
    large = [d for d in dims if d >= min(80, dims[-2])]
    sampled, exact = (exponent(large, [times[d, o] for d in large]) for o in objectives)
    return f"""## A step against the dimension, C = d, H = 1, batch 64

{table(["d", "sampled, ms", "exact, ms"], rows)}
Fitted exponents in d, from d = {large[0]}: {sampled:.2f} sampled, {exact:.2f} exact.
"""


def random_numbers(sizes: Sizes, ratios: dict[str, float]) -> str:
    """A lower bound for a sampled step: its standard normal numbers alone."""
    shape = (12 * 10, BATCH)
    rng, out = np.random.Generator(np.random.SFC64(0)), np.empty(shape, np.float32)

    def in_a_loop(normal, impl):
        @jax.jit
        def run(key, steps):
            return jax.lax.fori_loop(0, steps, lambda i, _: normal(jax.random.fold_in(key, i)), jnp.zeros(shape))

        return lambda steps: run(jax.random.key(0, impl=impl), steps).block_until_ready()

    jax_normal = lambda key: jax.random.normal(key, shape, jnp.float32)
    runs: dict[str, Callable[[int], object]] = {
        "jax.random.normal": in_a_loop(jax_normal, "threefry2x32"),
        "jax.random.normal, rbg": in_a_loop(jax_normal, "rbg"),
        "NumPy, SFC64, one thread": lambda steps: [
            rng.standard_normal(dtype=np.float32, out=out) for _ in range(steps)
        ],
        "the step": trainer(TASK, 11),
    }
    times = medians(runs, sizes.blocks, sizes.seconds)
    step = times.pop("the step")
    rows = [[name, f"{1e3 * each:.3f}", f"{step / each:.2f}"] for name, each in times.items()]
    return f"""## A sampled step against its random numbers, H = 11

{table(["generator", "ms", "step over it"], rows)}
The step takes {1e3 * step:.3f} ms, {step / min(times.values()):.2f} times the fastest generator here.
"""


def figures(sizes: Sizes, ratios: dict[str, float]) -> str:
    """Every point of the paper's Figs. 2-4 on the exact risk, including compilation."""
    still, levels = GaussianTask([0.0] * 10, 10), (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
    guesses = [Run(still, 11, guess=[guess] * 10) for guess in levels]
    runs = {
        "Fig. 2, 12 head counts": [Run(TASK, h) for h in range(1, 13)],
        "Fig. 3, 6 prior means": [Run(GaussianTask([mean] * 10, 10), 11) for mean in levels],
        "Fig. 4, 6 guesses and 6 biases": guesses + [Run(still, 11, bias=b) for b in (0.0, 2.0, 4.0, 6.0, 8.0, 10.0)],
    }
    rows, total = [], 0.0
    for name, points in runs.items():
        began = time.perf_counter()
        sweep(jax.random.key(0), points, seeds=sizes.seeds, steps=sizes.figure_steps, objective="population")
        total += (elapsed := time.perf_counter() - began)
        rows.append([name, str(len(points) * sizes.seeds), f"{elapsed:.1f}"])
    ratios["Figs. 2-4 on the exact risk, s"] = total
    rows.append(["all", str(sum(int(row[1]) for row in rows)), f"{total:.1f}"])
    header = [f"{sizes.figure_steps} steps, {sizes.seeds} seeds", "runs", "s"]
    return "## The whole of Figs. 2–4 on the exact risk\n\n" + table(header, rows)


def targets(sizes: Sizes, ratios: dict[str, float]) -> str:
    rows = []
    for name, bound, sense in TARGETS:
        met = ratios[name] >= bound if sense == "at least" else ratios[name] <= bound
        rows.append([name, f"{ratios[name]:.2f}", f"{sense} {bound:g}", "yes" if met else "**no**"])
    return "## Targets\n\n" + table(["", "measured", "target", "met"], rows)


def measured(name: str, quick: bool) -> str:
    """All tables; on one core only the first, which compares with the references."""
    one_core = name == "results-one-core"
    # The exact risk is too small a problem for threads, but the runs of a sweep spread over devices. A single run and
    # the references use the first device.
    jax.config.update("jax_num_cpu_devices", 1 if one_core else os.cpu_count())
    rest = (many_runs, against_context, against_dimension, random_numbers, figures, targets)
    ratios: dict[str, float] = {}
    head = f"""# Benchmarks

{sentence(origin(name, "jax", "jaxlib", "optax", "numpy", "torch"))} JAX runs on {jax.devices()[0].device_kind}.

Medians of blocks, after a warm-up that compiles; float32, batch {BATCH}, d = C = 10 unless a table says otherwise.
"""
    if one_core:
        head += """
With several cores the references run on all of them, and a single run on the exact risk, too small for threads, runs on
one. Here everything has one core.
"""
    sections = (against_references,) if one_core else (against_references, *rest)
    return "\n".join([head, *(section(QUICK if quick else FULL, ratios) for section in sections)])
