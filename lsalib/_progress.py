"""The progress of long computations: a bar on a terminal, elsewhere a log message every two minutes."""

import logging
import sys
import time

__all__ = ["Progress", "log"]

log = logging.getLogger("lsalib")

_WIDTH = 24
_SECONDS = 120  # between two messages


class Progress:
    """Shows finished steps on standard error if that is a terminal, else in messages of the logger ``lsalib``.

    A message comes every two minutes, at the level INFO: ``logging.basicConfig(level=logging.INFO)`` shows it.

    Args:
        total: how many steps there are.
        done: how many of them an earlier run has finished.

    Example:
        >>> progress = Progress(total=10)
        >>> progress.add(10)
        >>> progress.shown
        False
    """

    def __init__(self, total: int, done: int = 0):
        self.total, self.done, self.first = total, done, done
        self.began = self.said = time.perf_counter()
        self.shown = sys.stderr.isatty()
        self.open = False  # whether the cursor is at the end of a bar

    def add(self, steps: int) -> None:
        """Count finished steps, and show them."""
        self.done += steps
        now = time.perf_counter()
        elapsed = now - self.began
        # Steps of an earlier run, which a resumed sweep begins with, say nothing about the pace.
        left = elapsed / max(self.done - self.first, 1) * (self.total - self.done)
        if self.shown:
            self._draw(elapsed, left)
        elif now - self.said >= _SECONDS:
            self.said = now
            share = 100 * self.done / self.total
            log.info("%d of %d steps (%.0f %%), about %s left", self.done, self.total, share, _duration(left))

    def _draw(self, elapsed: float, left: float) -> None:
        bar = "#" * (_WIDTH * self.done // self.total)
        self.open = self.done < self.total
        end = "" if self.open else "\n"
        sys.stderr.write(
            f"\r[{bar:.<{_WIDTH}}] {self.done}/{self.total} steps, {elapsed:.0f} s, {left:.0f} s left \x1b[K{end}"
        )
        sys.stderr.flush()

    def close(self) -> None:
        """If the work ended early, end the bar's line, so that later output starts on a new one."""
        if self.open:
            self.open = False
            sys.stderr.write("\n")


def _duration(seconds: float) -> str:
    """A time in the unit that a reader would choose.

    Example:
        >>> _duration(45.0), _duration(600.0), _duration(9000.0)
        ('45 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
