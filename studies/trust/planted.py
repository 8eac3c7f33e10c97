"""Plant the defects of planted.toml, one at a time, and see what catches each: python -m studies.trust.planted [NAME…]

Each is planted in a copy of the checkout. The tests beside its file run first, then those of its part of the package.
With --pages, the pages that execute its function run instead, up to the first that fails. What fails with a defect must
pass without it. studies/trust/planted.json keeps what caught each defect: at first, now, and which page.

An entry is out of date when its file has changed since and no longer holds its line. It is reported and left out.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from studies.trust.executed import around
from tools.notebooks import pages

ROOT = Path(__file__).resolve().parents[2]
LIST, KEPT = "studies/trust/planted.toml", "studies/trust/planted.json"
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
LIMIT, PAGE_LIMIT = 900, 300  # seconds: a defect may make a program wait for ever
NO_REPORT = "no report"  # of a run that does not end, or ends without saying what failed


class Mutant(NamedTuple):
    """A line of the package, changed; ``aimed`` at a suspected gap; ``equivalent`` says why no test can tell it."""

    name: str
    file: str
    kind: str
    old: str
    new: str
    aimed: bool = False
    equivalent: str = ""

    @property
    def print(self) -> str:
        """By which a result knows its defect."""
        return hashlib.sha256("\0".join((self.file, self.old, self.new)).encode()).hexdigest()[:12]


class Result(NamedTuple):
    """The test that caught a defect, when it was new and now, None where nothing did; which pages were asked, of those
    that execute its function, None where none has been tried, and which of them caught it."""

    print: str
    first: str | None
    now: str | None
    asked: tuple[str, ...] | None = None
    page: str | None = None


def mutants(root: Path = ROOT) -> dict[str, Mutant]:
    listed = tomllib.loads((root / LIST).read_text(encoding="utf-8"))["mutant"]
    return {name: Mutant(name, **entry) for name, entry in listed.items()}


def results(root: Path = ROOT) -> dict[str, Result]:
    path = root / KEPT
    kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {name: Result(**entry) for name, entry in kept.items()}


def keep(root: Path, found: dict[str, Result]) -> None:
    """Write all results, in the order of the list."""
    lines = (f" {json.dumps(name)}: {json.dumps(found[name]._asdict())}" for name in mutants(root) if name in found)
    part = root / f"{KEPT}.part"
    part.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    os.replace(part, root / KEPT)


def fits(root: Path, mutant: Mutant) -> bool:
    """Whether the file still holds the line, once."""
    path = root / mutant.file
    return path.is_file() and path.read_text(encoding="utf-8").count(mutant.old) == 1


def fitting(root: Path, chosen: Iterable[Mutant]) -> list[Mutant]:
    """Those that can be planted; the others are reported."""
    found = []
    for mutant in chosen:
        if fits(root, mutant):
            found.append(mutant)
        else:
            print(f"{mutant.name}: out of date, {mutant.file} does not hold this line once: {mutant.old}", flush=True)
    return found


def is_there(root: Path, test: str) -> bool:
    """Whether the file is there, and the test or doctest in it."""
    file, _, name = test.partition("::")
    if not name:
        return (root / file).exists()
    name = re.split(r"[\[.]", name)[0] if file.startswith("tests/") else name.rpartition(".")[2]
    text = (root / file).read_text(encoding="utf-8") if (root / file).is_file() else ""
    return bool(re.search(rf"\b{re.escape(name)}\b", text))


def asked_of(root: Path, mutant: Mutant, table: str) -> list[str]:
    """The tests that the list names for this file, under the longest matching path, as far as they still exist."""
    listed = tomllib.loads((root / LIST).read_text(encoding="utf-8"))[table]
    asked = listed[max((start for start in listed if mutant.file.startswith(start)), key=len)]
    return [test for test in asked if is_there(root, test)]


class Copy:
    """A copy of the checkout in which defects are planted, and what is known to pass in it without any."""

    def __init__(self, root: Path, folder: Path):
        self.folder, self.clean, self.clock = folder, set(), 0
        self.env = os.environ | {"PYTHONPATH": str(folder)}
        listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=root, text=True).split("\0")[:-1]
        for name in filter(lambda name: (root / name).is_file(), listed):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, folder / name)

    def ask(self, asked: Sequence[str]) -> str | None:
        """What of these tests, or this page, fails first; None where all passes."""
        page = asked[0].startswith("page ")
        pytest = ["pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider", "-p", "no:xdist", *asked]
        command = [sys.executable, "-m", *(["studies.trust.executed", *asked[0].split()[1:]] if page else pytest)]
        limit = PAGE_LIMIT if page else LIMIT
        try:
            done = subprocess.run(command, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            return NO_REPORT
        if done.returncode == 0:
            return None
        # A test's own output may hold such lines, too.
        failed = FAILED.search(done.stdout.rpartition("short test summary")[2])
        return failed[1] if failed else asked[0] if page else NO_REPORT

    def passes(self, asked: Sequence[str]) -> None:
        """The negative control: what caught a defect passes without one."""
        if set(asked) - self.clean and (by := self.ask(asked)):
            raise SystemExit(f"Fails without any defect, too: {by}")
        self.clean |= set(asked)

    def write(self, path: Path, text: str) -> None:
        """Change a file. Python knows its bytecode by the second of the change: here each has another one."""
        path.write_text(text, encoding="utf-8")
        self.clock += 1
        os.utime(path, (self.clock, self.clock))

    @contextmanager
    def with_defects(self, planned: Sequence[Mutant]) -> Iterator[None]:
        before = {path: path.read_text(encoding="utf-8") for path in {self.folder / mutant.file for mutant in planned}}
        try:
            for mutant in planned:
                path = self.folder / mutant.file
                self.write(path, path.read_text(encoding="utf-8").replace(mutant.old, mutant.new))
            yield
        finally:
            for path, text in before.items():
                self.write(path, text)

    def caught(self, planned: Sequence[Mutant], asked: Sequence[str]) -> dict[str, str]:
        """By name, what of these fails with a defect and passes without; all at once as long as nothing fails."""
        if not planned or not asked:
            return {}
        with self.with_defects(planned):
            by = self.ask(asked)
        if by is None:
            return {}
        if len(planned) == 1:
            self.passes(asked if by == NO_REPORT else [by])
            return {planned[0].name: by}
        half = len(planned) // 2
        return self.caught(planned[:half], asked) | self.caught(planned[half:], asked)


@contextmanager
def copied(root: Path) -> Iterator[Copy]:
    with TemporaryDirectory() as folder:
        yield Copy(root, Path(folder))


def open_ones(listed: dict[str, Mutant], found: dict[str, Result]) -> list[str]:
    """The defects without a result, and those that nothing catches and nobody has explained."""
    known = {
        name: result.now for name, result in found.items() if name in listed and result.print == listed[name].print
    }
    done = lambda mutant: mutant.equivalent or known.get(mutant.name)
    return [mutant.name for mutant in listed.values() if mutant.name not in known or not done(mutant)]


def plant(root: Path, names: Sequence[str]) -> None:
    """For the tests beside a file, then for others; what may pass is planted together, as long as it does."""
    listed, found = mutants(root), results(root)
    left = fitting(root, (listed[name] for name in names or open_ones(listed, found)))

    def note(caught: dict[str, str | None]) -> None:
        for name, by in caught.items():
            known = found.get(name)
            same = known and known.print == listed[name].print
            found[name] = known._replace(now=by) if known and same else Result(listed[name].print, by, by)
            print(f"{name}: {by or 'SURVIVES'}", flush=True)
        keep(root, found)
        left[:] = [mutant for mutant in left if mutant.name not in caught]

    with copied(root) as copy:
        for mutant in [mutant for mutant in left if not mutant.aimed]:
            note(copy.caught([mutant], asked_of(root, mutant, "near")))
        for table in ("near", "part"):
            for asked in {tuple(asked_of(root, mutant, table)): 0 for mutant in left}:
                note(copy.caught([mutant for mutant in left if tuple(asked_of(root, mutant, table)) == asked], asked))
    note({mutant.name: None for mutant in left})


def place(root: Path, mutant: Mutant) -> tuple[str, int]:
    """The file, and the line where the function begins in which the defect is planted."""
    text = (root / mutant.file).read_text(encoding="utf-8")
    return mutant.file, around(text, text[: text.index(mutant.old)].count("\n") + 1)


def executing(copy: Copy, todo: Sequence[Mutant]) -> dict[str, list[str]]:
    """For each page, in the order of their times, the defects whose functions it executes: with none it passes."""
    found, seconds = {}, {}
    places = {mutant.name: place(copy.folder, mutant) for mutant in todo}
    for stem in (page.stem for page in pages.code_pages(copy.folder)):
        start, listing = time.perf_counter(), copy.folder / f"{stem}.txt"
        if copy.ask([f"page {stem} {listing}"]):
            raise SystemExit(f"Fails without any defect, too: page {stem}")
        copy.clean.add(f"page {stem}")
        seconds[stem] = time.perf_counter() - start
        called = {(file, int(line)) for file, line in map(str.split, listing.read_text("utf-8").splitlines())}
        files = {(file, 1) for file, _ in called}
        found[stem] = [name for name, at in places.items() if at in called | files]
        print(f"{stem}: {seconds[stem]:.0f} s, {len(found[stem])}", flush=True)
    return {stem: found[stem] for stem in sorted(found, key=seconds.__getitem__)}


def ask_pages(root: Path, names: Sequence[str]) -> None:
    """Plant each for the first page that executes its function alone, and what that lets pass together for others."""
    listed, found = mutants(root), results(root)
    left_over = (name for name in listed if name in found and found[name].page is None)
    todo = fitting(root, (listed[name] for name in names or left_over))
    with copied(root) as copy:
        by_page = executing(copy, todo)
        for mutant in todo:
            before = () if names else tuple(found[mutant.name].asked or ())
            found[mutant.name] = found[mutant.name]._replace(asked=before, page=None)
        for stem, there in by_page.items():
            left = [name for name in there if found[name].page is None and stem not in found[name].asked]
            alone, together = ([listed[n] for n in left if bool(found[n].asked) is known] for known in (False, True))
            for planned in [*([mutant] for mutant in alone), together]:
                # A page that only takes too long has said nothing.
                caught = copy.caught(planned, [f"page {stem}"]).items()
                for name in (name for name, by in caught if by != NO_REPORT):
                    found[name] = found[name]._replace(page=stem)
                    print(f"{name}: {stem}", flush=True)
            found |= {name: found[name]._replace(asked=(*found[name].asked, stem)) for name in left}
            keep(root, found)


def repeat(root: Path, names: Sequence[str]) -> list[str]:
    """The caught defects that are not caught again by the same test, or whose test is gone."""
    listed, found = mutants(root), results(root)
    again = fitting(root, (listed[name] for name in names or listed if name in found and found[name].now))
    by = lambda mutant: [test for test in [found[mutant.name].now] if is_there(root, test)]
    with copied(root) as copy:
        return [mutant.name for mutant in again if not copy.caught([mutant], by(mutant))]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.trust.planted", description=__doc__.partition(":")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="these; else those without a result, or not caught")
    parser.add_argument("--pages", action="store_true", help="these, or those for which they were not, asked of pages")
    parser.add_argument("--repeat", action="store_true", help="only what caught a defect must catch it again")
    args = parser.parse_args(argv)
    for name in results(ROOT).keys() - mutants(ROOT).keys():
        print(f"{name}: has a result, but is no longer in the list")
    if args.pages:
        ask_pages(ROOT, args.names)
    elif not args.repeat:
        plant(ROOT, args.names)
    elif missed := repeat(ROOT, args.names):
        raise SystemExit(f"No longer caught: {', '.join(missed)}")


if __name__ == "__main__":
    main()
