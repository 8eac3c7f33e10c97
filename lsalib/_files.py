"""A file is written whole, or not at all."""

import os
import threading
from pathlib import Path

__all__ = ["write"]


def write(path: str | os.PathLike, content: bytes) -> None:
    """Write a whole file at once: who is interrupted here keeps the file from before.

    Args:
        path: the file; its folder is made if it is missing.
        content: all of it.

    Raises:
        OSError: if the disk or the folder refuses; nothing half-written stays.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write(Path(folder) / "a", b"whole")
        ...     os.listdir(folder)
        ['a']
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, and nobody else's: two that write at once do not mix.
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
