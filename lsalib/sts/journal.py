"""Where answers are kept: a line each while an experiment runs, one file once it is done."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from lsalib.sts import files

__all__ = ["Journal"]

_RUNNING, _DONE = "answers.jsonl", "result.json"


class Journal:
    """The answers of one experiment in a folder of its own; who comes back after a break finds them again.

    While it runs, ``answers.jsonl`` holds the identity and then a line an answer, each on the disk before
    the next question is asked; a line that broke off is dropped. ``result.json`` takes its place at the end.
    One process at a time writes to a folder.

    Args:
        folder: made if missing.
        identity: what makes this experiment this one, as JSON data.
        facts: what is known of each run beforehand, one record a run.

    Raises:
        ValueError: if the folder belongs to another experiment or to something else, or a line is damaged;
            it is left as it is.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     journal = Journal(folder, {"name": "first"}, [{"run": 0}, {"run": 1}])
        ...     journal.add(1, "answer", "3.5")
        ...     Journal(folder, {"name": "first"}, [{"run": 0}, {"run": 1}]).missing("answer")
        [0]
    """

    def __init__(self, folder: str | os.PathLike, identity: dict, facts: Sequence[dict]):
        self.folder, self.identity = Path(folder), json.loads(json.dumps(identity))
        self.records = [dict(record) for record in facts]
        running, done = self.folder / _RUNNING, self.folder / _DONE
        if done.exists():
            result = _read(done)
            self._check_owner({name: value for name, value in result.items() if name != "records"})
            self.records = result["records"]
        elif running.exists():
            self._go_on(running)
        elif self.folder.is_dir() and any(self.folder.iterdir()):
            raise ValueError(
                f"out must be a new or empty folder, or one where this experiment began, got {self.folder}"
            )
        else:
            files.write(running, _line(self.identity))

    def missing(self, name: str) -> list[int]:
        """The runs that have no such entry yet, in order."""
        return [n for n, record in enumerate(self.records) if name not in record]

    def add(self, run: int, name: str, value) -> None:
        """Keep an entry of a run, on the disk when this returns.

        Raises:
            TypeError: if it is not JSON data.
        """
        line = _line({"run": run, name: value})
        with open(self.folder / _RUNNING, "ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        self.records[run][name] = value

    def finish(self) -> dict:
        """Put everything into ``result.json``, and return it."""
        result = self.identity | {"records": self.records}
        if not (self.folder / _DONE).exists():
            files.write(self.folder / _DONE, json.dumps(result, indent=1, ensure_ascii=False).encode())
        (self.folder / _RUNNING).unlink(missing_ok=True)
        return result

    def _go_on(self, path: Path) -> None:
        """Read the lines of an earlier sitting, and cut off one that it could not finish."""
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        header, *lines = [_decode(line, path, number) for number, line in enumerate(whole.splitlines(), 1)] or [None]
        self._check_owner(header)
        for number, entry in enumerate(lines, 2):
            run = entry.pop("run", None) if isinstance(entry, dict) else None
            if run is None or run not in range(len(self.records)):
                raise ValueError(
                    f"{path}, line {number}: an answer must name one of {len(self.records)} runs, got {run!r}; "
                    "remove the line"
                )
            self.records[run] |= entry
        if len(whole) < len(content):
            os.truncate(path, len(whole))

    def _check_owner(self, found) -> None:
        if found == self.identity:
            return
        if not isinstance(found, dict) or found.keys() != self.identity.keys():
            raise ValueError(
                f"out must be a folder where this experiment began, got {self.folder}, which no experiment wrote; "
                "choose another folder"
            )
        other = [
            f"{name}: {theirs!r:.60}, not {mine!r:.60}" for name, theirs, mine in _differences(found, self.identity)
        ]
        raise ValueError(
            f"out must belong to this experiment, got {self.folder}, which has {'; '.join(other)}; "
            "choose another folder"
        )


def _differences(found: dict, mine: dict):
    """(name, theirs, mine) of each entry that differs, looking into entries that are dicts."""
    for name in sorted(found.keys() | mine.keys()):
        theirs, own = found.get(name), mine.get(name)
        if isinstance(theirs, dict) and isinstance(own, dict):
            yield from _differences(theirs, own)
        elif theirs != own:
            yield name, theirs, own


def _line(data: dict) -> bytes:
    return json.dumps(data, ensure_ascii=True).encode() + b"\n"


def _decode(line: bytes, path: Path, number: int):
    try:
        return json.loads(line)
    except ValueError as error:
        raise ValueError(
            f"{path}, line {number}: {error}; the file is damaged: remove that line, or choose another folder"
        ) from None


def _read(path: Path) -> dict:
    try:
        result = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(
            f"{path} must be a result that an experiment wrote, got a damaged file ({error}); choose another folder"
        ) from None
    if not isinstance(result, dict) or "records" not in result:
        raise ValueError(f"{path} must be a result that an experiment wrote; choose another folder")
    return result
