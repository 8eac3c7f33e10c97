"""One process of a training on several: ``sweep_worker.py OUT CHECKPOINT ADDRESS PROCESSES RANK LAST``.

The process with the highest rank kills itself at step LAST, if there is such a step. What the sweep returns goes to OUT.
"""

import os
import signal
import sys

import jax
import numpy as np

from lsalib.tasks import GaussianTask
from lsalib.training import Run, sweep

RUNS = [Run(GaussianTask([a, 1.0], 4), heads) for a, heads in ((1.0, 1), (2.0, 2))]


def main(out, checkpoint, address, processes, rank, last):
    if int(processes) > 1:
        jax.distributed.initialize(address, int(processes), int(rank))
    seen = []

    def watch(step, metrics):
        seen.append(step)
        if step == int(last) and int(rank) == int(processes) - 1:
            os.kill(os.getpid(), signal.SIGKILL)

    how = {"seeds": 2, "steps": 12, "batch_size": 16, "callback": watch, "every": 4, "checkpoint": checkpoint}
    fits = sweep(jax.random.key(0), RUNS, **how)
    arrays = {str(i): leaf for i, leaf in enumerate(jax.tree.leaves(fits))}
    np.savez(out, seen=seen, devices=jax.device_count(), **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
