"""The book's main figure as a file, for the README: python -m tools.ledger.headline."""

from pathlib import Path

from tools.notebooks import pages

FIGURE = Path("book/_static/answer.svg")


def headline(root: Path) -> str:
    """The first figure that the executed intro shows."""
    notebook = pages.load(pages.Page(root, "intro"))
    if notebook is None:
        raise SystemExit("book/intro.ipynb: missing or no notebook; run: make notebook NAME=intro")
    shown = [output.get("data", {}) for output in pages.outputs(notebook)]
    figures = [data["image/svg+xml"] for data in shown if "image/svg+xml" in data]
    if not figures:
        raise SystemExit("book/intro.ipynb shows no figure; run: make notebook NAME=intro")
    return figures[0]


def main(root: Path = pages.ROOT) -> None:
    (root / FIGURE).write_text(headline(root), encoding="utf-8")


if __name__ == "__main__":
    main()
