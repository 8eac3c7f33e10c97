"""What JAX spends on programs, from its own events: how many, and the seconds of tracing, lowering and compiling."""

import json
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

__all__ = ["Cost", "Meter", "peak_memory", "read", "watch_cells", "watched"]

# The environment names the file into which a watched process writes what its parts cost; see tools.notebooks.profile.
CELLS = "LSALIB_METER"

STAGES = {
    "/jax/core/compile/jaxpr_trace_duration": "tracing",
    "/jax/core/compile/jaxpr_to_mlir_module_duration": "lowering",
    "/jax/core/compile/backend_compile_duration": "compiling",
}
HIT = "/jax/compilation_cache/cache_hits"

Span = tuple[float, float]


class Cost(NamedTuple):
    """Wall time, programs compiled and taken from a cache, seconds in each stage, seconds of compiling by name."""

    wall: float
    programs: int
    cached: int
    tracing: float
    lowering: float
    compiling: float
    names: dict[str, float]


class Meter:
    """Listens to JAX from now on; ``read`` says what has been spent since the last reading."""

    def __init__(self):
        from jax import monitoring

        monitoring.register_event_time_span_listener(self._span)
        monitoring.register_event_listener(self._event)
        self._clear()

    def _clear(self) -> None:
        self._spans: dict[str, list[Span]] = {stage: [] for stage in STAGES.values()}
        self._names: Counter[str] = Counter()
        self._hits, self._start = 0, time.perf_counter()

    def _span(self, event: str, start: float, end: float, fun_name: str = "?", **_) -> None:
        stage = STAGES.get(event)
        if stage:
            self._spans[stage].append((start, end))
        if stage == "compiling":
            self._names[fun_name] += end - start

    def _event(self, event: str, **_) -> None:
        self._hits += event == HIT

    def read(self) -> Cost:
        """The cost since the last reading; a stage inside another counts as the later one of the two."""
        wall = time.perf_counter() - self._start
        spans, hits, names = self._spans, self._hits, dict(self._names)
        self._clear()
        compiling = covered(spans["compiling"])
        lowered = covered(spans["compiling"] + spans["lowering"])
        traced = covered(spans["compiling"] + spans["lowering"] + spans["tracing"])
        return Cost(wall, len(spans["compiling"]) - hits, hits, traced - lowered, lowered - compiling, compiling, names)

    def write(self, source: str) -> None:
        """Add a reading, as a line of JSON, to the file that the environment names."""
        record = {"source": source, **self.read()._asdict(), "memory": peak_memory()}
        with open(os.environ[CELLS], "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def covered(spans: Iterable[Span]) -> float:
    """The length of the union of intervals: a function that is traced inside another must not count twice."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def peak_memory() -> float:
    """The most memory that this process has held, in GB."""
    status = Path("/proc/self/status")
    if status.is_file():
        # Not what getrusage says: on Linux a new process begins with its parent's figure.
        (most,) = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(most) * 1024 / 1e9
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def watch_cells(shell) -> None:
    """Write what every cell of this kernel cost."""
    meter = Meter()
    shell.events.register("pre_run_cell", lambda _: meter.read())
    shell.events.register("post_run_cell", lambda result: meter.write(result.info.raw_cell))


@contextmanager
def watched() -> Iterator[tuple[dict[str, str], Path]]:
    """The environment in which kernels write what each of their cells cost, and the file into which they do."""
    with TemporaryDirectory() as folder:
        startup = Path(folder, "profile_default", "startup")
        startup.mkdir(parents=True)
        # By its path, whatever checkout the kernel works in; and no name is left behind for the page to find.
        (startup / "meter.py").write_text(
            f"__import__('runpy').run_path({__file__!r})['watch_cells'](get_ipython())\n", encoding="utf-8"
        )
        path = Path(folder, "cells.jsonl")
        path.touch()
        yield {"IPYTHONDIR": folder, CELLS: str(path)}, path


def read(path: Path) -> list[dict]:
    """What was written, one record a cell or test."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
