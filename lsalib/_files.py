"""Files are written completely or not at all, and published ones are checked."""

import hashlib
import importlib.util
import os
import threading
from pathlib import Path

__all__ = ["check_sha256", "packaged", "write"]


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


def check_sha256(path: str | os.PathLike, expected: str, hint: str = "get the file again") -> None:
    """Refuse a file of another SHA-256; the error names both digests and ends in the hint."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != expected:
        raise ValueError(f"{path} must have the SHA-256 {expected}, got {digest}; {hint}")


def packaged(package: str, name: str, sha256: str, install: str) -> Path:
    """A published file in a package that carries weights, which is not imported; errors end in how it is installed."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ImportError(f"the weights come in a package of their own, {package}: {install}")
    path = Path(spec.origin).parent / name
    check_sha256(path, sha256, f"install the package again: {install}")
    return path
