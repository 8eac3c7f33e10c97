"""Where files of this user lie, and whether they are the published ones."""

import hashlib
import os
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
    try:
        import platformdirs
    except ImportError:
        raise ImportError(f"the folder for {kind} is found by platformdirs: pip install 'lsalib[sts]'") from None
    path = platformdirs.user_cache_path if kind == "cache" else platformdirs.user_data_path
    return path("lsalib", appauthor=False) / ("" if kind == "cache" else "sts-results")


def check_sha256(path: str | os.PathLike, expected: str, hint: str = "get the file again") -> None:
    """Refuse a file of another SHA-256; the error names both digests and ends in the hint."""
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != expected:
        raise ValueError(f"{path} must have the SHA-256 {expected}, got {digest}; {hint}")
