"""The book's main figure as a file, for the README: python -m tools.headline."""

import base64
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
FIGURE = Path("book/_static/answer.png")


def headline(root: Path) -> bytes:
    """The first figure that the executed intro shows."""
    notebook = nbformat.read(root / "book/intro.ipynb", as_version=4)
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    figures = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    if not figures:
        raise SystemExit("book/intro.ipynb shows no figure; run: make notebook NAME=intro")
    return base64.b64decode(figures[0])


def main(root: Path = ROOT) -> None:
    (root / FIGURE).write_bytes(headline(root))


if __name__ == "__main__":
    main()
