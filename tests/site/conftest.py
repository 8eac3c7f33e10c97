"""The built book, one for all tests that read it, and a browser."""

import fcntl
import os
from collections import Counter
from pathlib import Path

import book_measures as measures
import pytest
from browser import GENERATED, GIVEN, build, chromium, copy_project, serve


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """A copy of the checkout, without an address and what the build itself makes, which nobody changes."""
    from tools.notebooks import address  # not above: the library's tests do without what the book needs

    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent  # of all workers
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "book/project").is_dir():
            copy = copy_project(shared / "book")
            address.main(["", "--root", str(copy)])
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


def pytest_terminal_summary(terminalreporter):
    """What the pages ask of their readers, as the tests have measured it."""
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    found = [item for report in reports for item in report.user_properties]
    rows = {row[0]: measures.Measures(*row[1:]) for name, row in found if name == measures.PROPERTY}
    shut_out = Counter[str]()
    for path, number in (value for name, value in found if name == measures.SHUT_OUT):
        shut_out[path] += number
    for line in measures.table(rows, shut_out) if rows else []:
        terminalreporter.write_line(line)
