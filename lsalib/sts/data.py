"""The sentence pairs: the English part of the STS Benchmark, as stsb_multi_mt publishes it.

The sentences come from news, captions and forums, each with terms of its own; the scores are under
CC BY-SA 4.0. The files are therefore fetched from their publisher at a fixed commit, never kept here.
"""

import csv
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lsalib import _files
from lsalib.sts import files

__all__ = ["Pairs", "load"]

_URL = "https://raw.githubusercontent.com/PhilipMay/stsb-multi-mt/99a65f1b68667f69a57bea13f602c7c9c27a9fcd/data/"
_SHA256 = {
    "train": "e1e84fec60bbb598735552f54a35f4949904a484750fd2cb11e2720e49f63da6",
    "dev": "d29586e96558c4eb52cf5ea5d14e9c24d3bf0e44f111b017caba43a5adc33226",
    "test": "11523b625219e94e9ca05d2816b5f02cac1614c5894fe657376fa0806378d053",
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
        folder: where stsb-en-train.csv, -dev.csv and -test.csv lie; what is not the published file is refused.

    Example:
        >>> load("validation")
        Traceback (most recent call last):
        ValueError: split must be one of train, dev, test, got 'validation'

    Source: https://github.com/PhilipMay/stsb-multi-mt, after Cer et al. (2017), SemEval-2017 Task 1.
    """
    if split not in _SHA256:
        raise ValueError(f"split must be one of {', '.join(_SHA256)}, got {split!r}")
    name, folder = f"stsb-en-{split}.csv", folder or os.environ.get("LSALIB_STS_DATA")
    path = Path(folder) / name if folder else _downloaded(name, _SHA256[split])
    if not path.is_file():
        hint = "put it there, or name no folder, also not in LSALIB_STS_DATA, to have it downloaded"
        raise FileNotFoundError(f"{path} does not exist; {hint}")
    _files.check_sha256(path, _SHA256[split], "remove it, and get it again")
    with open(path, newline="", encoding="utf-8") as file:
        first, second, score = zip(*csv.reader(file), strict=True)
    return Pairs(list(first), list(second), np.array(score, np.float64))


def _downloaded(name: str, sha256: str) -> Path:
    """The file in the cache; fetched where it is not there, or not whole and right."""
    with files.needed("the sentence pairs are downloaded by pooch"):
        import pooch
    url, folder, get = _URL + name, files.folder("cache") / "stsb", pooch.HTTPDownloader(timeout=30)
    pooch.get_logger().setLevel("WARNING")
    try:
        return Path(pooch.retrieve(url, f"sha256:{sha256}", name, folder, downloader=get))
    except OSError as error:
        hint = f"try again, or put the file at {folder / name}"
        raise OSError(f"{name} cannot be downloaded from {url} ({error}); {hint}") from error
