"""Strict mode: a silent broadcast or a silent change of type fails a test."""

import ctypes
import gc
import os
from pathlib import Path

import jax
import jaxtyping
import matplotlib
import pytest

matplotlib.use("Agg")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")


@pytest.fixture(autouse=True, scope="module")
def bounded_memory():
    """Forget the compiled programs after a module that leaves more than 2 GB; until
    then modules share them.
    """
    yield
    # on Linux: sizes in pages, the resident one second
    statm = Path("/proc/self/statm")
    if (
        statm.is_file()
        and int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") > 2e9
    ):
        jax.clear_caches()
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)  # gives freed memory back to the system


@pytest.fixture
def x64():
    """Run a test in float64."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def unchecked():
    """Switch the shape annotations off, so that a bad argument reaches the library's
    own check.
    """
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
