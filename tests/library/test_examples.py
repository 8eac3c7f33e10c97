"""The examples: what a researcher does with the library, run as it stands."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from lsalib import theory

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples"))


def test_least_risk_against_heads(capsys):
    import least_risk

    least = least_risk.main()
    risks = [found.risk for found in least]
    best = theory.optimal_risk(least_risk.TASK, least_risk.GUESS)
    assert risks[0] > risks[1] + 0.05 > risks[2] + 0.05 and risks[2:] == pytest.approx([best, best], rel=1e-9)
    assert [found.exact for found in least] == [False, False, True, True]
    assert max(found.gradient for found in least) < 1e-6
    printed = capsys.readouterr().out
    assert all(f"{risk:.6f}" in printed for risk in risks)
    # Another guess has another least risk.
    assert theory.least_risk(least_risk.TASK, 1, [0.0, 0.0, 0.0]).risk > risks[0] + 0.01


def test_a_task_loss_and_optimizer_of_one_s_own(capsys):
    import own_task

    risk = own_task.main()
    # No layer with a guess that is linear in the query is better than the best step.
    best = own_task.best_step(own_task.StudentTask())
    assert best - 4 * risk.standard_error < risk.mean < 1.02 * best
    assert 0 < risk.standard_error < 0.02 * best
    assert f"{risk.mean:.3f} ± {risk.standard_error:.3f}" in capsys.readouterr().out
    # The control: features with lighter tails allow a lower risk, and this one is above it.
    lighter = own_task.best_step(own_task.StudentTask(freedom=1000))
    assert risk.mean > lighter + 10 * risk.standard_error


def run(*arguments):
    command = [sys.executable, str(ROOT / "examples/resumed_sweep.py"), *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(*arguments) -> str:
    process = run(*arguments)
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    return output


def test_a_sweep_is_killed_resumed_and_extended(tmp_path):
    path = tmp_path / "sweep"
    killed = run(700, path)
    while not (path / "0-state.npz").exists() and killed.poll() is None:
        time.sleep(0.01)
    killed.kill()
    assert killed.wait() != 0 and (path / "0-state.npz").exists()
    killed.communicate()
    resumed = finished(700, path)
    assert resumed == finished(700, tmp_path / "whole")
    extended = finished(800, path)
    assert extended.startswith("after 800 steps") and extended.splitlines()[2:] != resumed.splitlines()[2:]
    assert extended == finished(800, tmp_path / "longer")


def test_jobs_of_an_array_are_merged(tmp_path, monkeypatch, capsys):
    import array_job

    monkeypatch.setattr(array_job, "RUNS", array_job.RUNS[:5])
    for i in range(2):
        array_job.train(i, 2, tmp_path, steps=3)
    fits = array_job.merge(2, tmp_path)
    assert [fit.run for fit in fits] == array_job.RUNS and fits[4].heads == 2
    assert len(capsys.readouterr().out.splitlines()) == 6
    # A part that is missing is not passed over.
    (tmp_path / "part-1.npz").unlink()
    with pytest.raises(ValueError, match="which does not exist"):
        array_job.merge(2, tmp_path)
