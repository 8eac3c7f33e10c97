"""Which part of the library imports which: it is pure JAX, and each part depends on few others."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.notebooks.imports import parts_imported

LIBRARY = Path(__file__).parents[2] / "lsalib"
# Every part may use these; of the library they import only each other.
COMMON = {"_arrays", "_files", "_npz", "_progress", "_random", "_validate"}
PARTS = {"book": COMMON, "sts": COMMON | {"book"}}


def foreign(part: str, source: str) -> set[str]:
    """The parts of the library that this code, in this part, must not import."""
    return parts_imported(source) - PARTS[part] - {part}


@pytest.mark.parametrize("part", PARTS)
def test_book_and_sts_import_nothing_else_of_the_library(part):
    found = {path.name: foreign(part, path.read_text()) for path in (LIBRARY / part).rglob("*.py")}
    assert len(found) > 4 and not set().union(*found.values()), found


def beyond_common(module: str) -> set[str]:
    """The parts that this module imports, besides the common ones."""
    return parts_imported((LIBRARY / f"{module}.py").read_text()) - COMMON


def test_common_modules_import_only_each_other():
    assert set().union(*map(beyond_common, COMMON)) == set()
    assert beyond_common("tasks") == {"_white"}, "control"


@pytest.mark.parametrize(
    ("code", "parts"),
    [
        ("import lsalib.theory", {"theory"}),
        ("import lsalib.theory.risk as r, numpy", {"theory"}),
        ("from lsalib import theory, tasks", {"theory", "tasks"}),
        ("from lsalib.theory.risk import gd_risk", {"theory"}),
        ("def f():\n    from lsalib import training", {"training"}),
        ("import lsalib", {"lsalib"}),
        ("import lsalibrary.theory; from numpy import lsalib", set()),
    ],
)
def test_every_form_of_an_import_is_seen(code, parts):
    assert parts_imported(code) == parts


@pytest.mark.parametrize(
    "code",
    [
        "from lsalib.training.loop import place",
        "from lsalib import _files, theory",
        "def f():\n    import lsalib.training",
        "import lsalib",
    ],
)
def test_a_foreign_import_is_seen(code):
    assert foreign("sts", code) and not foreign("sts", "from lsalib import _validate\nfrom lsalib.book import stored")


def test_the_library_alone_neither_draws_nor_serves_pages():
    """Importing matplotlib takes as long as all the rest, so it waits for the first figure."""
    code = """
import sys, lsalib
assert not [name for name in sys.modules if name.startswith(("matplotlib", "lsalib.book"))]
from lsalib.book import check, control, glue, stored
assert "matplotlib" not in sys.modules
from lsalib.book import figures
assert "matplotlib" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_lsalib_needs_no_package_for_language_models():
    """The modules for language models import these packages only when they are used."""
    python = lambda code: subprocess.check_output([sys.executable, "-c", code], cwd=LIBRARY.parent, text=True)
    names = "tokenizers", "safetensors", "gguf", "inspect_ai", "openai", "platformdirs", "pooch"
    loaded = f"[name for name in sys.modules if name.startswith({('lsalib.sts', *names)})]"
    assert python(f"import sys, lsalib; print({loaded})") == "[]\n"
    modules = [
        str(path.relative_to(LIBRARY.parent).with_suffix("")) for path in (LIBRARY / "sts").rglob("[!i]*[a-z].py")
    ]
    blocked = f"import sys, scipy.stats; sys.modules.update(dict.fromkeys({names}))\n"
    python(blocked + "\n".join(f"import {name.replace('/', '.')}" for name in modules))
    assert len(modules) >= 15
