"""Strict mode: a silent broadcast or a silent change of type is a failure."""

import ctypes
import gc
import sys
from contextlib import ExitStack

import jax
import jax.experimental
import jaxtyping
import matplotlib
import pytest
from hypothesis import HealthCheck, settings

from tools.notebooks import meter, programs

matplotlib.use("Agg")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
# A busy machine fails nothing.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
if not hasattr(jax, "enable_x64"):  # before JAX 0.8
    jax.enable_x64 = jax.experimental.enable_x64

_session = ExitStack()


def pytest_sessionstart(session):
    """Take kept programs, and keep what is compiled here; not by the environment, since tests start processes, too."""
    for name, value in _session.enter_context(programs.borrowed()).items():
        jax.config.update(name, value)


def pytest_sessionfinish(session):
    _session.close()
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["memory"] = meter.peak_memory()


_memory = []


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """A process that is done says how much memory it held."""
    _memory.append(node.workeroutput["memory"])


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"memory: at most {max([meter.peak_memory(), *_memory]):.2f} GB a process")


@pytest.fixture(autouse=True, scope="module")
def nothing_left():
    """What a module has compiled or opened is dropped after it: the next needs little of it, and memory is finite."""
    yield
    jax.clear_caches()
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "lsalib":
            for opened in vars(module).values():
                getattr(opened, "cache_clear", lambda: None)()
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)  # what is freed goes back to the system


@pytest.fixture
def x64():
    """Run a test in float64."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def unchecked():
    """Let a bad argument past the annotations, to the library's own check."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
