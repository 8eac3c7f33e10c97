"""A sweep in two processes, which end before it does and are started again."""

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


def start(folder, rank, last, address):
    """One process; the second one has an empty folder in place of the checkpoint."""
    environment = {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    # compiled quickly, not well
    environment |= {"XLA_FLAGS": "--xla_backend_optimization_level=0"}
    where = folder / f"{rank}.npz", folder / f"state-{rank}"
    command = [sys.executable, ROOT / "tests/sweep_worker.py", *where]
    return subprocess.Popen(
        [*map(str, command), address, str(rank), str(last)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def run_pair(folder, last):
    """Both to their end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    processes = [start(folder, rank, last, address) for rank in range(2)]
    try:
        for process in processes:
            assert process.wait(300) == 0, process.stdout.read()
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def test_two_processes_end_early_and_go_on(tmp_path):
    """At step 8; the second one has no checkpoint of its own. Resumed, both have the
    numbers of one.
    """
    run_pair(tmp_path, last=8)
    assert (tmp_path / "state-0" / "0" / "state.npz").is_file()
    assert not [*tmp_path.glob("*.npz")]
    run_pair(tmp_path, last=-1)
    expected = jax.tree.leaves(sweep(jax.random.key(0), RUNS, **HOW))
    for found in (np.load(tmp_path / f"{rank}.npz") for rank in range(2)):
        assert found["seen"].tolist() in ([12], [8, 12]) and found["devices"] == 2
        for i, leaf in enumerate(expected):
            np.testing.assert_allclose(found[str(i)], leaf, rtol=1e-4, atol=1e-6)
