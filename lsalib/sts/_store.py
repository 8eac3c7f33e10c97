"""A result on the disk: a line for what is asked, then one for each thing that came back; one process at a time."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
        raise ValueError(f"{path} must be a result that an experiment wrote, got a damaged or another file")
    return result


def merge(record: dict, kept: dict) -> None:
    """Add to a record what came back; single scores are collected, and make way for the whole row."""
    record |= {name: record.get(name, {}) | new if isinstance(new, dict) else new for name, new in kept.items()}
    if "logprobs" in record:
        record.pop("scores", None)


class Store:
    """A result and its file, opened where it is new or of the same experiment; what is another's is left as it is."""

    def __init__(self, folder: Path, new: dict):
        self.result, path = new, folder / NAME
        found = next((folder / name for name in (NAME, OLD) if (folder / name).exists()), None)
        if found is not None:
            self.result = read(found)
            _refuse_another(folder, self.result, new)
            found.replace(path)
        write(path, json.dumps(self.result, ensure_ascii=False).encode() + b"\n")
        self._file = open(path, "ab")

    def add(self, run: int, **kept) -> None:
        """Store what came back; it is on the disk when this returns."""
        merge(self.result["records"][run], kept)
        self._file.write(json.dumps([run, kept], ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()


@contextmanager
def opened(folder: Path, new: dict) -> Iterator[Store]:
    """The store in a folder, which until it is closed, or this process ends in any way, is this process's alone."""
    ours = (folder / NAME).exists() or (folder / OLD).exists()
    if not ours and any(folder.glob("[!.]*")):
        text = "out must be a new or empty folder, or one where this experiment began"
        raise ValueError(f"{text}, got {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "a+") as lock:
        _lock(lock, folder)
        store = Store(folder, new)
        try:
            yield store
        finally:
            store.close()


def _lock(file, folder: Path) -> None:
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
    parts = [({"prompts": found.get("prompts")}, {"prompts": new["prompts"]})]
    parts += [(found[part], new[part]) for part in ("experiment", "versions")]
    entries = [(name, a.get(name), b.get(name)) for a, b in parts for name in sorted(a | b)]
    if apart := "; ".join(f"{name}: {a!r:.60}, not {b!r:.60}" for name, a, b in entries if a != b):
        text = f"out must belong to this experiment, got {folder}, which has {apart}"
        raise ValueError(f"{text}; choose another folder")
