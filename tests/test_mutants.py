"""The planted defects: each still fits its file, each is caught by a test that is there, and two are planted again."""

import re
from pathlib import Path

import pytest

from tools import mutants, reach
from tools.mutants import ROOT, Copy, Mutant, Result

LISTED, FOUND = mutants.mutants(), mutants.results()
# Quick ones, of the library and of the tools.
AGAIN = ("check-that-never-raises", "control-counts-as-a-check")
# A quick page, and what it caught.
PAGE = ("intro", "label-squares-counted-once")


@pytest.mark.parametrize("mutant", LISTED.values(), ids=LISTED)
def test_a_defect_is_one_line_of_its_file(mutant):
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    before, after = text.splitlines(), mutants.planted(text, mutant).splitlines()
    assert sum(old != new for old, new in zip(before, after, strict=True)) == 1


def defects(listed: dict[str, Mutant], found: dict[str, Result]) -> list[str]:
    """Where the list and what is kept disagree, and what is neither caught nor explained."""
    wrong = [f"{name}: not in the list" for name in found.keys() - listed.keys()]
    for name, mutant in listed.items():
        result = found.get(name)
        if result is None or result.print != mutant.print:
            wrong.append(f"{name}: planted never, or otherwise")
        elif bool(result.now) == bool(mutant.equivalent):
            wrong.append(f"{name}: {'caught, and yet equivalent' if mutant.equivalent else 'not caught by a test'}")
        elif result.asked is None or result.page not in (None, *result.asked[-1:]):
            wrong.append(f"{name}: pages not asked, or not up to the one that caught it")
    return wrong


def test_every_defect_is_caught_or_explained():
    assert defects(LISTED, FOUND) == [] and len(LISTED) >= 75
    name = AGAIN[0]
    mutant, result = LISTED[name], FOUND[name]
    assert defects({}, {name: result}) == [f"{name}: not in the list"]
    for broken in ({}, {name: result._replace(print="another")}):
        assert defects({name: mutant}, broken) == [f"{name}: planted never, or otherwise"]
    assert defects({name: mutant}, {name: result._replace(now=None)}) == [f"{name}: not caught by a test"]
    for asked in ({"asked": None}, {"asked": ("heads", "intro"), "page": "heads"}):
        assert defects({name: mutant}, {name: result._replace(**asked)})[0].startswith(f"{name}: pages not asked")
    explained = {name: mutant._replace(equivalent="because")}
    assert defects(explained, {name: result}) == [f"{name}: caught, and yet equivalent"]


def is_there(by: str) -> bool:
    """Whether this test, or the object with this doctest, is in the sources."""
    file, _, name = by.partition("::")
    name = re.split(r"[\[.]", name)[0] if file.startswith("tests/") else name.rpartition(".")[2]
    text = (ROOT / file).read_text(encoding="utf-8")
    return bool(re.search(rf"^\s*(?:def |class )?{re.escape(name)}\b", text, re.MULTILINE))


def test_what_caught_them_is_there():
    by_tests = {result.now for result in FOUND.values()} - {None, mutants.NO_REPORT}
    assert by_tests and not [by for by in by_tests if not is_there(by)]
    assert not is_there("tests/test_mutants.py::" + "test_of_old[1]") and is_there(
        "tests/test_mutants.py::test_what_caught_them_is_there"
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return Copy(ROOT, Path(tmp_path_factory.mktemp("copy")))


@pytest.mark.parametrize("name", AGAIN)
def test_what_caught_a_defect_catches_it_again(name, copy):
    by, file = FOUND[name].now, LISTED[name].file
    assert copy.caught([LISTED[name]], [by]) == {name: by}
    assert (copy.folder / file).read_bytes() == (ROOT / file).read_bytes(), "the file is as it was"


def test_a_page_catches_a_defect_again(copy, tmp_path):
    """In a function that it executes; one in a function that it does not call passes."""
    stem, name = PAGE
    assert FOUND[name].page == stem
    assert copy.ask([f"page {stem} {tmp_path / 'functions'}"]) is None
    called = (tmp_path / "functions").read_text().splitlines()
    is_called = lambda mutant: "{}\t{}".format(*mutants.place(ROOT, mutant)) in called
    others = [mutant for mutant in LISTED.values() if mutant.file.startswith("lsalib/sts") and not is_called(mutant)]
    assert is_called(LISTED[name]) and others
    assert copy.caught([LISTED[name]], [f"page {stem}"]) == {name: f"page {stem}"}
    assert copy.caught(others, [f"page {stem}"]) == {}


def test_the_innermost_function_around_a_line():
    source = """\
import a
def f(x=1):
    g = lambda y: (
        y +
        x)
    return g(2)
class C:
    size = 3
    def method(self):
        return 4
"""
    assert [reach.around(source, line) for line in range(1, 11)] == [1, 2, 3, 3, 3, 2, 1, 1, 9, 9]


def test_what_fails_without_a_defect_catches_none(copy):
    with pytest.raises(SystemExit, match="Fails without any defect, too: no report"):
        copy.caught([LISTED[AGAIN[0]]], ["tests/test_none.py"])


def test_a_fragment_must_be_there_once():
    mutant = Mutant("m", "a.py", "kind", "x", "y")
    assert mutants.planted("ax b", mutant) == "ay b"
    for text, changed in (("b", mutant), ("x x", mutant), ("x", mutant._replace(new="x"))):
        with pytest.raises(SystemExit, match=r"m: a\.py holds \d times, expected once: x"):
            mutants.planted(text, changed)
