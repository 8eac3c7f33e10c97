"""Measure, print and write the tables: ``python -m studies.benchmarks [--one-core] [--quick] [--out PATH]``."""

import argparse
import os
from pathlib import Path

parser = argparse.ArgumentParser(prog="python -m studies.benchmarks", description=__doc__)
parser.add_argument("--one-core", action="store_true", help="only the first table, everything on one core (Linux)")
parser.add_argument("--quick", action="store_true", help="a few steps of everything: for development, not for numbers")
parser.add_argument("--out", type=Path)
options = parser.parse_args()
if options.one_core:
    # Before JAX starts its threads, which stay where they begin.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

import jax  # noqa: E402

# A device for each core, which has to be said before JAX starts: the exact risk is too small a problem for
# threads, but the runs of a sweep spread over devices. A single run, and the references, use the first one.
jax.config.update("jax_num_cpu_devices", 1 if options.one_core else os.cpu_count())

from studies.benchmarks.measure import ONE_CORE, SECTIONS, Sizes, describe, report  # noqa: E402

out = options.out or Path(__file__).with_name("results-one-core.md" if options.one_core else "results.md")
sections = ONE_CORE if options.one_core else SECTIONS
out.write_text(
    "\n".join([describe(options.quick), *report(Sizes.quick() if options.quick else Sizes(), sections)]) + "\n"
)
print(f"written to {out}")
