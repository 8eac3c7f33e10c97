"""The paper's Figure 2 without sampling: five seeds trained on the exact risk, at the paper's scale."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsalib import tasks, theory, training

TASK = tasks.GaussianTask([2.0] * 10, context_size=10)


def ends(counts):
    """The final risks of five seeds, (numbers of heads, 5). Runs of one call are padded to its most heads."""
    runs = [training.Run(TASK, heads=heads) for heads in counts]
    fits = training.sweep(jax.random.key(0), runs, seeds=range(5), objective="population", dtype=jnp.float64)
    return np.array([np.asarray(fit.risk)[:, -1] for fit in fits])


FEWER = (1, 2, 4, 8, 9)


@cache
def up_to_ten():
    """The final risks with fewer heads than features, and with ten."""
    return ends([*FEWER, 10])


def least(counts):
    return np.array([theory.least_risk(TASK, heads).risk for heads in counts])


@pytest.mark.claim("fig2-heads-help", "fig1-persistent-gap")
def test_up_to_d_heads_training_ends_at_the_minimum_of_its_heads(x64):
    """The median of five seeds; with ten heads all are below the minimum of nine, with nine none is."""
    risks = up_to_ten()
    np.testing.assert_allclose(np.median(risks[:-1], axis=1), least(FEWER), atol=2e-3)
    np.testing.assert_allclose(risks[0], least([1])[0], rtol=1e-4)
    assert (np.abs(risks[:-1] - least([heads + 1 for heads in FEWER])[:, None]) > 2e-3).all()
    assert (risks[-1] < least([9])).all() and not (risks[-2] < least([9])).any()


@pytest.mark.claim("fig2-no-gain-beyond", "fig1-persistent-gap")
def test_more_heads_end_at_the_minimum_of_d_heads(x64):
    """All five seeds of eleven and sixteen heads; none of nine."""
    best = theory.optimal_risk(TASK)
    found = np.concatenate([ends([11]), ends([16])])
    np.testing.assert_allclose(found, best, atol=1e-4)
    # Controls: nine heads, and a gap of 2/(Cd) in place of 2/(Cd + 2).
    assert (up_to_ten()[-2] > best + 1e-4).all()
    assert (np.abs(found / (theory.gd_risk(TASK) + 2 * 40 / 100) - 1) > 1e-3).all()
