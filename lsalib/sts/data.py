"""The sentence pairs: the English part of the STS Benchmark, as stsb_multi_mt publishes
it.

The sentences come from news, captions and forums, each with terms of its own; the
scores are under CC BY-SA 4.0. So we do not keep the files here, but fetch them from
their publisher at a fixed commit.
"""

import csv
import os
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lsalib import _check
from lsalib.sts import needed

__all__ = ["Pairs", "load"]

_URL = "https://raw.githubusercontent.com/PhilipMay/stsb-multi-mt/99a65f1b68667f69a57bea13f602c7c9c27a9fcd/data/"
_SHA256 = {
    "train": "e1e84fec60bbb598735552f54a35f4949904a484750fd2cb11e2720e49f63da6",
    "dev": "d29586e96558c4eb52cf5ea5d14e9c24d3bf0e44f111b017caba43a5adc33226",
    "test": "11523b625219e94e9ca05d2816b5f02cac1614c5894fe657376fa0806378d053",
}

_LINES = {"train": 5749, "dev": 1500, "test": 1379}


class Pairs(NamedTuple):
    """n sentence pairs and how similar people found them, from 0 (nothing in common) to
    5 (the same meaning).
    """

    first: list[str]
    second: list[str]
    score: Float[np.ndarray, " n"]


def load(split: str, folder: str | os.PathLike | None = None) -> Pairs:
    """Read a split: "train" (5749 pairs), "dev" (1500) or "test" (1379).

    The files stsb-en-train.csv, -dev.csv and -test.csv are in ``folder``, in the folder
    that LSALIB_STS_DATA names, or in the user's cache. A file that is missing there, or
    is not the published one, is downloaded.

    Example:
        >>> load("validation")
        Traceback (most recent call last):
        ValueError: split must be one of train, dev, test, got 'validation'

    Source: https://github.com/PhilipMay/stsb-multi-mt, after Cer et al. (2017),
    SemEval-2017 Task 1.
    """
    _check.choice("split", split, _SHA256)
    with (
        needed("the sentence pairs are downloaded by pooch"),
        warnings.catch_warnings(),
    ):
        # pooch imports tqdm, which warns in notebooks without widgets
        warnings.simplefilter("ignore")
        import pooch
    name = f"stsb-en-{split}.csv"
    cache = pooch.os_cache("lsalib") / "stsb"
    place = Path(folder or os.environ.get("LSALIB_STS_DATA") or cache)
    pooch.get_logger().setLevel("WARNING")
    loader = pooch.HTTPDownloader(timeout=30)
    try:
        path = pooch.retrieve(
            _URL + name, _SHA256[split], name, place, downloader=loader
        )
    except OSError as error:
        hint = f"try again, or put it into the folder {place}"
        if (own := place / name).exists():
            seen = _difference(own.read_bytes(), _LINES[split])
            hint = f"{own} is not the published file: it {seen}"
        elif isinstance(error, NotADirectoryError):
            hint = f"{place} is a file, or lies in one"
        raise OSError(f"{name} cannot be downloaded ({error}); {hint}") from error
    with open(path, newline="", encoding="utf-8") as file:
        first, second, score = zip(*csv.reader(file), strict=True)
    return Pairs(list(first), list(second), np.array(score, np.float64))


def _difference(content: bytes, lines: int) -> str:
    """What is seen of a file that is not the published one."""
    count = len(content.splitlines())
    signs = {
        "begins with a byte order mark": content.startswith(b"\xef\xbb\xbf"),
        "is a web page": b"<html" in content[:999].lower(),
        "has other line ends": b"\r\n" not in content,
        f"has {count} lines in place of {lines}": count != lines,
    }
    return ", ".join(sign for sign, seen in signs.items() if seen) or "has other words"
