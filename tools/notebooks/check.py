"""Test one page: its text, its notebook once more, and its claims: python -m tools check NAME

The tests of the library do not depend on a page; `make test-library` runs them.
"""

import argparse
import subprocess
import time

from tools.ledger import claims
from tools.notebooks import execute, pages, validate


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tools check", description="Test one page.")
    parser.add_argument("stem", metavar="NAME", help="the page")
    (page,) = execute.named(pages.ROOT, [parser.parse_args(argv).stem])
    start = time.perf_counter()
    if defects := pages.text_defects(page):
        raise SystemExit("\n".join(defects))
    if not execute.refresh(page):
        raise SystemExit(f"book/{page.stem}.md has changed code; run: make notebook NAME={page.stem}")
    failed = subprocess.run(validate.command([page]), cwd=page.root).returncode
    claims.main([])
    print(f"{page.stem}: {time.perf_counter() - start:.1f} s in all")
    if failed:
        raise SystemExit(f"{page.stem}: other outputs than its notebook holds")


if __name__ == "__main__":
    main()
