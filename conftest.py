"""Strict mode: a silent broadcast or a silent change of type fails a test."""

import ctypes
import gc
import sys

import jax
import jax.experimental
import jaxtyping
import matplotlib
import pytest
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
# No test fails because the machine is busy.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
if not hasattr(jax, "enable_x64"):  # before JAX 0.8
    jax.enable_x64 = jax.experimental.enable_x64


@pytest.fixture(autouse=True, scope="module")
def nothing_left():
    """Free what a test module has compiled or opened: the next module needs little of it, and memory is limited."""
    yield
    jax.clear_caches()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "lsalib":
            for opened in vars(module).values():
                getattr(opened, "cache_clear", lambda: None)()
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)  # give freed memory back to the system


@pytest.fixture
def x64():
    """Run a test in float64."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def unchecked():
    """Switch the shape annotations off, so that a bad argument reaches the library's own check."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
