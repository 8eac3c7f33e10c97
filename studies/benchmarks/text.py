"""What the tables are made of."""

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["installed", "machine", "table"]


def machine() -> str:
    """The processor and how much of it there is; no name of a host."""
    cpuinfo = Path("/proc/cpuinfo")
    names = (
        [line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        if cpuinfo.exists()
        else []
    )
    return f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} cores, {names[0] if names else platform.processor()}"


def installed(name: str) -> str:
    """A library and its version."""
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"no {name}"


def table(header: list[str], rows: list[list[str]]) -> Iterator[str]:
    """A table in Markdown, line by line: the first column is text."""
    yield "| " + " | ".join(header) + " |"
    yield "|" + "|".join(["---"] + ["---:"] * (len(header) - 1)) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"
    yield ""
