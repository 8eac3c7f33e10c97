"""What ends a training before its last step: losses that are not finite, and the callback."""

import warnings
from collections.abc import Callable

from lsalib import _arrays

__all__ = ["DivergedError", "diverged", "report_stopped", "watcher"]


class DivergedError(ArithmeticError):
    """The loss is no longer finite: ``step`` is the first such step, ``last`` holds the last good state.

    ``last`` is what the function would have returned: a ``Trained``, a ``Fit``, or from ``sweep`` a list of them.
    """

    def __init__(self, message: str, step: int, last):
        super().__init__(message, step, last)  # all of them, so that it can be pickled
        self.step, self.last = step, last

    def __str__(self):
        return self.args[0]


def diverged(where: str, step: int, last) -> DivergedError:
    return DivergedError(f"the loss is not finite {where}; ``last`` holds the last good state", step, last)


def report_stopped(steps: dict[str, int], last) -> None:
    """Raise an error if all have stopped, warn if some have; a step of -1 means not stopped."""
    stopped = {name: int(step) for name, step in steps.items() if step >= 0}
    if not stopped:
        return
    named = ", ".join(f"of {name} at step {step}" if name else f"at step {step}" for name, step in stopped.items())
    if len(stopped) == len(steps):
        raise diverged(named, min(stopped.values()), last)
    warnings.warn(
        f"the loss is not finite {named}: these stopped at their last good weights, and the others went on",
        RuntimeWarning,
        stacklevel=3,
    )


def watcher(callback: Callable | None, metrics: Callable) -> Callable | None:
    """The callback as the loop calls it, with the metrics of (group, record, losses)."""
    if callback is None:
        return None
    if not callable(callback):
        raise ValueError(f"callback must be a function of (step, metrics), got {callback!r}")

    def watch(group, record, losses):
        answer = callback(record.steps, metrics(group, record, losses))
        try:
            return bool(answer)
        except ValueError:
            raise ValueError(f"callback must return one truth value, got {_arrays.describe(answer)}") from None

    return watch
