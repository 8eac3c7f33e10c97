"""Plant the defects of planted.toml, one at a time in a copy of the checkout, and see
which test catches each.

    python -m studies.trust.planted [NAME…]

With each defect this runs the test that caught it last time, the doctests of its file,
the test files that use its part of the library, and all other tests, up to the first
that fails. As a control, what fails with a defect must pass without it. The results are
stored after every defect.
"""

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from studies.provenance import ROOT, provenance

LIST, RESULTS = (
    Path("studies/trust/planted.toml"),
    Path("lsalib/results/trust/defects.json"),
)
# without the parameters
FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)
LIMIT = 1800  # seconds: with a defect, a program may never end
PYTEST = "pytest -x -q -rfE -p no:cacheprovider -p no:xdist".split()
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
        node: ast.AST = ast.parse(source)
        start, end, lines = 0, source.count("\n") + 1, source.splitlines(keepends=True)
        for name in filter(None, self.function.split(".")):
            # Breadth first: a function of the module comes before a method of the same
            # name.
            inside = (
                each
                for each in ast.walk(node)
                if isinstance(each, ast.FunctionDef | ast.ClassDef)
            )
            if (
                found := next(
                    (each for each in inside if each.name == name and each is not node),
                    None,
                )
            ) is None:
                raise SystemExit(f"{self.name}: {self.file} has no {self.function}")
            node, start, end = found, found.lineno - 1, found.end_lineno or found.lineno
        before, body, after = (
            "".join(part) for part in (lines[:start], lines[start:end], lines[end:])
        )
        # Wherever the lines of the code break.
        words = re.findall(r"\w+|[^\w\s]", self.old)
        places = [*re.finditer(r"\s*".join(map(re.escape, words)), body)]
        if len(places) != 1:
            raise SystemExit(
                f"{self.name}: {len(places)} times “{self.old}” in "
                f"{self.file} {self.function}, expected one"
            )
        first, last = places[0].span()
        return before + body[:first] + self.new.strip() + body[last:] + after


def listed() -> dict[str, Defect]:
    entries = tomllib.loads((ROOT / LIST).read_text(encoding="utf-8"))["defect"]
    return {name: Defect(name, **entry) for name, entry in entries.items()}


def results() -> dict[str, dict[str, Any]]:
    """By name, each defect with what caught it at first and now; None is nothing."""
    return {
        entry["name"]: entry
        for entry in json.loads((ROOT / RESULTS).read_text(encoding="utf-8"))
    }


def keep(defect: Defect, by: str | None) -> None:
    """Store what caught this defect beside the other results, one a line, in the order
    of the list.
    """
    known, about = results(), provenance("")
    found = {"first": known.get(defect.name, {}).get("first", by), "now": by}
    known[defect.name] = (
        defect._asdict() | found | {name: about[name] for name in ("commit", "date")}
    )
    lines = ",\n".join(
        json.dumps(known[name], ensure_ascii=False)
        for name in listed()
        if name in known
    )
    (ROOT / RESULTS).write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def tests(folder: Path, defect: Defect, last: str | None) -> Iterator[list[str]]:
    """What to run, one list after the other; files that use most of what the file
    defines come first.
    """
    file, _, name = (last or "").partition("::")
    if (
        name
        and (folder / file).is_file()
        and name.rpartition(".")[2] in (folder / file).read_text(encoding="utf-8")
    ):
        yield [f"{file}::{name}"]
    path = Path(defect.file)
    yield ["tests/tools"] if path.parts[0] == "tools" else [defect.file]
    own = re.findall(
        r"^(?:def|class) (\w+)",
        (folder / path).read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    files = [
        each
        for part in ("library", "theorems")
        for each in sorted((folder / "tests" / part).glob("test_*.py"))
    ]
    texts = {
        f"{each.relative_to(folder)}": each.read_text(encoding="utf-8")
        for each in files
    }
    order = sorted(
        texts,
        key=lambda each: -sum(texts[each].count(name) for name in [path.stem, *own]),
    )
    uses = re.compile(rf"\blsalib\b.*\b{path.with_suffix('').parts[1]}\b")
    near = [each for each in order if uses.search(texts[each])]
    yield from filter(
        None, (near, ["lsalib", *(each for each in order if each not in near)])
    )


class Copy:
    """A copy of the checkout in which defects are planted."""

    def __init__(self, folder: Path):
        self.folder, self.passed = folder, set[str]()
        # Bytecode is recognized as outdated by the second of a change: here, none is
        # kept.
        self.env = os.environ | {
            "PYTHONPATH": f"{folder}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        for name in subprocess.check_output(
            ["git", "ls-files"], cwd=ROOT, text=True
        ).splitlines():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)

    def failing(self, asked: list[str]) -> str | None:
        """Which of these tests fails first; None if none does."""
        command = [sys.executable, "-m", *PYTEST, *asked]
        try:
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=self.env,
                capture_output=True,
                text=True,
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            return NO_REPORT
        if done.returncode in (0, 5):  # 5: there are no tests
            return None
        # The output of a test may hold such lines, too: only the summary counts.
        found = FAILED.search(done.stdout.rpartition("short test summary")[2])
        return found[1] if found else NO_REPORT

    def caught(self, defect: Defect, last: str | None) -> str | None:
        """The first test that fails with the defect, and passes without it."""
        path = self.folder / defect.file
        before = path.read_text(encoding="utf-8")
        for asked in tests(self.folder, defect, last):
            path.write_text(defect.plant(before), encoding="utf-8")
            by = self.failing(asked)
            path.write_text(before, encoding="utf-8")
            again = asked if by in (None, NO_REPORT) else [by]
            if by and not self.passed.issuperset(again) and self.failing(again):
                raise SystemExit(f"{defect.name}: {by} fails without the defect, too")
            if by:
                self.passed.update(again)
                return by
        return None


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.trust.planted", description="Plant defects."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which (default: all)")
    names, known = parser.parse_args(argv).names, listed()
    with TemporaryDirectory() as folder:
        copy = Copy(Path(folder))
        for defect in [known[name] for name in names or known]:
            by = (
                None
                if defect.equivalent
                else copy.caught(defect, results().get(defect.name, {}).get("now"))
            )
            keep(defect, by)
            print(f"{defect.name}: {by or defect.equivalent or 'SURVIVES'}", flush=True)


if __name__ == "__main__":
    main()
