"""Show what a page costs, cell by cell: python -m tools profile NAME…"""

import argparse
import re
import time
from datetime import datetime
from typing import NamedTuple

from nbformat import NotebookNode

from tools.notebooks import execute, pages
from tools.notebooks.pages import Page

# What JAX logs for each program, whether it was compiled or read from the cache.
COMPILED = re.compile(r"Finished XLA compilation of (.+) in ([\d.e-]+) sec")


class Cost(NamedTuple):
    """The seconds of a cell or page, and the name and compile seconds of each of its programs."""

    wall: float
    programs: list[tuple[str, float]]

    @property
    def compiling(self) -> float:
        return sum(seconds for _, seconds in self.programs)


def of_page(page: Page, *, keep: bool = False) -> tuple[Cost, list[tuple[str, Cost]]]:
    """Execute the page; returns what it cost, kernel start included, and the first line and cost of each cell.

    With ``keep``, compiled programs come from JAX's cache on disk, if one is set, and new ones go there.
    """
    start = time.perf_counter()
    env = {"JAX_LOG_COMPILES": "1"} | ({} if keep else {"JAX_ENABLE_COMPILATION_CACHE": "false"})
    notebook = execute.run_cells(page, env, timed=True)
    wall = time.perf_counter() - start
    cells = [(cell.source.partition("\n")[0], of_cell(cell)) for cell in pages.code_cells(notebook)]
    return Cost(wall, [program for _, cost in cells for program in cost.programs]), cells


def of_cell(cell: NotebookNode) -> Cost:
    """What an executed cell cost."""
    log = "".join(output.text for output in cell.outputs if output.get("name") == "stderr")
    times = cell.metadata.execution
    begin, end = (datetime.fromisoformat(times[at]) for at in ("iopub.execute_input", "shell.execute_reply"))
    return Cost((end - begin).total_seconds(), [(name, float(seconds)) for name, seconds in COMPILED.findall(log)])


def report(page: Page, most: int = 12) -> str:
    """The totals, the cells that take longest, and the programs that take longest to compile."""
    total, cells = of_page(page)
    slowest = sorted(cells, key=lambda cell: -cell[1].wall)[:most]
    by_name = {name: sum(took for each, took in total.programs if each == name) for name, _ in total.programs}
    programs = sorted(by_name, key=by_name.__getitem__, reverse=True)[:most]
    return "\n".join(
        [
            f"{page.stem}: {total.wall:.1f} s, {len(total.programs)} programs, {total.compiling:.1f} s in the compiler",
            "    wall s  programs  compiling s",
            *(f"  {c.wall:8.1f}  {len(c.programs):8d}  {c.compiling:11.1f}  {line[:70]}" for line, c in slowest),
            *(f"  {by_name[program]:8.1f}  in the compiler: {program}" for program in programs),
        ]
    )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools profile", description="Show what pages cost.")
    parser.add_argument("stems", nargs="+", metavar="NAME", help="a page")
    for page in execute.named(pages.ROOT, parser.parse_args(argv).stems):
        print(report(page), flush=True)


if __name__ == "__main__":
    main()
