"""A page and its notebook: people edit book/STEM.md, and book/STEM.ipynb is the same
page with its outputs. Each file is read once.
"""

import re
from collections import Counter
from collections.abc import Mapping
from copy import deepcopy
from functools import cache, cached_property
from pathlib import Path

import jupytext
import nbformat
import yaml
from nbformat import NotebookNode
from pybtex.database import Entry, parse_file

from tools.claims import read_claims
from tools.notebooks import glue, install_cell, markdown

ROOT = Path(__file__).resolve().parents[2]

# The same for every notebook, whichever Python executes it.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}
# Two more entries: the page, and date, versions and machine of the execution.
PAGE, RUN = "lsalib_page", "lsalib_run"

# The title in a cell's first line. A page folds the cell under it, and Colab shows it
# as that of a form.
TITLE = re.compile(r"# @title (\S.*)\n")


class Book:
    """The book of a checkout: its pages, and what they refer to."""

    def __init__(self, root: Path = ROOT):
        self.root = root
        files = sorted((root / "book").glob("*.md"))
        self.pages = {md.stem: Page(self, md) for md in files}

    @property
    def code_pages(self) -> list["Page"]:
        """The pages that have notebooks, by name."""
        return [page for page in self.pages.values() if page.has_code]

    @cached_property
    def address(self) -> str:
        """The repository's address from `_config.yml`, "" while there is none."""
        config = yaml.safe_load((self.root / "_config.yml").read_text("utf-8"))
        return config["repository"]["url"]

    @cached_property
    def site(self) -> str:
        """Where the built book is published, or ""."""
        return install_cell.book_address(self.address)

    @cached_property
    def chapters(self) -> dict[str, int]:
        """Each numbered chapter's number, by the name of its page."""
        toc = yaml.safe_load((self.root / "_toc.yml").read_text("utf-8"))
        parts = [part for part in toc.get("parts", []) if part.get("numbered")]
        files = [chapter["file"] for part in parts for chapter in part["chapters"]]
        return {Path(name).stem: number for number, name in enumerate(files, start=1)}

    @cached_property
    def labels(self) -> dict[str, tuple[str, str]]:
        """For each label in a numbered chapter, its page and its name in the book:
        "Theorem 2.1", "(2.1)", "Figure 2.1".
        """
        found = {}
        for stem, chapter in self.chapters.items():
            if stem in self.pages:
                for label, name in markdown.labels(self.pages[stem].text, chapter):
                    found[label] = stem, name
        return found

    @cached_property
    def sources(self) -> Mapping[str, Entry]:
        """The bibliography."""
        bib = self.root / "book/references.bib"
        return parse_file(str(bib)).entries if bib.is_file() else {}

    @cached_property
    def verdicts(self) -> dict[str, str]:
        """The status of each claim."""
        if not (self.root / "book/claims.toml").is_file():
            return {}
        return {claim.id: claim.status for claim in read_claims(self.root)}

    @cached_property
    def titles(self) -> dict[str, str]:
        return {stem: page.title for stem, page in self.pages.items()}


# The book of this checkout, as the site is built from it.
current = cache(Book)


