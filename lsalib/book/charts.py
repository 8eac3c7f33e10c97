"""Charts of a few lines: exact lines, sampled points and trained curves, each with its
name beside it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from scipy.optimize import isotonic_regression

from lsalib import _check
from lsalib.book.figures import INK, color_of, use_style
from lsalib.book.notebook import Numbers, Series, entry, written

__all__ = ["Chart", "chart", "tokens"]


@dataclass
class Chart:
    """One plot, filled inside a ``with`` block and shown at its end; ``figure`` and
    ``ax`` are matplotlib's.

    A name stands at the right end of its line, where names that would meet make room
    for each other. Colors are names of quantities: "lsa", "yq", "gd", "bayes", "other",
    "softmax", "ltb", or "ink" for what is none of them.

    Example:
        >>> with chart("step size", "risk", show=False) as c:
        ...     c.line([0.0, 1.0], [2.0, 1.0], "exact", color="gd")
        ...     c.points([0.0, 1.0], [2.1, 0.9], error=[0.1, 0.1], color="gd")
        >>> [text.get_text() for text in c.ax.texts]
        ['exact']
    """

    figure: Figure
    ax: Axes
    _names: list[tuple[float, str, str]]

    def line(
        self,
        x: Series,
        y: Series,
        name: str = "",
        *,
        color: str = "ink",
        style: str = "-",
    ) -> None:
        """A curve through the points (x, y), for what is exact."""
        self.ax.plot(x, y, style, color=color_of(color))
        self._name(name, y, color)

    def points(
        self,
        x: Series,
        y: Series,
        name: str = "",
        *,
        error: Numbers = None,
        color: str = "ink",
        marker: str = "o",
    ) -> None:
        """Points, for what is sampled or trained, with bars of three standard errors if
        ``error`` is given.
        """
        bars, ink = error if error is None else 3 * np.asarray(error), color_of(color)
        # above curves
        self.ax.errorbar(x, y, bars, fmt=marker, color=ink, markersize=5, zorder=4)
        self._name(name, y, color)

    def curve(self, losses: Numbers, *, color: str = "ink") -> None:
        """Losses during training: for each seed a line of means over windows of 50
        steps, and a band over all losses.

        ``losses`` has shape (steps,) or (seeds, steps).
        """
        rows = np.atleast_2d(np.asarray(losses, np.float64))
        _check.shape("losses", rows, ("seeds", "steps"))
        window = min(50, rows.shape[1])
        # A last window that is not full is left out.
        count = rows.shape[1] // window
        blocks = rows[:, : count * window].reshape(-1, count, window)
        middle, means = (np.arange(count) + 0.5) * window, blocks.mean(2)
        low, high, ink = blocks.min((0, 2)), blocks.max((0, 2)), color_of(color)
        self.ax.fill_between(middle, low, high, color=ink, alpha=0.15, linewidth=0)
        self.ax.plot(middle, means.T, color=ink, linewidth=1.4)

    def exact(
        self,
        value: Numbers,
        name: str = "",
        *,
        color: str = "ink",
        style: str = "--",
        spec: str = ".3f",
    ) -> None:
        """A horizontal line at an exact value, which follows its name."""
        value, ink = float(value), color_of(color)
        # above curves and points
        self.ax.axhline(value, color=ink, linestyle=style, linewidth=1.4, zorder=5)
        self._name(name and f"{name} {written(value, spec)}", value, color)

    def upright(self, x: Numbers, name: str = "") -> None:
        """A dotted vertical line, with its name at the top."""
        x = float(x)
        self.ax.axvline(x, color=INK, linestyle=":", linewidth=1.4)
        if name:
            at = (x, 1), (4, 0), self.ax.get_xaxis_transform(), "offset points"
            self.ax.annotate(name, *at, va="top")

    def _name(self, name: str, y: Numbers, color: str) -> None:
        """Remember the name of a line that ends at the last y."""
        if name:
            self._names.append((float(np.ravel(y)[-1]), name, color))

    def _write_names(self) -> None:
        """The names to the right of the plot, each as near to its line's end as the
        others let it.
        """
        if not self._names:
            return
        self.figure.draw_without_rendering()  # settles the limits
        names = sorted(self._names, key=lambda each: each[0])
        axes, left = self.ax.transAxes, self.ax.get_xlim()[0]
        ends = [(self.ax.transData - axes).transform((left, y))[1] for y, _, _ in names]
        # a line of text, with its leading
        points = self.ax.get_window_extent().height / self.figure.dpi * 72
        size = 1.25 * plt.rcParams["font.size"] / points
        heights = [size * (1 + name.count("\n")) for _, name, _ in names]
        places = spread(np.clip(ends, 0, 1), heights)
        for (_, name, color), place in zip(names, places, strict=True):
            text = self.ax.text(1.02, place, name, color=color_of(color), va="center")
            text.set(transform=axes, linespacing=1.1)


def spread(centers: Series, heights: Series) -> np.ndarray:
    """The places nearest to ``centers`` at which boxes of these heights, in this order,
    do not overlap.

    With the heights taken off, the places only have to rise: an isotonic regression.

    Both are vectors (n,), and so are the places, which have the least sum of squared
    moves.

    Example:
        >>> spread([0.0, 0.0, 9.0], [2.0, 2.0, 2.0]).tolist()
        [-1.0, 1.0, 9.0]
    """
    gaps = np.add(heights[1:], heights[:-1]) / 2
    offsets = np.concatenate([[0.0], np.cumsum(gaps)])
    return isotonic_regression(np.subtract(centers, offsets)).x + offsets


@contextmanager
def chart(
    xlabel: str,
    ylabel: str,
    *,
    log: str = "",
    xlim: Numbers = None,
    ylim: Numbers = None,
    size: tuple[float, float] = (5.6, 3.5),
    show: bool = True,
) -> Iterator[Chart]:
    """Begin a chart in the book's style: ``with chart("step", "risk") as c:
    c.exact(1.0, "minimum risk")``.

    Args:
        xlabel, ylabel: what the axes measure.
        log: which axes are logarithmic: "", "x", "y" or "xy".
        xlim, ylim: the ends of the axes; None leaves an end to the data.
        size: width and height in inches, with the names.
        show: False leaves the chart for code to look at.
    """
    if log not in ("", "x", "y", "xy"):
        raise ValueError(f"log must be '', 'x', 'y' or 'xy', got {log!r}")
    use_style()
    figure, ax = plt.subplots(figsize=size)
    ax.set(xlabel=xlabel, ylabel=ylabel, **{f"{axis}scale": "log" for axis in log})
    for axis in log:
        getattr(ax, f"{axis}axis").set(
            major_locator=LogLocator(subs=(1, 2, 5)),
            major_formatter="{x:g}",
            minor_formatter=NullFormatter(),
        )
    drawn = Chart(figure, ax, [])
    try:
        yield drawn
        # Only now: matplotlib fits an end that is None to what is drawn by then.
        ax.set(xlim=xlim, ylim=ylim)
        for line in (ax.xaxis, ax.yaxis):
            low, high = line.get_view_interval()
            ticks = line.get_major_locator()
            if isinstance(ticks, LogLocator) and high > 100 * low:
                # numbers between powers of ten would run together
                ticks.set_params(subs=(1,))
        drawn._write_names()
        if show:
            plt.show()
    finally:
        plt.close(figure)


@contextmanager
def tokens(
    cells: Sequence[Sequence[Any]],
    columns: Sequence[str],
    rows: Sequence[str],
    *,
    size: tuple[float, float] = (5.6, 2.3),
    show: bool = True,
) -> Iterator[Chart]:
    """Draw the matrix of tokens, one a column: the context, the query, and in the last
    cell the initial guess.

    Cell (i, j) has its center at (j, -i), for notes that an arrow joins to it.

    Args:
        cells: a text or a number for each cell, (rows, columns).
        columns, rows: the names above the columns and before the rows.
        size, show: as for ``chart``.

    Returns:
        A ``Chart`` without axes, for a ``with`` block.

    Example:
        >>> cells, columns = [["x", 1.0], ["y", 3]], ["example", "query"]
        >>> with tokens(cells, columns, ["feature", "label"], show=False) as c:
        ...     c.ax.annotate("the guess", (1, -1), (1, -2))
        Text(1, -2, 'the guess')
    """
    height, width = len(rows), len(columns)
    grid = _check.shape("cells", np.array(cells, object), (height, width))
    with chart("", "", size=size, show=show) as drawn:
        ax = drawn.ax
        for (i, j), cell in np.ndenumerate(grid):
            # features in gray, labels in the layer's color, and the guess stands out
            color, opacity = "ink" if i < height - 1 else "lsa", 0.12
            if (i, j) == (height - 1, width - 1):
                color, opacity = "yq", 0.4
            at, ink = (j - 0.46, -i - 0.46), color_of(color)
            ax.add_patch(plt.Rectangle(at, 0.92, 0.92, facecolor=ink, alpha=opacity))
            text = entry(f"cells[{i}][{j}]", cell, "g", "g")
            ax.text(j, -i, text, ha="center", va="center", fontsize="large")
        for j, name in enumerate(columns):
            ax.text(j, 0.62, name, ha="center", va="bottom")
        for i, name in enumerate(rows):
            ax.text(-0.62, -i, name, ha="right", va="center")
        # between the examples and the query
        ax.plot([width - 1.5] * 2, [0.5, 0.5 - height], ":", color=INK, linewidth=1)
        # Set before the caller draws, because the caller may move them.
        ax.set(xlim=(-0.6, width - 0.4), ylim=(0.4 - height, 1.2), aspect=0.6)
        ax.axis("off")
        yield drawn
