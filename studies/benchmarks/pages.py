"""What the book's pages cost: each is executed in a new kernel, without compiled programs and then with them."""

import os
from tempfile import TemporaryDirectory

from studies.benchmarks.measuring import origin, sentence, table
from tools.notebooks import pages, profile

HEADER = ("page", "s", "s of it to compile", "programs", "s with kept programs")
FORMATS = ("{:.1f}", "{:.1f}", "{:.0f}", "{:.1f}")


def measured(name: str, quick: bool) -> str:
    """A row for each page, and their sum."""
    stems, rows = [], []
    for page in pages.code_pages(pages.ROOT)[: 1 if quick else None]:
        with TemporaryDirectory() as kept:
            os.environ["JAX_COMPILATION_CACHE_DIR"] = kept
            # The first run finds nothing, and keeps its programs for the second one.
            (cold, _), (warm, _) = (profile.of_page(page, keep=True) for _ in range(2))
        rows.append((cold.wall, cold.compiling, len(cold.programs), warm.wall))
        stems.append(page.stem)
        print(f"{page.stem}: {cold.wall:.1f} s, {warm.wall:.1f} s with kept programs", flush=True)
    walls, compiling, counts, warms = zip(*rows, strict=True)
    rows.append((sum(walls), sum(compiling), sum(counts), sum(warms)))
    cells = [[stem, *map(str.format, FORMATS, row)] for stem, row in zip([*stems, "all"], rows, strict=True)]
    one = "Each page runs once, alone on the machine."
    return f"{sentence(origin(name, 'jax', 'numpy'))} {one}\n\n{table(HEADER, cells)}"
