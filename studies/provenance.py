"""Where a result comes from: its command, commit and date, the machine, and the
versions of packages.
"""

import os
import platform
import re
import subprocess
from datetime import date
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@cache
def commit() -> str:
    """The checkout's commit, with "-dirty" after it if tracked files have changed.

    It is read once for each process, so that a result that is written does not make the
    next one dirty.
    """
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    return (
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
        or "unknown"
    )


def provenance(command: str) -> dict[str, str]:
    """What every result says about itself: the command that makes it, the commit and
    the date.
    """
    return {"command": command, "commit": commit(), "date": date.today().isoformat()}


def machine() -> str:
    """The processor, and how much of it this process may use; no host name."""
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.exists() else ""
    model = re.search("model name.*: (.*)", text)
    name = model[1] if model else platform.processor()
    return f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} cores, {name}"


def versions(*packages: str) -> dict[str, str]:
    """The installed versions of packages; "none" for a missing one."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found