class Page:
    """One page of the book."""

    def __init__(self, book: Book, md: Path):
        self.book, self.md, self.stem = book, md, md.stem
        self.ipynb = md.with_suffix(".ipynb")

    @cached_property
    def text(self) -> str:
        return self.md.read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        """The first heading; the page's name without one."""
        heading = re.search(r"^# (.+)$", self.text, re.MULTILINE)
        return heading[1] if heading else self.stem

    @property
    def has_code(self) -> bool:
        """Whether the page begins with the header of a text notebook."""
        header = re.match(r"---\n(.*?\n)---\n", self.text, re.DOTALL)
        return header is not None and "format_name: myst" in header[1]

    @cached_property
    def built(self) -> NotebookNode:
        """The page as a notebook without outputs; who changes it takes a copy.

        The same text always gives the same notebook.
        """
        notebook = jupytext.reads(self.text, fmt="md:myst")
        cells = notebook.cells
        for number, cell in enumerate(cells):
            cell.id = f"{self.stem}-{number:03d}"
            if cell.cell_type == "code" and (words := title(cell)):
                prompts = dict.fromkeys(("code_prompt_show", "code_prompt_hide"), words)
                cell.metadata["mystnb"] = cell.metadata.get("mystnb", {}) | prompts
                cell.metadata["jupyter"] = {"source_hidden": True}
                cell.metadata["cellView"] = "form"
        kinds = [*(cell.cell_type for cell in cells), "code"]
        cells.insert(kinds.index("code"), install_cell.cell(self, cells))
        cells.insert(0, install_cell.first_cell(self, cells))
        notebook.metadata = nbformat.from_dict(METADATA | {PAGE: self.stem})
        return notebook

    @property
    def parameters(self) -> NotebookNode | None:
        """The cell of parameters."""
        return install_cell.parameters(self.built.cells)

    @cached_property
    def stored(self) -> NotebookNode | None:
        """The notebook with its outputs, or None if there is none."""
        return nbformat.read(self.ipynb, 4) if self.ipynb.is_file() else None

    def code(self, notebook: NotebookNode) -> list[str]:
        """The code of each cell, without the generated install cell."""
        cells = code_cells(notebook)
        return [cell.source for cell in cells if cell.id != f"{self.stem}-install"]

    def with_outputs(
        self, executed: NotebookNode, *, plainly: bool = True
    ) -> NotebookNode:
        """The page with the outputs of a notebook that ran the same code, and with
        glued texts in its prose.

        Its text is plain Markdown; with ``plainly=False`` it is the page's own MyST,
        from which the book is built.
        """
        notebook = deepcopy(self.built)
        if RUN in executed.metadata:
            notebook.metadata[RUN] = executed.metadata[RUN]
        for cell, ran in zip(code_cells(notebook), code_cells(executed), strict=False):
            cell.execution_count, cell.outputs = ran.execution_count, ran.outputs
        values = dict(glue.recorded(notebook))
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = glue.fill(cell.source, values)
                if plainly:
                    cell.source = self.plain(cell.source)
        return notebook

    def plain(self, source: str) -> str:
        try:
            return markdown.plain(source, self.book)
        except KeyError as error:
            said = f"no claim or source is called {error}"
            raise SystemExit(f"book/{self.stem}.md: {said}") from None

    def save(self, notebook: NotebookNode) -> None:
        self.ipynb.write_bytes(written(notebook))
        self.stored = notebook

    def output_defects(self, notebook: NotebookNode) -> list[str]:
        """What is wrong with the notebook's outputs."""
        glued = Counter(name for name, _ in set(glue.recorded(notebook)))
        found = [
            f"no cell glues “{name}”"
            for name in glue.ROLE.findall(self.text)
            if name not in glued
        ]
        for name, count in sorted(glued.items()):
            if count > 1:
                found.append(f"glue “{name}”: glued with {count} different texts")
        for number, cell in enumerate(code_cells(notebook), start=1):
            ran = cell.execution_count
            if ran != number:
                found.append(f"cell {cell.id}: executed as number {ran}, not {number}")
            for output in cell.outputs:
                if output.get("name") == "stderr":
                    said = output.text.strip()[:200]
                    found.append(f"cell {cell.id}: writes to stderr: {said}")
        return [f"book/{self.stem}.ipynb, {defect}" for defect in found]

    def defects(self) -> list[str]:
        """Where the stored notebook differs from the page, and what is wrong with its
        outputs; empty if all is well.
        """
        differs = f"book/{self.stem}.ipynb, not as its page makes it; run: make "
        if self.stored is None:
            return [f"{differs}notebook NAME={self.stem}"]
        found = self.output_defects(self.stored)
        if self.code(self.stored) != self.code(self.built):
            return [f"{differs}notebook NAME={self.stem}", *found]
        if written(self.with_outputs(self.stored)) != self.ipynb.read_bytes():
            return [f"{differs}book", *found]
        return found

    def typed_numbers(self) -> list[str]:
        """The results that were typed into the page's prose."""
        return [
            f"book/{self.stem}.md, line {line}: {number} is typed by hand; glue it "
            "from code"
            for line, number in glue.literals(self.text)
        ]


def title(cell: NotebookNode) -> str:
    """The title in the cell's first line, or "" if it has none."""
    found = TITLE.match(cell.source)
    return found[1].strip() if found else ""


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    """The notebook's code cells, in order."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook: NotebookNode | None) -> list[NotebookNode]:
    """The outputs of all cells, in order; none if there is no notebook."""
    cells = code_cells(notebook) if notebook else []
    return [output for cell in cells for output in cell.outputs]


def written(notebook: NotebookNode) -> bytes:
    """The notebook's file, whose lines end as on Unix."""
    return f"{nbformat.writes(notebook)}\n".encode()
