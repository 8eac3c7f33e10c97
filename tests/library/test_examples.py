"""The examples: what a researcher does with the library, run as it stands."""

import sys
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


def test_a_sweep_is_stopped_resumed_and_extended(tmp_path, capsys, own_seeds):
    """Made longer, it ends where an undisturbed sweep of that length ends; the script has its own seeds."""
    import resumed_sweep

    said = []
    for steps, folder in ((100, "a"), (150, "a"), (150, "whole")):
        resumed_sweep.main(steps, str(tmp_path / folder))
        said.append(capsys.readouterr().out)
    assert said[1] == said[2] != said[0]


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
    # Two layers multiply labels, and so have less risk than the best two layers that do not; one layer does not.
    below = lambda name: theory.depth_risk(task, 2, guess=task.prior_mean) - risks[name].mean
    assert below("two layers of two such heads") > 0.1 > below("with a trained initial state")
