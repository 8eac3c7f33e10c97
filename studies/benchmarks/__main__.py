"""Measure, and write the tables: python -m studies.benchmarks [NAME…]

Without a name both run, speed and engine. Every table goes to
studies/benchmarks/NAME.md.
"""

import sys
from pathlib import Path

from studies.benchmarks import engine, speed

BENCHMARKS = {"speed": speed.measured, "engine": engine.measured}


def main(names: list[str]) -> None:
    if not BENCHMARKS.keys() >= set(names):
        raise SystemExit(f"names must be some of {', '.join(BENCHMARKS)}, got {names}")
    for name in names or BENCHMARKS:
        text = BENCHMARKS[name](name)
        print(text)
        Path(__file__).with_name(f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
