"""Bootstrap intervals: against resampling by hand and the normal law, and what pairing is good for."""

import numpy as np
import pytest
from refusals import refusals

from lsalib.sts import statistics

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
    # Two sets of resamples: their quantiles differ by about one part in a hundred of the width.
    width = by_hand[1] - by_hand[0]
    np.testing.assert_allclose(found[1:], by_hand, atol=0.04 * width)
    assert np.abs(np.quantile(means, [0.05, 0.95]) - by_hand).max() > 0.08 * width
    assert found == statistics.mse(GOOD, TRUTH, less=other), "the seed is fixed"


def test_a_long_column_is_resampled_in_pieces():
    long = RNG.standard_normal(5000)
    interval = statistics.mse(long, np.zeros(5000))
    error = (long**2).std() / 5000**0.5
    np.testing.assert_allclose(interval[1:], (long**2).mean() + np.array([-1.96, 1.96]) * error, atol=0.1 * error)


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


test_bad_arguments_are_refused = refusals(
    (lambda: statistics.mse(GOOD, TRUTH[:-1]), r"column 1 must have shape \(80,\), got shape \(79,\)"),
    (lambda: statistics.mse(np.where(GOOD > 2, np.nan, GOOD), TRUTH), "column 0 must be finite"),
    (lambda: statistics.mse(GOOD[:1], TRUTH[:1]), "columns must have at least two rows"),
)
