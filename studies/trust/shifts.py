"""The pages under other seeds: which checks rest on draws, and how often they hold.

    python -m studies.trust.shifts [--shifts 20] [--store] [STEM…]

executes the cells of these pages, or of all, once for every shift of all seeds, and prints what failed. With --store,
the outcome of every check is stored, page by page. Each run is kept in study-runs/shifts and is not repeated, so an
interrupted study continues where it stopped. A page that is not executed keeps its stored results.
"""

import argparse
import contextlib
import hashlib
import json
import math
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lsalib import _files
from lsalib.book.seeds import STRIDE
from studies.provenance import provenance
from studies.trust import STORE, executed
from tools.notebooks import pages
from tools.notebooks.pages import Page

SHIFTS = STORE / "shifts.json"
# The answers of the language models are stored, and the page on trust reads these results.
LEFT_OUT = ("llm", "trust")
# Hours of work: neither a build nor `make clean` removes it.
WORK = Path("study-runs/shifts")
VERSIONS = ("jax", "jaxlib", "numpy", "optax")
# What a check compares.
NUMBERS = ("measured", "expected", "tolerance")


def run(page: Page, shift: int) -> dict[str, Any]:
    """Execute the page's cells in this process: every check with its outcome, and the cells that stopped."""
    import jax

    from lsalib.book import claims, seeds

    checks: list[dict[str, Any]] = []
    stopped: dict[str, str] = {}
    running = ""

    @contextlib.contextmanager
    def around(cell: str, source: str) -> Iterator[None]:
        nonlocal running
        running = cell
        try:
            yield
        except Exception as error:
            stopped[cell] = _failure(error, cell, source)

    def recorded(*judged: Any) -> claims.Record:
        """A check or control that stops nothing; pages run in the paper's setting."""
        record = claims._compare(*judged[:-1])
        # Three digits; None for a margin without a tolerance or a deviation.
        margin = float(f"{record.margin:.3g}") if math.isfinite(record.margin) else None
        checks.append(record._asdict() | {"key": record.key, "margin": margin, "cell": running})
        return record

    about: dict[str, Any] = provenance("python -m studies.trust.shifts") | {
        "versions": {name: metadata.version(name) for name in VERSIONS}
    }
    claims._seen.clear()
    start, wide = time.perf_counter(), jax.config.read("jax_enable_x64")
    try:
        with patch.object(claims, "_judge", recorded), seeds.shifted(shift), warnings.catch_warnings():
            with contextlib.redirect_stdout(None):
                executed.execute(page, around)
    finally:
        jax.config.update("jax_enable_x64", wide)
        _forget()
    return {"about": about, "checks": checks, "stopped": stopped, "seconds": round(time.perf_counter() - start, 1)}


def _failure(error: Exception, cell: str, source: str) -> str:
    """The line that failed and the message."""
    at = next((frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == cell), 0)
    line = source.splitlines()[at - 1].strip() if at else ""
    return f"{type(error).__name__} in «{line[:160]}»: {' '.join(str(error).split())[:300]}"


def _forget() -> None:
    """Clear the library's caches: they hold results of other seeds."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "lsalib":
            for value in vars(module).values():
                getattr(value, "cache_clear", lambda: None)()


def digest(page: Page) -> str:
    """A short name of the page's code: runs of other code are not reused."""
    return hashlib.sha256("\0".join(source for _, source in pages.own_code(page)).encode()).hexdigest()[:16]


def place(page: Page, shift: int) -> Path:
    """Where this run is kept."""
    return page.root / WORK / f"{page.stem}-{digest(page)}-{shift}.json"


def execute(page: Page, last: int) -> None:
    """Make the runs that are missing, in this process."""
    for shift in range(last + 1):
        if not place(page, shift).is_file():
            found = run(page, shift)
            _files.write(place(page, shift), json.dumps(found).encode())
            failed = [f"{c['key']} «{c['label']}», margin {c['margin']}" for c in found["checks"] if not c["passed"]]
            failed += [f"{cell}: {why}" for cell, why in found["stopped"].items()]
            print(f"{page.stem} {shift}: {found['seconds']} s", *failed, sep="\n  ", flush=True)


