"""Intervals: the bootstrap of rows, alone and paired."""

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose
from refusals import refusals

from lsalib.book import statistics

RNG = np.random.default_rng(3)
TRUTH = RNG.uniform(0, 5, 80)
GOOD, BAD = TRUTH + 0.5 * RNG.standard_normal(80), TRUTH + 0.9 * RNG.standard_normal(80)


@pytest.mark.parametrize("other", [None, BAD], ids=["an error", "a difference"])
def test_the_interval_is_of_resampled_rows(other):
    found = statistics.mse(GOOD, TRUTH, less=other)
    values = (GOOD - TRUTH) ** 2 - (0 if other is None else other - TRUTH) ** 2
    means = values[np.random.default_rng(1).integers(80, size=(20_000, 80))].mean(1)
    by_hand = np.quantile(means, [0.025, 0.975])
    assert found.estimate == pytest.approx(values.mean())
    # Two sets of resamples: their quantiles differ by about one part in a hundred of
    # the width, and the t interval of 80 rows is wider than the normal one by two.
    width = by_hand[1] - by_hand[0]
    assert_allclose(found[1:], by_hand, atol=0.04 * width)
    assert np.abs(np.quantile(means, [0.05, 0.95]) - by_hand).max() > 0.08 * width, (
        "the control: 90 %"
    )
    assert found == statistics.mse(GOOD, TRUTH, less=other), "the seed is fixed"
    assert statistics.mse(GOOD, TRUTH, less=GOOD) == (0, 0, 0)


def test_an_interval_of_few_rows_is_a_t_interval_and_there_is_none_below_eight():
    """Plain percentiles of twelve rows would be narrower by a seventh; several
    intervals together are wider.
    """
    values = np.random.default_rng(5).standard_normal(12)
    interval = lambda rows, family=1: statistics.bootstrap(
        lambda x: x.mean(-1), rows, family=family
    )
    half = [np.diff(interval(values, family)[1:])[0] / 2 for family in (1, 4)]
    error = values.std(ddof=1) / 12**0.5
    assert_allclose(
        half,
        [scipy.stats.t.isf(0.025 / family, 11) * error for family in (1, 4)],
        rtol=0.07,
    )
    assert 1.96 * values.std() / 12**0.5 < 0.9 * half[0]
    assert (
        np.isnan(interval(values[:7])[1:]).all()
        and np.isfinite(interval(values[:8])[1:]).all()
    )


WORDS = "inhomogeneous|columns must be vectors of finite"
test_bad_columns_are_refused = refusals(
    (WORDS, statistics.mse, TRUTH[:-1], TRUTH),
    (WORDS, statistics.mse, np.where(GOOD > 2, np.nan, GOOD), TRUTH),
    (WORDS, statistics.mse, np.ones((80, 1)), TRUTH),
)
