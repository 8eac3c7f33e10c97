"""The planted defects: the list can be read, some are caught again, and an entry that no longer fits stops nothing."""

import json
import subprocess

import pytest

from studies.trust import planted as mutants
from studies.trust import report as defects
from studies.trust.planted import ROOT, Copy

LISTED, FOUND = mutants.mutants(), mutants.results()
# Quick ones, of the library and of the tools; one that no longer fits its file is left out.
AGAIN = {
    "check-that-never-raises": "tests/library/test_claims.py",
    "control-counts-as-a-check": "tests/tools/test_ledger.py",
}
AGAIN = {name: tests for name, tests in AGAIN.items() if name in LISTED and mutants.fits(ROOT, LISTED[name])}


def test_the_list_and_the_results_can_be_read():
    for mutant in LISTED.values():
        assert mutant.file and mutant.kind and mutant.old != mutant.new, mutant.name
        assert mutants.asked_of(ROOT, mutant, "near") + mutants.asked_of(ROOT, mutant, "part"), mutant.name
    assert LISTED and FOUND
    entries = defects.together(ROOT)
    assert {entry["name"] for entry in entries} <= LISTED.keys() & FOUND.keys()
    shown = {"name", "file", "kind", "old", "new", "aimed", "equivalent", "first", "now", "asked", "page"}
    assert all(entry.keys() >= shown for entry in (*entries, *json.loads((ROOT / defects.STORE).read_text("utf-8"))))


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return Copy(ROOT, tmp_path_factory.mktemp("copy"))


@pytest.mark.parametrize("name", AGAIN)
def test_a_planted_defect_is_caught_again(name, copy):
    mutant = LISTED[name]
    assert copy.caught([mutant], [AGAIN[name]])[name].startswith(AGAIN[name])
    assert (copy.folder / mutant.file).read_bytes() == (ROOT / mutant.file).read_bytes(), "the file is as it was"


LIST = """
[near]
"" = ["test_a.py::test_double", "test_a.py::test_gone"]
[part]
"" = ["test_a.py"]

[mutant.factor]
file = "a.py"
kind = "factor"
old = "2 * x"
new = "3 * x"

[mutant.outdated]
file = "a.py"
kind = "factor"
old = "x + x"
new = "x - x"
"""


@pytest.fixture
def checkout(tmp_path):
    """A function, its test, and two defects, one of which no longer fits."""
    (tmp_path / "a.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "test_a.py").write_text("from a import double\n\n\ndef test_double():\n    assert double(3) == 6\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "studies/trust/planted.toml").write_text(LIST)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_an_entry_that_is_out_of_date_is_reported_and_the_others_are_planted(checkout, capsys):
    mutants.plant(checkout, [])
    said = capsys.readouterr().out
    assert "outdated: out of date, a.py does not hold this line once: x + x" in said
    found = {name: result.now for name, result in mutants.results(checkout).items()}
    assert found == {"factor": "test_a.py::test_double"}
    assert mutants.repeat(checkout, []) == []
    (checkout / "test_a.py").write_text("def test_double():\n    pass\n")
    assert mutants.repeat(checkout, []) == ["factor"], "the control: its test no longer looks"
    (checkout / "a.py").unlink()
    assert mutants.repeat(checkout, []) == [] and "factor: out of date" in capsys.readouterr().out


def test_what_fails_without_a_defect_catches_none(checkout):
    (checkout / "test_a.py").write_text("def test_double():\n    assert False\n")
    with pytest.raises(SystemExit, match="Fails without any defect, too: test_a"):
        mutants.plant(checkout, ["factor"])
