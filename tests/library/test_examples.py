"""The examples: what a researcher does with the library, run as it stands."""

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from lsalib import theory

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "examples"))


@pytest.mark.claim("thm1-saturation")
def test_minimum_risk_against_heads(capsys):
    """With noise and general covariances each head lowers the minimum risk, up to the bound for any number."""
    import least_risk

    least = least_risk.main()
    risks = [found.risk for found in least]
    best = theory.optimal_risk(least_risk.TASK, least_risk.GUESS)
    assert risks[0] > risks[1] + 0.05 > risks[2] + 0.05 and risks[2:] == pytest.approx([best, best], rel=1e-9)
    assert [found.exact for found in least] == [False, False, True, True]
    assert max(found.gradient for found in least) < 1e-6
    printed = capsys.readouterr().out
    assert all(f"{risk:.6f}" in printed for risk in risks)
    # The control: another guess has another minimum.
    assert theory.least_risk(least_risk.TASK, 1, [0.0, 0.0, 0.0]).risk > risks[0] + 0.01


def test_a_task_loss_and_optimizer_of_ones_own(capsys):
    """No layer with a guess that is linear in the query is better than the best step; the trained ones near it."""
    import own_task

    risks = own_task.main()
    best = own_task.best_step(own_task.StudentTask())
    lighter = own_task.best_step(own_task.StudentTask(freedom=1000))
    printed = capsys.readouterr().out
    assert len(risks) == 2
    for risk in risks.values():
        assert best - 4 * risk.standard_error < risk.mean < 1.02 * best
        assert 0 < risk.standard_error < 0.02 * best
        assert f"{risk.mean:.3f} ± {risk.standard_error:.3f}" in printed
        # The control: features with lighter tails allow a lower risk, and this one is above it.
        assert risk.mean > lighter + 10 * risk.standard_error


def test_a_predictor_in_numpy_is_measured(capsys):
    """The Bayes predictor has its exact risk; the control, one with another prior mean, has a higher one."""
    import numpy_predictor

    best = theory.bayes_risk(numpy_predictor.TASK)
    risk = numpy_predictor.main()
    assert abs(risk.mean - best) < 5 * risk.standard_error < 0.15 * best
    assert f"{best:.4f}" in capsys.readouterr().out
    other = numpy_predictor.main(predictor=partial(numpy_predictor.ridge, mean=-numpy_predictor.TASK.prior_mean))
    assert other.mean > best + 5 * other.standard_error


def test_a_sweep_is_killed_resumed_and_extended(tmp_path, capsys, own_seeds):
    """After a kill it ends where an undisturbed sweep of the final length ends; the script has its own seeds."""
    import resumed_sweep

    path = tmp_path / "sweep"
    command = [sys.executable, str(ROOT / "examples/resumed_sweep.py"), "700", str(path)]
    # A process that dies while it stores a program leaves half an entry, and nobody can add to that cache any more.
    env = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    killed = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not (path / "0-state.npz").exists() and killed.poll() is None:
        time.sleep(0.01)
    killed.kill()
    killed.communicate()
    assert killed.returncode != 0 and (path / "0-state.npz").exists()
    said = []
    for steps, folder in ((300, path), (400, path), (400, tmp_path / "whole")):
        resumed_sweep.main(steps, str(folder))
        said.append(capsys.readouterr().out)
    assert said[1].startswith("after 400 steps") and said[1].splitlines()[2:] != said[0].splitlines()[2:]
    assert said[1] == said[2]


def test_jobs_of_an_array_are_merged(tmp_path, monkeypatch, capsys):
    """Each job trains its part of the runs; a part that is missing is not passed over."""
    import array_job

    monkeypatch.setattr(array_job, "RUNS", array_job.RUNS[:5])
    for i in range(2):
        array_job.train(i, 2, tmp_path, steps=3)
    fits = array_job.merge(2, tmp_path)
    assert [fit.run for fit in fits] == array_job.RUNS and fits[4].heads == 2
    assert len(capsys.readouterr().out.splitlines()) == 6
    (tmp_path / "part-1.npz").unlink()
    with pytest.raises(ValueError, match="which does not exist"):
        array_job.merge(2, tmp_path)


def test_layers_of_the_field_are_compared():
    """No linear layer with a trained state is better than the best step, and the delta rule's law is reached."""
    import layers_compared

    risks, task = layers_compared.main(), layers_compared.TASK
    linear, delta = risks["with a trained initial state"], risks["delta rule, trained state"]
    best, law = theory.gd_risk(task), theory.delta_rule_risk(task, start=task.prior_mean)
    assert best - 4 * linear.standard_error < linear.mean < 1.02 * best
    assert law - 4 * delta.standard_error < delta.mean < 1.02 * law
    # The control: with a state of zero neither gets there. One linear head has the minimum risk of one head.
    for name, bound in (("linear attention", best), ("delta rule, state zero", law)):
        assert risks[name].mean > bound + 20 * risks[name].standard_error
    one, bare = theory.least_risk(task, heads=1).risk, risks["linear attention"]
    assert one - 4 * bare.standard_error < bare.mean < 1.02 * one
    # Two layers that write only labels come near their minimum risk, and one layer is far from it.
    least, two = theory.depth_risk(task, 2, guess=task.prior_mean), risks["two layers that write labels"]
    assert least - 4 * two.standard_error < two.mean < 1.1 * least < linear.mean - 0.1
