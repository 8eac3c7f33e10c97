"""Files that are either whole or not there: downloads held against their checksum, and what is computed once."""

import hashlib
import http.client
import os
import urllib.request
from pathlib import Path

from lsalib._files import write

__all__ = ["cache_folder", "write"]

_CHUNK = 1 << 20


def cache_folder() -> Path:
    """The folder where this user's system keeps what can be fetched or computed again; it need not exist yet.

    ``$XDG_CACHE_HOME/lsalib`` or ``~/.cache/lsalib`` on Linux, ``~/Library/Caches/lsalib`` on macOS,
    ``%LOCALAPPDATA%\\lsalib\\Cache`` on Windows.

    Returns:
        The folder.

    Raises:
        ImportError: if platformdirs, which knows the rule of each system, is not installed.

    Example:
        >>> "lsalib" in cache_folder().parts
        True
    """
    try:
        import platformdirs
    except ImportError:
        raise ImportError("the cache's place is found by platformdirs: pip install 'lsalib[sts]'") from None
    return platformdirs.user_cache_path("lsalib", appauthor=False)


def check_sha256(path: str | os.PathLike, expected: str, hint: str = "get the file again") -> None:
    """Hold a file against its SHA-256.

    Args:
        path: the file.
        expected: 64 hexadecimal digits.
        hint: what to do about another file.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the digests differ; both are named.

    Example:
        >>> check_sha256(__file__, 64 * "0")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: ...files.py must have the SHA-256 0000..., got ...; get the file again
    """
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != expected:
        raise ValueError(f"{path} must have the SHA-256 {expected}, got {digest}; {hint}")


def fetch(url: str, sha256: str, name: str, *, folder: str | os.PathLike | None = None, timeout: float = 30.0) -> Path:
    """A file from the web, downloaded once.

    Args:
        url: where it is.
        sha256: its digest; nothing else is kept.
        name: its name in the folder.
        folder: None means the cache folder.
        timeout: seconds without a byte before the download is given up.

    Returns:
        The path of the whole and right file.

    Raises:
        OSError: if it cannot be downloaded; nothing half-written stays.
        ValueError: if what came, or what lies there already, has another digest.

    Example:
        >>> fetch("http://127.0.0.1:9/a", 64 * "0", "a", folder="no-such-folder", timeout=1.0)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        OSError: a cannot be downloaded from http://127.0.0.1:9/a ...
    """
    path = (cache_folder() if folder is None else Path(folder)) / name
    if path.exists():
        check_sha256(path, sha256, "remove it, and it is downloaded again")
        return path
    try:
        content = _download(url, timeout)
    except (OSError, http.client.HTTPException) as error:
        raise OSError(
            f"{name} cannot be downloaded from {url} ({error}); try again, or put the file at {path}"
        ) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        raise ValueError(
            f"{name} from {url} must have the SHA-256 {sha256}, got {digest} ({len(content)} bytes); nothing was kept"
        )
    write(path, content)
    return path


def _download(url: str, timeout: float) -> bytes:
    """All bytes of an address; a connection that ends early is an error."""
    with urllib.request.urlopen(url, timeout=timeout) as response:
        announced = response.headers.get("Content-Length")
        content = b"".join(iter(lambda: response.read(_CHUNK), b""))
    if announced is not None and len(content) != int(announced):
        raise ConnectionError(f"the connection ended after {len(content)} of {announced} bytes")
    return content
