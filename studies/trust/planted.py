"""Plant the defects of planted.toml, one at a time in a copy of the checkout, and see
which test catches each.

    python -m studies.trust.planted [NAME…]

With each defect this runs the test that caught it last time, and then the doctests of
its file and all other tests, up to the first that fails. As a control, what fails with
a defect must pass without it. The results are stored after every defect.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from studies.provenance import ROOT, provenance

LIST = ROOT / "studies/trust/planted.toml"
RESULTS = ROOT / "lsalib/results/trust/defects.json"
TESTS = ["lsalib", "tests/library", "tests/tools", "tests/theorems"]
# without the parameters
FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)
LIMIT = 1800  # seconds: with a defect, a program may never end
PYTEST = "pytest -x -q -rfE -p no:cacheprovider -p no:xdist".split()
# This test would catch every defect: it looks for the code that a defect replaces.
PYTEST += [
    "--deselect",
    "tests/library/test_experiments.py::test_every_planted_defect_finds_its_code",
]
# of tests that do not end, or end without saying which of them failed
NO_REPORT = "no report"


class Defect(NamedTuple):
    """A small change of one function; ``aimed`` at a suspected gap; ``equivalent`` says
    why no test can see it.
    """

    name: str
    file: str
    kind: str
    old: str
    new: str
    function: str = ""
    aimed: bool = False
    equivalent: str = ""

    def plant(self, source: str) -> str:
        """The source with the defect: the pattern must occur exactly once in the
        function.
        """
        nodes: list[Any] = [ast.parse(source)]
        for name in filter(None, self.function.split(".")):
            # Breadth first: a function of the module comes before a method of the same
            # name.
            nodes = [
                each
                for each in ast.walk(nodes[0])
                if isinstance(each, ast.FunctionDef | ast.ClassDef)
                and each.name == name
                and each is not nodes[0]
            ] or [ast.Module([], [])]
        whole = source if not self.function else ""
        body = ast.get_source_segment(source, nodes[0]) or whole
        # Wherever the lines of the code break.
        words = re.findall(r"\w+|[^\w\s]", self.old)
        places = [*re.finditer(r"\s*".join(map(re.escape, words)), body)]
        if len(places) != 1:
            raise SystemExit(
                f"{self.name}: {len(places)} times “{self.old}” in "
                f"{self.file} {self.function}, expected one"
            )
        first, last = places[0].span()
        planted = body[:first] + self.new.strip() + body[last:]
        return source.replace(body, planted, 1)


def listed() -> dict[str, Defect]:
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["defect"]
    return {name: Defect(name, **entry) for name, entry in entries.items()}


def results() -> dict[str, dict[str, Any]]:
    """By name, each defect with what caught it at first and now; None is nothing."""
    entries = json.loads(RESULTS.read_text(encoding="utf-8"))
    return {entry["name"]: entry for entry in entries}


def keep(defect: Defect, by: str | None) -> None:
    """Store what caught this defect beside the other results, one a line, in the order
    of the list.
    """
    known = results()
    first = known.get(defect.name, {}).get("first", by)
    about = provenance(f"python -m studies.trust.planted {defect.name}")
    known[defect.name] = defect._asdict() | {"first": first, "now": by} | about
    lines = ",\n".join(
        json.dumps(known[name], ensure_ascii=False)
        for name in listed()
        if name in known
    )
    RESULTS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def copy(folder: Path) -> None:
    """Copy the checkout, in which defects are then planted."""
    files = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True)
    for name in files.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)


def failing(folder: Path, tests: list[str]) -> str | None:
    """Which of these tests fails first in the copy; None if none does."""
    # Bytecode is recognized as outdated by the second of a change: here, none is kept.
    own = {"PYTHONPATH": f"{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", *PYTEST, *tests],
            cwd=folder,
            env=os.environ | own,
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return NO_REPORT
    if done.returncode in (0, 4, 5):  # 4: such a test is not there; 5: there are none
        return None
    # The output of a test may hold such lines, too: only the summary counts.
    first = FAILED.search(done.stdout.rpartition("short test summary")[2])
    return first[1] if first else NO_REPORT


def caught(folder: Path, defect: Defect, last: str | None) -> str | None:
    """The first test that fails with the defect, and passes without it."""
    path = folder / defect.file
    before = path.read_text(encoding="utf-8")
    for tests in ([last] if last else [], [defect.file, *TESTS]):
        path.write_text(defect.plant(before), encoding="utf-8")
        by = failing(folder, tests) if tests else None
        path.write_text(before, encoding="utf-8")
        if by and failing(folder, tests if by == NO_REPORT else [by]):
            raise SystemExit(f"{defect.name}: {by} fails without the defect, too")
        if by:
            return by
    return None


def main(names: list[str]) -> None:
    known = listed()
    with TemporaryDirectory() as folder:
        copy(Path(folder))
        for defect in [known[name] for name in names or known]:
            last = results().get(defect.name, {}).get("now")
            by = None if defect.equivalent else caught(Path(folder), defect, last)
            keep(defect, by)
            print(f"{defect.name}: {by or defect.equivalent or 'SURVIVES'}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
