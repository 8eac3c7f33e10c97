"""The pages under other seeds: which checks rest on draws, and how often they hold.

python -m studies.trust.shifts [--shifts 20] [STEM…] executes the pages' cells once for every shift of all their seeds,
without Jupyter, and stores what came of every check. Each run is kept in study-runs/shifts and is not repeated. A page
without runs there keeps what is stored of it.
"""

import argparse
import ast
import contextlib
import json
import math
import os
import subprocess
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from functools import partial
from importlib import metadata
from pathlib import Path

from lsalib import _files
from lsalib.book.seeds import STRIDE
from tools.notebooks import execute as notebooks
from tools.notebooks import pages, programs
from tools.notebooks.pages import Page

# The models' answers are on record, and this page reads what is stored here.
LEFT_OUT = ("llm", "llm_inside", "trust")
# Hours of work: outside of what a build or `make clean` removes.
WORK = Path("study-runs/shifts")
VERSIONS = ("jax", "jaxlib", "numpy", "optax")
# The stored outcome of every check under other seeds.
SHIFTS = Path("lsalib/data/trust/shifts.json")
# What a check compares.
NUMBERS = ("measured", "expected", "tolerance")


def drawing(root: Path) -> list[Page]:
    """The pages that are executed under other seeds."""
    return [page for page in pages.code_pages(root) if page.stem not in LEFT_OUT]


def run(page: Page, shift: int) -> dict:
    """Execute the page's cells in this process: every check with its outcome, and the cells that stopped."""
    import jax
    import matplotlib.pyplot as plt

    from lsalib import book
    from lsalib.book import claims, seeds

    records: list[claims.Record] = []
    stopped: dict[str, str] = {}
    claims._seen.clear()
    kept = book.check, book.control, jax.config.jax_enable_x64
    book.check, book.control = (partial(_recorded, records, kind) for kind in ("check", "control"))
    start, space = time.perf_counter(), {"__name__": "__main__"}
    try:
        with seeds.shifted(shift), warnings.catch_warnings(), contextlib.redirect_stdout(None):
            for name, source in pages.own_code(page):
                try:
                    exec(compile(source, name, "exec", dont_inherit=True), space)
                except Exception as error:
                    stopped[name] = _said(error, name, source)
                plt.close("all")
    finally:
        book.check, book.control = kept[:2]
        jax.config.update("jax_enable_x64", kept[2])
        _forget()
    checks = [record._asdict() | {"margin": record.margin} for record in records]
    return {"checks": checks, "stopped": stopped, "seconds": round(time.perf_counter() - start, 1)}


def _recorded(records, kind, claim_id, measured, expected, *, atol=0.0, rtol=0.0, relation="=", label="", seeds=()):
    """A check that stops nothing."""
    from lsalib.book import claims

    records.append(claims._compare(claim_id, measured, expected, atol, rtol, relation, label, seeds, kind))
    return records[-1]


def _said(error: Exception, cell: str, source: str) -> str:
    """The statement that failed, and how, in a line."""
    at = next((frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == cell), 0)
    inside = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt) and node.lineno <= at]
    # Of those that hold the line the innermost comes last.
    statement = next((ast.unparse(node) for node in reversed(inside) if at <= (node.end_lineno or 0)), "")
    message = " ".join(str(error).split())
    return f"{type(error).__name__} in «{statement[:160]}»: {message[:300]}"


def _forget() -> None:
    """Results that the library keeps would be those of other seeds."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "lsalib":
            for opened in vars(module).values():
                getattr(opened, "cache_clear", lambda: None)()


def places(page: Page, shifts: Iterable[int]) -> dict[int, Path]:
    """Where each run of this code is kept."""
    name = f"{page.stem}-{pages.digest(page)}"
    return {shift: page.root / WORK / f"{name}-{shift}.json" for shift in shifts}


def execute(page: Page, shifts: Iterable[int]) -> None:
    """What is not there yet, in this process."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.show = lambda *args, **kwargs: None
    for shift, path in places(page, shifts).items():
        if not path.is_file():
            found = run(page, shift)
            _files.write(path, json.dumps(found).encode())
            told = [f"{r['kind']} «{r['label']}», margin {r['margin']:.2g}" for r in found["checks"] if not r["passed"]]
            told += [f"{cell}: {why}" for cell, why in found["stopped"].items()]
            print(f"{page.stem} {shift}: {found['seconds']} s", *told, sep="\n  ", flush=True)


def execute_apart(page: Page, last: int) -> None:
    """In a process of its own, which takes compiled programs and adds to them."""
    with programs.borrowed() as kept:
        command = [
            sys.executable,
            "-m",
            "studies.trust.shifts",
            "--here",
            f"--root={page.root}",
            f"--shifts={last}",
            page.stem,
        ]
        subprocess.run(command, env=os.environ | programs.environment(kept), check=True)


