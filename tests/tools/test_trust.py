"""The studies of the book's own checks: each program runs once on something tiny, and what is stored can be read."""

import io
import json
import subprocess

import pytest
from tiny_book import HEADER, ROOT

from lsalib.book.seeds import STRIDE
from studies.trust import STORE, planted, shifts, versions
from tools.notebooks.pages import Page

PAGE = """
# A page that draws

```{code-cell} ipython3
import jax
import numpy as np
from lsalib.book import Claim

jax.config.update("jax_enable_x64", True)
drawn = np.random.default_rng(0).normal(size=1000)
seed = int(jax.random.key_data(jax.random.key(7))[-1])
```

```{code-cell} ipython3
Claim("a-mean").holds("the mean", drawn.mean(), 0.0, atol=0.2, seeds=[0], name="mean")
Claim("a-seed").holds("the seed", seed, 7, atol=0.5)
Claim("a-mean").fails("no tolerance", drawn.mean(), 0.0, atol=1e-9)
Claim("a-sum").holds("the sum", 2 + 2, 4, atol=0.1)
```

```{code-cell} ipython3
for number in [7]:
    assert seed == number, "another seed"
Claim("a-rest").holds("what comes after", 1.0, 1.0, atol=0.1)
```

```{code-cell} ipython3
Claim("a-rest").holds("the next cell", 1.0, 1.0, atol=0.1)
```
"""


def test_a_page_under_other_seeds(tmp_path):
    """What draws is told from what does not, and what fails under a seed stops nothing but its own cell."""
    (tmp_path / "book").mkdir()
    (tmp_path / "_config.yml").symlink_to(ROOT / "_config.yml")
    page = Page(tmp_path, "tiny")
    page.md.write_text(HEADER + PAGE)
    found = shifts.summary(page, shifts.runs(page, 2))
    checks = {check["key"]: check for check in found["checks"]}
    assert {key: check["drawn"] for key, check in checks.items()} == {
        **{"a-mean/mean": True, "a-seed/1": True, "a-mean/2": True},
        **{"a-sum/1": False, "a-rest/1": False, "a-rest/2": False},
    }
    assert checks["a-mean/mean"]["failed"] == {} and min(checks["a-mean/mean"]["margins"]) > 1
    # The seed is one and two strides further, and its check stops nothing.
    assert checks["a-seed/1"]["failed"] == {
        f"{shift}": {"measured": 7.0 + shift * STRIDE, "expected": 7.0, "tolerance": 0.5} for shift in (1, 2)
    }
    # The cell with the assertion stops, its check is not reached, and the next cell runs.
    why = 'AssertionError in «assert seed == number, "another seed"»: another seed'
    assert found["stopped"] == {shift: {"tiny-003": why} for shift in "12"}
    assert checks["a-rest/1"]["failed"] == {"1": {}, "2": {}} and checks["a-rest/2"]["failed"] == {}


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


def test_what_passed_with_which_versions(tmp_path, monkeypatch):
    """The summaries of a log are added up; a log with a failure, or with none, adds nothing."""
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())

    def noted(log):
        monkeypatch.setattr("sys.stdin", io.StringIO(log))
        versions.main(["lowest", "library"], tmp_path)
        return json.loads((tmp_path / STORE / "versions.json").read_text())

    for log in ("", "1 failed, 12 passed in 3.00s\n", "12 passed, 1 error in 3.00s\n"):
        with pytest.raises(SystemExit, match="nothing added"):
            noted(log)
    (lowest,) = noted("....\n===== 12 passed, 3 skipped in 1.50s =====\n2 passed in 0.1s\n")
    assert {"jax", "numpy", "pytest"} <= lowest["versions"].keys()
    assert (lowest["parts"]["library"]["passed"], lowest["parts"]["library"]["skipped"]) == (14, 3)
