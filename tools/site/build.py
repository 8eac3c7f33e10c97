"""Build the HTML book, and fail on every warning: python -m tools build [--out DIR]."""

import argparse
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from sphinx_external_toc.parsing import parse_toc_yaml

from tools import ledger
from tools.notebooks import install_cell
from tools.notebooks.pages import ROOT

STRICT = ["-W", "-n", "--keep-going", "-q"]
# What a build leaves in _build. Nothing else there is removed.
MADE = ("html", ".doctrees", "jupyter_execute", ".jupyter_cache")
SOURCE = "lsalib-book.zip"
OFFER = """The site also offers <a href="../{}">the book’s source</a>, and <a href="../_sources/book/{}">a wheel of the
library</a>."""


def toc_pages(root: Path = ROOT) -> list[str]:
    """The pages that _toc.yml names, without suffix: “book/intro”."""
    return [
        str(Path(name).with_suffix("")) for name in parse_toc_yaml(root / "_toc.yml")
    ]


def carry(html: Path) -> None:
    """Put the book's source beside the pages and, beside their notebooks, the wheel
    that these install.
    """
    notebooks, front = html / "_sources/book", html / f"{toc_pages()[0]}.html"
    made = (ROOT / ".gitignore").read_text(encoding="utf-8").replace("/", "").split()
    with TemporaryDirectory() as folder:
        copy = shutil.copytree(
            ROOT,
            Path(folder) / "lsalib-book",
            ignore=shutil.ignore_patterns(".git", *made),
        )
        shutil.make_archive(str(html / Path(SOURCE).stem), "zip", folder)
        pip = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
        ]
        subprocess.run([*pip, f"--wheel-dir={notebooks}", copy], check=True)
    (wheel,) = notebooks.glob("*.whl")
    place = install_cell.wheel_place(install_cell.address(ROOT), wheel.name)
    for notebook in notebooks.glob("*.ipynb"):
        text = notebook.read_text(encoding="utf-8")
        notebook.write_text(install_cell.PLACE.sub(place, text), encoding="utf-8")
    offer = OFFER.format(SOURCE, wheel.name)
    front.write_text(
        front.read_text(encoding="utf-8").replace('<span id="source"></span>', offer),
        encoding="utf-8",
    )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools build", description="Build the HTML book."
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=ROOT,
        metavar="DIR",
        help="where _build/html goes (default: here)",
    )
    out = parser.parse_args(argv).out.resolve()
    # Imported here: its import warns of click 9, which does not concern a caller who
    # only asks for the pages.
    from jupyter_book.cli.main import build as jupyter_book_build

    ledger.main([])
    # From nothing: Sphinx reports the warnings of an unchanged page only once.
    for name in MADE:
        shutil.rmtree(out / "_build" / name, ignore_errors=True)
    try:
        with redirect_stdout(StringIO()):
            jupyter_book_build.main(
                [str(ROOT), "--path-output", str(out), *STRICT], standalone_mode=False
            )
    except (RuntimeError, SystemExit):
        raise SystemExit(
            "The book was not built: see the warnings above; each one counts as an error."
        ) from None
    carry(out / "_build/html")
    print(f"Open {os.path.relpath(out / '_build/html/index.html')}")