def read(page: Page, shifts: Sequence[int]) -> dict:
    """What the page's runs came to: the code that ran, cells that stopped, and its checks one after the other."""
    runs = {shift: json.loads(path.read_text(encoding="utf-8")) for shift, path in places(page, shifts).items()}
    by_name = {shift: named(found["checks"]) for shift, found in runs.items()}
    checks = [summary({shift: found.get(name) for shift, found in by_name.items()}) for name in by_name[min(shifts)]]
    stopped = {shift: found["stopped"] for shift, found in runs.items() if found["stopped"]}
    return {"code": pages.digest(page), "stopped": stopped, "checks": checks}


def named(records: list[dict]) -> dict[tuple, dict]:
    """Checks by what they are called; those of one name are counted."""
    seen: Counter[tuple] = Counter()
    found = {}
    for record in records:
        name = tuple(record[part] for part in ("id", "kind", "label"))
        seen[name] += 1
        found[*name, seen[name]] = record
    return found


def summary(records: Mapping[int, dict | None]) -> dict:
    """One check under all shifts, the page's own seeds first: whether it rests on draws, its margins, its failures.

    A failure without numbers is a check that was not reached: its cell had stopped.
    """
    first = records[min(records)]
    assert first is not None
    ran = [record for record in records.values() if record]
    drawn = any(record[part] != first[part] for record in ran for part in NUMBERS)
    failed = {
        shift: {part: record[part] for part in NUMBERS} if record else {}
        for shift, record in records.items()
        if not (record and record["passed"])
    }
    said = {part: first[part] for part in ("id", "kind", "label", "relation", "entries", "tolerance")}
    margins = [record and rounded(record["margin"]) for record in (records.values() if drawn else [first])]
    return said | {"drawn": drawn, "failed": failed, "margins": margins}


def rounded(margin: float) -> float | None:
    """Three digits; None stands for a margin that has no tolerance, or no deviation."""
    return float(f"{margin:.3g}") if math.isfinite(margin) else None


def store(root: Path, todo: list[Page], shifts: Sequence[int]) -> None:
    """Merge what has been executed into what is stored, with a line for each check, so that a change can be read."""
    found = stored(root)
    made = {"date": f"{date.today()}", "versions": {name: metadata.version(name) for name in VERSIONS}}
    for page in todo:
        done = [shift for shift, path in places(page, shifts).items() if path.is_file()]
        new = {"shifts": len(done) - 1, **made, **read(page, done)} if len(done) > 1 else {}
        old = found.get(page.stem, {})
        # Fewer runs of the same code say less than those that are stored.
        if new and (new["code"] != old.get("code") or new["shifts"] >= old["shifts"]):
            found[page.stem] = new
        elif old:
            print(f"{page.stem}: kept as stored, {old['shifts']} shifts")
    for stem in found.keys() - {page.stem for page in pages.code_pages(root)}:
        print(f"{stem}: stored, but no page any more; delete its block from {SHIFTS} yourself")
    blocks = []
    for stem, kept in sorted(found.items()):
        lines = ",\n".join(json.dumps(check, ensure_ascii=False) for check in kept["checks"])
        head = json.dumps({part: kept[part] for part in kept if part != "checks"}, ensure_ascii=False)
        blocks.append(f'"{stem}": {head[:-1]}, "checks": [\n{lines}\n]}}')
    about = json.dumps({"command": "python -m studies.trust.shifts", "stride": STRIDE})
    _files.write(root / SHIFTS, f'{{"about": {about},\n"pages": {{\n{",".join(blocks)}\n}}}}\n'.encode())


def stored(root: Path) -> dict[str, dict]:
    """What is stored of each page, with the date and the versions of its runs."""
    path = root / SHIFTS
    if not path.is_file():
        return {}
    kept = json.loads(path.read_text(encoding="utf-8"))
    # Earlier files have one date for all pages.
    made = {part: kept["about"][part] for part in ("date", "versions") if part in kept["about"]}
    return {stem: made | page for stem, page in kept["pages"].items()}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.trust.shifts", description=__doc__.splitlines()[0])
    parser.add_argument("stems", nargs="*", metavar="STEM", help="execute these pages, and store nothing")
    parser.add_argument("--shifts", type=int, default=20, help="from the first to which (default: 20)")
    parser.add_argument("--collect", action="store_true", help="execute nothing, store what was executed")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, default=pages.ROOT, help="the checkout (default: this one)")
    args = parser.parse_args(argv)
    root, shifts = args.root.resolve(), range(args.shifts + 1)
    todo = notebooks.named(root, args.stems) if args.stems else drawing(root)
    for page in todo:
        if args.here:
            execute(page, shifts)
        elif not args.collect and not all(path.is_file() for path in places(page, shifts).values()):
            execute_apart(page, args.shifts)
    if not args.stems:
        store(root, todo, shifts)


if __name__ == "__main__":
    main()
