"""What a large sweep costs on one machine.

Each case is a process of its own, so that its peak of memory is its own. Every run has the paper's size (d = C = 10,
11 heads, batches of 2048 tasks) and trains for some tens of steps; costs of 5,000 steps follow from two lengths.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from lsalib import _npz, tasks, training
from studies.benchmarks.measuring import origin, sentence, table

COUNTS, SHORT, LONG = (1, 10, 100, 500, 2000), 20, 60
PAPER_STEPS, TARGET, MACHINES = 5000, 100_000, 64


def case(count: int) -> dict[str, float]:
    """One sweep of so many runs: seconds for one step and for two lengths, and bytes of memory and of files."""
    jax.config.update("jax_num_cpu_devices", os.cpu_count())
    runs = [training.Run(tasks.GaussianTask([mean] * 10, 10), 11) for mean in np.linspace(0.0, 3.0, count)]
    key, found = jax.random.key(0), {"runs": float(count)}
    for name, steps in (("first", 1), ("short", SHORT), ("long", LONG)):
        began = time.perf_counter()
        training.sweep(key, runs, steps=steps)
        found[name] = time.perf_counter() - began
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "state"
        training.sweep(key, runs, steps=LONG, checkpoint=checkpoint)
        arrays, _ = _npz.read(checkpoint / "0-state.npz")
        began = time.perf_counter()
        found["state"] = _npz.write(Path(folder) / "again.npz", arrays)
        found["stored"] = time.perf_counter() - began
        found["losses"] = sum(path.stat().st_size for path in checkpoint.glob("0-losses-*")) / LONG
    return found


def in_a_process(count: int) -> dict[str, float]:
    code = f"import json; from studies.benchmarks import scale; print(json.dumps(scale.case({count})))"
    return json.loads(subprocess.check_output([sys.executable, "-c", code], text=True))


def measured(name: str, quick: bool) -> str:
    """The table, and what the largest case implies."""
    cases = [in_a_process(count) for count in ((1, 3) if quick else COUNTS)]
    step = lambda case: (case["long"] - case["short"]) / (LONG - SHORT)
    fixed = lambda case: max(case["short"] - SHORT * step(case), 0)
    columns = {
        "runs in one program": lambda case: f"{case['runs']:,.0f}",
        "ms a step": lambda case: f"{1e3 * step(case):,.1f}",
        "ms a step and run": lambda case: f"{1e3 * step(case) / case['runs']:.2f}",
        "s to compile": lambda case: f"{max(case['first'] - fixed(case) - step(case), 0):.1f}",
        "s before and after": lambda case: f"{fixed(case):.1f}",
        "GB at most": lambda case: f"{case['memory'] / 1e9:.2f}",
        "MB of the state": lambda case: f"{case['state'] / 1e6:,.1f}",
        "s to store it": lambda case: f"{case['stored']:.2f}",
    }
    first, largest, each = cases[0], cases[-1], -(-TARGET // MACHINES)
    seconds = each * step(largest) / largest["runs"] * PAPER_STEPS
    memory = first["memory"] + each * (largest["memory"] - first["memory"]) / (largest["runs"] - first["runs"])
    state, losses = (each * largest[name] / largest["runs"] for name in ("state", "losses"))
    return f"""{sentence(origin(name, "jax", "numpy"))}

{table(list(columns), [[column(case) for column in columns.values()] for case in cases])}
{TARGET:,} runs of {PAPER_STEPS:,} steps, each with its own prior mean, on {MACHINES} machines like this one are \
{each:,} runs for a machine: {seconds / 3600:.1f} hours, {memory / 1e9:.1f} GB of memory, a state of \
{state / 1e6:,.0f} MB that is replaced at every checkpoint, and {losses * PAPER_STEPS / 1e6:,.0f} MB of losses that \
are written once.
"""
