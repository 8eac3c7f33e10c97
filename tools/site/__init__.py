"""From the notebooks to the book: Sphinx extensions, the PDF, interactive figures."""

from sphinx.application import Sphinx


def setup(app: Sphinx) -> None:
    for name in ("book", "api", "math", "figures", "claims", "explorers"):
        app.setup_extension(f"tools.site.{name}")
