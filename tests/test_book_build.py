"""The build: strict about warnings and pages, and with no button that leads nowhere."""

import pytest
from bs4 import BeautifulSoup

from tests.browser import ROOT, build, chromium, copy_project, run_build
from tools import address, headline
from tools.build import missing_pages, toc_pages

ADDRESS = "https://github.com/OWNER/REPOSITORY"
NOTEBOOKS = [page for page in toc_pages(ROOT) if (ROOT / f"{page}.ipynb").is_file()]


@pytest.fixture
def project(tmp_path):
    return copy_project(tmp_path)


def give_address(project, url: str) -> None:
    address.main([url, "--root", str(project)])


def buttons(html, page: str) -> list[str]:
    """Where the page's frame, its buttons and sidebars, leads away from the book."""
    soup = BeautifulSoup((html / f"{page}.html").read_text(encoding="utf-8"), "html.parser")
    return sorted(link["href"] for link in soup.select("a[href*='://']") if not link.find_parent("article"))


def test_every_page_of_the_toc_is_built_and_offers_no_dead_button(project, tmp_path):
    give_address(project, "")
    generated = [project / "book/claims.md", project / "book/_claims_summary.md", project / headline.FIGURE]
    for path in generated:
        path.unlink()
    html = build(project, tmp_path)
    assert all(path.is_file() for path in generated), "the build makes what is made from the notebooks"
    assert missing_pages(html, ["index", *toc_pages(project)]) == []
    assert [buttons(html, page) for page in toc_pages(project)] == [[]] * len(toc_pages(project))
    assert not (html / "_static/mathjax/tex-svg-full.js").exists(), "only the used part of MathJax belongs in the book"


def test_with_an_address_every_notebook_opens_in_colab(project, tmp_path):
    give_address(project, ADDRESS)
    html = build(project, tmp_path)
    assert NOTEBOOKS
    for page in toc_pages(project):
        colab = [f"https://colab.research.google.com/github/OWNER/REPOSITORY/blob/main/{page}.ipynb"] if page in NOTEBOOKS else []
        assert buttons(html, page) == sorted([*colab, ADDRESS])


@pytest.mark.parametrize("host", ["gitlab.com", "codeberg.org"])
def test_elsewhere_than_github_there_is_no_colab(project, tmp_path, host):
    url = ADDRESS.replace("github.com", host)
    give_address(project, url)
    assert buttons(build(project, tmp_path), NOTEBOOKS[0]) == [url]


def test_colab_is_left_out_where_the_repository_s_notebooks_lack_the_address(project, tmp_path, monkeypatch):
    monkeypatch.setenv("BOOK_COLAB", "no")
    give_address(project, ADDRESS)
    assert buttons(build(project, tmp_path), NOTEBOOKS[0]) == [ADDRESS]


PLANTED = {"[x](no-such-page.md)": "no-such-page", "{ref}`no-such-label`": "no-such-label", "{cite}`nobody1900`": "nobody1900", "```{nosuch}\n```": "nosuch"}


def test_every_warning_is_seen_and_fails_the_build(project, tmp_path):
    (project / "book/planted.md").write_text("\n\n".join(["# Planted", *PLANTED]), encoding="utf-8")
    with (project / "_toc.yml").open("a", encoding="utf-8") as toc:
        toc.write("  - file: book/planted.md\n")
    done = run_build(project, tmp_path)
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line and "planted.md" in line]
    assert done.returncode != 0
    assert [name for name in PLANTED.values() if not any(name in line for line in warnings)] == []


def test_a_missing_page_is_named(tmp_path):
    (tmp_path / "here.html").touch()
    assert missing_pages(tmp_path, ["here", "book/gone"]) == ["book/gone"]


@pytest.mark.parametrize("ci, outcome", [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_a_browser_the_book_is_not_called_tested(monkeypatch, tmp_path, ci, outcome):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="none of chromium, .* is installed"), chromium():
        pass
