"""From the notebooks to the book: Sphinx extensions, the PDF, interactive figures."""

from sphinx.application import Sphinx

EXTENSIONS = ("book", "api", "math", "figures", "claims", "ledger", "explorers", "frame", "tips")


def setup(app: Sphinx) -> None:
    for name in EXTENSIONS:
        app.setup_extension(f"tools.site.{name}")
