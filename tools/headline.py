"""The book's main figure as a file, for the README: python -m tools.headline."""

import base64
from pathlib import Path

from tools import pages

FIGURE = Path("book/_static/answer.png")


def headline(root: Path) -> bytes:
    """The first figure that the executed intro shows."""
    notebook = pages.load(pages.Page(root, "intro"))
    if notebook is None:
        raise SystemExit("book/intro.ipynb: missing or no notebook; run: make notebook NAME=intro")
    shown = [output.get("data", {}) for output in pages.outputs(notebook)]
    figures = [data["image/png"] for data in shown if "image/png" in data]
    if not figures:
        raise SystemExit("book/intro.ipynb shows no figure; run: make notebook NAME=intro")
    return base64.b64decode(figures[0])


def main(root: Path = pages.ROOT) -> None:
    (root / FIGURE).write_bytes(headline(root))


if __name__ == "__main__":
    main()
