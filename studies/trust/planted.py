"""Plant the defects of planted.toml, one at a time in a copy of the checkout, and see what catches each.

    python -m studies.trust.planted [--pages] [NAME…]

runs the test that caught the defect last time, then the doctests of its file, the test files that import its part of
the library, and the other tests of the library, up to the first that fails. With --pages, it runs the pages that call
the function with the defect, quick ones first. What fails with a defect must pass without it. Without NAME, it takes
the defects that have no result yet or that nothing caught. The results are stored after every defect.

A defect names a function and a short pattern in it. If either is gone, the entry is out of date: it is reported and
left out.
"""

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from studies.provenance import provenance
from studies.trust import STORE
from tools.notebooks import pages
from tools.notebooks.imports import parts_imported

LIST, RESULTS = Path("studies/trust/planted.toml"), STORE / "defects.json"
# A test without its parameters, whose text may change.
FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)
LIMIT, PAGE_LIMIT = 3600, 300  # seconds: with a defect, a program may never end
PYTEST = "pytest -x -q -rfE -p no:cacheprovider -p no:xdist".split()
NO_REPORT = "no report"  # of tests that do not end, or end without saying which of them failed


class Defect(NamedTuple):
    """A small change of one function; ``aimed`` at a suspected gap; ``equivalent`` says why no test can see it."""

    name: str
    file: str
    kind: str
    old: str
    new: str
    function: str = ""
    aimed: bool = False
    equivalent: str = ""

    def plant(self, source: str) -> str | None:
        """The source with the defect; None if it does not have the function, or not the pattern exactly once in it."""
        node: ast.AST = ast.parse(source)
        start, end, lines = 0, source.count("\n") + 1, source.splitlines(keepends=True)
        for name in filter(None, self.function.split(".")):
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            # Breadth first: a function of the module comes before a method of the same name.
            inside = (each for each in ast.walk(node) if isinstance(each, kinds) and each is not node)
            found = next((each for each in inside if each.name == name), None)
            if found is None:
                return None
            node, start, end = found, found.lineno - 1, found.end_lineno or found.lineno
        before, body, after = ("".join(part) for part in (lines[:start], lines[start:end], lines[end:]))
        return before + body.replace(self.old, self.new) + after if body.count(self.old) == 1 else None


def listed(root: Path) -> dict[str, Defect]:
    entries = tomllib.loads((root / LIST).read_text(encoding="utf-8"))["defect"]
    return {name: Defect(name, **entry) for name, entry in entries.items()}


def results(root: Path) -> dict[str, dict[str, Any]]:
    """By name, each defect with what caught it first and now, which pages were asked, and which of them caught it."""
    path = root / RESULTS
    return {entry["name"]: entry for entry in json.loads(path.read_text("utf-8"))} if path.is_file() else {}


def result(root: Path, defect: Defect) -> dict[str, Any]:
    """What is stored of this very defect; {} if nothing is, or if it had another place or pattern."""
    found, itself = results(root).get(defect.name, {}), ("file", "function", "old", "new")
    return found if all(found.get(part) == getattr(defect, part) for part in itself) else {}


def keep(root: Path, defect: Defect, found: dict[str, Any]) -> None:
    """Store what was found of this defect beside all other results, one line each, in the order of the list."""
    # What caught it first stays when the defect is written again, for other code.
    old = results(root).get(defect.name, {"first": found.get("now")})
    empty = {"first": old["first"], "now": None, "asked": None, "page": None}
    entry = defect._asdict() | empty | result(root, defect) | defect._asdict() | found
    entries, order = results(root) | {defect.name: entry}, [*listed(root)]
    names = sorted(entries, key=lambda name: order.index(name) if name in order else len(order))
    lines = ",\n".join(json.dumps(entries[name], ensure_ascii=False) for name in names)
    (root / RESULTS).write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def tests(root: Path, defect: Defect) -> Iterator[list[str]]:
    """What to run, one list after the other."""
    file, _, name = (result(root, defect).get("now") or "").partition("::")
    if name and (root / file).is_file() and name.rpartition(".")[2] in (root / file).read_text(encoding="utf-8"):
        yield [f"{file}::{name}"]
    yield [defect.file]
    part, stem = Path(defect.file).with_suffix("").parts[1], Path(defect.file).stem
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((root / "tests/library").glob("test_*.py"))}
    texts = dict(sorted(texts.items(), key=lambda each: -each[1].count(stem)))
    near = [path for path, text in texts.items() if part in parts_imported(text)]
    for some in (near, [path for path in texts if path not in near]):
        if some:
            yield [f"{path.relative_to(root)}" for path in some]


