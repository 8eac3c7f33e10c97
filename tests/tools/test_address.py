"""One command writes the repository's address everywhere, and takes it out again without a trace."""

import ast
import json
import shutil
import subprocess
import sys

import pytest
import tiny_book
import yaml
from tiny_book import ROOT, dry_run, edit, make, replace

from tools.notebooks import address, install_cell
from tools.notebooks import execute as notebooks

URL = "https://github.com/Some-Owner/some.repo"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """A book with everything that holds the address."""
    root = tmp_path_factory.mktemp("address")
    make(root)
    (root / "_toc.yml").write_text("format: jb-book\nroot: book/intro\nchapters:\n  - file: book/tiny.ipynb\n")
    (root / "README.md").write_text(f"# Read me\n\n{address.BEGIN}\n{address.END}\n\nMore.\n")
    (root / "CITATION.cff").write_text("cff-version: 1.2.0\nauthors:\n  - name: The lsalib authors\n")
    notebooks.main(["--all", "--root", str(root)])
    return root


def test_the_tiny_book_has_no_address_whichever_the_checkout_has(tmp_path, monkeypatch):
    addressed = tmp_path / "addressed"
    addressed.mkdir()
    (addressed / "_config.yml").write_text(address.config((ROOT / "_config.yml").read_text(), URL))
    assert install_cell.address(addressed) == URL
    monkeypatch.setattr(tiny_book, "ROOT", addressed)
    make(tmp_path / "tiny")
    assert install_cell.address(tmp_path / "tiny") == ""


@pytest.fixture
def root(executed, tmp_path):
    return shutil.copytree(executed, tmp_path / "copy")


def contents(root):
    return {path.relative_to(root): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def write(root, url):
    address.main([url, "--root", str(root)])


def test_round_trip_is_byte_identical(root):
    before = contents(root)
    write(root, URL)
    changed = {str(path) for path, content in contents(root).items() if content != before[path]}
    assert changed == {"_config.yml", "README.md", "CITATION.cff", "book/tiny.ipynb"}
    write(root, "")
    assert contents(root) == before


def test_writing_twice_changes_nothing_more(root):
    write(root, URL)
    once = contents(root)
    write(root, f"{URL}.git/")
    assert contents(root) == once


def test_every_file_holds_the_address(root):
    before = (root / "_config.yml").read_text().splitlines()
    write(root, URL)
    config = (root / "_config.yml").read_text()
    assert yaml.safe_load(config)["repository"]["url"] == URL
    assert [line for line in config.splitlines() if line not in before] == [f'  url: "{URL}"']
    assert yaml.safe_load((root / "CITATION.cff").read_text())["repository-code"] == URL
    readme = (root / "README.md").read_text()
    assert "(https://some-owner.github.io/some.repo/)" in readme
    assert "(https://colab.research.google.com/github/Some-Owner/some.repo/blob/main/book/tiny.ipynb)" in readme


def test_notebooks_keep_their_outputs_and_stay_up_to_date(root, capsys):
    before = json.loads((root / "book/tiny.ipynb").read_text())["cells"]
    write(root, URL)
    after = json.loads((root / "book/tiny.ipynb").read_text())["cells"]
    assert [cell["id"] for cell, old in zip(after, before, strict=True) if cell != old] == ["tiny-install"]
    assert f'ADDRESS = "{URL}"\n' in after[1]["source"]
    ast.parse("".join(after[1]["source"]))
    notebooks.main(["--changed", "--root", str(root)])
    assert capsys.readouterr().out.endswith("tiny: up to date\n")


def test_a_notebook_with_an_older_first_cell_is_seen(root):
    write(root, URL)
    replace(root / "book/tiny.ipynb", URL, "https://github.com/some/other")
    with pytest.raises(SystemExit, match="cell tiny-install: source not as in the page"):
        notebooks.main(["--check", "--root", str(root)])


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (f"{URL}.git", URL),
        (f" {URL}/ ", URL),
        ("https://git.example.org:8443/group/sub/repo", "https://git.example.org:8443/group/sub/repo"),
        ("file:///srv/lsalib.git", "file:///srv/lsalib"),
        ("", ""),
    ],
)
def test_addresses_are_normalised(given, kept):
    assert address.normalised(given) == kept


NO_ADDRESSES = "owner/repo https://github.com/owner git@github.com:owner/repo.git ftp://host/owner/repo".split()
NO_ADDRESSES += ["https://host/a b/c", "https://user:word@github.com/owner/repo", "file:relative"]


@pytest.mark.parametrize("url", [*NO_ADDRESSES, *(URL + end for end in ("/tree/main", "?x=1", "#readme", '"'))])
def test_other_addresses_are_refused(url, root):
    before = contents(root)
    with pytest.raises(SystemExit, match="expected https://host/owner/repository"):
        write(root, url)
    assert contents(root) == before


def test_another_host_gives_the_repository_link_only():
    url = "https://git.example.org/owner/repo"
    assert address.links(url, ["tiny"]) == f"[Repository]({url})\n"


def test_the_pages_of_an_owner_have_no_folder():
    assert address.book_address("https://github.com/Owner/owner.github.io") == "https://owner.github.io/"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda root: (root / "README.md").write_text("no markers\n"), "README.md: expected the two lines"),
        (lambda root: (root / "CITATION.cff").unlink(), "Missing in copy/: CITATION.cff"),
        (lambda root: replace(root / "_config.yml", '  url: ""\n', ""), "_config.yml: expected a line"),
        (lambda root: edit(root / "book/tiny.ipynb", lambda cells: cells.pop(1)), "tiny.ipynb: no cell tiny-install"),
    ],
)
def test_nothing_is_written_where_something_is_missing(spoil, message, root):
    spoil(root)
    before = contents(root)
    with pytest.raises(SystemExit, match=message):
        write(root, URL)
    assert contents(root) == before


def test_the_seconds_are_those_of_the_latest_measurement(tmp_path):
    """Rounded up; none of a page that was not measured, or where nothing was."""
    assert install_cell.seconds(tmp_path, "tiny") is None
    (tmp_path / "benchmarks").mkdir()
    measured = {when: {"pages": {"tiny": {"cold": {"wall": wall}}}} for when, wall in (("first", 90.5), ("then", 40.2))}
    (tmp_path / "studies/benchmarks/pages.json").write_text(json.dumps(measured))
    assert (install_cell.seconds(tmp_path, "tiny"), install_cell.seconds(tmp_path, "huge")) == (41, None)


def test_make_passes_the_address_on():
    assert f'-m tools address "{URL}"' in dry_run("address", f"URL={URL}")
    command = [sys.executable, "-m", "tools.notebooks.address", "nowhere"]
    refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert refused.returncode == 1 and "URL='nowhere' is no repository's address" in refused.stderr
