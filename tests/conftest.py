"""The built book, one for all tests that read it, and a browser."""

import fcntl
import os
from pathlib import Path

import pytest

from tests.browser import GENERATED, GIVEN, build, chromium, copy_project, serve
from tools import address as address_tool


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """A copy of the checkout, without an address and what the build itself makes, which nobody changes."""
    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent  # of all workers
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "book/project").is_dir():
            copy = copy_project(shared / "book")
            address_tool.main(["", "--root", str(copy)])
            for path in GENERATED:
                (copy / path).unlink()
    return shared / "book/project"


@pytest.fixture(scope="session")
def html(project):
    """The built book; the first to ask builds it."""
    if GIVEN:
        return Path(GIVEN).resolve()
    with (project.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = project.parent / "_build/html/index.html"
        return done.parent if done.is_file() else build(project, project.parent)


@pytest.fixture(scope="session")
def address(html):
    with serve(html) as address:
        yield address


@pytest.fixture(scope="session")
def browser():
    with chromium() as browser:
        yield browser