class Copy:
    """A copy of the checkout in which defects are planted."""

    def __init__(self, root: Path, folder: Path):
        self.folder = folder
        # Bytecode is recognized as outdated by the second of a change: here, none is kept.
        self.env = os.environ | {"PYTHONPATH": f"{folder}", "PYTHONDONTWRITEBYTECODE": "1"}
        names = subprocess.check_output(["git", "ls-files", "-z"], cwd=root, text=True).split("\0")[:-1]
        for name in filter(lambda name: (root / name).is_file(), names):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, folder / name)

    def failing(self, asked: Sequence[str], *, page: bool = False) -> str | None:
        """Which of these tests, or whether this page, fails first; None if nothing does or there are no tests."""
        module = ["studies.trust.executed"] if page else PYTEST
        command, limit = [sys.executable, "-m", *module, *asked], PAGE_LIMIT if page else LIMIT
        try:
            done = subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return None if page else NO_REPORT  # a page that only takes too long says nothing
        if done.returncode in (0, 5):
            return None
        # The output of a test may hold such lines, too: only the summary counts.
        failed = FAILED.search(done.stdout.rpartition("short test summary")[2])
        return asked[0] if page else failed[1] if failed else NO_REPORT

    def caught(self, defect: Defect, asked: Sequence[str], *, page: bool = False) -> str | None:
        """What of these fails with the defect; as a control, the same must pass without it."""
        path = self.folder / defect.file
        before = path.read_text(encoding="utf-8")
        path.write_text(defect.plant(before) or before, encoding="utf-8")
        try:
            by = self.failing(asked, page=page)
        finally:
            path.write_text(before, encoding="utf-8")
        if by and self.failing(asked if by == NO_REPORT else [by], page=page):
            raise SystemExit(f"{defect.name}: {by} fails without the defect, too")
        return by

    def called(self) -> dict[str, set[str]]:
        """For each page, quick ones first, the functions of the checkout that it calls, as "file, tab, name"."""
        seconds, found = {}, {}
        for stem in (page.stem for page in pages.code_pages(self.folder)):
            start, listing = time.perf_counter(), self.folder / f"{stem}.txt"
            if self.failing([stem, f"{listing}"], page=True) or not listing.is_file():
                raise SystemExit(f"{stem}: the page fails without any defect")
            seconds[stem], found[stem] = time.perf_counter() - start, set(listing.read_text("utf-8").splitlines())
        return {stem: found[stem] for stem in sorted(found, key=seconds.__getitem__)}


def calls(functions: set[str], defect: Defect) -> bool:
    """Whether the defect's function is one of these; what belongs to no function runs when its file is imported."""
    if not defect.function or defect.function.rpartition(".")[2][0].isupper():
        return any(each.startswith(f"{defect.file}\t") for each in functions)
    return f"{defect.file}\t{defect.function}" in functions


def plant(root: Path, names: Sequence[str], *, on_pages: bool = False) -> None:
    """Plant these defects, or those without a result, ask the tests or the pages, and store what came of it."""
    known, todo = listed(root), []
    for defect in (known[name] for name in names or known):
        path, found = root / defect.file, result(root, defect)
        if not path.is_file() or defect.plant(path.read_text(encoding="utf-8")) is None:
            print(
                f"{defect.name}: out of date, no single «{defect.old}» in {defect.file} {defect.function}", flush=True
            )
        elif on_pages and not found:
            print(f"{defect.name}: run the tests with it first", flush=True)
        elif names or (found.get("asked") is None if on_pages else not (found.get("now") or defect.equivalent)):
            todo.append(defect)
    with TemporaryDirectory() as folder:
        copy, about = Copy(root, Path(folder)), provenance("python -m studies.trust.planted")
        called = copy.called() if on_pages and todo else {}
        for defect in todo:
            by, tried = None, []
            calling = ([stem] for stem, functions in called.items() if calls(functions, defect))
            for some in calling if on_pages else tests(root, defect):
                tried.append(some[0])
                if by := copy.caught(defect, some, page=on_pages):
                    break
            keep(root, defect, about | ({"asked": tried, "page": by} if on_pages else {"now": by}))
            print(f"{defect.name}: {by or 'SURVIVES'}", flush=True)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.trust.planted", description="Plant defects.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which (default: those that nothing caught)")
    parser.add_argument("--pages", action="store_true", help="ask the pages instead of the tests")
    args = parser.parse_args(argv)
    plant(pages.ROOT, args.names, on_pages=args.pages)


if __name__ == "__main__":
    main()
