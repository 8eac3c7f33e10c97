"""Run and store, or repeat and compare: python -m studies.experiments [NAME…] [--again]
[--out FOLDER]
"""

import argparse
import time
from pathlib import Path

from lsalib.book.stored import FOLDER
from studies.experiments import EXPERIMENTS
from studies.experiments.experiment import differences, store


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.experiments", description="Without a name: list all."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which to run")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", default=FOLDER, help="where results are"
    )
    parser.add_argument(
        "--again",
        action="store_true",
        help="repeat the beginning and compare it with the stored one",
    )
    options = parser.parse_args(argv)
    if unknown := set(options.names) - set(EXPERIMENTS):
        parser.error(
            f"no such experiment: {', '.join(sorted(unknown))}; "
            f"there are {', '.join(EXPERIMENTS)}"
        )
    if not options.names:
        print(
            "\n".join(
                f"{name:<20} {experiment.line}"
                for name, experiment in EXPERIMENTS.items()
            )
        )
    failed: list[str] = []
    for name in options.names:
        began = time.perf_counter()
        failed += (differences if options.again else store)(
            name, EXPERIMENTS[name], options.out
        ) or []
        print(f"{name:<20} {time.perf_counter() - began:7.0f} s", flush=True)
    if failed:
        raise SystemExit("\n".join(failed))


if __name__ == "__main__":
    main()
