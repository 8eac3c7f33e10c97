"""One command writes the repository's address into every file that holds it, and takes it out without a trace."""

import re
import shutil
import tomllib

import pytest
import yaml
from tiny_book import ROOT

from tools.notebooks import address

URL = "https://github.com/Some-Owner/some.repo"
WRONG = "owner/repo https://github.com/owner git@github.com:owner/repo https://user:word@github.com/owner/repo".split()
HOLDERS = {"_config.yml", "README.md", "CITATION.cff", "pyproject.toml", "book/intro.ipynb"}


@pytest.fixture
def root(tmp_path):
    """The files that hold the address, without one, whichever the checkout has."""
    (tmp_path / "book").mkdir()
    # The notebook is written again, from its page and what the page refers to.
    for name in HOLDERS | {"_toc.yml", "book/claims.toml", "book/intro.md", "book/references.bib"}:
        shutil.copy(ROOT / name, tmp_path / name)
    write(tmp_path, "")
    return tmp_path


def write(root, url):
    address.main([url, "--root", str(root)])
    return contents(root)


def contents(root):
    return {name: (root / name).read_text() for name in HOLDERS}


def test_every_file_holds_the_address_and_loses_it_without_a_trace(root):
    before = contents(root)
    after = write(root, f" {URL}.git/ ")
    assert {name for name in HOLDERS if after[name] != before[name]} == HOLDERS
    assert yaml.safe_load(after["_config.yml"])["repository"]["url"] == URL
    assert yaml.safe_load(after["CITATION.cff"])["repository-code"] == URL
    book = "https://some-owner.github.io/some.repo/"
    links = tomllib.loads(after["pyproject.toml"])["project"]["urls"]
    assert links == {"Homepage": book, "Repository": URL, "Issues": f"{URL}/issues"}
    # A package index shows no relative links.
    readme = after["README.md"]
    assert not re.search(r"\]\((?!https:)", readme) and f"[Read the book]({book})" in readme
    assert f"]({URL}/raw/main/book/_static/answer.svg)" in readme and f"]({URL}/blob/main/book/claims.toml)" in readme
    assert "(https://colab.research.google.com/github/Some-Owner/some.repo/blob/main/book/intro.ipynb)" in readme
    notebook = after["book/intro.ipynb"]
    assert f"({book}book/intro.html)" in notebook and ".ipynb)" not in notebook, "links to pages lead to the book"
    assert write(root, "") == before
    write(root, url := "https://git.example.org:8443/group/sub/repo")
    assert f"\n[Repository]({url})\n" in (root / "README.md").read_text(), "another host has no links of GitHub"


@pytest.mark.parametrize("url", [*WRONG, *(URL + end for end in ("/tree/main", "?x=1", "#readme", '"'))])
def test_a_wrong_address_is_refused(url):
    with pytest.raises(SystemExit, match="expected https://host/owner/repository"):
        address.main([url, "--root", "nowhere"])
