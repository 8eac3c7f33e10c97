"""Fold the cells that a page tags `hide-input`, under the title in their first line: # @title …

Colab shows that line as the title of a form, the book as the summary of the fold.
"""

import re

from nbformat import NotebookNode

TAG = "hide-input"
TITLE = re.compile(r"# @title (\S.*)\n")


def title(cell: NotebookNode) -> str:
    """The title in the cell's first line, or "" if it has none."""
    found = TITLE.match(cell.source)
    return found[1].strip() if found else ""


def is_folded(cell: NotebookNode) -> bool:
    """Whether the page folds the cell."""
    return cell.cell_type == "code" and TAG in cell.metadata.get("tags", [])


def fold(cell: NotebookNode) -> None:
    """Fold the cell in the book, in Jupyter and in Colab, by its metadata."""
    if not is_folded(cell):
        return
    name = title(cell)
    shown = cell.metadata.get("mystnb", {})
    cell.metadata["mystnb"] = {**shown, "code_prompt_show": name, "code_prompt_hide": name}
    cell.metadata["jupyter"] = {"source_hidden": True}
    cell.metadata["cellView"] = "form"


def defects(cells: list[NotebookNode]) -> list[str]:
    """Folded cells without a title, and cells with a title that are not folded."""
    return [
        f"cell {cell.id}: " + ("folded without a first line «# @title …»" if is_folded(cell) else "a title, not folded")
        for cell in cells
        if cell.cell_type == "code" and is_folded(cell) != bool(title(cell))
    ]


def without_title(source: str) -> str:
    """The code below the title, which the book shows as the fold's summary."""
    return TITLE.sub("", source, count=1)
