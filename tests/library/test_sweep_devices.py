"""Sweeps on one device, on several, and in two processes: the same numbers, through stops and resumptions."""

import os
import signal
import socket
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from lsalib.training.devices import grid

ROOT = Path(__file__).parents[2]


def start(out, folder, tasks, cluster="", devices=1):
    # Compiled quickly, not well: where a number is computed does not depend on it.
    flags = f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT), "XLA_FLAGS": flags}
    command = [sys.executable, str(ROOT / "tests/sweep_worker.py"), str(out), str(folder), cluster, *tasks]
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


def cluster(folder, *tasks):
    """Two processes at the same tasks; their results are in 0-TASK.npz and 1-TASK.npz."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    return [start(folder / str(rank), folder, tasks, f"{address},2,{rank}") for rank in range(2)]


def one_process(folder, *tasks, devices):
    """Its results, by task."""
    finish(start(folder / "one", folder, tasks, devices=devices))
    return {task: np.load(folder / f"one-{task}.npz") for task in tasks}


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
    """The sweeps in one process with one device."""
    return one_process(tmp_path_factory.mktemp("alone"), "results", devices=1)["results"]


@pytest.fixture(scope="module")
def on_two(tmp_path_factory):
    """One process with two devices: the sweeps, and the stored sweep from its beginning to its end."""
    return one_process(tmp_path_factory.mktemp("two"), "results", "went_on", devices=2)


def test_eight_devices_give_the_same_and_are_all_used(alone, tmp_path):
    """As many devices as there are seeds or runs for; the numbers are those of one device."""
    found = one_process(tmp_path, "results", "spread", devices=8)
    assert found["results"]["devices"] == 8 and alone["devices"] == 1
    assert_close(found["results"], alone)
    said = found["spread"]["0"].tolist()
    assert said == [f"trained on {n} of 8 devices" for n in (1, 8, 8, 8, 4, 8)]


def test_two_processes_are_two_devices(alone, on_two, tmp_path):
    """Only the first one reads the checkpoint, and what is wrong on one of them is refused on both."""
    finish(*cluster(tmp_path, "results", "resumed", "refused"))
    assert_close(on_two["results"], alone)
    for rank in range(2):
        results = np.load(tmp_path / f"{rank}-results.npz")
        assert results["processes"] == 2 and results["devices"] == 2
        assert_equal(results, on_two["results"])
        assert_equal(np.load(tmp_path / f"{rank}-resumed.npz"), on_two["went_on"])
    first, second = (np.load(tmp_path / f"{rank}-refused.npz")["0"].tolist() for rank in range(2))
    expected = [
        "checkpoint must be in a folder that exists, got",
        "runs must be the same in all 2 processes",
        "steps must be the same in all 2 processes",
        "checkpoint must be a folder that a training wrote",
    ]
    for mine, other, words in zip(first, second, expected, strict=True):
        assert words in mine and words in other
    assert "which process 1 of 2 does not have" in first[0]


def test_processes_that_are_killed_are_resumed(on_two, tmp_path):
    """The last one dies at step 30; both begin again and end where nothing had happened."""
    processes = cluster(tmp_path, "killed")
    deadline = time.monotonic() + 900
    while processes[-1].poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    for process in processes:
        process.kill()  # the one that waits for it
        process.communicate()
    assert processes[-1].returncode == -signal.SIGKILL
    assert (tmp_path / "state" / "training.json").exists() and not (tmp_path / "state" / "0-losses-50.npz").exists()
    finish(*cluster(tmp_path, "went_on"))
    for rank in range(2):
        assert_equal(np.load(tmp_path / f"{rank}-went_on.npz"), on_two["went_on"])


def test_a_notice_to_one_process_ends_both_with_their_state_stored(on_two, tmp_path):
    """Somebody with two devices, alone, goes on."""
    finish(*cluster(tmp_path, "told"), expected=128 + signal.SIGTERM)
    assert not [*tmp_path.glob("*-told.npz")]
    assert_equal(one_process(tmp_path, "went_on", devices=2)["went_on"], on_two["went_on"])


@pytest.mark.parametrize("devices", [1, 3, 8])
def test_no_device_has_more_to_do_than_it_must(devices):
    """Against all ways to share: nobody could be done earlier, but for batches that runs of a seed share."""
    for runs, seeds in product((1, 2, 5), range(1, 12)):
        rows, columns = grid(seeds, runs, devices)
        assert rows * columns <= devices
        lots = -(-seeds // rows) * -(-runs // columns)
        fewest = min(-(-seeds // r) * -(-runs // c) for r in range(1, devices + 1) for c in range(1, devices // r + 1))
        assert lots <= 2 * fewest and (runs > 1 or lots == fewest)
        if runs == 1 and 2 * seeds > devices:
            assert rows == devices, "seeds are padded until they fill all devices"
        assert np.prod(grid(seeds, runs, devices, every=True)) == devices
