"""Where files of this user lie, and packages that not everybody has."""

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
def needed(what: str, install: str = "pip install '.[sts]' in the book's repository") -> Iterator[None]:
    """Where packages are imported that not everybody has: an error says what they are for, and how to get them."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{what} ({error}): {install}") from None
