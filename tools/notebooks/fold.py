"""Cells that a page folds: their first line, «# @title …», says what is inside.

Hosted notebooks know that line as the title of a form; the book shows it as the summary of the fold.
"""

import re

from nbformat import NotebookNode

TAG = "hide-input"
TITLE = re.compile(r"# @title (\S.*)\n")


def title(cell: NotebookNode) -> str:
    """What the cell's first line calls it; "" where it has no title."""
    found = TITLE.match(cell.source)
    return found[1].strip() if found else ""


def is_folded(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and TAG in cell.metadata.get("tags", [])


def fold(cell: NotebookNode) -> None:
    """Write into the cell's metadata that it is folded: for the book, for Jupyter, and for Colab."""
    if not is_folded(cell):
        return
    name = title(cell)
    shown = cell.metadata.get("mystnb", {})
    cell.metadata["mystnb"] = {**shown, "code_prompt_show": name, "code_prompt_hide": name}
    cell.metadata["jupyter"] = {"source_hidden": True}
    cell.metadata["cellView"] = "form"


def defects(cells: list[NotebookNode]) -> list[str]:
    """Folded cells that do not say what is inside, and titles of cells that are not folded."""
    return [
        f"cell {cell.id}: " + ("folded without a first line «# @title …»" if is_folded(cell) else "a title, not folded")
        for cell in cells
        if cell.cell_type == "code" and is_folded(cell) != bool(title(cell))
    ]


def without_title(source: str) -> str:
    """The code below the title: in the book the fold shows it already."""
    return TITLE.sub("", source, count=1)
