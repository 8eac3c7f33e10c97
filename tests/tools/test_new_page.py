"""A new page passes: the recipe of CONTRIBUTING.md is followed to the letter, in a copy of the checkout."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from browser import copy_project
from tiny_book import ROOT, replace

from tools.ledger import claims
from tools.notebooks import address, new_page, pages

GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
(SECTION,) = re.findall(r"^## A page and a claim.*?(?=^## )", GUIDE, re.MULTILINE | re.DOTALL)
RECIPE = [line for block in re.findall(r"```bash\n(.*?)```", SECTION, re.DOTALL) for line in block.splitlines()]
(STEM,) = {re.search(r"NAME=(\w+)", line)[1] for line in RECIPE if "NAME=" in line}
CHANGED = ("_toc.yml", "book/claims.toml", "book/programs.toml")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A copy without the library's tests, whose .venv hands everything on to the Python that runs these."""
    project = copy_project(tmp_path_factory.mktemp("new_page"))
    address.main(["", "--root", str(project)])
    python = project / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    (project / ".venv/.ready").touch()
    for path in (project / "tests").glob("test_*.py"):
        if path.name not in ("test_claims.py", "test_ledger.py"):
            path.unlink()
    return project


def run(project: Path, line: str) -> tuple[int, str]:
    """The exit status of a command in that copy, and what it said."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PACKAGES", "PYTEST_"))}
    env["PYTHONPATH"], both = str(project), {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(shlex.split(line), cwd=project, env=env, text=True, timeout=900, **both)
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def followed(project):
    """What each step of the recipe came to."""
    return {line: run(project, line) for line in RECIPE}


def test_the_recipe_is_one():
    assert [line.split()[:2] for line in RECIPE] == [["make", step] for step in ("page", "notebook", "check", "book")]


def test_every_step_passes(followed):
    assert [f"{line}: {said}" for line, (status, said) in followed.items() if status] == []
    page, _, check, book = (said for _, said in followed.values())
    assert f"book/{STEM}.md\n" in page and f"make check NAME={STEM}" in page
    assert re.search(rf"{STEM}: \d+ programs of {new_page.PROGRAMS}\n", check) and " passed" in check
    assert f"{STEM}: up to date" in book and "Open _build/html/index.html" in book


def test_the_page_is_whole_and_its_notebook_what_it_says(project, followed):
    page = pages.Page(project, STEM)
    assert pages.text_defects(page) == [] and pages.pair_defects(page, pages.load(page)) == []
    shown = (project / f"_build/html/book/{STEM}.html").read_text()
    assert "5.238" in shown and '<tr class="claim-pass" id="claim-first-light-risk">' in shown


def test_the_ledger_has_the_claim(project, followed):
    claims.main(["--root", str(project)])
    records = claims.read_records(project)[STEM]
    assert [(record.kind, record.passed) for record in records] == [("check", True), ("control", True)]
    assert f'<tbody id="{records[0].id}"' in (project / "_build/html/book/claims.html").read_text()


def test_a_page_that_says_something_else_fails(project, followed):
    """The control: a template with a wrong formula would not have passed."""
    page = pages.Page(project, STEM)
    text = page.md.read_text()
    replace(page.md, "return d * (d + 1) / (C + d + 1)", "return d * (d + 1) / (C + d)")
    status, said = run(project, f"make notebook NAME={STEM}")
    page.md.write_text(text)
    assert status != 0 and "ClaimError" in said and f"{STEM}.ipynb is left as it was" in said


def test_a_name_that_is_taken_is_refused(project, followed):
    before = {name: (project / name).read_bytes() for name in CHANGED}
    status, said = run(project, RECIPE[0])
    assert status != 0
    assert f"NAME={STEM} is taken, by book/{STEM}.md, book/{STEM}.ipynb, _toc.yml, book/programs.toml" in said
    assert {name: (project / name).read_bytes() for name in CHANGED} == before


@pytest.mark.parametrize("name", ["a/b", "../a", "Heads", "1st", "a-b", "a b", "_a", "a__b", "é"])
def test_a_bad_name_is_refused(name):
    with pytest.raises(SystemExit, match=re.escape(f"NAME={name!r} is no page's name; expected small letters")):
        new_page.main([name])
    assert not (ROOT / f"book/{name}.md").exists()


@pytest.mark.parametrize("name", ["claims", "heads", "intro"])
def test_a_page_of_the_book_is_not_written_over(name):
    before = (ROOT / f"book/{name}.md").read_bytes()
    with pytest.raises(SystemExit, match=f"NAME={name} is taken, by book/{name}.md"):
        new_page.main([name])
    assert (ROOT / f"book/{name}.md").read_bytes() == before


def test_the_page_is_the_last_chapter():
    toc = new_page.contents((ROOT / "_toc.yml").read_text(), "first_light")
    assert re.search(r"\n( *)- file: book/\w+\.ipynb\n\1- file: book/first_light\.ipynb\n", toc)
    assert toc.rindex(".ipynb") < toc.index("book/claims.md")
    with pytest.raises(SystemExit, match=r"expected a line «- file: book/….ipynb»"):
        new_page.contents("format: jb-book\n", "first_light")


@pytest.mark.parametrize(
    "known", ["book/fresh.md", "book/fresh.ipynb", "_toc.yml", "book/programs.toml", "book/claims.toml"]
)
def test_each_place_that_knows_a_name_is_seen(known, tmp_path):
    (tmp_path / "book").mkdir()
    for name, text in {"_toc.yml": "", "book/programs.toml": "", "book/claims.toml": ""}.items():
        (tmp_path / name).write_text(text)
    assert new_page.taken(tmp_path, "fresh") == []
    claim = new_page.CLAIM.format(slug="fresh", name="fresh")
    texts = {"_toc.yml": "- file: book/fresh", "book/programs.toml": "fresh = 1", "book/claims.toml": claim}
    (tmp_path / known).write_text(texts.get(known, ""))
    assert new_page.taken(tmp_path, "fresh") == [known]
