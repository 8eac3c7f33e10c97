"""The study of planted defects runs on something tiny."""

import subprocess

import pytest

from studies.trust import planted

# What each defect changes: the last of these functions does not exist.
PATTERNS = {"factor": ("double", "2"), "unseen": ("half", "2"), "outdated": ("third", "2")}
LIST = "".join(
    f'[defect.{name}]\nfile = "lsalib/a.py"\nfunction = "{function}"\nkind = "factor"\nold = "{old}"\nnew = "3"\n'
    for name, (function, old) in PATTERNS.items()
)
TEST = "from lsalib.a import double\n\n\ndef test_double():\n    assert double(3) == 6\n"


def test_a_planted_defect(tmp_path, capsys):
    """One that a test catches, one that nothing sees, and one whose function is gone."""
    source = "def double(x):\n    return 2 * x\n\n\ndef half(x):\n    return x / 2\n"
    for name in ("lsalib", "tests/library", "studies/trust"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "lsalib/__init__.py").touch()
    (tmp_path / "lsalib/a.py").write_text(source)
    (tmp_path / "tests/library/test_a.py").write_text(TEST)
    (tmp_path / planted.LIST).write_text(LIST)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    planted.plant(tmp_path, [])
    found = {name: (entry["first"], entry["now"]) for name, entry in planted.results(tmp_path).items()}
    test = "tests/library/test_a.py::test_double"
    assert found == {"factor": (test, test), "unseen": (None, None)}
    assert "outdated: out of date" in capsys.readouterr().out
    assert (tmp_path / "lsalib/a.py").read_text() == source
    # The control: what fails without a defect, too, catches none.
    (tmp_path / "tests/library/test_a.py").write_text(TEST.replace("6", "7"))
    with pytest.raises(SystemExit, match="test_double fails without the defect, too"):
        planted.plant(tmp_path, ["factor"])
