"""Measure, and write the tables: python -m studies.benchmarks [NAME…] [--quick]

Without a name all benchmarks run, each in a process of its own. Every table goes to
studies/benchmarks/NAME.md.
"""

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

BENCHMARKS = ("speed", "engine")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.benchmarks", description=__doc__.splitlines()[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument(
        "--quick",
        action="store_true",
        help="measure little and write nothing: for development",
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(BENCHMARKS):
        parser.error(
            f"no such benchmark: {', '.join(sorted(unknown))}; "
            f"there are {', '.join(BENCHMARKS)}"
        )
    if len(options.names) != 1:
        for name in options.names or BENCHMARKS:
            command = [
                sys.executable,
                "-m",
                "studies.benchmarks",
                name,
                *["--quick"] * options.quick,
            ]
            subprocess.run(command, check=True)
        return
    (name,) = options.names
    text = importlib.import_module(f"studies.benchmarks.{name}").measured(
        name, options.quick
    )
    print(text)
    if not options.quick:
        Path(__file__).with_name(f"{name}.md").write_text(text)


if __name__ == "__main__":
    main()
