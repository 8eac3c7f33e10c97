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
    names = {
        name: value
        for package in PACKAGES
        for name, value in public(importlib.import_module(package)).items()
    }
    pages = [
        (html / f"book/api/{md.stem}.html").read_text(encoding="utf-8")
        for md in (ROOT / "book/api").glob("*.md")
    ]
    # A path of the machine would be a default that is not written as in the source.
    assert [page for page in pages if str(ROOT) in page] == []
    listed = [
        dt
        for page in pages
        for dt in BeautifulSoup(page, "html.parser").select("dt.sig-object[id]")
    ]
    # The entries of a class's own methods stand within its entry.
    entries = {dt["id"]: dt for dt in listed if not dt.find_parent("dd")}
    count = Counter(dt["id"] for dt in listed if dt["id"] in entries)
    things: dict[object, list[str]] = {}
    # a class may be offered by two modules; one entry is enough
    for name, value in names.items():
        things.setdefault(id(value) if callable(value) else name, []).append(name)
    assert (
        len(things) > 40
        and [same for same in things.values() if sum(count[name] for name in same) != 1]
        == []
    )
    assert [name for name in entries if name not in names] == []
    assert [
        name
        for name, dt in entries.items()
        if not dt.find_next_sibling("dd").text.strip()
    ] == []
    code = {
        name: dt
        for name, dt in entries.items()
        if inspect.isroutine(inspect.unwrap(names[name]))
    }
    assert [
        name
        for name, dt in code.items()
        if not dt.select_one("a[href*='_modules/lsalib/'] .viewcode-link")
    ] == []
    named = [
        (name, argument)
        for name in code
        for argument in inspect.signature(names[name]).parameters
    ]
    assert (
        len(named) > 100
        and [each for each in named if each[1] not in code[each[0]].text] == []
    )
