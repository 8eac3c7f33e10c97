"""Bootstrap intervals: against SciPy's, against the truth that they are to cover, and what pairing is good for."""

import numpy as np
import pytest
import scipy.stats

from lsalib.sts import statistics

RNG = np.random.default_rng(3)
TRUTH = RNG.uniform(0, 5, 80)
GOOD, BAD = TRUTH + 0.5 * RNG.standard_normal(80), TRUTH + 0.9 * RNG.standard_normal(80)


def scipy_interval(statistic, *columns):
    found = scipy.stats.bootstrap(
        columns,
        statistic,
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=20_000,
        rng=np.random.default_rng(1),
    )
    return np.array(found.confidence_interval)


@pytest.mark.parametrize(
    ("name", "columns", "statistic"),
    [
        ("mse", (GOOD, TRUTH), lambda a, t, axis: ((a - t) ** 2).mean(axis)),
        ("mse_difference", (GOOD, BAD, TRUTH), lambda a, b, t, axis: ((a - t) ** 2 - (b - t) ** 2).mean(axis)),
        ("correlation", (GOOD, TRUTH), lambda a, t, axis: scipy.stats.pearsonr(a, t, axis=axis).statistic),
    ],
)
def test_scipy_gives_the_same_interval(name, columns, statistic):
    ours = getattr(statistics, name)(*columns)
    theirs = scipy_interval(statistic, *columns)
    assert ours.estimate == pytest.approx(statistic(*columns, axis=-1))
    width = theirs[1] - theirs[0]
    # Two sets of resamples: their quantiles differ by about one part in a hundred of the width.
    np.testing.assert_allclose(ours[1:], theirs, atol=0.04 * width)
    assert abs(statistics.mse(BAD, TRUTH).low - theirs[0]) > 0.04 * width


def test_intervals_cover_the_truth_as_often_as_they_say():
    """400 samples of squared normal errors, mean 1: coverage within five standard errors of 95 %.

    Less a percentile interval's bias.
    """
    rng, hits, narrow = np.random.default_rng(0), 0, 0
    for seed in range(400):
        errors = rng.standard_normal(200)
        interval = statistics.mse(errors, np.zeros(200), seed=seed, resamples=600)
        hits += interval.low < 1 < interval.high
        narrow += abs(interval.estimate - 1) < (interval.high - interval.low) / 8
    assert 0.95 - 0.02 - 5 * (0.95 * 0.05 / 400) ** 0.5 < hits / 400 < 0.95 + 5 * (0.95 * 0.05 / 400) ** 0.5
    # Negative control: a quarter of the width covers far less.
    assert narrow / 400 < 0.6


def test_pairing_makes_the_difference_sharper():
    """Two predictions with the same large error on each query, one a little worse."""
    common = 2 * RNG.standard_normal(80)
    a, b = TRUTH + common, TRUTH + 1.1 * common
    paired = statistics.mse_difference(a, b, TRUTH)
    assert paired.high < 0, "the difference is seen"
    order = RNG.permutation(80)
    unpaired = statistics.bootstrap(lambda x, y: (x**2).mean(-1) - (y**2).mean(-1), common, (1.1 * common)[order])
    assert unpaired.high > 0 and unpaired.high - unpaired.low > 3 * (paired.high - paired.low)


def test_the_seed_fixes_it_and_pieces_change_nothing(monkeypatch):
    first = statistics.mse(GOOD, TRUTH, seed=4)
    assert first == statistics.mse(GOOD, TRUTH, seed=4) != statistics.mse(GOOD, TRUTH, seed=5)
    long = RNG.standard_normal(5000)
    interval = statistics.mse(long, np.zeros(5000), resamples=1000)  # three pieces
    error = (long**2).std() / 5000**0.5
    np.testing.assert_allclose(
        [interval.low, interval.high], (long**2).mean() + np.array([-1.96, 1.96]) * error, atol=0.3 * error
    )


def test_equal_and_constant_columns():
    assert statistics.mse_difference(GOOD, GOOD, TRUTH) == (0, 0, 0)
    assert statistics.mse(TRUTH, TRUTH) == (0, 0, 0)
    assert statistics.correlation(np.ones(80), TRUTH) == (0, 0, 0)
    assert statistics.correlation(TRUTH, TRUTH).low == pytest.approx(1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: statistics.mse(GOOD, TRUTH[:-1]), r"column 1 must have shape \(80,\), got shape \(79,\)"),
        (lambda: statistics.mse(np.where(GOOD > 2, np.nan, GOOD), TRUTH), "column 0 must be finite"),
        (lambda: statistics.mse(GOOD[:1], TRUTH[:1]), "columns must have at least two rows"),
        (lambda: statistics.mse(GOOD, TRUTH, resamples=0), "resamples must be a whole number of at least 1, got 0"),
        (lambda: statistics.mse(GOOD, TRUTH, level=95), "level must be between 0 and 1, got 95"),
    ],
)
def test_bad_arguments_are_refused(call, message, unchecked):
    with pytest.raises(ValueError, match=message):
        call()
