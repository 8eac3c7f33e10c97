"""Named arrays and a JSON text in one file of NumPy's npz format, written and read without pickle."""

import io
import json
import os
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np

from lsalib import _files

__all__ = ["Damaged", "pack", "read", "unpack", "write"]

# The name of the JSON text in an archive; no array has it.
_ABOUT = "about"


class Damaged(ValueError):
    """Bytes that are not a complete archive of this module."""


def pack(arrays: dict[str, np.ndarray], about: object = None, *, compress: bool = False) -> bytes:
    """The bytes of an archive.

    Args:
        arrays: by name; bfloat16 and other types of ``ml_dtypes`` are stored by their bits.
        about: JSON data.
        compress: smaller, but slow for large arrays.

    Returns:
        What ``unpack`` takes apart, bit for bit.

    Raises:
        ValueError: if an array holds objects or records, which would need pickle.

    Example:
        >>> arrays, about = unpack(pack({"a": np.arange(3)}, {"steps": 7}))
        >>> arrays["a"].tolist(), about
        ([0, 1, 2], {'steps': 7})
    """
    kept = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in kept.items():
        if array.dtype.kind == "O" or (array.dtype.kind == "V" and not hasattr(ml_dtypes, array.dtype.name)):
            raise ValueError(f"arrays[{name!r}] must be of a type that a .npz file keeps, got {array.dtype}")
    # NumPy's format knows only its own types.
    foreign = {name: array.dtype.name for name, array in kept.items() if array.dtype.kind == "V"}
    kept |= {name: kept[name].view(f"u{kept[name].dtype.itemsize}") for name in foreign}
    buffer = io.BytesIO()
    text = json.dumps({"about": about, "types": foreign})
    savez = np.savez_compressed if compress else np.savez
    savez(buffer, **{_ABOUT: np.array(text)}, **kept)  # type: ignore[arg-type]  # no array is called allow_pickle
    return buffer.getvalue()


def unpack(content: bytes) -> tuple[dict[str, np.ndarray], object]:
    """The arrays and the JSON data of an archive.

    Raises:
        Damaged: if these bytes are not a complete archive.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        text = json.loads(str(arrays.pop(_ABOUT)))
        for name, kind in text["types"].items():
            arrays[name] = arrays[name].view(getattr(ml_dtypes, kind))
        return arrays, text["about"]
    except (ValueError, KeyError, TypeError, OSError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise Damaged(str(error) or type(error).__name__) from None


def write(
    path: str | os.PathLike, arrays: dict[str, np.ndarray], about: object = None, *, compress: bool = False
) -> int:
    """Write an archive in one step, and return its size in bytes."""
    content = pack(arrays, about, compress=compress)
    _files.write(path, content)
    return len(content)


def read(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], object]:
    """Read an archive.

    Raises:
        Damaged: if the file is not a complete archive; the message names its path.
        FileNotFoundError: if it does not exist.
    """
    try:
        return unpack(Path(path).read_bytes())
    except Damaged as error:
        raise Damaged(f"{path} cannot be read: {error}") from None
