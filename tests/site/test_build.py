"""The build of a small book: every warning fails it, and a notebook opens in Colab once
there is an address.
"""

import re
import shutil

import pytest
from browser import ROOT, run_build
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
SOUND = ("text", "small")
PROSE = (
    "`estimators.one_step_gd`, `lsalib.estimators.one_step_gd()`, "
    "`task.prior_mean`, `heads.md`"
)
ENTRY = "api/estimators.html#lsalib.estimators.one_step_gd"
NOT_COPIED = (
    ".git",
    ".venv*",
    "_build",
    "study-runs",
    "build",
    "*.egg-info",
    "__pycache__",
    ".*_cache",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """What the build of a book with an address said, and two of its pages; a third one
    is full of mistakes.
    """
    folder = tmp_path_factory.mktemp("small")
    project = shutil.copytree(
        ROOT, folder / "project", ignore=shutil.ignore_patterns(*NOT_COPIED)
    )
    text = project / "book/small.md"
    text.write_text(
        HEADER + "\n# A notebook\n\n```{code-cell} ipython3\n2 + 2\n```\n",
        encoding="utf-8",
    )
    page = Book(project).pages["small"]
    page.save(page.built)
    (project / "book/text.md").write_text(
        f"# A text\n\nBeside [a notebook](small.ipynb): {PROSE}\n", encoding="utf-8"
    )
    (project / "book/planted.md").write_text(
        "\n\n".join(["# Planted", *PLANTED]), encoding="utf-8"
    )
    files = "".join(
        f"  - file: book/{name}\n"
        for name in ("small.ipynb", "planted.md", "api/estimators.md")
    )
    (project / "_toc.yml").write_text(
        f"format: jb-book\nroot: book/text\nchapters:\n{files}", encoding="utf-8"
    )
    # The pages of the theorems are not in this book.
    claims = project / "book/claims.toml"
    unproved = re.sub(r"proof = .*\n", "", claims.read_text(encoding="utf-8"))
    unproved = unproved.replace("proved here", "measured here")
    claims.write_text(unproved, encoding="utf-8")
    write_address(project, ADDRESS)
    done = run_build(project)
    read = lambda name: (project / f"_build/html/book/{name}.html").read_text(
        encoding="utf-8"
    )
    soups = {name: BeautifulSoup(read(name), "html.parser") for name in SOUND}
    return done, soups, project


def test_every_warning_is_seen_and_fails_the_build(built):
    done, _, project = built
    warnings = [
        line
        for line in done.stderr.splitlines()
        if "WARNING" in line or "ERROR" in line
    ]
    assert done.returncode != 0 and not (project / "_build/.inputs").exists()
    assert [
        name for name in PLANTED.values() if not any(name in line for line in warnings)
    ] == []
    # The control: the other pages are sound.
    assert [line for line in warnings if "planted.md" not in line] == []


def test_with_an_address_a_notebook_opens_in_colab_and_names_lead_to_their_entries(
    built,
):
    _, soups, _ = built
    links = {page: soup.select("a[href*='://']") for page, soup in soups.items()}
    away = {
        page: {link["href"] for link in found if not link.find_parent("article")}
        for page, found in links.items()
    }
    assert away == {"text": {ADDRESS}, "small": {ADDRESS, COLAB}}
    codes = {
        code.text: code.find_parent("a")
        for code in soups["text"].select("article code")
    }
    assert [link and link["href"] for link in codes.values()] == [
        ENTRY,
        ENTRY,
        None,
        None,
    ]


def test_an_unchanged_book_is_not_built_again(tmp_path, monkeypatch, capsys):
    """Whatever changes, but what git ignores, is a reason to build."""
    files = {".gitignore": "_build/\n", "a.md": "a", "book/b.md": "b"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(build, "HTML", tmp_path / "_build/html")
    monkeypatch.setattr(build, "STAMP", tmp_path / "_build/.inputs")
    monkeypatch.setattr(build.ledger, "check", lambda book: None)
    runs = []

    def made():
        (tmp_path / "_build").mkdir(exist_ok=True)
        runs.append("a build")

    monkeypatch.setattr(build, "build", made)

    def builds() -> bool:
        before = len(runs)
        tools.main(["build"])
        assert "Open" in capsys.readouterr().out
        return len(runs) > before

    assert builds() and not builds()
    (tmp_path / "_build/html").write_text("made")
    assert not builds()
    for name in files:
        with (tmp_path / name).open("a") as file:
            file.write("more")
        assert builds() and not builds(), name
    (tmp_path / "book/b.md").rename(tmp_path / "book/c.md")
    assert builds()
    monkeypatch.setenv("BOOK_COLAB", "no")
    assert builds()
