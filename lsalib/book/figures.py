"""One style for every figure, legible on light and dark pages, and elements that many figures share."""

import sys
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from lsalib import _validate
from lsalib.book._conversion import real, scalar, written

__all__ = [
    "COLOURS",
    "INK",
    "PALETTE",
    "color_of",
    "exact_line",
    "loss_curve",
    "plain_log_ticks",
    "strokes",
    "tint",
    "use_style",
    "windows",
]

# A quantity's colour as it is drawn, and as the book's pages show it in their light and in their dark theme. Drawn it
# has a contrast of at least 3 against white and against a dark page, shown one of 4.5; all told apart by the
# colour-blind. «lsa» is linear attention without or with a fixed guess, «yq» attention with the right guess, trained or
# given, «gd» one gradient step, «bayes» the Bayes or ridge predictor, «ltb» the block with an MLP.
PALETTE = {
    "lsa": ("#c2571a", "#bb5419", "#e26823"),
    "yq": ("#2878c8", "#2775c4", "#448fda"),
    "gd": ("#c2307a", "#c2307a", "#d9639f"),
    "bayes": ("#2e8b57", "#2b8151", "#349e63"),
    "other": ("#8367c7", "#7e61c5", "#977fd0"),
    "softmax": ("#94780b", "#8b700a", "#a9890d"),
    "ltb": ("#16858f", "#157f88", "#199aa5"),
    "ink": ("#7a828e", "#535861", "#a5aab2"),
}
COLOURS = {name: drawn for name, (drawn, _, _) in PALETTE.items() if name != "ink"}
INK = PALETTE["ink"][0]
# Nothing in a drawing but what is drawn: the same figure has the same bytes.
BARE: dict[str, Any] = {"metadata": dict.fromkeys(("Creator", "Date", "Format", "Type")), "bbox_inches": "tight"}


def strokes(count: int, colour: str) -> list[dict]:
    """Line styles of one quantity's color in a visible order, from dotted and thin to solid and thick.

    Args:
        count: how many, at most five.
        colour: the quantity, a key of ``COLOURS``.

    Returns:
        Keyword arguments of ``plot``, one dict for each line.

    Raises:
        ValueError: if ``count`` is not 1 to 5, or no quantity has this name.

    Example:
        >>> [stroke["linestyle"] for stroke in strokes(3, "lsa")]
        [':', '--', '-']
    """
    if _validate.count("count", count) > 5:
        raise ValueError(f"count must be at most 5, lines that can be told apart, got {count}")
    drawn = color_of(colour)
    dashes: list[Any] = [":", "-.", "--", (0, (6, 1)), "-"]
    kinds = [dashes[k] for k in np.linspace(0, 4, count).round().astype(int)]
    widths = np.linspace(1.3, 2.1, count).round(2).tolist()
    return [{"color": drawn, "linestyle": kind, "linewidth": width} for kind, width in zip(kinds, widths, strict=True)]


def color_of(quantity: str) -> str:
    """The color in which a quantity is drawn; "ink" is that of axes and text.

    Raises:
        ValueError: if no quantity has this name.

    Example:
        >>> color_of("gd")
        '#c2307a'
    """
    if quantity not in PALETTE:
        raise ValueError(f"color must be one of {', '.join(PALETTE)}, got {quantity!r}")
    return PALETTE[quantity][0]


def tint(values, limit: float = 1.0) -> np.ndarray:
    """A matrix as an image for ``imshow``: opacity shows an entry's size, color its sign; zero is transparent.

    Args:
        values: the matrix, (rows, columns).
        limit: entries of this size or more have the full color.

    Returns:
        Red, green, blue and opacity, (rows, columns, 4); blue is positive, orange negative.

    Raises:
        ValueError: if ``values`` is no matrix of finite numbers, or ``limit`` is not positive.

    Example:
        >>> tint([[0.5, -3.0]], limit=2.0)[..., 3].tolist()
        [[0.25, 1.0]]
    """
    values, limit = real("values", values), _validate.number("limit", limit, above=0.0)
    if values.ndim != 2:
        raise ValueError(f"values must be a matrix, got shape {values.shape}")
    ends = np.array([mpl.colors.to_rgb(COLOURS[name]) for name in ("lsa", "yq")])
    return np.dstack([ends[(values > 0).astype(int)], np.clip(np.abs(values) / limit, 0, 1)])


