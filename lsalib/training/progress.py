"""A line on the terminal while a long sweep runs; silent everywhere else."""

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

    def __init__(self, total: int):
        self.total, self.done, self.began = total, 0, time.perf_counter()
        self.shown = sys.stderr.isatty()

    def add(self, steps: int) -> None:
        """Count finished steps, and draw the line again."""
        self.done += steps
        if not self.shown:
            return
        share, elapsed = self.done / self.total, time.perf_counter() - self.began
        bar = "#" * int(_WIDTH * share)
        left = elapsed / share - elapsed
        end = "\n" if self.done >= self.total else ""
        sys.stderr.write(f"\r[{bar:.<{_WIDTH}}] {self.done}/{self.total} steps, {elapsed:.0f} s, {left:.0f} s left \x1b[K{end}")
        sys.stderr.flush()
