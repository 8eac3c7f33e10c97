"""The sentence pairs: the English part of the STS Benchmark, as stsb_multi_mt publishes it.

The sentences come from news, captions and forums, each with terms of its own; the scores are under
CC BY-SA 4.0. The files are therefore fetched from their publisher at a fixed commit, never kept here.
"""

import csv
import hashlib
import math
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lsalib.sts import files

__all__ = ["SPLITS", "Pairs", "load"]

COMMIT = "99a65f1b68667f69a57bea13f602c7c9c27a9fcd"
FOLDER_VARIABLE = "LSALIB_STS_DATA"
_AGAIN = "remove it, and get it again"


class Split(NamedTuple):
    """What is known of a split's file before it is read."""

    pairs: int
    sha256: str


SPLITS = {
    "train": Split(5749, "e1e84fec60bbb598735552f54a35f4949904a484750fd2cb11e2720e49f63da6"),
    "dev": Split(1500, "d29586e96558c4eb52cf5ea5d14e9c24d3bf0e44f111b017caba43a5adc33226"),
    "test": Split(1379, "11523b625219e94e9ca05d2816b5f02cac1614c5894fe657376fa0806378d053"),
}


class Pairs(NamedTuple):
    """n sentence pairs and how similar people found them, from 0 (nothing in common) to 5 (the same meaning)."""

    first: list[str]
    second: list[str]
    score: Float[np.ndarray, " n"]


def load(split: str, folder: str | os.PathLike | None = None) -> Pairs:
    """Read a split: from ``folder``, else from the folder that LSALIB_STS_DATA names, else from the web, once.

    Args:
        split: "train" (5749 pairs), "dev" (1500) or "test" (1379).
        folder: where stsb-en-train.csv, stsb-en-dev.csv and stsb-en-test.csv lie.

    Returns:
        The ``Pairs``, in the file's order.

    Raises:
        FileNotFoundError: if the folder lacks the file.
        OSError: if it has to be downloaded and cannot be.
        ValueError: if the split is unknown, or the file is not the published one: the first bad line is
            named if there is one, and both digests if not.

    Example:
        >>> load("validation")
        Traceback (most recent call last):
        ValueError: split must be one of train, dev, test, got 'validation'

    Source: https://github.com/PhilipMay/stsb-multi-mt, after Cer et al. (2017), SemEval-2017 Task 1.
    """
    if split not in SPLITS:
        raise ValueError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")
    name, expected = f"stsb-en-{split}.csv", SPLITS[split]
    folder = folder or os.environ.get(FOLDER_VARIABLE)
    if folder:
        path = Path(folder) / name
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} does not exist; put the file there, or unset {FOLDER_VARIABLE} to have it downloaded"
            )
    elif not (path := files.cache_folder() / "stsb" / name).is_file():
        url = f"https://raw.githubusercontent.com/PhilipMay/stsb-multi-mt/{COMMIT}/data/{name}"
        files.fetch(url, expected.sha256, name, folder=path.parent)
    content = path.read_bytes()
    pairs = parse(content, str(path))
    if len(pairs.score) != expected.pairs:
        raise ValueError(f"{path} must have {expected.pairs} lines, got {len(pairs.score)}; {_AGAIN}")
    digest = hashlib.sha256(content).hexdigest()
    if digest != expected.sha256:
        raise ValueError(f"{path} must have the SHA-256 {expected.sha256}, got {digest}; {_AGAIN}")
    return pairs


def parse(content: bytes, name: str) -> Pairs:
    """Read lines of «sentence,sentence,score», UTF-8, quoted as in CSV, one pair a line.

    Args:
        content: the file's bytes.
        name: what to call it in an error.

    Returns:
        The ``Pairs``.

    Raises:
        ValueError: with the number of the first line that is not such a row.

    Example:
        >>> parse(b'A plane takes off.,"Well, a plane is taking off.",4.8\\r\\n', "a.csv").second
        ['Well, a plane is taking off.']
        >>> parse(b"a,b,4.8\\r\\na,b,5.5\\r\\n", "a.csv")
        Traceback (most recent call last):
        ValueError: a.csv, line 2: the score must be a number from 0 to 5, got '5.5'
    """
    rows = [_row(line, f"{name}, line {number}") for number, line in enumerate(content.splitlines(), 1)]
    first, second, score = zip(*rows, strict=True) if rows else ((), (), ())
    return Pairs(list(first), list(second), np.array(score, np.float64))


def _row(line: bytes, place: str) -> tuple[str, str, float]:
    try:
        (fields,) = csv.reader([line.decode()], strict=True)
        first, second, written = fields
    except (ValueError, csv.Error) as error:
        raise ValueError(
            f"{place}: a row must be «sentence,sentence,score» in UTF-8, got {line[:80]!r} ({error})"
        ) from None
    if not (first.strip() and second.strip()):
        raise ValueError(f"{place}: both sentences must have a word, got {first!r} and {second!r}")
    try:
        score = float(written)
    except ValueError:
        score = math.nan
    if not 0 <= score <= 5:
        raise ValueError(f"{place}: the score must be a number from 0 to 5, got {written!r}")
    return first, second, score
