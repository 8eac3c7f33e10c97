"""A new page passes: we follow CONTRIBUTING.md in a copy of the checkout."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_book import ROOT, replace

from tools.ledger import claims
from tools.notebooks import address, new_page, pages

GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
(SECTION,) = re.findall(r"^## Add a page.*?(?=^## )", GUIDE, re.MULTILINE | re.DOTALL)
RECIPE = [line for block in re.findall(r"```bash\n(.*?)```", SECTION, re.DOTALL) for line in block.splitlines()]
(STEM,) = {re.search(r"NAME=(\w+)", line)[1] for line in RECIPE if "NAME=" in line}
NOT_COPIED = (".git", ".venv*", "_build", "study-runs", "build", "*.egg-info", "__pycache__", ".*_cache", "library")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy of the checkout without the library's tests, which counts as set up."""
    project = tmp_path_factory.mktemp("new_page") / "project"
    shutil.copytree(ROOT, project, ignore=shutil.ignore_patterns(*NOT_COPIED))
    shutil.copytree(ROOT / "tests/library", project / "tests/library", ignore=shutil.ignore_patterns("test_*"))
    address.main(["", "--root", str(project)])
    (project / ".venv").mkdir()
    (project / ".venv/.ready").touch()
    return project


def run(project: Path, line: str) -> tuple[int, str]:
    """The exit status of a command in that copy, and what it said."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PACKAGES", "PYTEST_"))}
    command = [*shlex.split(line), f"PY={sys.executable}"]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, cwd=project, env=env | {"PYTHONPATH": str(project)}, text=True, timeout=900, **both)
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def followed(project):
    """What each step of the recipe said."""
    return {line: run(project, line) for line in RECIPE}


def test_every_step_passes(followed):
    assert [line.split()[:2] for line in RECIPE] == [["make", step] for step in ("page", "notebook", "check", "book")]
    assert [f"{line}: {said}" for line, (status, said) in followed.items() if status] == []
    page, _, check, book = (said for _, said in followed.values())
    assert f"book/{STEM}.md\n" in page and f"make check NAME={STEM}" in page
    assert " passed" in check and f"{STEM}: up to date" in book


def test_the_page_shows_its_numbers_and_its_claim(project, followed):
    shown = (project / f"_build/html/book/{STEM}.html").read_text()
    assert "5.238" in shown and '<tr class="claim-pass" id="claim-first-light-risk">' in shown
    claims.main(["--root", str(project)])
    assert "first-light-risk" in (project / "_build/html/book/claims.html").read_text()


def test_a_page_that_says_something_wrong_fails(project, followed):
    page = pages.Page(project, STEM)
    text = page.md.read_text()
    replace(page.md, "return d * (d + 1) / (C + d + 1)", "return d * (d + 1) / (C + d)")
    check, notebook = run(project, f"make check NAME={STEM}"), run(project, f"make notebook NAME={STEM}")
    page.md.write_text(text)
    assert check[0] and f"{STEM}.md has changed code" in check[1]
    assert notebook[0] and "ClaimError" in notebook[1] and f"{STEM}.ipynb is unchanged" in notebook[1]


def test_a_name_that_is_taken_is_refused(project, followed):
    before = [(project / name).read_bytes() for name in ("_toc.yml", "book/claims.toml", f"book/{STEM}.md")]
    taken = f"book/{STEM}.md, book/{STEM}.ipynb, _toc.yml, book/claims.toml"
    for name, known in {STEM: taken, "claims": "book/claims.md, _toc.yml"}.items():
        with pytest.raises(SystemExit, match=re.escape(f"NAME={name} is taken, by {known}; choose another")):
            new_page.main([name, "--root", str(project)])
    assert [(project / name).read_bytes() for name in ("_toc.yml", "book/claims.toml", f"book/{STEM}.md")] == before


@pytest.mark.parametrize("name", ["a/b", "../a", "Heads", "1st", "a-b", "a b", "_a", "a__b", "é"])
def test_a_bad_name_is_refused(name):
    with pytest.raises(SystemExit, match=re.escape(f"NAME={name!r} is no page's name; expected small letters")):
        new_page.main([name])


def test_the_page_is_the_last_chapter():
    toc = new_page.written(ROOT, "fresh_page")[ROOT / "_toc.yml"]
    assert re.search(r"\n( *)- file: book/\w+\.ipynb\n\1- file: book/fresh_page\.ipynb\n", toc)
    assert toc.rindex(".ipynb") == toc.index("fresh_page.ipynb") + len("fresh_page")
