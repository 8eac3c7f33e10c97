"""Build the HTML book, and fail on every warning: python -m tools.site.build [--out DIR]."""

import argparse
import os
import shutil
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from sphinx_external_toc.parsing import parse_toc_yaml

from tools.ledger import claims, headline

ROOT = Path(__file__).resolve().parents[2]
STRICT = ["-W", "-n", "--keep-going", "-q"]
# What a build leaves in _build. Nothing else there is removed.
MADE = ("html", ".doctrees", "jupyter_execute", ".jupyter_cache")


def toc_pages(root: Path = ROOT) -> list[str]:
    """The pages that _toc.yml names, without suffix: «book/intro»."""
    return [str(Path(name).with_suffix("")) for name in parse_toc_yaml(root / "_toc.yml")]


def missing_pages(html: Path, pages: list[str]) -> list[str]:
    """The pages that are not in the built HTML."""
    return [page for page in pages if not (html / f"{page}.html").is_file()]


def render(out: Path) -> None:
    """Build from nothing: Sphinx reports the warnings of an unchanged page only once."""
    # Imported here: its own import warns of click 9, and who only asks for the pages need not hear that.
    from jupyter_book.cli.main import build as jupyter_book_build

    for name in MADE:
        shutil.rmtree(out / "_build" / name, ignore_errors=True)
    try:
        with redirect_stdout(StringIO()):
            jupyter_book_build.main([str(ROOT), "--path-output", str(out), *STRICT], standalone_mode=False)
    except (RuntimeError, SystemExit):
        raise SystemExit("The book was not built: see the warnings above; each one counts as an error.") from None


def check_pages(html: Path) -> None:
    missing = missing_pages(html, toc_pages())
    if missing:
        raise SystemExit(f"_toc.yml names pages that are not in the built book: {', '.join(missing)}")


def timed(phase: str, step: Callable[[], object]) -> None:
    start = time.perf_counter()
    step()
    print(f"{phase:<12} {time.perf_counter() - start:5.1f} s", flush=True)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Build the HTML book; every warning is an error.")
    parser.add_argument("--out", type=Path, default=ROOT, metavar="DIR", help="where _build/html goes (default: here)")
    out = parser.parse_args(argv).out.resolve()
    html = out / "_build/html"
    timed("claims", lambda: claims.main([]))
    timed("headline", headline.main)
    timed("html", lambda: render(out))
    timed("pages", lambda: check_pages(html))
    print(f"Open {os.path.relpath(html / 'index.html')}")


if __name__ == "__main__":
    main()
