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
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Any, float]:
    """The median time of one step of each run, over five blocks.

    A run is a function that takes a number of steps. Every block lasts about
    ``seconds``. The runs' blocks take turns, so that a slow moment of the machine
    affects all of them.
    """

    def spent(run: Callable[[int], object], steps: int) -> float:
        began = clock()
        run(steps)
        return clock() - began

    counts = dict.fromkeys(runs, 2)
    for name, run in runs.items():
        run(2)  # compiles
        while spent(run, counts[name]) < seconds / 2:
            counts[name] *= 2
            run(counts[name])
    turns = [
        {name: spent(run, counts[name]) / counts[name] for name, run in runs.items()}
        for _ in range(5)
    ]
    return {name: statistics.median(turn[name] for turn in turns) for name in runs}


def origin(name: str, *packages: str) -> dict[str, str]:
    """Where the numbers of a benchmark come from."""
    used = {"Python": platform.python_version()} | versions(*packages)
    listed = ", ".join(f"{package} {version}" for package, version in used.items())
    return provenance(f"python -m studies.benchmarks {name}") | {
        "machine": machine(),
        "versions": listed,
    }


def sentence(origin: dict[str, str]) -> str:
    """The same as a line of text."""
    return (
        "Measured on {date} by `{command}` at commit `{commit}`, on {machine}, "
        "with {versions}."
    ).format_map(origin)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown. The first column is text, the others are numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (header, rule, *rows))
