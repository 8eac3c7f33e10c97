"""A result on the disk: a line for what is asked, then one for each thing that came back; one process at a time."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from lsalib._files import write

NAME, OLD = "result.jsonl", "result.json"  # the older file is the first line alone, with all that came back


def read(path: Path) -> dict:
    """One stored result, finished or not; a ValueError if the file is damaged, or another."""
    # After the last line's end stands nothing, or what was cut off while it was written.
    first, *lines = path.read_bytes().split(b"\n")
    try:
        result = json.loads(first)
        for run, kept in map(json.loads, lines[:-1]):
            merge(result["records"][run], kept)
    except (ValueError, LookupError, TypeError, AttributeError):
        result = None
    if not isinstance(result, dict) or not {"experiment", "versions", "records"} <= result.keys():
        raise ValueError(f"{path} must be an experiment's result, got a damaged or another file; move it elsewhere")
    return result


def merge(record: dict, kept: dict) -> None:
    """Add to a record what came back; single scores are collected, and make way for the whole row."""
    record |= {name: record.get(name, {}) | new if isinstance(new, dict) else new for name, new in kept.items()}
    if record.get("logprobs"):
        record.pop("scores", None)


class Store:
    """A result, and the open file to which whatever comes back is added."""

    def __init__(self, result: dict, file: IO[bytes]):
        self.result, self._file = result, file

    def add(self, run: int, **kept) -> None:
        """Store what came back, if it is new; it is on the disk when this returns."""
        if not kept.items() <= self.result["records"][run].items():
            merge(self.result["records"][run], kept)
            self._file.write(json.dumps([run, kept], ensure_ascii=False).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())


@contextmanager
def opened(folder: Path, new: dict) -> Iterator[Store]:
    """The store in a folder, this process's alone until it is closed or the process ends; what is another's is left."""
    if not present(folder) and (folder.is_file() or any(folder.glob("[!.]*"))):
        text = "out must be a new or empty folder, or one where this experiment began"
        raise ValueError(f"{text}, got {folder}; choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / ".lock", "a+")
    except OSError as error:
        text = f"out must be a folder where files can be written, got {folder} ({error.strerror})"
        raise OSError(f"{text}; choose another folder") from None
    with lock:
        _lock(lock, folder)
        found = present(folder)
        result = read(found) if found else new
        _refuse_another(folder, result, new)
        write(folder / NAME, json.dumps(result, ensure_ascii=False).encode() + b"\n")
        (folder / OLD).unlink(missing_ok=True)
        with open(folder / NAME, "ab") as file:
            yield Store(result, file)


def present(folder: Path) -> Path | None:
    """The file of a folder's result, if it has one."""
    return next((folder / name for name in (NAME, OLD) if (folder / name).exists()), None)


def _lock(file: IO[str], folder: Path) -> None:
    """The system frees the lock with its process; a crash leaves the file, which then locks nothing."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        text = f"out must belong to one process at a time, got {folder}, where process {file.read()} is asking"
        raise OSError(f"{text}; wait for it, or choose another folder") from None
    except (ImportError, OSError):  # Windows, and disks that know no locks
        pass
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()


def _refuse_another(folder: Path, found: dict, new: dict) -> None:
    ours, theirs = (one["versions"] | one["experiment"] | {"prompts": one.get("prompts")} for one in (new, found))
    names = [name for name in theirs | ours if theirs.get(name) != ours.get(name)]
    if apart := "; ".join(f"{name}: {theirs.get(name)!r:.60}, not {ours.get(name)!r:.60}" for name in names):
        text = f"out must belong to this experiment, got {folder}, which has {apart}"
        raise ValueError(f"{text}; choose another folder")
