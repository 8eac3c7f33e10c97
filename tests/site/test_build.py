"""The build: every warning fails it, and buttons lead only to what is there."""

import pytest
from browser import copy_project, run_build
from bs4 import BeautifulSoup
from tiny_book import HEADER

from tools.notebooks import address, pages
from tools.notebooks import execute as notebooks

# One process builds the small book.
pytestmark = pytest.mark.xdist_group("build")

ADDRESS = "https://github.com/OWNER/REPOSITORY"
COLAB = "https://colab.research.google.com"
# What is wrong on a page, and what the build's warning names.
PLANTED = {
    "[x](no-such-page.md)": "no-such-page",
    "{ref}`no-such-label`": "no-such-label",
    "{cite}`nobody1900`": "nobody1900",
    "```{nosuch}\n```": "nosuch",
    r"$x^{2}\nosuchmacro$": "nosuchmacro",
    "`estimators.no_such_step`": "«estimators.no_such_step» names none",
    "`lsalib.estimators.no_such_step`": "«lsalib.estimators.no_such_step» names none",
    ":::{explorer} nothing\nwords\n:::": "an explorer is one of",
    ":::{explorer} heads\n:::": "an explorer has a question",
}
PROSE = "`estimators.one_step_gd`, `lsalib.estimators.one_step_gd()`, `task.prior_mean`, `heads.md`"
ENTRY = "api/estimators.html#lsalib.estimators.one_step_gd"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A book of four pages with an address, one of them full of mistakes: its HTML and what the build said."""
    folder = tmp_path_factory.mktemp("small")
    project = copy_project(folder)
    page = pages.Page(project, "small")
    page.md.write_text(HEADER + "\n# A notebook\n\n```{code-cell} ipython3\n2 + 2\n```\n", encoding="utf-8")
    notebooks.save(page, pages.build(page))
    (project / "book/text.md").write_text(f"# A text\n\nBeside [a notebook](small.ipynb): {PROSE}\n", encoding="utf-8")
    (project / "book/planted.md").write_text("\n\n".join(["# Planted", *PLANTED]), encoding="utf-8")
    files = "".join(f"  - file: book/{name}\n" for name in ("small.ipynb", "planted.md", "api/estimators.md"))
    (project / "_toc.yml").write_text(f"format: jb-book\nroot: book/text\nchapters:\n{files}", encoding="utf-8")
    address.main([ADDRESS, "--root", str(project)])
    return folder / "_build/html/book", run_build(project, folder)


def test_every_warning_is_seen_and_fails_the_build(built):
    _, done = built
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line or "ERROR" in line]
    assert done.returncode != 0
    assert [name for name in PLANTED.values() if not any(name in line for line in warnings)] == []
    # The control: the other pages are sound.
    assert [line for line in warnings if "planted.md" not in line] == []


def soup(html, page: str) -> BeautifulSoup:
    return BeautifulSoup((html / f"{page}.html").read_text(encoding="utf-8"), "html.parser")


def test_with_an_address_a_notebook_opens_in_colab(built):
    html, _ = built
    away = {
        page: {link["href"] for link in soup(html, page).select("a[href*='://']") if not link.find_parent("article")}
        for page in ("text", "small")
    }
    colab = f"{COLAB}/github/OWNER/REPOSITORY/blob/main/book/small.ipynb"
    assert away == {"text": {ADDRESS}, "small": {ADDRESS, colab}}


def test_code_in_prose_leads_to_what_it_names(built):
    html, _ = built
    leads = {code.text: code.find_parent("a") for code in soup(html, "text").select("article code")}
    assert {name: link and link["href"] for name, link in leads.items()} == {
        "estimators.one_step_gd": ENTRY,
        "lsalib.estimators.one_step_gd()": ENTRY,
        "task.prior_mean": None,
        "heads.md": None,
    }
