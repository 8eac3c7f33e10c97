"""The built book, one for all tests that read it, and a browser."""

import os
from pathlib import Path

import pytest
from browser import ROOT, chromium, serve


@pytest.fixture(scope="session")
def html():
    """The built book: that in BOOK_HTML, or what `make book` built here."""
    folder = Path(os.environ.get("BOOK_HTML") or ROOT / "_build/html").resolve()
    if not (folder / "index.html").is_file():
        pytest.fail(f"There is no built book in {folder}; run: make book")
    return folder


@pytest.fixture(scope="session")
def address(html):
    with serve(html) as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    with chromium() as browser:
        yield browser
