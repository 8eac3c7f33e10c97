"""One sweep on one device, on eight, and in two processes: the same numbers."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sweep_worker

ROOT = Path(__file__).parents[1]


def start(*arguments, devices=1):
    # Compiled quickly, not well: where a number is computed does not depend on it.
    flags = f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "XLA_FLAGS": flags}
    command = [sys.executable, str(ROOT / "tests" / "sweep_worker.py"), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(*processes):
    outputs = [process.communicate(timeout=900)[0] for process in processes]
    # Only now, that a failure leaves no process running.
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The sweep in this very process, which has one device."""
    out = tmp_path_factory.mktemp("alone") / "out.npz"
    sweep_worker.main(out)
    return np.load(out)


def assert_same(found, expected):
    assert set(found.files) == set(expected.files)
    for name in set(expected.files) - {"devices", "processes"}:
        # Sums in another order; Adam's first steps have the size of the learning rate whatever the gradient's.
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-4, atol=2e-6, err_msg=name)
    changed = {name: found[name] for name in found.files} | {"0": found["0"] * 1.001}
    assert not np.allclose(changed["0"], expected["0"], rtol=2e-4, atol=2e-6)


def test_eight_devices(alone, tmp_path):
    finish(start(tmp_path / "out.npz", devices=8))
    found = np.load(tmp_path / "out.npz")
    assert found["devices"] == 8 and alone["devices"] == 1
    assert_same(found, alone)


def test_two_processes(alone, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    finish(*(start(tmp_path / f"{rank}.npz", address, 2, rank) for rank in range(2)))
    for rank in range(2):
        found = np.load(tmp_path / f"{rank}.npz")
        assert found["processes"] == 2 and found["devices"] == 2
        assert_same(found, alone)
