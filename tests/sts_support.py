"""What the tests of lsalib.sts share: the data and the weights, where they are to be
had.
"""

import os
from functools import cache

import pytest

from lsalib.sts import data, design, models


@cache
def data_folder() -> str | None:
    """The folder of the three files; None where they are in the cache."""
    _needed(lambda: [data.load(split) for split in ("train", "dev", "test")])
    return os.environ.get("LSALIB_STS_DATA")


def small_model() -> models.SmolLM2:
    """The model with its weights."""
    return _needed(models.open_model)


def asked(result, **changes):
    """The items of a stored result, made again, and their prompts."""
    one = design.Experiment(**result["experiment"] | changes)
    items = design.items(one, design.prepare(one, data_folder()))
    return items, [design.prompt(one, item) for item in items]


def _needed(load):
    """What is loaded.

    Where it is not to be had, the test is skipped, but not in CI, which has everything.
    """
    try:
        return load()
    except (ImportError, OSError) as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
