"""A sweep that one process begins and two processes end."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
from sweep_worker import HOW, RUNS

from lsalib.training import sweep

ROOT = Path(__file__).parents[2]


def start(folder, rank, address):
    """One process; the second one has an empty folder in place of the checkpoint."""
    flags = "--xla_backend_optimization_level=0"  # compiled quickly, not well
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "XLA_FLAGS": flags}
    where = folder / f"{rank}.npz", folder / f"state-{rank}"
    command = [sys.executable, str(ROOT / "tests/sweep_worker.py"), *where, address, rank]
    return subprocess.Popen([*map(str, command)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_two_processes_go_on_where_one_stopped(tmp_path):
    """Only the first one has the checkpoint of step 4, and writes others; both have the numbers of one process."""
    sweep(jax.random.key(0), RUNS, **HOW | {"steps": 4}, checkpoint=tmp_path / "state-0")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    processes = [start(tmp_path, rank, address) for rank in range(2)]
    try:
        for process in processes:
            assert process.wait(300) == 0, process.stdout.read()
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert (tmp_path / "state-0" / "0" / "12").is_dir() and not (tmp_path / "state-1" / "0").exists()
    expected = jax.tree.leaves(sweep(jax.random.key(0), RUNS, **HOW))
    for found in (np.load(tmp_path / f"{rank}.npz") for rank in range(2)):
        assert found["seen"].tolist() == [8, 12] and found["devices"] == 2
        for i, leaf in enumerate(expected):
            np.testing.assert_allclose(found[str(i)], leaf, rtol=1e-4, atol=1e-6)
