"""Measure, print and write the table: ``python -m benchmarks [--quick] [--out PATH]``."""

import argparse
import os
from pathlib import Path

import jax

# A device for each core, which has to be said before JAX starts: the exact risk is too small a problem for
# threads, but the runs of a sweep spread over devices. A single run, and the references, use the first one.
jax.config.update("jax_num_cpu_devices", os.cpu_count())

from benchmarks.measure import Sizes, describe, report  # noqa: E402

parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
parser.add_argument("--quick", action="store_true", help="a few steps of everything: for development, not for numbers")
parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.md"))
options = parser.parse_args()
text = "\n".join([describe(options.quick), *report(Sizes.quick() if options.quick else Sizes())]) + "\n"
options.out.write_text(text)
print(f"written to {options.out}")
