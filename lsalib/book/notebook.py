"""What a page shows in its notebook: tables, and numbers for its prose.

Outside a notebook nothing is shown.
"""

import html
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

# Lists, and arrays of any library: NumPy reads them.
Numbers = Float[np.ndarray, "*shape"] | Any
Series = Float[np.ndarray, " n"] | Any
# Where MyST-NB looks for values.
_PREFIX = "application/papermill.record/"


def shell() -> Any:
    """The running IPython, or None."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def show(bundle: dict[str, object], metadata: dict[str, object] | None = None) -> None:
    """Display one object in several formats, given as {mime type: data}."""
    if shell():
        shell().display_pub.publish(bundle, metadata)


def written(value: float | int, spec: str) -> str:
    """Write a number, with a minus sign in place of the hyphen, and without a sign if
    it is rounded to zero.

    Example:
        >>> written(-1.5, ".2f"), written(-1e-4, ".2f"), written(1e-9, ".2g")
        ('−1.50', '0.00', '1e−09')
    """
    text = format(value, spec)
    if re.fullmatch("[^1-9]*0[^1-9]*", text):
        text = format(abs(0 * value), spec)
    return text.replace("-", "−")


def entry(name: str, value, spec: str, whole_spec: str) -> str:
    """A text as it is, and one number of Python or any array library as text."""
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.shape or array.dtype.kind not in "biufV":  # V: bfloat16 and similar types
        raise ValueError(f"{name} must be a single number or a text, got {value!r}")
    number = array.item()
    return written(number, whole_spec if isinstance(number, int) else spec)


def broadcast(name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array in this shape, which NumPy's own error does not name."""
    try:
        return np.broadcast_to(array, shape)
    except ValueError:
        raise ValueError(
            f"{name} must broadcast to {shape}, got shape {array.shape}"
        ) from None


def table(
    head: Sequence[str],
    rows: Iterable[Iterable[object]],
    *,
    caption: str = "",
    spec: str | Sequence[str] = ".4g",
) -> None:
    """Show results as a table with a head and a caption.

    Args:
        head: a name for each column.
        rows: the rows, with one entry for each column: a text or a single number;
            integers are written in full.
        caption: what the table shows.
        spec: a format specification for the other numbers, or one for each column.

    Example:
        >>> table(["heads", "risk"], [[1, 110 / 21]], caption="One head.")  # is shown
    """
    cells = [list(row) for row in rows]
    specs: list = [spec] * len(head) if isinstance(spec, str) else list(spec)
    named = {f"rows[{n}]": row for n, row in enumerate(cells)}
    for name, row in ({"spec": specs} | named).items():
        if len(row) != len(head):
            raise ValueError(
                f"{name} must have {len(head)} entries, one for each column, "
                f"got {len(row)}"
            )
    texts = [
        [entry(f"{name}[{k}]", each, specs[k], "") for k, each in enumerate(row)]
        for name, row in named.items()
    ]
    # A column with a number is set as numbers, its texts too.
    kinds = [
        "" if all(isinstance(row[k], str) for row in cells) else " class=number"
        for k in range(len(head))
    ]
    top = "".join(
        f'<th scope="col"{kind}>{html.escape(name)}</th>'
        if name
        else f"<td{kind}></td>"
        for name, kind in zip(head, kinds, strict=True)
    )
    body, cell = "", "<td{}>{}</td>".format
    for row in texts:
        body += f"<tr>{''.join(map(cell, kinds, map(html.escape, row)))}</tr>"
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    page = (
        f'<div class="results"><table>{title}<thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
    widths = [max(map(len, column)) for column in zip(head, *texts, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (head, *texts)]
    lines += [caption] * bool(caption)
    show({"text/html": page, "text/plain": "\n".join(lines)})


def glue(*, spec: str = ".4f", **values: object) -> None:
    """Record values for the page's prose, which shows them as ``{glue:text}`name```.

    Args:
        spec: a format specification for numbers.
        values: names in the prose, and for each a text or a single number.

    Example:
        >>> glue(gd_risk=110 / 21)  # in a notebook, the prose now says 5.2381
        >>> glue(spec=".0%", share=0.15, rest=0.85)
    """
    for key, each in values.items():
        text = entry(f"the value of {key!r}", each, spec, spec)
        about = {"name": key, "mime_prefix": _PREFIX}
        show({f"{_PREFIX}text/plain": text}, {"scrapbook": about})