def use_style() -> None:
    """Set matplotlib's defaults for the book: transparent, grey ink, no box around the plot; a notebook shows SVG.

    Example:
        >>> use_style()
    """
    plt.rcdefaults()
    mpl.rcParams.update(
        {
            "figure.figsize": (5.6, 3.5),
            "figure.dpi": 160,
            "savefig.transparent": True,
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "savefig.facecolor": "none",
            "font.size": 12,
            "axes.titlesize": "medium",
            "figure.titlesize": "medium",
            "svg.fonttype": "path",
            "svg.hashsalt": "lsalib",
            "text.color": INK,
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "axes.titlecolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": plt.cycler(color=list(COLOURS.values())),
            "legend.frameon": False,
            "lines.linewidth": 1.8,
            "figure.constrained_layout.use": True,
        }
    )
    _show_svg()


def _show_svg() -> None:
    """Show figures in a notebook as SVG, which is sharp at every size."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        from matplotlib_inline.config import InlineBackend  # there wherever a notebook runs

        backend = InlineBackend.instance(parent=shell)
        backend.print_figure_kwargs = BARE
        backend.figure_formats = {"svg"}


def windows(values, window: int) -> np.ndarray:
    """Consecutive windows as rows; a last window that is not full is left out.

    Args:
        values: the numbers, (n,).
        window: how many make a row.

    Returns:
        The rows, (n // window, window), in float64.

    Raises:
        ValueError: if ``values`` is no vector, or ``window`` is not a positive whole number.

    Example:
        >>> windows([1.0, 3.0, 5.0, 7.0, 100.0], window=2).mean(1).tolist()
        [2.0, 6.0]
    """
    values, window = np.asarray(values, np.float64), _validate.count("window", window)
    if values.ndim != 1:
        raise ValueError(f"values must be a vector, got shape {values.shape}")
    full = len(values) // window * window
    return values[:full].reshape(-1, window)


def loss_curve(ax: Axes, risk, *, colour: str, label: str | None = None, window: int = 50) -> None:
    """A sampled loss curve: means over windows of steps, and shaded the range of losses in each window.

    Args:
        ax: where to draw.
        risk: the loss of each step, (steps,).
        colour: a key of ``COLOURS``.
        label: for the legend; None leaves the curve out of it.
        window: how many steps a point of the line averages.

    Raises:
        ValueError: if ``risk`` is no vector, ``window`` is not a positive whole number, or no quantity has this name.

    Example:
        >>> figure, ax = plt.subplots()
        >>> loss_curve(ax, np.ones(100), colour="lsa", label="LSA")
        >>> ax.lines[0].get_ydata().tolist()
        [1.0, 1.0]
        >>> plt.close(figure)
    """
    rows, drawn = windows(risk, window), color_of(colour)
    middle = (np.arange(len(rows)) + 0.5) * window
    ax.fill_between(middle, rows.min(1), rows.max(1), color=drawn, alpha=0.12, linewidth=0)
    ax.plot(middle, rows.mean(1), color=drawn, label=label)


def exact_line(ax: Axes, value, *, colour: str, label: str, style: str = "--") -> None:
    """A horizontal line at an exact risk, with its value in the legend.

    Example:
        >>> figure, ax = plt.subplots()
        >>> exact_line(ax, 110 / 21, colour="gd", label="one-step GD")
        >>> ax.lines[0].get_label()
        'one-step GD, 5.238'
        >>> plt.close(figure)
    """
    value = scalar("value", value)
    text = f"{label}, {written(value, '.3f')}"
    ax.axhline(value, color=color_of(colour), linestyle=style, linewidth=1.6, zorder=3, label=text)


def plain_log_ticks(ax: Axes, ticks) -> None:
    """A logarithmic y axis with ordinary numbers at the given ticks.

    Example:
        >>> figure, ax = plt.subplots()
        >>> plain_log_ticks(ax, [5, 10, 20])
        >>> [tick.get_text() for tick in ax.get_yticklabels()]
        ['5', '10', '20']
        >>> plt.close(figure)
    """
    ax.set_yscale("log")
    ax.set_yticks(ticks, labels=[written(float(tick), "g") for tick in ticks])
    ax.yaxis.set_minor_locator(NullLocator())
