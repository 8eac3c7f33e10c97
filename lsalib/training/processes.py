"""Communication between the processes of one training, and the notice to end. A single process sends nothing."""

import signal
import threading
from collections.abc import Callable
from itertools import count

import jax
import numpy as np
from jax.experimental import multihost_utils

__all__ = ["Notice", "Preempted", "from_first", "gathered", "number_of_first"]

# JAX asks for a number that grows with every call, over all trainings of a process.
_polls = count()


def gathered(text: str) -> list[str]:
    """The texts of all processes, in the order of their ranks.

    Example:
        >>> gathered("alone")
        ['alone']
    """
    if jax.process_count() == 1:
        return [text]
    own = np.frombuffer(text.encode(), np.uint8)
    lengths = multihost_utils.process_allgather(_size(own)).view(np.int64).ravel()
    padded = np.zeros(int(lengths.max()), np.uint8)
    padded[: len(own)] = own
    rows = multihost_utils.process_allgather(padded)
    return [row[:length].tobytes().decode() for row, length in zip(rows, lengths, strict=True)]


def from_first(make: Callable[[], bytes]) -> bytes:
    """The result of ``make`` on rank 0, sent to every process. If it raises a ValueError, all processes do.

    Example:
        >>> from_first(lambda: b"read once")
        b'read once'
    """
    if jax.process_count() == 1:
        return make()
    first, content, error = jax.process_index() == 0, b"", None
    if first:
        try:
            content = b"+" + make()
        except ValueError as caught:
            error, content = caught, b"-" + str(caught).encode()
    # Bytes, since JAX sends no 64-bit numbers and a sum over processes forgets the sign of zero.
    mine = np.frombuffer(content, np.uint8)
    length = int(multihost_utils.broadcast_one_to_all(_size(mine)).view(np.int64)[0])
    whole = multihost_utils.broadcast_one_to_all(mine if first else np.zeros(length, np.uint8))
    content = np.asarray(whole, np.uint8).tobytes()
    if content[:1] == b"-":
        raise error or ValueError(content[1:].decode())
    return content[1:]


def number_of_first(number: int) -> int:
    """The number of rank 0, sent to every process."""
    if jax.process_count() == 1:
        return int(number)
    return int(multihost_utils.broadcast_one_to_all(np.int32(number)))


class Preempted(SystemExit):
    """The process was told to end (SIGTERM) and has stored its state; its exit status is 143."""

    def __init__(self):
        super().__init__(128 + signal.SIGTERM)


class Notice:
    """Whether the process was told to end, by SIGTERM or by JAX, which passes it on to all processes.

    With one process and a checkpoint, SIGTERM takes effect at the end of a piece; a second SIGTERM at once.
    """

    def __init__(self, listen: bool):
        self.listen = listen and jax.process_count() == 1 and threading.current_thread() is threading.main_thread()
        self.came = False

    def __enter__(self) -> "Notice":
        if self.listen:
            self.before = signal.signal(signal.SIGTERM, self._hear)
        return self

    def __exit__(self, *error) -> None:
        if self.listen:
            signal.signal(signal.SIGTERM, self.before or signal.SIG_DFL)

    def _hear(self, number, frame) -> None:
        self.came = True
        signal.signal(signal.SIGTERM, self.before or signal.SIG_DFL)

    def heard(self) -> bool:
        return self.came or _preempted()


def _preempted() -> bool:
    """Whether a process was told to end, as all of them learn at the same call; every process has to ask equally often.

    ``jax.distributed.initialize`` takes SIGTERM for such a notice and lets the process go on.
    """
    if jax.process_count() == 1:
        return False
    try:
        return multihost_utils.reached_preemption_sync_point(next(_polls))
    except RuntimeError:  # the service is switched off, and SIGTERM ends a process at once
        return False


def _size(content: np.ndarray) -> np.ndarray:
    return np.array([len(content)], np.int64).view(np.uint8)
