"""Compiled programs that outlive a process: JAX's persistent cache, in the folder that the environment names.

JAX writes an entry in place, and a process beside it could read half of one. So every process gets a folder of its
own, in which the shared entries are links, and what it compiled is shared when it is done, each entry in one step.
"""

import hashlib
import os
import platform
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

__all__ = ["VARIABLE", "borrowed", "environment"]

# The Makefile sets it; empty or not there at all, nothing is kept.
VARIABLE = "LSALIB_PROGRAMS"
LIMIT = 10**9  # bytes that are kept
STALE = 24 * 3600  # seconds after which a process's own folder must have been left behind
PRIVATE = ".process-"


def shared() -> Path | None:
    """Where the programs of this JAX and this kind of processor are kept; another one's are of no use."""
    root = os.environ.get(VARIABLE)
    if not root:
        return None
    kind = hashlib.sha256(_processor().encode()).hexdigest()[:12]
    return Path(root).expanduser() / f"jaxlib-{version('jaxlib')}-{kind}"


@contextmanager
def borrowed() -> Iterator[dict[str, object]]:
    """JAX's settings for a process that takes kept programs and adds to them; {} where nothing is kept."""
    home = shared()
    if home is None:
        yield {}
        return
    home.mkdir(parents=True, exist_ok=True)
    _sweep(home.parent)
    with TemporaryDirectory(prefix=PRIVATE, dir=home.parent) as folder:
        for entry in home.iterdir():
            _link(entry, Path(folder, entry.name))
        yield {
            "jax_compilation_cache_dir": folder,
            "jax_persistent_cache_min_compile_time_secs": 0.0,
            "jax_persistent_cache_min_entry_size_bytes": -1,
            # The caches of XLA itself lie at a path, and the path would be part of what a program is known by.
            "jax_persistent_cache_enable_xla_caches": "none",
        }
        # Not after an error: the process may have been stopped in the middle of an entry.
        for entry in Path(folder).iterdir():
            os.replace(entry, home / entry.name)
        _limit(home)


def environment(settings: Mapping[str, object]) -> dict[str, str]:
    """The same settings for a process that is yet to start."""
    return {name.upper(): str(value) for name, value in settings.items()}


def _processor() -> str:
    """What compiled code may rely on: the processor's instruction sets, where they can be read."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.lower().startswith(("flags", "features")):
                return line
    return f"{platform.machine()} {platform.processor()}"


def _link(entry: Path, place: Path) -> None:
    # Another process may have removed the entry meanwhile; then it is compiled again.
    with suppress(FileNotFoundError):
        try:
            os.link(entry, place)
        except FileNotFoundError:
            raise
        except OSError:  # a file system without links
            shutil.copyfile(entry, place)


def _limit(home: Path) -> None:
    """Remove the oldest entries where there is too much."""
    with suppress(FileNotFoundError):
        entries = sorted((stat.st_mtime, stat.st_size, path) for path in home.iterdir() for stat in [path.stat()])
        excess = sum(size for _, size, _ in entries) - LIMIT
        for _, size, path in entries:
            if excess <= 0:
                break
            path.unlink(missing_ok=True)
            excess -= size


def _sweep(root: Path) -> None:
    """Remove what processes left behind that were killed."""
    for folder in root.glob(f"{PRIVATE}*"):
        with suppress(FileNotFoundError):
            if time.time() - folder.stat().st_mtime > STALE:
                shutil.rmtree(folder, ignore_errors=True)
