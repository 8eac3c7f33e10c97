"""The API pages: every public name has one entry, with its arguments, its source and
its text.
"""

import importlib
import inspect
from collections import Counter
from types import ModuleType

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


def test_every_public_name_has_one_entry_with_its_arguments_its_source_and_its_text(
    html,
):
    names = {}
    for package in PACKAGES:
        names |= public(importlib.import_module(package))
    pages = [
        (html / f"book/api/{md.stem}.html").read_text()
        for md in (ROOT / "book/api").glob("*.md")
    ]
    # A path of the machine would be a default that is not written as in the source.
    assert not any(str(ROOT) in page for page in pages)
    # The entries of a class's own methods stand within its entry.
    listed = [
        dt
        for page in pages
        for dt in BeautifulSoup(page, "html.parser").select("dt.sig-object[id]")
        if not dt.find_parent("dd")
    ]
    # A class may be offered by two modules; one entry is enough, under either name.
    first: dict[object, str] = {}
    named = {
        name: first.setdefault(id(value) if callable(value) else name, name)
        for name, value in names.items()
    }
    entries = Counter(named.get(dt["id"], dt["id"]) for dt in listed)
    assert len(entries) > 40 and entries == Counter(set(named.values()))
    for dt in listed:
        name, value = dt["id"], names[dt["id"]]
        assert dt.find_next_sibling("dd").text.strip(), name
        if inspect.isroutine(inspect.unwrap(value)):
            assert dt.select_one("a[href*='_modules/lsalib/'] .viewcode-link"), name
            for argument in inspect.signature(value).parameters:
                assert argument in dt.text, (name, argument)
