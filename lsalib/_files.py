"""Write a file completely, or leave the old one."""

import os
import threading
from pathlib import Path

__all__ = ["write"]


def write(path: str | os.PathLike, content: bytes) -> None:
    """Write a whole file in one step: an interruption leaves the previous file.

    Args:
        path: the file; a missing folder is made.
        content: all bytes of the file.

    Raises:
        OSError: if the disk or the folder refuses; no partial file remains.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write(Path(folder) / "a", b"whole")
        ...     os.listdir(folder)
        ['a']
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, and with a name of its own, so that two writers do not mix.
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.part")
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
