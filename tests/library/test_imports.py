"""Which part of the library imports which."""

import ast
import subprocess
import sys
from pathlib import Path

LIBRARY = Path(__file__).parents[2] / "lsalib"
CODE = """
import sys, lsalib
absent = lambda *names: not [name for name in sys.modules if name.startswith(names)]
assert absent("matplotlib", "lsalib.book", "lsalib.sts")
assert absent("tokenizers", "gguf", "inspect_ai", "openai", "pooch")
from lsalib.book import Claim, glue, stored
assert absent("matplotlib")
from lsalib.book import figures
assert not absent("matplotlib")
"""


def imported(part):
    """What the files of a part import of the library's other parts, such as "tasks" or
    "book.statistics".
    """
    found = set()
    for path in [*LIBRARY.glob(f"{part}.py"), *(LIBRARY / part).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                found |= {f"{node.module}.{name.name}" for name in node.names}
            elif isinstance(node, ast.Import):
                found |= {name.name for name in node.names}
    ours = {
        name.removeprefix("lsalib.") for name in found if name.startswith("lsalib.")
    }
    return {name for name in ours if not name.startswith(f"{part}.")}


def test_book_imports_no_other_part_and_nobody_imports_book_or_sts():
    """But what refuses wrong input. Of ``book``, ``sts`` uses the statistics, and its
    stored results.
    """
    assert imported("book") == {"_check"}
    of_book = {
        name.split(".")[1] for name in imported("sts") if name.startswith("book")
    }
    assert "statistics" in of_book <= {"statistics", "stored"}
    outside = dict.fromkeys(("attention", "theory", "layers"), "training") | {
        "training": "book"
    }
    for part, others in outside.items():
        assert imported(part) and not [
            name for name in imported(part) if name.startswith(("book", "sts", others))
        ]


def test_importing_lsalib_loads_nothing_that_it_does_not_need():
    """Matplotlib waits for the first figure, and packages for language models until
    they are used.
    """
    subprocess.run([sys.executable, "-c", CODE], check=True, cwd=LIBRARY.parent)
