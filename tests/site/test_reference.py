"""The API pages: every public name has one entry, with its signature as it is written, its source and its text."""

import importlib
import inspect
from collections import Counter
from types import ModuleType

import pytest
from browser import ROOT
from bs4 import BeautifulSoup

# What a user imports; the last two are not imported by the first.
PACKAGES = ("lsalib", "lsalib.book", "lsalib.sts")


def public(module: ModuleType) -> dict[str, object]:
    """What the module's __all__ offers, and that of the modules in it, by full name."""
    found = {}
    for name in module.__all__:
        full = f"{module.__name__}.{name}"
        value = getattr(module, name, None)
        value = importlib.import_module(full) if value is None else value
        found |= public(value) if isinstance(value, ModuleType) else {full: value}
    return found


@pytest.fixture(scope="module")
def names():
    return {name: value for package in PACKAGES for name, value in public(importlib.import_module(package)).items()}


@pytest.fixture(scope="module")
def entries(html):
    """The API's entries; those of a class's own methods stand within its entry."""
    pages = [(html / f"book/api/{md.stem}.html").read_text(encoding="utf-8") for md in (ROOT / "book/api").glob("*.md")]
    # Text that holds a path of the machine would be a default that is not written as in the source.
    assert [page for page in pages if str(ROOT) in page] == []
    soups = [BeautifulSoup(page, "html.parser") for page in pages]
    # «dim: d.» in a docstring would be the fourth point of a list.
    assert [soup for soup in soups if soup.select("dl.py .field-list ol")] == []
    return [dt for soup in soups for dt in soup.select("dt.sig-object[id]") if not dt.find_parent("dd")]


def test_every_public_name_has_one_entry(entries, names):
    count = Counter(dt["id"] for dt in entries)
    things: dict[object, list[str]] = {}
    for name, value in names.items():  # a class may be offered by two modules; one entry is enough
        things.setdefault(id(value) if callable(value) else name, []).append(name)
    assert len(things) > 100
    assert [same for same in things.values() if sum(count[name] for name in same) != 1] == []
    assert [name for name in count if name not in names] == []


def test_every_function_and_class_has_its_source_and_its_text(entries, names):
    described = [
        dt for dt in entries if callable(names.get(dt["id"])) and dt.find_parent("dl")["class"] != ["py", "data"]
    ]
    assert len(described) > 80
    assert [dt["id"] for dt in described if not dt.select_one("a[href*='_modules/lsalib/'] .viewcode-link")] == []
    assert [dt["id"] for dt in entries if not dt.find_next_sibling("dd").text.strip()] == []
    # As it is written, also where jax.jit or its like wraps a function: every argument by its name.
    functions = {dt["id"]: dt.text for dt in described if not inspect.isclass(names[dt["id"]])}
    named = [(name, arg) for name in functions for arg in inspect.signature(names[name]).parameters]
    assert len(named) > 150 and [(name, arg) for name, arg in named if arg not in functions[name]] == []
