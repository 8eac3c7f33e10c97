"""A chart draws the arrays it is given, and its names do not meet."""

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal

from lsalib.book import figures
from lsalib.book.charts import chart, tokens


def test_what_is_drawn_is_what_was_given():
    losses = np.arange(300.0).reshape(2, 150)
    with chart("step", "risk", ylim=(0, None), show=False) as c:
        c.line([0, 1, 2], [3.0, 4.0, 5.0], "exact", color="gd")
        c.points([0, 1], [3.1, 3.9], "sampled", error=[0.1, 0.2], color="gd")
        c.curve(losses, color="lsa")
        c.exact(110 / 21, "minimum", color="bayes")
        c.upright(1.5, "limit")
    exact, points, *curves, minimum, limit = c.ax.lines
    assert_array_equal(exact.get_xydata(), [[0, 3], [1, 4], [2, 5]])
    assert_array_equal(points.get_xydata(), [[0, 3.1], [1, 3.9]])
    (bars,) = c.ax.containers[0][2]
    assert_allclose([np.ptp(bar[:, 1]) / 2 for bar in bars.get_segments()], [0.3, 0.6])
    for curve, row in zip(curves, losses, strict=True):
        windows = [row[m - 1 : m + 1].mean() for m in (25, 75, 125)]
        assert_allclose(curve.get_xydata(), np.column_stack([(25, 75, 125), windows]))
    # over both seeds
    band = set(map(tuple, c.ax.collections[-1].get_paths()[0].vertices))
    assert {(25, 0), (25, 199), (125, 100), (125, 299)} <= band
    # An open end follows the data.
    assert c.ax.get_ylim()[0] == 0 and c.ax.get_ylim()[1] > 299
    assert set(minimum.get_ydata()) == {110 / 21} and set(limit.get_xdata()) == {1.5}
    names = "exact", "sampled", "minimum 5.238", "limit"
    assert {text.get_text() for text in c.ax.texts} == {*names}
    assert not plt.fignum_exists(c.figure.number)


def test_tokens_stand_below_their_names_and_the_guess_is_marked():
    cells, columns = [["a", 1.5], ["b", -3]], ["example", "query"]
    with tokens(cells, columns, ["feature", "label"], show=False) as c:
        pass
    at = {text.get_text(): text.get_position() for text in c.ax.texts}
    assert [at[text] for text in ("a", "1.5", "b", "−3")] == [
        *((0, 0), (1, 0), (0, -1), (1, -1))
    ]
    assert (at["example"][0], at["query"][0]) == (0, 1)
    assert (at["feature"][1], at["label"][1]) == (0, -1)
    colors = [to_hex(patch.get_facecolor()) for patch in c.ax.patches]
    assert colors.index(figures.color_of("yq")) == 3 and len(set(colors)) == 3


def test_names_do_not_meet():
    """Nine lines that end close together, one of them outside the plot; drawn in any
    order, their names have the order of the lines.
    """
    ends = [9.0, 5.02, 40.0, 1.5, 5.0, 6.0, 19.9, 5.01, 5.025]
    with chart("x", "y", log="y", ylim=(1, 20), show=False) as c:
        for value in ends:
            c.exact(value, "two\nlines" if value == 5.02 else "line", spec="g")
    c.figure.draw_without_rendering()
    texts = sorted(c.ax.texts, key=lambda text: text.get_window_extent().y0)
    assert [float(text.get_text().split()[-1]) for text in texts] == sorted(ends)
    boxes = [text.get_window_extent() for text in texts]
    assert all(below.y1 <= above.y0 for below, above in itertools.pairwise(boxes))
    # Where there is room, a name stands beside its line.
    height = c.ax.transData.transform([(0, 1.5)])[0, 1]
    assert boxes[0].y0 < height < boxes[0].y1


def test_a_drawing_is_the_same_where_numbers_differ_by_rounding():
    """Two machines agree to about 1e-6; what a reader sees changes the drawing."""

    def drawn(factor):
        with chart("x", "y", log="y", show=False) as c:
            c.line([0, 1, 2], np.array([1.0, 2.0, 3.0]) * factor, "a line", color="gd")
            c.points([0, 1], [1.0 * factor, 2.5], error=0.1)
            c.curve(factor * np.linspace(1, 2, 200))
        return figures.drawing(c.figure)

    assert drawn(1.0) == drawn(1 + 1e-7) != drawn(1.02)


def test_positive_is_blue_and_negative_orange():
    shown = figures.tint([[0.5, -3.0]], 2.0)[0]
    assert shown[0, 2] > shown[0, 0] and shown[1, 0] > shown[1, 2]


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda c: c.line([0, 1], [0, 1], color="red"), "color must be one of lsa"),
        (
            lambda c: c.line([0, 1], [1.0]),
            r"x and y must have .* shapes \(2,\) and \(1,\)",
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
