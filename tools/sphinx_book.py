"""Sphinx extension of the book: buttons only for an address that exists."""

import os

from sphinx.application import Sphinx
from sphinx.config import Config

THEME_HOSTS = ("github", "gitlab", "bitbucket")


def add_buttons(app: Sphinx, config: Config) -> None:
    """Offer the repository, and Colab where it can open one; the theme fails on an address it does not know.

    BOOK_COLAB=no in the environment leaves Colab out: the repository's own notebooks do not hold the address.
    """
    options = config.html_theme_options
    address = options.pop("repository_url", "")
    if any(host in address for host in THEME_HOSTS):
        options |= {"repository_url": address, "use_repository_button": True}
    elif address.startswith("http"):
        options["icon_links"] = [{"name": "Repository", "url": address, "icon": "fa-solid fa-code-branch"}]
    if address.startswith("https://github.com/") and os.environ.get("BOOK_COLAB") != "no":
        options["launch_buttons"] = {"colab_url": "https://colab.research.google.com"}


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("config-inited", add_buttons)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
