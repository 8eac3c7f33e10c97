"""What a page needs of its notebook; outside a notebook nothing is shown."""

__all__ = ["glue"]


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


def glue(name: str, value: object, spec: str = ".4f") -> None:
    """Record a value for the page's prose, where ``{glue:text}`name``` stands for it.

    Args:
        name: how the prose calls it.
        value: a number, formatted by ``spec``, or a text.
        spec: a format specification.

    Example:
        >>> glue("gd-risk", 110 / 21)  # in a notebook, the prose now says 5.2381
    """
    text = value if isinstance(value, str) else format(value, spec)
    mime = "application/papermill.record/text/plain"
    show({mime: text}, {"scrapbook": {"name": name, "mime_prefix": "application/papermill.record/"}})
