"""The site carries its library: a notebook that a reader downloads installs it from
there, and runs.
"""

import json
import os
import venv
import zipfile
from pathlib import Path

import nbformat
import pytest
from browser import ROOT, visit
from nbclient import NotebookClient

from tools.notebooks import pages
from tools.notebooks.pages import Page
from tools.site.build import SOURCE

# Fast, and it reads a stored result, which has to be in the wheel.
PAGE = "trust"


@pytest.fixture
def without_lsalib(tmp_path, monkeypatch):
    """A kernel called "alone" with all packages of this environment but lsalib, which
    installs from no index.
    """
    venv.create(tmp_path / "env", symlinks=True)
    (packages,) = (tmp_path / "env/lib").glob("python*/site-packages")
    for each in Path(pytest.__file__).parents[1].iterdir():
        if "lsalib" not in each.name:
            (packages / each.name).symlink_to(each)
    spec = tmp_path / "jupyter/kernels/alone/kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [
        str(tmp_path / "env/bin/python"),
        "-m",
        "ipykernel_launcher",
        "-f",
        "{connection_file}",
    ]
    spec.write_text(
        json.dumps({"argv": argv, "display_name": "alone", "language": "python"})
    )
    for name, value in {
        "JUPYTER_PATH": f"{tmp_path}/jupyter",
        "PIP_NO_INDEX": "1",
        "PIP_NO_COMPILE": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return packages


def test_a_downloaded_notebook_installs_the_library_from_the_site_and_runs(
    browser, address, without_lsalib, tmp_path
):
    with visit(browser, address, f"book/{PAGE}.html") as (page, noise):
        page.get_by_role("button", name="Download this page").click()
        with page.expect_download() as download:
            page.get_by_role("link", name=".ipynb").click()
        download.value.save_as(tmp_path / "empty" / download.value.suggested_filename)
    assert noise == [] and os.listdir(tmp_path / "empty") == [f"{PAGE}.ipynb"]
    notebook = nbformat.read(tmp_path / f"empty/{PAGE}.ipynb", as_version=4)
    kept = [cell.outputs for cell in pages.code_cells(pages.load(Page(ROOT, PAGE)))]
    resources = {"metadata": {"path": str(tmp_path / "empty")}}
    NotebookClient(
        notebook, kernel_name="alone", timeout=300, resources=resources
    ).execute()
    texts = lambda outputs: [
        output.get("data", {}).get("text/plain") for output in outputs
    ]
    ran = [cell.outputs for cell in pages.code_cells(notebook)]
    assert list(map(texts, ran)) == list(map(texts, kept)) and any(map(texts, ran))
    assert (without_lsalib / "lsalib/results/softmax_heads.npz").is_file()


def test_the_site_offers_the_books_source(html):
    with zipfile.ZipFile(html / SOURCE) as archive:
        packed = {name.partition("/")[2] for name in archive.namelist()}
    assert packed > {
        "Makefile",
        "book/heads.md",
        "lsalib/tasks.py",
        "tests/site/test_carried.py",
    }
    assert not [
        name for name in packed if name.startswith((".git/", ".venv", "_build"))
    ]
    assert f'href="../{SOURCE}"' in (html / "book/intro.html").read_text(
        encoding="utf-8"
    )
