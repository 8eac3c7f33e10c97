"""What a page or a test file costs, cell by cell or test by test: python -m tools.notebooks.profile NAME… [--keep]"""

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import pytest

from tools.notebooks import execute as notebooks
from tools.notebooks import meter, pages, programs
from tools.notebooks.meter import read, watched

STAGES = ("tracing", "lowering", "compiling")


class Profile(NamedTuple):
    """A name, the wall time with what starts and stops the process, and the meter's record of each part."""

    name: str
    wall: float
    parts: list[dict]

    def total(self, field: str) -> float:
        return sum(part[field] for part in self.parts)

    @property
    def programs(self) -> int:
        """Programs asked for, whether compiled or taken from the cache."""
        return self.total("programs") + self.total("cached")

    @property
    def running(self) -> float:
        """What is left of the wall time."""
        return self.wall - sum(map(self.total, STAGES))

    @property
    def memory(self) -> float:
        return max((part["memory"] for part in self.parts), default=0.0)


def of_page(page: pages.Page, *, keep: bool = False) -> Profile:
    """Execute the page in a new kernel; with ``keep``, take and leave compiled programs."""
    start = time.perf_counter()
    with watched() as (env, records), programs.borrowed() if keep else nullcontext({}) as kept:
        notebooks.execute(page, env | programs.environment(kept))
        return Profile(page.stem, time.perf_counter() - start, read(records))


def of_tests(path: Path) -> Profile:
    """Run a test file in a process of its own, with nothing kept."""
    start = time.perf_counter()
    with watched() as (env, records):
        command = [sys.executable, "-m", "tools.notebooks.profile", "--inside", str(path)]
        subprocess.run(command, cwd=pages.ROOT, env=os.environ | env | {programs.VARIABLE: ""}, check=True)
        return Profile(path.stem, time.perf_counter() - start, read(records))


class Watch:
    """A pytest plugin that writes what each test cost."""

    def __init__(self):
        self.meter = meter.Meter()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item):
        self.meter.read()
        yield
        self.meter.write(item.nodeid.partition("::")[2])


def report(profile: Profile, most: int = 12) -> str:
    """The totals, the parts that cost most, and the programs that took longest to compile."""
    stages = ", ".join(f"{stage} {profile.total(stage):.1f} s" for stage in STAGES)
    lines = [
        f"{profile.name}: {profile.wall:.1f} s, {profile.total('programs')} programs compiled, "
        f"{profile.total('cached')} kept ones, at most {profile.memory:.2f} GB",
        f"  {stages}, the rest {profile.running:.1f} s",
        "    wall s  programs  tracing  lowering  compiling",
    ]
    for part in sorted(profile.parts, key=lambda part: -part["wall"])[:most]:
        head = next((line for line in part["source"].splitlines() if line.strip()), "")
        seconds = f"{part['tracing']:7.1f}  {part['lowering']:8.1f}  {part['compiling']:9.1f}"
        lines.append(f"  {part['wall']:8.1f}  {part['programs'] + part['cached']:8d}  {seconds}  {head[:70]}")
    names: Counter[str] = Counter()
    for part in profile.parts:
        names.update(part["names"])
    lines += [f"  {seconds:8.1f} s in the compiler: {name}" for name, seconds in names.most_common(most)]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks.profile", description="What pages and tests cost.")
    parser.add_argument("names", nargs="+", metavar="NAME", help="a page, or a test file")
    parser.add_argument("--keep", action="store_true", help="take kept programs, and keep new ones")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.inside:
        raise SystemExit(pytest.main([*args.names, "-q", "-p", "no:xdist"], plugins=[Watch()]))
    for name in args.names:
        if name.endswith(".py"):
            print(report(of_tests(Path(name))), flush=True)
        else:
            (page,) = notebooks.named(pages.ROOT, [name])
            print(report(of_page(page, keep=args.keep)), flush=True)


if __name__ == "__main__":
    main()
