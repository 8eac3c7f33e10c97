"""A sweep in a process of its own, for test_sweep_devices: ``sweep_worker.py OUT [COORDINATOR PROCESSES RANK]``."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lsalib.tasks import GaussianTask
from lsalib.training import Run, sweep, train


def main(out, *cluster):
    if cluster:
        address, processes, rank = cluster
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(address, int(processes), int(rank), initialization_timeout=900)
    layers = (0.0, 1, 4), (1.0, 2, 9), (2.0, 3, 4)
    runs = [Run(GaussianTask([a, 1.0, 0.0], context_size=C), heads=h) for a, h, C in layers]
    leaves = []
    for objective in ("sampled", "population"):
        leaves += jax.tree.leaves(sweep(jax.random.key(0), runs, seeds=4, steps=20, batch_size=64, objective=objective))
    bowl = lambda params, key: jnp.sum((params - 1.0 + 0.1 * jax.random.normal(key, (2,))) ** 2)
    start = lambda key: jax.random.normal(key, (2,))
    leaves += jax.tree.leaves(train(bowl, start, jax.random.key(0), steps=20, optimizer=optax.adam(0.1), seeds=4))
    numbered = {str(i): leaf for i, leaf in enumerate(leaves)}
    np.savez(out, devices=jax.device_count(), processes=jax.process_count(), **numbered)


if __name__ == "__main__":
    main(*sys.argv[1:])
