"""A page and its notebook: people edit book/STEM.md, and book/STEM.ipynb is the same
page with its outputs.
"""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import jupytext
import nbformat
from nbformat import NotebookNode

from tools.notebooks import glue, install_cell, markdown

ROOT = Path(__file__).resolve().parents[2]

# The same for every notebook, whichever Python executes it.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}
# the key of one more entry: date, versions and machine of the execution
RUN = "lsalib_run"

# The title in a cell's first line. A page folds the cell under it, and Colab shows it
# as that of a form.
TITLE = re.compile(r"# @title (\S.*)\n")


class Page(NamedTuple):
    """One page of the book."""

    root: Path
    stem: str

    @property
    def md(self) -> Path:
        return self.root / "book" / f"{self.stem}.md"

    @property
    def ipynb(self) -> Path:
        return self.md.with_suffix(".ipynb")

    @property
    def has_code(self) -> bool:
        """Whether the page begins with the header of a text notebook."""
        header = re.match(
            r"---\n(.*?\n)---\n", self.md.read_text(encoding="utf-8"), re.DOTALL
        )
        return header is not None and "format_name: myst" in header[1]


def written_pages(root: Path) -> list[Page]:
    """The pages that people write, by name."""
    return [Page(root, md.stem) for md in sorted((root / "book").glob("*.md"))]


def code_pages(root: Path) -> list[Page]:
    """The pages that have notebooks, by name."""
    return [page for page in written_pages(root) if page.has_code]


def title(cell: NotebookNode) -> str:
    """The title in the cell's first line, or "" if it has none."""
    found = TITLE.match(cell.source)
    return found[1].strip() if found else ""


def build(page: Page) -> NotebookNode:
    """The page as a notebook without outputs.

    The same text always gives the same notebook.
    """
    notebook = jupytext.read(page.md)
    cells = notebook.cells
    for number, cell in enumerate(cells):
        cell.id = f"{page.stem}-{number:03d}"
        if cell.cell_type == "code" and (words := title(cell)):
            prompts = dict.fromkeys(("code_prompt_show", "code_prompt_hide"), words)
            cell.metadata["mystnb"] = {**cell.metadata.get("mystnb", {}), **prompts}
            cell.metadata |= {"jupyter": {"source_hidden": True}, "cellView": "form"}
    first = next(
        (n for n, cell in enumerate(cells) if cell.cell_type == "code"), len(cells)
    )
    url = install_cell.address(page.root)
    cells.insert(first, install_cell.cell(page.stem, url, cells))
    cells.insert(
        0,
        install_cell.first_cell(
            page.stem, markdown.title(page.md), install_cell.book_address(url), cells
        ),
    )
    notebook.metadata = nbformat.from_dict(METADATA)
    return notebook


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The notebook's code cells, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def own_code(page: Page, notebook: NotebookNode | None = None) -> list[str]:
    """The code of each cell of the page, or of its notebook, without the generated
    install cell.
    """
    return [
        cell.source
        for cell in code_cells(notebook or build(page))
        if cell.id != f"{page.stem}-install"
    ]


def outputs(notebook: NotebookNode | None) -> list[NotebookNode]:
    """The outputs of all the notebook's cells, in order; none if there is no notebook."""
    return (
        [output for cell in code_cells(notebook) for output in cell.outputs]
        if notebook
        else []
    )


def with_outputs(
    page: Page, executed: NotebookNode, *, plainly: bool = True
) -> NotebookNode:
    """The page with the outputs of a notebook that ran the same code, and with glued
    texts in its prose.

    Its text is plain Markdown; with ``plainly=False`` it is the page's own MyST, from
    which the book is built.
    """
    notebook = build(page)
    if RUN in executed.metadata:
        notebook.metadata[RUN] = executed.metadata[RUN]
    for cell, ran in zip(code_cells(notebook), code_cells(executed), strict=False):
        cell.execution_count, cell.outputs = ran.execution_count, ran.outputs
    values, book = dict(glue.recorded(notebook)), markdown.book(page.root)
    for cell in (cell for cell in notebook.cells if cell.cell_type == "markdown"):
        source = glue.fill(cell.source, values)
        try:
            cell.source = markdown.plain(source, book) if plainly else source
        except KeyError as error:
            raise SystemExit(
                f"book/{page.stem}.md: no claim or source is called {error}"
            ) from None
    return notebook


def written(notebook: NotebookNode) -> bytes:
    """The notebook's file."""
    return f"{nbformat.writes(notebook)}\n".encode()


def load(page: Page) -> NotebookNode | None:
    """The page's notebook, or None if there is none."""
    return nbformat.read(page.ipynb, as_version=4) if page.ipynb.is_file() else None


def pair_defects(page: Page, notebook: NotebookNode | None) -> list[str]:
    """Where the notebook differs from the page, and which outputs are wrong; empty if
    all is well.
    """
    stale = notebook is None or own_code(page, notebook) != own_code(page)
    differs = f"not as its page makes it; run: make {f'notebook NAME={page.stem}' if stale else 'book'}"
    if notebook is None:
        return [f"book/{page.stem}.ipynb, {differs}"]
    found = [differs] if notebook != with_outputs(page, notebook) else []
    glued = Counter(name for name, _ in set(glue.recorded(notebook)))
    asked = glue.ROLE.findall(page.md.read_text(encoding="utf-8"))
    found += [f"no cell glues “{name}”" for name in asked if name not in glued]
    found += [
        f"glue “{name}”: glued with {n} different texts"
        for name, n in sorted(glued.items())
        if n > 1
    ]
    for number, cell in enumerate(code_cells(notebook), start=1):
        if cell.execution_count != number:
            found.append(
                f"cell {cell.id}: executed as number {cell.execution_count}, expected {number}"
            )
        for output in cell.outputs:
            if output.get("name") == "stderr":
                found.append(
                    f"cell {cell.id}: writes to stderr: {output.text.strip()[:200]}"
                )
    return [f"book/{page.stem}.ipynb, {defect}" for defect in found]


def typed_numbers(page: Page) -> list[str]:
    """The results that were typed into the page's prose."""
    found = glue.literals(page.md.read_text(encoding="utf-8"))
    return [
        f"book/{page.stem}.md, line {line}: {number} is typed by hand; glue it from code"
        for line, number in found
    ]
