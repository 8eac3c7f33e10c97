"""How benchmarks measure: one way to time, to say where a number comes from, and to
write a table.
"""

import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from studies.provenance import machine, provenance, versions


def medians(
    runs: Mapping[Any, Callable[[int], object]],
    blocks: int,
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Any, float]:
    """The median time of one step of each run.

    A run is a function that takes a number of steps. Every block lasts about
    ``seconds``. The runs' blocks take turns, so that a slow moment of the machine
    affects all of them.
    """

    def spent(run: Callable[[int], object], steps: int) -> float:
        began = clock()
        run(steps)
        return clock() - began

    def block_length(run: Callable[[int], object]) -> int:
        steps = 2
        while True:
            run(steps)  # compiles
            if (elapsed := spent(run, steps)) > seconds / 4:
                return max(2, round(steps * seconds / elapsed))
            steps *= 4

    counts = {name: block_length(run) for name, run in runs.items()}
    turns = [
        {name: spent(run, counts[name]) / counts[name] for name, run in runs.items()}
        for _ in range(blocks)
    ]
    return {name: statistics.median(turn[name] for turn in turns) for name in runs}


def origin(name: str, *packages: str) -> dict[str, str]:
    """Where the numbers of a benchmark come from."""
    found = {"Python": platform.python_version()} | versions(*packages)
    listed = ", ".join(f"{package} {version}" for package, version in found.items())
    return provenance(f"python -m studies.benchmarks {name}") | {
        "machine": machine(),
        "versions": listed,
    }


def sentence(origin: dict[str, str]) -> str:
    """The same as a line of text."""
    made = (
        f"Measured on {origin['date']} by `{origin['command']}` "
        f"at commit `{origin['commit']}`"
    )
    return f"{made}, on {origin['machine']}, with {origin['versions']}."


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown. The first column is text, the others are numbers."""
    line = lambda cells: "| " + " | ".join(cells) + " |"
    rule = "|---|" + "---:|" * (len(header) - 1)
    return "\n".join([line(header), rule, *map(line, rows)]) + "\n"
