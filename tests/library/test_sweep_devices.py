"""Sweeps on one device, on several, and in two and three processes: the same numbers, through stops and resumptions."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import sweep_worker

from lsalib.training.devices import grid

ROOT = Path(__file__).parents[2]


def start(task, *arguments, devices=1):
    # Compiled quickly, not well: where a number is computed does not depend on it.
    flags = f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "XLA_FLAGS": flags}
    command = [sys.executable, str(ROOT / "tests" / "sweep_worker.py"), task, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(*processes, expected=0):
    try:
        outputs = [process.communicate(timeout=900)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    # Only now, that a failure leaves no process running.
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == expected, output


def cluster(task, folder, processes):
    """So many processes at the same task, and where they write their results."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    outs = [folder / f"{task}-{rank}.npz" for rank in range(processes)]
    return [start(task, out, folder, address, processes, rank) for rank, out in enumerate(outs)], outs


def one_process(task, folder, devices):
    out = folder / f"{task}.npz"
    finish(start(task, out, folder, devices=devices))
    return np.load(out)


def names(found):
    return sorted(set(found.files) - {"devices", "processes"})


def assert_equal(found, expected):
    assert names(found) == names(expected)
    for name in names(expected):
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def assert_close(found, expected):
    assert names(found) == names(expected)
    for name in names(expected):
        # Sums in another order; Adam's first steps have the size of the learning rate whatever the gradient's.
        np.testing.assert_allclose(found[name], expected[name], rtol=2e-4, atol=2e-6, err_msg=name)
    assert not np.allclose(found["0"] * 1.001, expected["0"], rtol=2e-4, atol=2e-6)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The sweeps in this very process, which has one device."""
    folder = tmp_path_factory.mktemp("alone")
    sweep_worker.main("results", folder / "out.npz", folder)
    return np.load(folder / "out.npz")


@pytest.fixture(scope="module")
def on_two(tmp_path_factory):
    """The stored sweep in one process with two devices, from its beginning to its end."""
    return one_process("went_on", tmp_path_factory.mktemp("two"), devices=2)


def test_eight_devices(alone, tmp_path):
    found = one_process("results", tmp_path, devices=8)
    assert found["devices"] == 8 and alone["devices"] == 1
    assert_close(found, alone)


def test_two_processes_are_two_devices(alone, tmp_path):
    processes, outs = cluster("results", tmp_path, 2)
    finish(*processes)
    expected = one_process("results", tmp_path, devices=2)
    for out in outs:
        assert np.load(out)["processes"] == 2 and np.load(out)["devices"] == 2
        assert_equal(np.load(out), expected)
    assert_close(expected, alone)


def test_only_the_first_process_reads_the_checkpoint(on_two, tmp_path):
    """The other has none, or an old one: the sweep is resumed and extended as by one process."""
    processes, outs = cluster("resumed", tmp_path, 2)
    finish(*processes)
    for out in outs:
        assert_equal(np.load(out), on_two)


def test_three_processes_are_killed_and_resumed(tmp_path):
    processes, _ = cluster("killed", tmp_path, 3)
    deadline = time.monotonic() + 900
    while processes[-1].poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    for process in processes:
        process.kill()  # those that wait for it
        process.communicate()
    assert processes[-1].returncode == -signal.SIGKILL
    assert (tmp_path / "state" / "training.json").exists() and not (tmp_path / "state" / "0-losses-50.npz").exists()
    processes, outs = cluster("went_on", tmp_path, 3)
    finish(*processes)
    (tmp_path / "whole").mkdir()
    expected = one_process("went_on", tmp_path / "whole", devices=3)
    for out in outs:
        assert_equal(np.load(out), expected)


def test_a_notice_to_one_process_ends_both_with_their_state_stored(on_two, tmp_path):
    processes, outs = cluster("told", tmp_path, 2)
    finish(*processes, expected=128 + signal.SIGTERM)
    assert not any(out.exists() for out in outs)
    # Somebody with two devices, alone, goes on.
    assert_equal(one_process("went_on", tmp_path, devices=2), on_two)


def test_what_is_wrong_on_one_process_is_refused_on_all(tmp_path):
    processes, outs = cluster("refused", tmp_path, 2)
    finish(*processes)
    first, second = (np.load(out)["0"].tolist() for out in outs)
    for mine, other, words in zip(
        first,
        second,
        [
            "checkpoint must be in a folder that exists, got",
            "runs must be the same in all 2 processes",
            "steps must be the same in all 2 processes",
            "checkpoint must be a folder that a training wrote",
        ],
        strict=True,
    ):
        assert words in mine and words in other
    assert "which process 1 of 2 does not have" in first[0]


def test_devices_are_filled_and_groups_run_side_by_side(tmp_path):
    said = one_process("spread", tmp_path, devices=8)["0"].tolist()
    assert said == [f"trained on {n} of 8 devices" for n in (1, 8, 8, 8, 4, 8)]


@pytest.mark.parametrize("seeds", range(1, 12))
@pytest.mark.parametrize("runs", [1, 2, 5])
@pytest.mark.parametrize("devices", [1, 3, 8])
def test_no_device_has_more_to_do_than_it_must(seeds, runs, devices):
    rows, columns = grid(seeds, runs, devices)
    assert rows * columns <= devices
    lots = -(-seeds // rows) * -(-runs // columns)
    # Against all ways to share: nobody could be done earlier, but for batches that runs of a seed share.
    fewest = min(-(-seeds // r) * -(-runs // c) for r in range(1, devices + 1) for c in range(1, devices // r + 1))
    assert lots <= 2 * fewest and (runs > 1 or lots == fewest)
    if runs == 1 and 2 * seeds > devices:
        assert rows == devices, "seeds are padded until they fill all devices"
    assert np.prod(grid(seeds, runs, devices, every=True)) == devices
