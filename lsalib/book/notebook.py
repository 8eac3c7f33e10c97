"""Output of a page in its notebook; outside a notebook nothing is shown."""

import html
from collections.abc import Callable, Iterable, Sequence

from lsalib.book._conversion import scalar, written

__all__ = ["glue", "table"]


def show(bundle: dict[str, object], metadata: dict[str, object] | None = None) -> None:
    """Display one object in several formats, given as {mime type: data}; silent outside IPython.

    Example:
        >>> show({"text/plain": "seen in a notebook only"})
    """
    try:
        from IPython import get_ipython
    except ImportError:
        return
    if get_ipython() is not None:
        from IPython.display import display

        display(bundle, raw=True, metadata=metadata or {})


def after_cell(call: Callable[[], None]) -> None:
    """Call this once each time a cell of the notebook has ended, with or without an error; silent outside IPython.

    Example:
        >>> after_cell(print)
    """
    try:
        from IPython import get_ipython
    except ImportError:
        return
    shell = get_ipython()
    if shell is not None and call not in _hooks:
        _hooks[call] = lambda result: call()
        shell.events.register("post_run_cell", _hooks[call])


_hooks: dict[Callable[[], None], Callable[[object], None]] = {}


def table(
    head: Sequence[str], rows: Iterable[Iterable[object]], *, caption: str = "", spec: str | Sequence[str] = ".4g"
) -> None:
    """Show results as a table with a head and a caption.

    Args:
        head: a name for each column.
        rows: the rows, with one entry for each column: a text or a single number; integers are written in full.
        caption: what the table shows.
        spec: a format specification for the other numbers, or one for each column.

    Raises:
        ValueError: if a row, or ``spec``, has another length than the head, or an entry is neither number nor text.

    Example:
        >>> table(["heads", "risk"], [[1, 110 / 21]], caption="One head.")  # a notebook shows it
    """
    cells = [list(row) for row in rows]
    specs = [spec] * len(head) if isinstance(spec, str) else list(spec)
    lengths = {"spec": len(specs), **{f"rows[{n}]": len(row) for n, row in enumerate(cells)}}
    for name, length in lengths.items():
        if length != len(head):
            raise ValueError(f"{name} must have {len(head)} entries, one for each column, got {length}")
    texts = [[_entry(f"rows[{n}][{k}]", value, specs[k]) for k, value in enumerate(row)] for n, row in enumerate(cells)]
    numeric = [all(not isinstance(row[n], str) for row in cells) for n in range(len(head))]
    tag = lambda kind, text, n: f"<{kind}{' class=number' * numeric[n]}>{html.escape(text)}</{kind.split()[0]}>"
    top = "".join(tag('th scope="col"' if name else "td", name, n) for n, name in enumerate(head))
    body = "".join(f"<tr>{''.join(tag('td', text, n) for n, text in enumerate(row))}</tr>" for row in texts)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    page = f'<div class="results"><table>{title}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
    widths = [max(map(len, column)) for column in zip(head, *texts, strict=True)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in [head, *texts]]
    show({"text/html": page, "text/plain": "\n".join(line.rstrip() for line in [*lines, *[caption] * bool(caption)])})


def _entry(name: str, value: object, spec: str) -> str:
    if isinstance(value, str):
        return value
    number = scalar(name, value)
    return written(number, "" if isinstance(number, int) else spec)


def glue(name: str = "", value: object = None, spec: str = ".4f", **values: object) -> None:
    """Record values for the page's prose, which shows them as ``{glue:text}`name```.

    Either one name and its value, or several as keywords, which share the format.

    Args:
        name: its name in the prose.
        value: a text, or a single number, which is formatted by ``spec``.
        spec: a format specification.
        values: names and values.

    Raises:
        ValueError: if a value is neither a text nor a single number, or nothing is given.

    Example:
        >>> glue("gd-risk", 110 / 21)  # in a notebook, the prose now says 5.2381
        >>> glue(spec=".0%", share=0.15, rest=0.85)
    """
    named = {name: value} if name else {}
    if not named | values:
        raise ValueError("glue needs a name and a value, or values as keywords, got neither")
    for key, each in (named | values).items():
        text = each if isinstance(each, str) else written(scalar(f"the value of {key!r}", each), spec)
        show({_GLUED: text}, {"scrapbook": {"name": key, "mime_prefix": _GLUED.removesuffix("text/plain")}})


_GLUED = "application/papermill.record/text/plain"
