"""A chart draws the arrays it is given, and its names do not meet."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest

from lsalib.book import figures
from lsalib.book.charts import chart


def test_what_is_drawn_is_what_was_given():
    losses = np.arange(300.0).reshape(2, 150)
    with chart("step", "risk", ylim=(0, None), show=False) as c:
        c.line([0, 1, 2], [3.0, 4.0, 5.0], "exact", color="gd")
        c.points([0, 1], [3.1, 3.9], "sampled", error=[0.1, 0.2], color="gd")
        c.curve(losses, "trained", color="lsa", window=50)
        c.exact(110 / 21, "minimum", color="bayes")
    exact, points, *curves, minimum = c.ax.lines
    np.testing.assert_array_equal(exact.get_xydata(), [[0, 3], [1, 4], [2, 5]])
    np.testing.assert_array_equal(points.get_xydata(), [[0, 3.1], [1, 3.9]])
    (bars,) = c.ax.containers[0][2]
    np.testing.assert_allclose(
        [np.ptp(bar[:, 1]) / 2 for bar in bars.get_segments()], [0.3, 0.6]
    )
    for curve, row in zip(curves, losses, strict=True):
        np.testing.assert_allclose(
            curve.get_xydata(),
            [
                [25, row[24:26].mean()],
                [75, row[74:76].mean()],
                [125, row[124:126].mean()],
            ],
        )
    band = c.ax.collections[-1].get_paths()[0].vertices
    assert {(25.0, 0.0), (25.0, 199.0), (125.0, 100.0), (125.0, 299.0)} <= set(
        map(tuple, band)
    ), "over both seeds"
    assert c.ax.get_ylim()[0] == 0 and c.ax.get_ylim()[1] > 299, (
        "an open end follows the data"
    )
    assert set(minimum.get_ydata()) == {110 / 21}
    assert {text.get_text() for text in c.ax.texts} == {
        "exact",
        "sampled",
        "trained",
        "minimum 5.238",
    }
    assert not plt.fignum_exists(c.figure.number)


def test_names_do_not_meet():
    """Eight lines that end close together, one of them outside the plot; names keep the
    order of their lines.
    """
    with chart("x", "y", log="y", ylim=(1, 20), show=False) as c:
        for k, value in enumerate([5.0, 5.01, 5.02, 5.02, 6.0, 9.0, 19.9, 40.0]):
            c.exact(value, f"line {k}\nof eight" if k == 2 else f"line {k}")
    c.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in c.ax.texts]
    assert all(below.y1 <= above.y0 for below, above in itertools.pairwise(boxes))


def test_positive_is_blue_and_negative_orange():
    shown = figures.tint([[0.5, -3.0]], 2.0)[0]
    assert shown[0, 2] > shown[0, 0] and shown[1, 0] > shown[1, 2]


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda c: c.line([0, 1], [0, 1], color="red"), "color must be one of lsa"),
        (
            lambda c: c.line([0, 1], [1.0]),
            r"vectors of one length, got shapes \(2,\) and \(1,\)",
        ),
        (
            lambda c: c.curve(np.ones((2, 3, 4))),
            r"losses must have shape .* got shape \(2, 3, 4\)",
        ),
    ],
)
def test_an_error_in_the_block_is_raised_and_the_figure_closed(draw, words):
    with pytest.raises(ValueError, match=words), chart("x", "y") as c:
        draw(c)
    assert not plt.fignum_exists(c.figure.number)
