"""What a large sweep costs on one machine: ``python -m studies.benchmarks.scale [--quick]``.

Each case is a process of its own, so that its peak of memory is its own. Every run has the paper's size (d = C = 10,
11 heads, batches of 2048 tasks) and is trained for some hundred steps; costs of 5,000 steps follow from two lengths.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from studies.benchmarks.text import installed, machine, table

OUT = Path(__file__).with_name("scale.md")
COUNTS, SHORT, LONG = (1, 10, 100, 500, 2000), 20, 60
PAPER_STEPS, TARGET, MACHINES = 5000, 100_000, 64


def measure(count: int) -> dict[str, float]:
    """One sweep of so many runs, at two lengths, and what is stored of it."""
    import jax
    import numpy as np

    from lsalib import _npz, tasks, training

    jax.config.update("jax_num_cpu_devices", os.cpu_count())
    means = np.linspace(0.0, 3.0, count)
    runs = [training.Run(tasks.GaussianTask([mean] * 10, 10), 11) for mean in means]
    key, began = jax.random.key(0), time.perf_counter()
    training.sweep(key, runs, steps=1)
    found = {"runs": count, "first": time.perf_counter() - began}
    for name, steps in (("short", SHORT), ("long", LONG)):
        began = time.perf_counter()
        fits = training.sweep(key, runs, steps=steps)
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
        training.save(Path(folder) / "fits.npz", fits)
        found["saved"] = (Path(folder) / "fits.npz").stat().st_size
    return found


def in_a_process(count: int) -> dict[str, float]:
    command = [sys.executable, "-m", "studies.benchmarks.scale", "--case", str(count)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def report(cases: list[dict[str, float]]) -> list[str]:
    """The table, and what the largest case comes to."""
    step = lambda case: (case["long"] - case["short"]) / (LONG - SHORT)
    fixed = lambda case: max(case["short"] - SHORT * step(case), 0)
    rows = [
        [
            f"{case['runs']:,}",
            f"{1e3 * step(case):,.1f}",
            f"{1e3 * step(case) / case['runs']:.2f}",
            f"{max(case['first'] - fixed(case) - step(case), 0):.1f}",
            f"{fixed(case):.1f}",
            f"{case['memory'] / 1e9:.2f}",
            f"{case['state'] / 1e6:,.1f}",
            f"{case['stored']:.2f}",
        ]
        for case in cases
    ]
    head = ["runs in one program", "ms a step", "ms a step and run", "s to compile", "s before and after", "GB at most"]
    head += ["MB of the state", "s to store it"]
    largest, first = cases[-1], cases[0]
    each = -(-TARGET // MACHINES)
    seconds = each * step(largest) / largest["runs"] * PAPER_STEPS
    memory = first["memory"] + each * (largest["memory"] - first["memory"]) / (largest["runs"] - first["runs"])
    state, losses = (each * largest[name] / largest["runs"] for name in ("state", "losses"))
    return [
        *table(head, rows),
        f"{TARGET:,} runs of {PAPER_STEPS:,} steps, each with its own prior mean, on {MACHINES} machines like this one "
        f"are {each:,} runs for a machine: {seconds / 3600:.1f} hours, {memory / 1e9:.1f} GB of memory, a state of "
        f"{state / 1e6:,.0f} MB that is replaced at every checkpoint, and {losses * PAPER_STEPS / 1e6:,.0f} MB of "
        "losses that are written once.",
        "",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.benchmarks.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two small cases: for development, not for numbers")
    parser.add_argument("--case", type=int, help="measure this many runs, here, and print what comes out")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(measure(options.case)))
        return
    cases = [in_a_process(count) for count in ((1, 3) if options.quick else COUNTS)]
    packages = ", ".join(installed(name) for name in ("jax", "numpy"))
    head = f"Measured on {machine()}, with Python {platform.python_version()}, {packages}, by"
    text = [f"{head} `python -m studies.benchmarks.scale`.", "", *report(cases)]
    options.out.write_text("\n".join(text))
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
