"""Where files of this user lie, and whether they are the published ones."""

import hashlib
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["folder"]


def folder(kind: str) -> Path:
    """The folder where this user's system keeps such files; it need not exist yet.

    Args:
        kind: "cache", for what can be fetched again, as in ~/.cache/lsalib; or "results", for the user's own: the
            folder that LSALIB_STS_RESULTS names, else one as in ~/.local/share/lsalib/sts-results.

    Example:
        >>> "lsalib" in folder("cache").parts
        True
    """
    if kind == "results" and (named := os.environ.get("LSALIB_STS_RESULTS")):
        return Path(named)
    with needed(f"the folder for {kind} is found by platformdirs"):
        import platformdirs
    path = platformdirs.user_cache_path if kind == "cache" else platformdirs.user_data_path
    return path("lsalib", appauthor=False) / ("" if kind == "cache" else "sts-results")


@contextmanager
def needed(what: str, install: str = "pip install 'lsalib[sts]'") -> Iterator[None]:
    """Where packages are imported that not everybody has: an error says what they are for, and how to get them."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{what} ({error}): {install}") from None


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
