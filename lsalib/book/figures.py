"""One style for every figure, legible on light and dark pages; ``charts`` draws with
it.
"""

import re
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from lsalib import _check
from lsalib.book.notebook import Numbers, shell

__all__ = ["INK", "PALETTE", "color_of", "tint", "use_style"]

# A quantity's color as it is drawn, and as the book's pages show it in their light and
# in their dark theme. Drawn it has a contrast of at least 3 against white and against a
# dark page, shown one of 4.5; all told apart by the color-blind. “lsa” is linear
# attention without or with a fixed guess, “yq” attention with the right guess, trained
# or given, “gd” one gradient step, “bayes” the Bayes or ridge predictor, “ltb” the
# block with an MLP.
PALETTE = {
    "lsa": ("#c2571a", "#bb5419", "#e26823"),
    "yq": ("#2878c8", "#2775c4", "#448fda"),
    "gd": ("#c2307a", "#c2307a", "#d9639f"),
    "bayes": ("#2e8b57", "#2b8151", "#349e63"),
    "other": ("#8367c7", "#7e61c5", "#977fd0"),
    "softmax": ("#94780b", "#8b700a", "#a9890d"),
    "ltb": ("#16858f", "#157f88", "#199aa5"),
    "ink": ("#7a828e", "#535861", "#a5aab2"),
}  #: Each ink as it is drawn, by day and by night; the last two are the book's.
INK = PALETTE["ink"][0]  #: The ink of axes and text.
# Nothing in a drawing but what is drawn: the same figure has the same bytes.
BARE: dict[str, Any] = {
    "metadata": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "bbox_inches": "tight",
}

# Numbers with more than two decimals, but not in a comment or as a scale.
ROUNDED = re.compile(r"<!--.*?-->|scale\([^)]*\)|(-?\d+\.\d{3,})")
HASHED = re.compile(r'id="(\w*[0-9a-f]{10})"')


def color_of(quantity: str) -> str:
    """The color in which a quantity is drawn; "ink" is that of axes and text."""
    return PALETTE[_check.choice("color", quantity, PALETTE)][0]


def tint(values: Numbers, limit: float = 1.0) -> np.ndarray:
    """A matrix, (rows, columns), as an image for ``imshow``, (rows, columns, 4): red,
    green, blue and opacity.

    Blue is positive and orange negative; zero is transparent, and entries from
    ``limit`` on have the full color.

    Example:
        >>> tint([[0.5, -3.0]], limit=2.0)[..., 3].tolist()
        [[0.25, 1.0]]
    """
    values = np.asarray(values, np.float64)
    ends = np.array([mpl.colors.to_rgb(color_of(name)) for name in ("lsa", "yq")])
    return np.dstack(
        [ends[(values > 0).astype(int)], np.clip(np.abs(values) / limit, 0, 1)]
    )


def use_style() -> None:
    """Set matplotlib's defaults for the book: transparent, gray ink, no box around the
    plot; a notebook shows SVG.
    """
    inked = ("text.color", "axes.edgecolor", "axes.labelcolor")
    style: Any = dict.fromkeys((*inked, "xtick.color", "ytick.color"), INK) | {
        "figure.dpi": 160,
        "figure.facecolor": "none",
        "figure.constrained_layout.use": True,
        "axes.facecolor": "none",
        "axes.prop_cycle": plt.cycler("color", map(color_of, PALETTE)),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": "medium",
        "font.size": 12,
        "lines.linewidth": 1.8,
        "svg.hashsalt": "lsalib",
    }
    plt.style.use(["default", style])
    if shell():
        # there wherever a notebook runs
        from matplotlib_inline.config import InlineBackend

        # sharp at every size
        InlineBackend.instance(parent=shell()).figure_formats = {"svg"}
        formatter = shell().display_formatter.formatters["image/svg+xml"]
        formatter.for_type(Figure, drawing)


def drawing(figure: Figure) -> str:
    """The figure as SVG, the same on every machine.

    Numbers have two decimals, a hundredth of a point. Shapes are numbered; matplotlib
    names them by hashes of numbers that are not rounded.
    """
    from IPython.core.pylabtools import print_figure

    text = ROUNDED.sub(_round, print_figure(figure, "svg", **BARE))
    for number, name in enumerate(dict.fromkeys(HASHED.findall(text))):
        text = text.replace(name, f"shape-{number}")
    return text


def _round(number: re.Match[str]) -> str:
    """A number with two decimals, without zeros at its end; what else was matched."""
    return f"{round(float(number[1]), 2):.9g}" if number[1] else number[0]
