"""One of two processes of a sweep: ``sweep_worker.py OUT CHECKPOINT ADDRESS RANK
LAST``.

It ends at step LAST, if there is such a step. Results go to OUT.
"""

import sys

import jax
import numpy as np

from lsalib.tasks import GaussianTask
from lsalib.training import Run, sweep

RUNS = [Run(GaussianTask([a, 1.0], 4), heads) for a, heads in ((1.0, 1), (2.0, 2))]
HOW = {"seeds": 2, "steps": 12, "batch_size": 16}


def main(out, checkpoint, address, rank, last):
    jax.distributed.initialize(address, 2, int(rank))
    seen = []

    def watch(step, metrics):
        seen.append(step)
        if step == int(last):
            sys.exit()

    fits = sweep(
        jax.random.key(0), RUNS, **HOW, callback=watch, every=4, checkpoint=checkpoint
    )
    arrays = {str(i): leaf for i, leaf in enumerate(jax.tree.leaves(fits))}
    np.savez(out, seen=seen, devices=jax.device_count(), **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
