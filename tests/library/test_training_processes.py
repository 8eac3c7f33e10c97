"""A sweep on two devices, in one process and in two, through the loss of a process."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]


def start(folder, processes, rank, last=-1, address=""):
    """One process; all but the first have an empty folder in place of the checkpoint."""
    devices = 2 // processes
    # Compiled quickly, not well: where a number is computed does not depend on it.
    flags = f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "XLA_FLAGS": flags}
    where = folder / f"{processes}-{rank}.npz", folder / f"state-{processes}-{rank}"
    command = [sys.executable, str(ROOT / "tests/sweep_worker.py"), *where, address, processes, rank, last]
    return subprocess.Popen([*map(str, command)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def pair(folder, last=-1):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    return [start(folder, 2, rank, last, address) for rank in range(2)]


def test_two_processes_lose_one_and_go_on(tmp_path):
    """The second one is killed at step 8 and has no checkpoint of its own; resumed, both have the numbers of one."""
    alone, killed = start(tmp_path, 1, 0), pair(tmp_path, last=8)
    others = []
    try:
        assert killed[1].wait(300) == -signal.SIGKILL, killed[1].stdout.read()
        killed[0].kill()  # it waits for the second one
        assert {int(path.name) for path in (tmp_path / "state-2-0" / "0").iterdir()} == {4, 8}
        others = pair(tmp_path)
        for process in [alone, *others]:
            assert process.wait(300) == 0, process.stdout.read()
    finally:
        for process in [alone, *killed, *others]:
            process.kill()
            process.communicate()
    expected, *found = (np.load(tmp_path / name) for name in ("1-0.npz", "2-0.npz", "2-1.npz"))
    for each in found:
        assert each["seen"].tolist() == [12] and each["devices"] == 2
        for name in set(expected.files) - {"seen"}:
            np.testing.assert_allclose(each[name], expected[name], rtol=1e-5, atol=1e-7, err_msg=name)
