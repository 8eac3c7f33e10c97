"""The built book, one for all tests that read it, and a browser."""

import fcntl
import os
from pathlib import Path

import pytest
from browser import ROOT, chromium, run_build, serve


@pytest.fixture(scope="session")
def html(tmp_path_factory):
    """The built book: that in BOOK_HTML, as it is, or else the first worker to ask
    builds it.
    """
    if given := os.environ.get("BOOK_HTML"):
        return Path(given).resolve()
    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    made = shared / "_build/html"
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "index.html").is_file():
            done = run_build(ROOT, shared)
            assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture(scope="session")
def address(html):
    with serve(html) as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    with chromium() as browser:
        yield browser
