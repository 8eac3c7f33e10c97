"""Which part of the library imports which: it is pure JAX, and each part depends on few others."""

import subprocess
import sys
from pathlib import Path

from tools.notebooks.imports import parts_imported

LIBRARY = Path(__file__).parents[2] / "lsalib"
# Every part may use these; of the library they import only each other.
COMMON = {"_arrays", "_files", "_npz", "_progress", "_random", "_validate"}
PARTS = {"book": COMMON, "sts": COMMON | {"book"}}


def test_each_part_imports_few_others():
    """The common modules import only each other; ``book`` and ``sts`` only these, and ``sts`` also ``book``."""
    imported = lambda path: parts_imported(path.read_text())
    for part, allowed in PARTS.items():
        found = {path.name: imported(path) - allowed - {part} for path in (LIBRARY / part).rglob("*.py")}
        assert len(found) > 4 and not set().union(*found.values()), found
    assert set().union(*(imported(LIBRARY / f"{module}.py") for module in COMMON)) <= COMMON
    assert imported(LIBRARY / "tasks.py") - COMMON == {"_white"}, "the control"


def test_importing_lsalib_loads_nothing_that_it_does_not_need():
    """Matplotlib waits for the first figure, and packages for language models until they are used."""
    names = "tokenizers", "gguf", "inspect_ai", "openai", "pooch"
    files = (LIBRARY / "sts").rglob("[!i]*[a-z].py")  # inspect_….py are for Inspect
    modules = [path.relative_to(LIBRARY.parent).with_suffix("") for path in files]
    assert len(modules) > 5
    code = f"""
import sys, lsalib
assert not [name for name in sys.modules if name.startswith(("matplotlib", "lsalib.book", "lsalib.sts", *{names}))]
from lsalib.book import Claim, glue, stored
assert "matplotlib" not in sys.modules
from lsalib.book import figures
assert "matplotlib" in sys.modules
import scipy.stats
sys.modules.update(dict.fromkeys({names}))
"""
    code += "\n".join(f"import {'.'.join(module.parts)}" for module in modules)
    subprocess.run([sys.executable, "-c", code], check=True, cwd=LIBRARY.parent)
