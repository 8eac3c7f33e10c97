"""Build the HTML book, and fail on every warning."""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.metadata import distributions
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from sphinx_external_toc.parsing import parse_toc_yaml

from tools import ledger
from tools.notebooks import install_cell
from tools.notebooks.pages import ROOT, current

STRICT = ["-W", "-n", "--keep-going", "-q"]
MADE = ROOT / "_build"
HTML = MADE / "html"
# The digest of what the last build was made from: an unchanged book is not built again.
STAMP = MADE / ".inputs"
SOURCE = "lsalib-book.zip"
OFFER = (
    'The site also offers <a href="../{}">the book’s source</a>, and '
    '<a href="../_sources/book/{}">a wheel of the library</a>.'
)


def toc_pages(root: Path = ROOT) -> list[str]:
    """The pages that _toc.yml names, without suffix: “book/intro”."""
    return [
        str(Path(name).with_suffix("")) for name in parse_toc_yaml(root / "_toc.yml")
    ]


def ignored() -> Callable[[str, list[str]], set[str]]:
    """Which of a folder's names are no part of the source, as shutil asks for it."""
    made = (ROOT / ".gitignore").read_text(encoding="utf-8").replace("/", "").split()
    return shutil.ignore_patterns(".git", *made)


def inputs() -> str:
    """A digest of all that the site is made from: source, packages, and setting."""
    packages = sorted({(each.name, each.version) for each in distributions()})
    setting = os.environ.get("BOOK_COLAB")
    digest = hashlib.sha256(repr((packages, setting)).encode())
    skipped = ignored()
    for folder, folders, names in os.walk(ROOT):
        skip = skipped(folder, [*folders, *names])
        folders[:] = sorted(set(folders) - skip)
        for name in sorted(set(names) - skip):
            path = Path(folder, name)
            digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def offer(place: str, words: str) -> None:
    """Put words into a place of the front page."""
    front = HTML / f"{toc_pages()[0]}.html"
    text = front.read_text(encoding="utf-8")
    text = text.replace(f'<span id="{place}"></span>', words)
    front.write_text(text, encoding="utf-8")


def carry() -> None:
    """Put the book's source beside the pages and, beside their notebooks, the wheel
    that these install.
    """
    notebooks = HTML / "_sources/book"
    with TemporaryDirectory() as folder:
        copy = shutil.copytree(ROOT, Path(folder) / "lsalib-book", ignore=ignored())
        shutil.make_archive(str(HTML / Path(SOURCE).stem), "zip", folder)
        pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
        where = ["--no-build-isolation", f"--wheel-dir={notebooks}"]
        subprocess.run([*pip, *where, copy], check=True)
    (wheel,) = notebooks.glob("*.whl")
    place = install_cell.wheel_place(current().address, wheel.name)
    for notebook in notebooks.glob("*.ipynb"):
        text = notebook.read_text(encoding="utf-8")
        notebook.write_text(install_cell.PLACE.sub(place, text), encoding="utf-8")
    offer("source", OFFER.format(SOURCE, wheel.name))


def main(args: argparse.Namespace) -> None:
    if not STAMP.is_file() or STAMP.read_text() != inputs():
        STAMP.unlink(missing_ok=True)
        ledger.check(current())  # which may draw the README's figure
        digest = inputs()
        build()
        STAMP.write_text(digest)
    print(f"Open {os.path.relpath(HTML / 'index.html')}")


def build() -> None:
    """Build the site from nothing: Sphinx reports the warnings of an unchanged page
    only once.
    """
    # Imported here: its import warns of click 9, which does not concern a caller who
    # only asks for the pages.
    from jupyter_book.cli.main import build as jupyter_book_build

    for name in ("html", ".doctrees", "jupyter_execute", ".jupyter_cache"):
        shutil.rmtree(MADE / name, ignore_errors=True)
    try:
        with redirect_stdout(StringIO()):
            jupyter_book_build.main([str(ROOT), *STRICT], standalone_mode=False)
    except (RuntimeError, SystemExit):
        raise SystemExit(
            "The book was not built: see the warnings above; each one counts as an "
            "error."
        ) from None
    carry()
