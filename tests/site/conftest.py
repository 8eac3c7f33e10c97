"""The built book, one for all tests that read it, and a browser."""

import os
from pathlib import Path

import pytest
from browser import chromium, serve

from tools.site import build


@pytest.fixture(scope="session")
def html():
    """The built book: that in BOOK_HTML, or what `make book` built here."""
    if given := os.environ.get("BOOK_HTML"):
        return Path(given).resolve()
    if not build.STAMP.is_file() or build.STAMP.read_text() != build.inputs():
        pytest.fail("The built book is not that of these files; run: make book")
    return build.HTML


@pytest.fixture(scope="session")
def address(html):
    with serve(html) as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    with chromium() as browser:
        yield browser
