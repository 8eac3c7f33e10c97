"""What the tests of lsalib.sts share: the data and the weights, where they are to be had, and a model that is none."""

import os
import re
from functools import cache
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from lsalib.sts import data, models
from lsalib.sts.design import Sources

ROOT = Path(__file__).parents[1]


@cache
def data_folder() -> str | None:
    """The folder of the three files; None where they are in the cache. Where nothing has them, the test is skipped."""
    try:
        for split in ("train", "dev", "test"):
            data.load(split)
    except OSError as error:
        _go_without(f"no sentence pairs: {error}")
    return os.environ.get("LSALIB_STS_DATA") or None


def small_model() -> models.SmolLM2:
    """The model with its weights; where they are not installed, the test is skipped."""
    try:
        return models.open_model()
    except ImportError as error:
        _go_without(f"SmolLM2 is not installed: {error}")


def _go_without(reason: str) -> NoReturn:
    """Skip, but not where everything has to be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI needs it: {reason}")
    pytest.skip(reason)


def made_up(context: int = 40, queries: int = 30) -> Sources:
    """Sentence pairs whose guesses are right up to noise of variance 0.25, before they are limited to 0 ... 5."""
    rng = np.random.default_rng(7)

    def pairs(name, n):
        first, second = ([f"{name} {k} {which}" for k in range(n)] for which in "ab")
        return data.Pairs(first, second, np.round(rng.uniform(0, 5, n), 2))

    c, q = pairs("context", context), pairs("query", queries)
    return Sources(c, q, c.score + 0.5 * rng.standard_normal(context), q.score + 0.5 * rng.standard_normal(queries))


def last_guess(prompt: str) -> str:
    """The guess of the query; 2.5 where there is none."""
    return " " + re.findall(r"Initial guess: (\S+)", f"Initial guess: 2.5\n{prompt}")[-1]
