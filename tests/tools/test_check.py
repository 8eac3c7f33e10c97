"""Commands side by side, and what belongs to a page."""

import sys

import pytest
from tiny_book import HEADER, ROOT, make

from tools.notebooks import check, pages, parallel
from tools.notebooks import execute as notebooks
from tools.notebooks.pages import Page
from tools.notebooks.parallel import side_by_side

CODE = """
```{code-cell} ipython3
from lsalib import theory
from lsalib.book import figures
from lsalib.tasks import GaussianTask
```
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


# Says its name three times, each time only once all three have come so far.
TALK = """
import pathlib, time
folder, end = pathlib.Path({folder!r}), time.monotonic() + 900
for k in range(3):
    (folder / f"{name}{{k}}").touch()
    while len(list(folder.glob(f"*{{k}}"))) < 3:
        assert time.monotonic() < end, "the others do not come"
        time.sleep(0.01)
    print({name!r}, flush=True)
"""


def test_commands_run_at_once_and_keep_their_outputs_apart(tmp_path):
    talk = {name: python(TALK.format(name=name, folder=str(tmp_path))) for name in "abc"}
    done = {each.name: each for each in side_by_side(talk, jobs=3)}
    assert {name: each.output for name, each in done.items()} == {name: f"{name}\n" * 3 for name in "abc"}


def test_a_status_is_handed_on_and_the_order_kept():
    done = list(side_by_side({"second": python("raise SystemExit(3)"), "first": python("print('x')")}, jobs=1))
    assert [(each.name, each.status) for each in done] == [("second", 3), ("first", 0)]


@pytest.mark.parametrize("deaf", ["", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "])
def test_who_stops_listening_stops_what_runs_and_what_waits(deaf, tmp_path, monkeypatch):
    """Also what does not hear an interrupt."""
    monkeypatch.setattr(parallel, "STOPS", [(stop, seconds and 1) for stop, seconds in parallel.STOPS])
    late = f"{deaf}import time, pathlib; time.sleep(300); pathlib.Path({str(tmp_path / 'late')!r}).touch()"
    finished = side_by_side({"quick": python(""), "slow": python(late), "waiting": python(late)}, jobs=2)
    assert next(finished).name == "quick"
    finished.close()
    assert not (tmp_path / "late").exists()


@pytest.fixture
def root(tmp_path):
    """A page that imports two parts of a library, each with a test."""
    make(tmp_path, "\n# A tiny page\n" + CODE)
    (tmp_path / "lsalib/theory").mkdir(parents=True)
    (tmp_path / "lsalib/tasks.py").touch()
    (tmp_path / "tests").mkdir()
    tests = {"law": "theory", "sampler": "tasks", "both": "tasks, theory", "more": "tasks, training", "look": "book"}
    for name, parts in tests.items():
        (tmp_path / f"tests/test_{name}.py").write_text(f"from lsalib import {parts}\n")
    (tmp_path / "tests/library/test_claims.py").touch()
    return tmp_path


def test_the_tests_of_what_a_page_imports(root):
    page = Page(root, "tiny")
    tests = [f"tests/test_{name}.py" for name in ("both", "claims", "law", "sampler")]
    assert check.tests_of(page) == ["lsalib/tasks.py", "lsalib/theory", *tests]
    (root / "book/tiny.md").write_text(
        HEADER + "\n# A tiny page\n" + CODE.replace("from lsalib import theory", "import lsalib.theory")
    )
    assert check.tests_of(page) == ["lsalib/tasks.py", "lsalib/theory", *tests], "in whichever form"
    # The control: what it does not import is not tested for it.
    (root / "book/tiny.md").write_text(HEADER + "\n# A tiny page\n" + CODE.replace("from lsalib import theory\n", ""))
    assert check.tests_of(page) == ["lsalib/tasks.py", "tests/library/test_claims.py", "tests/library/test_sampler.py"]


def test_every_part_of_the_library_has_a_page_that_tests_it():
    parts = {test for page in pages.code_pages(ROOT) for test in check.tests_of(page)}
    of_all = ("attention", "estimators.py", "metrics.py", "tasks.py", "theory", "training", "sts")
    assert parts >= {f"lsalib/{part}" for part in of_all}


def test_new_code_must_be_executed_first(root, monkeypatch):
    monkeypatch.setattr(pages, "ROOT", root)
    with pytest.raises(SystemExit, match="run: make notebook NAME=tiny"):
        check.main(["tiny"])
    with pytest.raises(SystemExit, match="No page with code is called huge"):
        check.main(["huge"])


def test_page_and_tests_are_run_and_a_failure_is_named(root, monkeypatch, capfd):
    monkeypatch.setattr(pages, "ROOT", root)
    monkeypatch.setattr(pages, "pair_defects", lambda *_: [])
    commands = {"tiny": python("print('4 programs')"), "tests": python("raise SystemExit(1)")}
    monkeypatch.setattr(check, "commands", lambda page: commands)
    with pytest.raises(SystemExit, match=r"^Failed: tests$"):
        check.main(["tiny"])
    assert "4 programs\ntiny: " in capfd.readouterr().out


def test_a_page_is_executed_with_the_longest_text_first(root):
    (root / "book/long.md").write_text(HEADER + "\n# Long\n" + "word " * 500 + CODE)
    assert [page.stem for page in notebooks.longest_first(pages.code_pages(root))] == ["long", "tiny"]
