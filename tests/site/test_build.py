"""The build of a small book: every warning fails it, and a notebook opens in Colab once
there is an address.
"""

import re
import shutil
import subprocess
import sys
from unittest.mock import Mock

import pytest
from browser import ROOT
from bs4 import BeautifulSoup
from tiny_book import HEADER, write_address

from tools import __main__ as tools
from tools.notebooks.pages import Book
from tools.site import build

# One process builds the small book.
pytestmark = pytest.mark.xdist_group("build")

ADDRESS = "https://github.com/OWNER/REPOSITORY"
COLAB = "https://colab.research.google.com/github/OWNER/REPOSITORY/blob/main/book/small.ipynb"
# What is wrong on a page, and what the build's warning names.
PLANTED = {
    "[x](no-such-page.md)": "no-such-page",
    "{ref}`no-such-label`": "no-such-label",
    "{cite}`nobody1900`": "nobody1900",
    "{claim}`nothing-at-all`": "no claim of the ledger is called nothing-at-all",
    "```{nosuch}\n```": "nosuch",
    r"$x^{2}\nosuchmacro$": "nosuchmacro",
    "`estimators.no_such_step`": "“estimators.no_such_step” names none",
}
TOC = """\
format: jb-book
root: book/text
chapters:
  - file: book/small.ipynb
  - file: book/planted.md
  - file: book/api/estimators.md
"""
PROSE = (
    "`estimators.one_step_gd`, `lsalib.estimators.one_step_gd()`, "
    "`task.prior_mean`, `heads.md`"
)
ENTRY = "api/estimators.html#lsalib.estimators.one_step_gd"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """What the build of a book with an address said, and two of its pages; a third one
    is full of mistakes.
    """
    folder = tmp_path_factory.mktemp("small")
    project = shutil.copytree(ROOT, folder / "project", ignore=build.ignored())
    write_address(project, ADDRESS)
    # The pages of the theorems are not in this book.
    claims = project / "book/claims.toml"
    unproved = re.sub(r"proof = .*\n", "", claims.read_text())
    written = {
        "_toc.yml": TOC,
        "book/claims.toml": unproved.replace("proved here", "measured here"),
        "book/planted.md": "\n\n".join(["# Planted", *PLANTED]),
        "book/small.md": f"{HEADER}\n# A notebook\n\n```{{code-cell}}\n2 + 2\n```\n",
        "book/text.md": f"# A text\n\nBeside [a notebook](small.ipynb): {PROSE}\n",
    }
    for name, text in written.items():
        (project / name).write_text(text)
    page = Book(project).pages["small"]
    page.save(page.built)
    command = [sys.executable, "-m", "tools", "build"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    html = project / "_build/html/book"
    soups = {
        name: BeautifulSoup((html / f"{name}.html").read_text(), "html.parser")
        for name in ("text", "small")
    }
    return done, soups, project


def test_every_warning_is_seen_and_fails_the_build(built):
    done, _, project = built
    warnings = re.findall(".*(?:WARNING|ERROR).*", done.stderr)
    assert done.returncode != 0 and not (project / "_build/.inputs").exists()
    for name in PLANTED.values():
        assert any(name in line for line in warnings), name
    # The control: the other pages are sound.
    assert [line for line in warnings if "planted.md" not in line] == []


def test_with_an_address_a_notebook_opens_in_colab_and_names_lead_to_their_entries(
    built,
):
    _, soups, _ = built
    away = {
        page: {
            link["href"]
            for link in soup.select("a[href*='://']")
            if not link.find_parent("article")
        }
        for page, soup in soups.items()
    }
    assert away == {"text": {ADDRESS}, "small": {ADDRESS, COLAB}}
    links = [code.find_parent("a") for code in soups["text"].select("article code")]
    assert [link and link["href"] for link in links] == [ENTRY, ENTRY, None, None]


def test_an_unchanged_book_is_not_built_again(tmp_path, monkeypatch):
    """Whatever changes, but what git ignores, is a reason to build."""
    for folder in ("_build", "book"):
        (tmp_path / folder).mkdir()
    files = [tmp_path / name for name in (".gitignore", "a.md", "book/b.md")]
    for path in files:
        path.write_text("_build/\n")
    made = Mock()
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "STAMP", tmp_path / "_build/.inputs")
    monkeypatch.setattr(build, "build", made)
    monkeypatch.setattr(build.ledger, "check", Mock())

    def builds() -> bool:
        made.reset_mock()
        tools.main(["build"])
        return made.called

    assert builds() and not builds()
    (tmp_path / "_build/html").write_text("made")
    assert not builds()
    for path in files:
        path.write_text("_build/\nmore")
        assert builds() and not builds(), path
    path.rename(tmp_path / "book/c.md")
    assert builds()
    monkeypatch.setenv("BOOK_COLAB", "no")
    assert builds()
