"""Interactive figures: a question, and curves that a reader moves with sliders.

The arrays travel in the notebook, in the output of their cell. The built book draws
them; a notebook shows the question, and the chart with the sliders at their start.
"""

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lsalib import _check
from lsalib.book.notebook import broadcast, shell, show, written

# What the arrays of a figure may weigh in its page, in bytes.
LIMIT = 60_000


def explore(
    x: Any,
    curves: Mapping[str, Any],
    *,
    xlabel: str,
    ylabel: str,
    question: str,
    answers: Mapping[str, str],
    right: str,
    sliders: Mapping[str, Sequence[Any]],
    colors: Sequence[str],
    start: Mapping[str, Any] = {},
    log: str = "",
) -> None:
    """Ask a question, and let the reader move curves over x with sliders.

    Each slider is an axis of the arrays; x has a slider, too, which moves a dot along
    each curve. The axes of the chart stay where they are.

    Args:
        x: increasing numbers, (n,).
        curves: a name and its values, shape (sliders …, n), for each. They broadcast:
            an axis of length 1 does not depend on its slider, and where this is the
            last one, the curve is a horizontal line. NaN is a gap.
        xlabel, ylabel: what the axes measure; ``xlabel`` also names the slider of x.
        question: what the reader should predict.
        answers: each answer, and why it is right or wrong.
        right: the right answer.
        sliders: a name and its positions, numbers or texts, in the order of the axes.
        colors: of the curves, as in ``charts``.
        start: where sliders are at first, by name: the position nearest to a number.
            The others begin at their first position.
        log: which axes are logarithmic: "", "x", "y" or "xy".

    Example:
        >>> errors, lengths = np.linspace(0, 40, 5), [5, 10]
        >>> explore(
        ...     errors,
        ...     {"price": [2 * errors / (C * 10 + 2) for C in lengths]},
        ...     xlabel="squared error",
        ...     ylabel="risk",
        ...     sliders={"examples": lengths},
        ...     colors=["lsa"],
        ...     question="The examples double. What happens to the price?",
        ...     answers={"It halves": "Nearly.", "Nothing": "It depends on them."},
        ...     right="It halves",
        ... )
    """
    _check.choice("right", right, answers)
    x = np.asarray(x, np.float64)
    if x.ndim != 1 or len(x) < 2 or not (np.diff(x) > 0).all():
        raise ValueError(f"x must be two or more increasing numbers, got {x.tolist()}")
    positions = {**sliders, xlabel: x}
    at = dict.fromkeys(positions, 0)
    for name, value in start.items():
        _check.choice("each of start", name, at)
        at[name] = int(np.abs(np.subtract(positions[name], value)).argmin())
    shape, arrays = tuple(map(len, positions.values())), {}
    for name, values in curves.items():
        # an axis for each slider and one for x, all of which may have length 1
        arrays[name] = array = np.array(values, np.float64, ndmin=len(shape))
        broadcast(repr(name), array, shape)
        if "y" in log:  # which has no place for what is not positive
            array[array <= 0] = np.nan
    if len(colors) != len(arrays):
        raise ValueError(f"colors must be {len(arrays)}, of {[*arrays]}, got {colors}")

    picture = _picture(x, arrays, colors, [*at.values()], (xlabel, ylabel), log)
    data = {
        "x": _axis(picture.ax.xaxis) | {"values": _rounded(x)},
        "y": _axis(picture.ax.yaxis),
        "sliders": [
            {"label": name, "texts": [*map(_text, values)], "at": at[name]}
            for name, values in positions.items()
        ],
        "lines": [
            {"name": name, "color": ink, "values": _rounded(arrays[name])}
            for name, ink in zip(arrays, colors, strict=True)
        ],
    }
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    if len(text) > LIMIT:
        raise ValueError(f"curves must fit into {LIMIT} bytes, got {len(text)}")
    # A name that closes a script would end the data.
    page = _page(text.replace("</", "<\\/"), question, answers, right)
    show({"text/html": page, "text/plain": question})
    if shell():
        from IPython.display import display

        display(picture.figure)


def _picture(x, arrays, inks, at: list[int], labels, log: str):
    """The chart with the sliders at their start."""
    # Only here: it brings matplotlib.
    from lsalib.book.charts import chart

    values = np.concatenate([array.ravel() for array in arrays.values()])
    low, high = np.nanmin(values), np.nanmax(values)
    if "y" in log:
        low, high = low / 1.2, high * 1.2
    else:
        room = 0.04 * (high - low or 1.0)
        # an axis from zero begins there
        low, high = low - (room if low else 0), high + room
    ends = x[[0, -1]]
    with chart(*labels, log=log, xlim=ends, ylim=(low, high), show=False) as picture:
        for ink, (name, array) in zip(inks, arrays.items(), strict=True):
            # an axis of length 1 has one position
            values = array[tuple(np.mod(at[:-1], array.shape[:-1]))]
            if len(values) == 1:
                picture.exact(values[0], name, color=ink)
            elif np.isfinite(values).any():
                picture.line(x, values, name, color=ink)
                picture.points(x[at[-1]], values[at[-1]], color=ink)
    return picture


def _axis(axis) -> dict[str, Any]:
    """An axis as the chart has it: its ends, and its ticks with their texts."""
    low, high = axis.get_view_interval()
    ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)
    return {
        "label": axis.get_label_text(),
        "log": axis.get_scale() == "log",
        "ends": _rounded([low, high]),
        "ticks": [
            (_rounded(tick), text.get_text())
            for tick, text in ticks
            if low <= tick <= high
        ],
    }


def _text(value) -> str:
    """A slider's position: a text as it is, a number with at most four digits."""
    if isinstance(value, str):
        return value
    return written(float(f"{value:.4g}"), ",.12g")


def _rounded(values) -> Any:
    """Numbers with five digits, in lists as long as the axes; None is a gap."""
    if np.ndim(values):
        return [_rounded(each) for each in values]
    if not np.isfinite(values):
        return None
    number = float(f"{values:.5g}")
    return int(number) if number.is_integer() else number


def _page(data: str, question: str, answers: Mapping[str, str], right: str) -> str:
    """The question, its answers as folds that hold their reasons, and the data."""
    folds = ""
    for name, reason in {**answers, "Show the answer": answers[right]}.items():
        kind, verdict = "answer", "Not quite."
        if name == right:
            kind, verdict = "answer right", "That is right."
        elif name not in answers:
            verdict = f"{right}."
        folds += (
            f'<details class="{kind}"><summary>{html.escape(name)}</summary>'
            f"<p>{html.escape(f'{verdict} {reason}')}</p></details>"
        )
    question = html.escape(question)
    return (
        f'<div class="explorer" role="group" aria-label="{question}"><p>{question}</p>'
        f'{folds}<script type="application/json">{data}</script></div>'
    )
