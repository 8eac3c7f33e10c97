"""What pages cost, cold and with kept programs: ``python -m studies.benchmarks.pages [--revision REV] [PAGE…]``.

Each page is executed so many times with no kept programs, then once with those of the last run. The figures are kept
in pages.json, beside those of other revisions, and pages.md is written of all of them. A revision is executed in a
checkout of its own.
"""

import argparse
import json
import os
import statistics
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from studies.benchmarks.text import machine, table
from tools.notebooks import pages, profile

HERE = Path(__file__).parent
FIGURES, TEXT, NOTES = HERE / "pages.json", HERE / "pages.md", HERE / "pages-notes.md"
FIELDS = ("wall", "programs", "compiling")


def measure(page: pages.Page, *, keep: bool) -> dict[str, float]:
    total, _ = profile.of_page(page, keep=keep)
    return {"wall": total.wall, "programs": len(total.programs), "compiling": total.compiling}


def middle(runs: list[dict[str, float]]) -> dict[str, float]:
    """The median of each figure."""
    return {field: round(statistics.median(run[field] for run in runs), 3) for field in FIELDS}


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """A copy of the revision, whose library the kernels import."""
    with TemporaryDirectory() as folder:
        root, old = Path(folder, "checkout"), os.environ.get("PYTHONPATH")
        subprocess.run(
            ["git", "worktree", "add", "--quiet", "--detach", str(root), revision], cwd=pages.ROOT, check=True
        )
        os.environ["PYTHONPATH"] = str(root)
        try:
            yield root
        finally:
            os.environ.pop("PYTHONPATH") if old is None else os.environ.update(PYTHONPATH=old)
            subprocess.run(["git", "worktree", "remove", "--force", str(root)], cwd=pages.ROOT, check=True)


def execute(root: Path, stems: list[str], runs: int) -> Iterator[tuple[str, dict[str, dict[str, float]]]]:
    for page in pages.code_pages(root):
        if stems and page.stem not in stems:
            continue
        cold = [measure(page, keep=False) for _ in range(runs - 1)]
        with TemporaryDirectory() as kept:
            os.environ["JAX_COMPILATION_CACHE_DIR"] = kept
            # The last cold run finds nothing kept, and keeps its programs.
            cold.append(measure(page, keep=True))
            yield page.stem, {"cold": middle(cold), "warm": measure(page, keep=True)}


def rows(figures: dict[str, dict]) -> list[list[str]]:
    """A row a page, and their sum."""
    listed = []
    for stem in sorted(figures):
        cold, warm = figures[stem]["cold"], figures[stem].get("warm")
        listed.append(
            [
                stem,
                f"{cold['wall']:.1f}",
                f"{cold['programs']:.0f}",
                f"{cold['compiling']:.1f}",
                f"{warm['wall']:.1f}" if warm else "–",
            ]
        )
    wall = {
        kind: [figures[stem][kind]["wall"] for stem in figures if kind in figures[stem]] for kind in ("cold", "warm")
    }
    compiling = sum(each["cold"]["compiling"] for each in figures.values())
    count = sum(each["cold"]["programs"] for each in figures.values())
    warm = f"{sum(wall['warm']):.1f}" if len(wall["warm"]) == len(figures) else "–"
    return [*listed, ["all", f"{sum(wall['cold']):.1f}", f"{count:.0f}", f"{compiling:.1f}", warm]]


def text(kept: dict[str, dict]) -> str:
    """The page of tables: the newest revision first."""
    header = ["page", "s", "programs", "compiling", "s, kept programs"]
    lines = [
        "# What the pages cost",
        "",
        "Each page in a new kernel, alone on the machine; seconds from the kernel's start to its end, "
        "the programs that",
        "were compiled, and the seconds that this took. The last column: one run with the programs of a run before.",
        "",
    ]
    for name, entry in reversed(kept.items()):
        lines += [
            f"## {name}",
            "",
            f"{entry['machine']}; medians of {entry['runs']}."
            if entry["runs"] > 1
            else f"{entry['machine']}; one run.",
            "",
            *table(header, rows(entry["pages"])),
        ]
    return "\n".join([*lines, NOTES.read_text(encoding="utf-8")])


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.benchmarks.pages", description=__doc__.splitlines()[0])
    parser.add_argument("stems", nargs="*", metavar="PAGE", help="these pages (default: all)")
    parser.add_argument("--revision", metavar="REV", help="of the repository (default: the files as they are)")
    parser.add_argument("--name", default="Now", help="what the table is called")
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    args = parser.parse_args(argv)
    kept = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.is_file() else {}
    entry = kept.setdefault(args.name, {"pages": {}})
    entry |= {"machine": machine(), "runs": args.runs}
    with checkout(args.revision) if args.revision else nullcontext(pages.ROOT) as root:
        for stem, figures in execute(root, args.stems, args.runs):
            entry["pages"][stem] = figures
            print(
                f"{stem}: {figures['cold']['wall']:.1f} s cold, {figures['warm']['wall']:.1f} s warm, "
                f"{figures['cold']['programs']:.0f} programs",
                flush=True,
            )
            FIGURES.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    TEXT.write_text(text(kept), encoding="utf-8")


if __name__ == "__main__":
    main()
