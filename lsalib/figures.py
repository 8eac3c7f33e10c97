"""One style for every figure, legible on a light and on a dark page, and the figures that recur."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

__all__ = ["COLOURS", "exact_line", "loss_curve", "smooth", "use_style"]

# Mid tones with a contrast of at least 3 against white and against the dark page, told apart by the colour-blind.
COLOURS = {"lsa": "#c2571a", "yq": "#2878c8", "gd": "#c2307a", "bayes": "#2e8b57", "other": "#8367c7"}
INK = "#7a828e"


def use_style() -> None:
    """Set matplotlib's defaults for the book: transparent, grey ink, no box around the plot.

    Example:
        >>> use_style()
    """
    plt.rcdefaults()
    mpl.rcParams.update(
        {
            "figure.figsize": (6.4, 3.8),
            "figure.dpi": 110,
            "savefig.dpi": 220,
            "savefig.transparent": True,
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "savefig.facecolor": "none",
            "font.size": 11.5,
            "text.color": INK,
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "axes.titlecolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": mpl.cycler(color=list(COLOURS.values())),
            "legend.frameon": False,
            "lines.linewidth": 1.8,
            "figure.constrained_layout.use": True,
        }
    )


def smooth(values, window: int) -> np.ndarray:
    """Means of consecutive windows; a last window that is not full is left out.

    Example:
        >>> smooth([1.0, 3.0, 5.0, 7.0, 100.0], window=2).tolist()
        [2.0, 6.0]
    """
    values = np.asarray(values, np.float64)
    full = len(values) // window * window
    return values[:full].reshape(-1, window).mean(1)


def loss_curve(ax: Axes, risk, *, colour: str, label: str, window: int = 25) -> None:
    """A sampled loss curve: the raw losses as a veil, their window means as a line.

    Args:
        ax: where to draw.
        risk: the loss of each step, (steps,).
        colour: a key of ``COLOURS``.
        label: for the legend.
        window: how many steps a point of the line averages.

    Example:
        >>> figure, ax = plt.subplots()
        >>> loss_curve(ax, np.ones(100), colour="lsa", label="LSA")
        >>> len(ax.lines)
        2
        >>> plt.close(figure)
    """
    risk = np.asarray(risk)
    means = smooth(risk, window)
    ax.plot(np.arange(len(risk)), risk, color=COLOURS[colour], alpha=0.25, linewidth=0.6)
    ax.plot((np.arange(len(means)) + 0.5) * window, means, color=COLOURS[colour], label=label)


def exact_line(ax: Axes, value: float, *, colour: str, label: str, style: str = "--") -> None:
    """A horizontal line at an exact risk, with its value in the legend.

    Example:
        >>> figure, ax = plt.subplots()
        >>> exact_line(ax, 110 / 21, colour="gd", label="one-step GD")
        >>> ax.lines[0].get_label()
        'one-step GD, 5.238'
        >>> plt.close(figure)
    """
    ax.axhline(value, color=COLOURS[colour], linestyle=style, linewidth=1.4, label=f"{label}, {value:.3f}")
