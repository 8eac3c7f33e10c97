"""The one generated cell: it makes a page run where lsalib is missing, as in a hosted notebook."""

import json
import re
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

# The `url:` line of `_config.yml`'s `repository:` block; the value is all that is ever rewritten.
URL_LINE = re.compile(r'^(repository:\s*\n(?:[ \t]+.*\n)*?[ \t]+url:[ \t]*)"([^"\n]*)"', re.MULTILINE)

SOURCE = """\
# Where lsalib is missing, as in a hosted notebook, install it; a JAX that is already there stays as it is.
import importlib.util
import subprocess
import sys

ADDRESS = {address}
if importlib.util.find_spec("lsalib") is None:
    if not ADDRESS:
        raise ModuleNotFoundError("lsalib is missing: clone this book's repository, run `pip install .` in it, and restart the kernel")
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", f"git+{{ADDRESS}}"], check=True)
    importlib.invalidate_caches()"""


def address(root: Path) -> str:
    """The repository's address that `_config.yml` holds, "" while there is none."""
    found = URL_LINE.search((root / "_config.yml").read_text(encoding="utf-8"))
    if not found:
        raise SystemExit('_config.yml: expected a line `url: "…"` below `repository:`, found none')
    return found[2]


def cell_id(stem: str) -> str:
    return f"{stem}-install"


def source(address: str) -> str:
    return SOURCE.format(address=json.dumps(address))


def cell(stem: str, address: str) -> NotebookNode:
    """The cell as a notebook holds it; the book does not show it."""
    return new_code_cell(source(address), id=cell_id(stem), metadata={"tags": ["remove-cell"]})
