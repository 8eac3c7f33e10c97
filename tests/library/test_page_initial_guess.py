"""The exact gap of the paper's setting at other sizes, by normal equations and samples, and where it does not hold."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from few_heads_reference import least_of_all, problem

from lsalib import tasks, theory, training


def formula(task, guess=0.0, bias=0.0, two=2):
    """The theorem's two terms: one gradient step, and the gap."""
    d, C, u = task.dim, task.context_size, task.prior_mean - guess
    return d * (d + 1) / (C + d + 1), 2 * (u @ u + bias**2) / (C * d + two)


@pytest.mark.claim("thm2-exact-gap", "fig4-both-must-vanish", "gd-strict-lower-bound")
@pytest.mark.parametrize("seed", range(6))
def test_the_minimum_over_all_weights_is_the_formula(seed, x64):
    """By normal equations, with and without a guess; there is no gap where slope and offset are both right."""
    rng = np.random.default_rng(seed)
    d, C = (1, 2, 4)[seed % 3], int(rng.integers(1, 40))
    task, away, offset = tasks.GaussianTask(2 * rng.normal(size=d), C), rng.normal(size=d), rng.uniform(0.5, 2)
    for u, bias in ((away, offset), (away, 0.0), (0 * away, offset), (task.prior_mean, 0.0), (0 * away, 0.0)):
        guess = task.prior_mean - u
        least, wrong = least_of_all(problem(task, guess, bias)), bool(u.any() or bias)
        np.testing.assert_allclose(least, sum(formula(task, guess, bias)), rtol=1e-8)
        assert (least / theory.gd_risk(task) - 1 > 1e-3) == wrong
        # The control: Cd in place of Cd + 2.
        assert not wrong or abs(least / sum(formula(task, guess, bias, two=0)) - 1) > 1e-6


@pytest.mark.claim("thm2-exact-gap")
@pytest.mark.parametrize(
    "part",
    [{"noise_std": 1.0}, {"prior_cov": np.diag([3.0, 0.1])}, {"feature_cov": np.diag([3.0, 0.1])}],
    ids=["label noise", "another prior", "other features"],
)
def test_the_formula_needs_its_hypotheses(part):
    """Label noise and other covariances change the minimum; without them the library's is the formula."""
    plain = tasks.GaussianTask([2.0, 1.0], context_size=5)
    assert theory.optimal_risk(plain) == pytest.approx(sum(formula(plain)), rel=1e-12)
    assert abs(theory.optimal_risk(replace(plain, **part)) / sum(formula(plain)) - 1) > 1e-3


@pytest.mark.claim("thm2-exact-gap")
def test_the_guess_that_costs_one_percent():
    """The squared error of the exercises costs one percent, and the average of four earlier tasks costs less."""
    task = tasks.GaussianTask(np.zeros(10), 10)
    price = lambda squared: theory.optimal_risk(task, bias=np.sqrt(squared)) / theory.gd_risk(task) - 1
    one_percent = 0.01 * theory.gd_risk(task) * 102 / 2
    assert price(one_percent) == pytest.approx(0.01, rel=1e-9)
    assert price(10 / 4) < 0.01 < price(10 / 3)
    assert price(40 * 0.25**2) < 0.01 < price(40 * 0.27**2)


@pytest.mark.claim("fig4-guess-slope", "fig4-bias-slope")
@pytest.mark.parametrize("d, C", [(2, 3), (4, 20)])
def test_training_on_the_exact_risk_ends_on_the_line_at_other_sizes(d, C, x64):
    """A wrong slope, an offset, and both: the risks are those of the formula, and not that of one gradient step."""
    task = tasks.GaussianTask(np.zeros(d), C)
    one = lambda slope, offset: training.Run(task, d + 1, np.full(d, slope), offset, learning_rate=2e-3)
    runs = [one(2.0, 0.0), one(0.0, 2.0), one(1.0, 1.0)]
    fits = training.sweep(jax.random.key(0), runs, seeds=3, objective="population")
    ends = np.median([fit.population_risk() for fit in fits], axis=1)
    minimum = [sum(formula(task, run.guess, run.bias)) for run in runs]
    np.testing.assert_allclose(ends, minimum, rtol=1e-3)
    assert (ends > 1.01 * theory.gd_risk(task)).all(), "the control"
