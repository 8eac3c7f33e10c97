"""From the notebooks to the book: Sphinx extensions and the PDF."""

from sphinx.application import Sphinx


def setup(app: Sphinx) -> None:
    for name in ("book", "api", "math", "figures", "claims"):
        app.setup_extension(f"tools.site.{name}")
