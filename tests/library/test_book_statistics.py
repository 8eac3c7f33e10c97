"""Intervals: bootstrap of rows, alone and paired, and of tables whose rows and columns are samples."""

import numpy as np
import pytest
import scipy.stats
from refusals import refusals

from lsalib.book import statistics

RNG = np.random.default_rng(3)
TRUTH = RNG.uniform(0, 5, 80)
GOOD, BAD = TRUTH + 0.5 * RNG.standard_normal(80), TRUTH + 0.9 * RNG.standard_normal(80)
squared = lambda a, b, y: (a - y) ** 2 - (b - y) ** 2


@pytest.mark.parametrize("other", [None, BAD], ids=["an error", "a difference"])
def test_the_interval_is_of_resampled_rows(other):
    found = statistics.mse(GOOD, TRUTH, less=other)
    values = squared(GOOD, TRUTH if other is None else other, TRUTH)
    means = values[np.random.default_rng(1).integers(80, size=(20_000, 80))].mean(1)
    by_hand = np.quantile(means, [0.025, 0.975])
    assert found.estimate == pytest.approx(values.mean())
    # Two sets of resamples: their quantiles differ by about one part in a hundred of the width, and the t interval of
    # 80 rows is wider than the normal one by two.
    width = by_hand[1] - by_hand[0]
    np.testing.assert_allclose(found[1:], by_hand, atol=0.04 * width)
    assert np.abs(np.quantile(means, [0.05, 0.95]) - by_hand).max() > 0.08 * width
    assert found == statistics.mse(GOOD, TRUTH, less=other), "the seed is fixed"


def test_a_long_column_is_resampled_in_pieces():
    long = RNG.standard_normal(5000)
    interval = statistics.mse(long, np.zeros(5000))
    error = (long**2).std() / 5000**0.5
    np.testing.assert_allclose(interval[1:], (long**2).mean() + np.array([-1.96, 1.96]) * error, atol=0.1 * error)


def test_few_rows_have_no_interval():
    """Three that agree would "prove" anything."""
    for n, known in ((7, False), (8, True)):
        assert np.isfinite(statistics.mse(GOOD[:n], TRUTH[:n])[1:]).tolist() == [known] * 2


def test_an_interval_of_few_rows_is_a_t_interval():
    """Of a mean: plain percentiles of twelve rows would be narrower by a seventh; several together are wider."""
    values = np.random.default_rng(5).standard_normal(12)
    mean = lambda x: x.mean(-1)
    half = lambda family: np.diff(statistics.bootstrap(mean, values, family=family)[1:])[0] / 2
    error = values.std(ddof=1) / 12**0.5
    wanted = [scipy.stats.t.isf(0.025 / family, 11) * error for family in (1, 4)]
    np.testing.assert_allclose([half(1), half(4)], wanted, rtol=0.07)
    assert 1.96 * values.std() / 12**0.5 < 0.9 * half(1)


@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
def test_an_interval_over_rows_and_columns_knows_both(turned):
    """Rows that all agree leave the columns' t interval, with the degrees of freedom of the shorter side."""
    rng = np.random.default_rng(6)
    effects, many = rng.standard_normal(12), 20
    width = lambda table: np.diff(statistics.crossed(table.T if turned else table)[1:])[0]
    of_effects = 2 * scipy.stats.t.isf(0.025, 11) * effects.std(ddof=1) / 12**0.5
    alone = width(np.tile(effects, (many, 1)))
    np.testing.assert_allclose(alone, of_effects, rtol=0.05)
    assert 2 * 1.96 * effects.std() / 12**0.5 < 0.9 * alone, "plain percentiles are narrower"
    others = 2 * rng.standard_normal(many)
    both = np.hypot(of_effects, 2 * 2.3 * others.std() / many**0.5)
    np.testing.assert_allclose(width(np.add.outer(others, effects)), both, rtol=0.05)
    assert both > 1.3 * of_effects, "rows that differ widen it"
    assert np.isnan(statistics.crossed(np.zeros((7, 30)))[1:]).all()


def test_pairing_makes_the_difference_sharper():
    """Two predictions with the same large error on each query, one a little worse."""
    common = 2 * RNG.standard_normal(80)
    paired = statistics.mse(TRUTH + common, TRUTH, less=TRUTH + 1.1 * common)
    assert paired.high < 0, "the difference is seen"
    order = RNG.permutation(80)
    unpaired = statistics.bootstrap(lambda x, y: (x**2).mean(-1) - (y**2).mean(-1), common, (1.1 * common)[order])
    assert unpaired.high > 0 and unpaired.high - unpaired.low > 3 * (paired.high - paired.low)


def test_what_does_not_vary_has_no_width():
    assert statistics.mse(GOOD, TRUTH, less=GOOD) == statistics.mse(TRUTH, TRUTH) == (0, 0, 0)


test_bad_columns_are_refused = refusals(
    (lambda: statistics.mse(GOOD, TRUTH[:-1]), r"column 1 must have shape \(80,\), got shape \(79,\)"),
    (lambda: statistics.mse(np.where(GOOD > 2, np.nan, GOOD), TRUTH), "column 0 must be finite"),
    (lambda: statistics.mse(GOOD[:0], TRUTH[:0]), "columns must have at least one row"),
    (lambda: statistics.crossed(GOOD), r"values must have shape \(m, n\), got shape \(80,\)"),
    (lambda: statistics.crossed(np.full((8, 8), np.nan)), "values must be finite"),
)
