"""Run and store, or repeat and compare: python -m studies.experiments NAME… [--again];
--help lists them.
"""

import argparse
import time

from lsalib.book.stored import FOLDER
from studies.experiments import EXPERIMENTS
from studies.experiments.experiment import differences, store


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m studies.experiments",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"{name:<20} {one.line}" for name, one in EXPERIMENTS.items()),
    )
    parser.add_argument("names", nargs="+", choices=EXPERIMENTS, metavar="NAME")
    parser.add_argument(
        "--again",
        action="store_true",
        help="repeat the beginning and compare it with the stored one",
    )
    options = parser.parse_args(argv)
    problems: list[str] = []
    for name in options.names:
        began = time.perf_counter()
        if options.again:
            problems += differences(name, EXPERIMENTS[name], FOLDER)
        else:
            store(name, EXPERIMENTS[name], FOLDER)
        print(f"{name:<20} {time.perf_counter() - began:7.0f} s", flush=True)
    if problems:
        raise SystemExit("\n".join(problems))


if __name__ == "__main__":
    main()
