"""Commands side by side, as many as there are cores, each with its output kept together."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from threading import Lock
from typing import NamedTuple

__all__ = ["Done", "cores", "side_by_side"]

# What a command is stopped by, and how many seconds it then has: an interrupt while Python starts may be lost.
STOPS = ((signal.SIGINT, 5), (signal.SIGINT, 15), (signal.SIGTERM, 5), (signal.SIGKILL, None))


class Done(NamedTuple):
    """A finished command: its name, exit status, output and seconds."""

    name: str
    status: int
    output: str
    seconds: float


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(commands: Mapping[str, Sequence[str]], jobs: int | None = None) -> Iterator[Done]:
    """Run the commands, in their order, so many at a time; each is yielded as soon as it is done.

    Who stops listening, by an error or Ctrl-C, stops those that run, and those that wait never start.
    """
    running: set[subprocess.Popen] = set()
    lock, stopped = Lock(), False

    def run(name: str) -> Done:
        start = time.perf_counter()
        with lock:
            if stopped:
                return Done(name, -signal.SIGINT, "", 0.0)
            process = subprocess.Popen(commands[name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            running.add(process)
        output = process.communicate()[0]
        running.discard(process)
        return Done(name, process.returncode, output, time.perf_counter() - start)

    with ThreadPoolExecutor(jobs or cores()) as pool:
        waiting = [pool.submit(run, name) for name in commands]
        try:
            for future in as_completed(waiting):
                yield future.result()
        finally:
            with lock:
                stopped = True
            for stop, seconds in STOPS:
                for process in list(running):
                    process.send_signal(stop)
                if not wait(waiting, seconds).not_done:
                    break
