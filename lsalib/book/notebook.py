"""What a page shows in its notebook: tables, and numbers for its prose.

Outside a notebook nothing is shown.
"""

import html
import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

__all__ = ["glue", "table"]

_GLUED = "application/papermill.record/text/plain"
_hooks: dict[Callable[[], None], Callable[[object], None]] = {}


def shell() -> Any:
    """The running IPython, or None."""
    return sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None


def show(bundle: dict[str, object], metadata: dict[str, object] | None = None) -> None:
    """Display one object in several formats, given as {mime type: data}."""
    if shell() is not None:
        from IPython.display import display

        display(bundle, raw=True, metadata=metadata or {})


def after_cell(call: Callable[[], None]) -> None:
    """Call this whenever a cell of the notebook has ended, with or without an error."""
    if shell() is not None and call not in _hooks:
        _hooks[call] = lambda result: call()
        shell().events.register("post_run_cell", _hooks[call])


def written(value: float | int, spec: str) -> str:
    """Write a number, with a minus sign in place of the hyphen, and without a sign if
    it is rounded to zero.

    Example:
        >>> written(-1.5, ".2f"), written(-1e-4, ".2f"), written(1e-9, ".2g")
        ('−1.50', '0.00', '1e−09')
    """
    text = format(value, spec)
    if (
        isinstance(value, float)
        and math.isfinite(value)
        and not re.search("[1-9]", text)
    ):
        text = format(0.0, spec)
    return text.replace("-", "−")


def _entry(name: str, value, spec: str, whole_spec: str) -> str:
    """A text as it is, and one number of Python or any array library as text."""
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.shape or array.dtype.kind not in "biufV":  # V: bfloat16 and similar types
        raise ValueError(f"{name} must be a single number or a text, got {value!r}")
    return written(
        number := array.item(), whole_spec if isinstance(number, int) else spec
    )


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
    specs = [spec] * len(head) if isinstance(spec, str) else list(spec)
    for name, length in {
        "spec": len(specs),
        **{f"rows[{n}]": len(row) for n, row in enumerate(cells)},
    }.items():
        if length != len(head):
            raise ValueError(
                f"{name} must have {len(head)} entries, one for each column, "
                f"got {length}"
            )
    place = lambda n, k: f"rows[{n}][{k}]"
    texts = [
        [_entry(place(n, k), each, specs[k], "") for k, each in enumerate(row)]
        for n, row in enumerate(cells)
    ]
    numeric = [
        any(not isinstance(row[k], str) for row in cells) for k in range(len(head))
    ]
    tag = lambda kind, text, k: (
        f"<{kind}{' class=number' * numeric[k]}>{html.escape(text)}</{kind.split()[0]}>"
    )
    top = "".join(
        tag('th scope="col"' if name else "td", name, k) for k, name in enumerate(head)
    )
    body = "".join(
        f"<tr>{''.join(tag('td', text, k) for k, text in enumerate(row))}</tr>"
        for row in texts
    )
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    page = (
        f'<div class="results"><table>{title}<thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
    widths = [max(map(len, column)) for column in zip(head, *texts, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        for row in [head, *texts]
    ]
    show(
        {
            "text/html": page,
            "text/plain": "\n".join(
                line.rstrip() for line in [*lines, *[caption] * bool(caption)]
            ),
        }
    )


def glue(
    name: str = "", value: object = None, spec: str = ".4f", **values: object
) -> None:
    """Record values for the page's prose, which shows them as ``{glue:text}`name```.

    Args:
        name, value: its name in the prose, and a text or a single number.
        spec: a format specification for numbers.
        values: more names and values.

    Example:
        >>> glue("gd-risk", 110 / 21)  # in a notebook, the prose now says 5.2381
        >>> glue(spec=".0%", share=0.15, rest=0.85)
    """
    named = ({name: value} if name else {}) | values
    if not named:
        raise ValueError(
            "glue needs a name and a value, or values as keywords, got neither"
        )
    for key, each in named.items():
        text = _entry(f"the value of {key!r}", each, spec, spec)
        show(
            {_GLUED: text},
            {
                "scrapbook": {
                    "name": key,
                    "mime_prefix": _GLUED.removesuffix("text/plain"),
                }
            },
        )
