"""The built book, one for all tests that read it, and a browser."""

import fcntl
import os
from pathlib import Path

import pytest
from browser import GIVEN, chromium, copy_project, run_build, serve


@pytest.fixture(scope="session")
def html(tmp_path_factory):
    """The built book, of a copy without an address; the first worker to ask builds it."""
    if GIVEN:
        return Path(GIVEN).resolve()
    from tools.notebooks import address  # not above: the library's tests do without what the book needs

    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    made = shared / "book/_build/html"
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "index.html").is_file():
            project = copy_project(shared / "book")
            address.main(["", "--root", str(project)])
            done = run_build(project, shared / "book")
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