def runs(page: Page, last: int) -> dict[int, dict[str, Any]]:
    """All runs of the page by their shift; the missing ones are made in a new process."""
    if not all(place(page, shift).is_file() for shift in range(last + 1)):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            process.submit(execute, page, last).result()
    return {shift: json.loads(place(page, shift).read_text(encoding="utf-8")) for shift in range(last + 1)}


def summary(page: Page, found: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    """What the runs of a page say, as it is stored: how they were made, cells that stopped, and every check."""
    last = max(found)
    about: dict[str, Any] = found[last]["about"]
    about["commit"] = ", ".join(sorted({each["about"]["commit"] for each in found.values()}))
    about["command"] = f"python -m studies.trust.shifts --shifts {last} --store {page.stem}"
    placed = {shift: _placed(each["checks"]) for shift, each in found.items()}
    checks = [_check({shift: each.get(at) for shift, each in placed.items()}) for at in placed[min(found)]]
    stopped = {f"{shift}": each["stopped"] for shift, each in found.items() if each["stopped"]}
    return {"shifts": last, **about, "code": digest(page), "stopped": stopped, "checks": checks}


def _placed(checks: Sequence[dict[str, Any]]) -> dict[tuple[str, str, int], dict[str, Any]]:
    """Checks by cell, claim and running number in the cell: running numbers on the page change where a cell stops."""
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for check in checks:
        at = check["cell"], check["id"]
        seen[at] += 1
        found[*at, seen[at]] = check
    return found


def _check(records: Mapping[int, dict[str, Any] | None]) -> dict[str, Any]:
    """One check under all shifts: whether it rests on draws, its margins, its failures.

    A failure without numbers is a check that was not reached: its cell had stopped.
    """
    first = records[min(records)]
    assert first is not None
    ran = [record for record in records.values() if record]
    drawn = any(record[part] != first[part] for record in ran for part in NUMBERS)
    failed = {
        f"{shift}": {part: record[part] for part in NUMBERS} if record else {}
        for shift, record in records.items()
        if not (record and record["passed"])
    }
    about = {part: first[part] for part in ("key", "id", "kind", "label", "relation", "entries", "tolerance")}
    margins = [record and record["margin"] for record in (records.values() if drawn else [first])]
    return about | {"drawn": drawn, "failed": failed, "margins": margins}


def store(root: Path, stem: str, new: dict[str, Any]) -> None:
    """Put one page's results beside those of the other pages, one line a check."""
    path = root / SHIFTS
    found = json.loads(path.read_text(encoding="utf-8"))["pages"] if path.is_file() else {}
    old = found.get(stem, {})
    if old.get("code") == new["code"] and old["shifts"] > new["shifts"]:
        print(f"{stem}: {old['shifts']} shifts of this code are stored; kept")
        return
    found[stem] = new
    blocks = []
    for name, page in sorted(found.items()):
        lines = ",\n".join(json.dumps(check, ensure_ascii=False) for check in page["checks"])
        head = json.dumps({part: page[part] for part in page if part != "checks"}, ensure_ascii=False)
        blocks.append(f'"{name}": {head[:-1]}, "checks": [\n{lines}\n]}}')
    text = f'{{"about": {json.dumps({"stride": STRIDE})},\n"pages": {{\n{",".join(blocks)}\n}}}}\n'
    _files.write(path, text.encode())


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.trust.shifts", description="Execute pages under other seeds."
    )
    parser.add_argument("stems", nargs="*", metavar="STEM", help="which pages (default: all)")
    parser.add_argument("--shifts", type=int, default=20, help="how many shifts (default: 20)")
    parser.add_argument("--store", action="store_true", help=f"put the results into {SHIFTS}")
    args = parser.parse_args(argv)
    stems = args.stems or [page.stem for page in pages.code_pages(pages.ROOT) if page.stem not in LEFT_OUT]
    for page in (Page(pages.ROOT, stem) for stem in stems):
        found = summary(page, runs(page, args.shifts))
        drawn = sum(check["drawn"] for check in found["checks"])
        print(f"{page.stem}: {len(found['checks'])} checks, {drawn} rest on draws", flush=True)
        if args.store:
            store(page.root, page.stem, found)


if __name__ == "__main__":
    main()
