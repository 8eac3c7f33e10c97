"""A line on the terminal while something long runs; silent everywhere else."""

import sys
import time

__all__ = ["Progress"]

_WIDTH = 24


class Progress:
    """Counts steps on standard error, where that is a terminal.

    Example:
        >>> progress = Progress(total=10)
        >>> progress.add(10)
        >>> progress.shown
        False
    """

    def __init__(self, total: int, done: int = 0):
        self.total, self.done, self.first, self.began = total, done, done, time.perf_counter()
        self.shown = sys.stderr.isatty()

    def add(self, steps: int) -> None:
        """Count finished steps, and draw the line again."""
        self.done += steps
        if not self.shown:
            return
        elapsed = time.perf_counter() - self.began
        # Steps of an earlier sitting, which a resumed sweep begins with, say nothing about the pace.
        left = elapsed / max(self.done - self.first, 1) * (self.total - self.done)
        bar = "#" * (_WIDTH * self.done // self.total)
        end = "\n" if self.done >= self.total else ""
        sys.stderr.write(
            f"\r[{bar:.<{_WIDTH}}] {self.done}/{self.total} steps, {elapsed:.0f} s, {left:.0f} s left \x1b[K{end}"
        )
        sys.stderr.flush()
