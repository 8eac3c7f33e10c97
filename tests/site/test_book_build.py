"""The build: strict about warnings and pages, and with no button that leads nowhere."""

import sys
from types import SimpleNamespace

import book_checks as checks
import pytest
from browser import build, chromium, copy_project, run_build
from sphinx.config import Config
from tiny_book import HEADER

from tools.notebooks import address, pages
from tools.notebooks import execute as notebooks
from tools.site import book as sphinx_book
from tools.site import build as tools_build
from tools.site.build import missing_pages

ADDRESS = "https://github.com/OWNER/REPOSITORY"
COLAB = "https://colab.research.google.com"


@pytest.fixture
def project(tmp_path):
    """The project with a book of a text and a notebook: the same settings, built in a fraction of the time."""
    project = copy_project(tmp_path)
    (project / "book/text.md").write_text("# A text\n\nBeside [a notebook](small.ipynb).\n", encoding="utf-8")
    page = pages.Page(project, "small")
    page.md.write_text(HEADER + "\n# A notebook\n\n```{code-cell} ipython3\n2 + 2\n```\n", encoding="utf-8")
    notebooks.save(page, pages.build(page))
    (project / "_toc.yml").write_text(
        "format: jb-book\nroot: book/text\nchapters:\n  - file: book/small.ipynb\n", encoding="utf-8"
    )
    return project


def test_with_an_address_a_notebook_opens_in_colab(project, tmp_path):
    address.main([ADDRESS, "--root", str(project)])
    html = build(project, tmp_path)
    assert checks.buttons(html, "book/text") == [ADDRESS]
    assert checks.buttons(html, "book/small") == sorted(
        [f"{COLAB}/github/OWNER/REPOSITORY/blob/main/book/small.ipynb", ADDRESS]
    )


def options(url: str) -> dict:
    """What the book asks of its theme for a repository at this address."""
    config = Config()
    config.add("html_theme_options", {"repository_url": url}, "", dict)
    sphinx_book.add_buttons(None, config)
    return config.html_theme_options


def test_without_an_address_nothing_is_offered():
    assert options("") == {}


def test_github_s_repository_is_offered_and_opens_in_colab(monkeypatch):
    offered = {"repository_url": ADDRESS, "use_repository_button": True}
    assert options(ADDRESS) == {**offered, "launch_buttons": {"colab_url": COLAB}}
    # Left out where the repository's notebooks lack the address.
    monkeypatch.setenv("BOOK_COLAB", "no")
    assert options(ADDRESS) == offered


def test_elsewhere_than_github_there_is_no_colab():
    known, other = (ADDRESS.replace("github.com", host) for host in ("gitlab.com", "codeberg.org"))
    assert options(known) == {"repository_url": known, "use_repository_button": True}
    (link,) = options(other).pop("icon_links")
    assert link["url"] == other and set(options(other)) == {"icon_links"}


PLANTED = {
    "[x](no-such-page.md)": "no-such-page",
    "{ref}`no-such-label`": "no-such-label",
    "{cite}`nobody1900`": "nobody1900",
    "```{nosuch}\n```": "nosuch",
    r"$x^{2}\nosuchmacro$": "nosuchmacro",
}


def test_every_warning_is_seen_and_fails_the_build(project, tmp_path):
    (project / "book/planted.md").write_text("\n\n".join(["# Planted", *PLANTED]), encoding="utf-8")
    with (project / "_toc.yml").open("a", encoding="utf-8") as toc:
        toc.write("  - file: book/planted.md\n")
    done = run_build(project, tmp_path)
    warnings = [line for line in done.stderr.splitlines() if "WARNING" in line]
    assert done.returncode != 0
    assert [name for name in PLANTED.values() if not any(name in line for line in warnings)] == []
    assert [line for line in warnings if "planted.md" not in line] == [], "without the planted page it is a sound book"


def test_a_build_removes_only_what_a_build_made(tmp_path, monkeypatch):
    for name in ("html/old.html", ".doctrees/old", "shifts/hours.json"):
        (tmp_path / "_build" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "_build" / name).touch()
    nothing = SimpleNamespace(build=SimpleNamespace(main=lambda *args, **options: None))
    monkeypatch.setitem(sys.modules, "jupyter_book.cli.main", nothing)
    tools_build.render(tmp_path)
    assert [path.name for path in (tmp_path / "_build").iterdir()] == ["shifts"]
    assert (tmp_path / "_build/shifts/hours.json").is_file()


def test_a_missing_page_is_named(tmp_path):
    (tmp_path / "here.html").touch()
    assert missing_pages(tmp_path, ["here", "book/gone"]) == ["book/gone"]


@pytest.mark.parametrize("ci, outcome", [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_a_browser_the_book_is_not_called_tested(monkeypatch, tmp_path, ci, outcome):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match=r"none of chromium, .* is installed"), chromium():
        pass
