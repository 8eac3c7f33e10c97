"""Sweeps in processes of their own, for test_sweep_devices: ``sweep_worker.py OUT FOLDER CLUSTER TASK…``.

Each task returns arrays, or what was refused; the results go to OUT-TASK.npz. CLUSTER is "" or address,processes,rank.
"""

import logging
import os
import signal
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lsalib.tasks import GaussianTask
from lsalib.training import Run, sweep, train

LAYERS = (0.0, 1, 4), (1.0, 2, 9), (2.0, 3, 4)
RUNS = [Run(GaussianTask([a, 1.0, 0.0], context_size=C), heads=h) for a, h, C in LAYERS]
# A layer, an optimizer and a task whose context size shares a program with others.
OWN = [Run(RUNS[0].task, layer=lambda w, X, y, x_q: w @ x_q * y.mean(), start=np.ones(3), optimizer=optax.adamw(0.1))]
OWN += [Run(GaussianTask([1.0, 1.0, 0.0], context_size=C), heads=2) for C in (1, 2, 3)]
OPTIONS = {"steps": 20, "batch_size": 64}
# On every machine a piece ends where the checkpoint is stored, and no later.
STORED = OPTIONS | {"seeds": 3, "steps": 60, "checkpoint_every": 10}


def results(rank, folder):
    """Sweeps of both kinds and a training, with seeds that fill the devices and seeds that do not."""
    leaves = []
    for objective, runs, seeds in (("sampled", RUNS + OWN, 4), ("sampled", RUNS, 3), ("population", RUNS, 3)):
        leaves += jax.tree.leaves(sweep(jax.random.key(0), runs, seeds=seeds, objective=objective, **OPTIONS))
    bowl = lambda params, key: jnp.sum((params - 1.0 + 0.1 * jax.random.normal(key, (2,))) ** 2)
    start = lambda key: jax.random.normal(key, (2,))
    trained = train(bowl, None, jax.random.key(0), init=start, steps=20, optimizer=optax.adam(0.1), seeds=5)
    return [*leaves, *jax.tree.leaves(trained)]


def resumed(rank, folder):
    """Twenty steps, then sixty: the second process has its own folder, with files that nobody may read."""
    mine = folder / f"resumed{rank}"
    sweep(jax.random.key(0), RUNS + OWN, checkpoint=mine, **STORED | {"steps": 20})
    if rank == 1:
        mine.mkdir(exist_ok=True)
        (mine / "training.json").write_text("old")
        (mine / "0-state.npz").write_bytes(b"old")
    return jax.tree.leaves(sweep(jax.random.key(0), RUNS + OWN, checkpoint=mine, **STORED))


def went_on(rank, folder):
    """From what another group of processes has stored, if any has."""
    return jax.tree.leaves(sweep(jax.random.key(0), RUNS + OWN, checkpoint=folder / "state", **STORED))


def killed(rank, folder, how=signal.SIGKILL):
    """The last process gets a signal at step 30 of 60."""
    # A process that dies while it stores a program leaves half an entry, and nobody can add to that cache any more.
    jax.config.update("jax_enable_compilation_cache", False)

    def callback(step, metrics):
        if step == 30 and rank == jax.process_count() - 1:
            os.kill(os.getpid(), how)
        if step >= 30:
            time.sleep(1)  # JAX passes the notice on once a second

    options = STORED | {"callback": callback, "callback_every": 5}
    return jax.tree.leaves(sweep(jax.random.key(0), RUNS + OWN, checkpoint=folder / "state", **options))


def told(rank, folder):
    return killed(rank, folder, signal.SIGTERM)


def spread(rank, folder):
    """How many devices the log names: for some numbers of seeds, and for four programs of one run each."""
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("lsalib").addHandler(handler)
    logging.getLogger("lsalib").setLevel(logging.INFO)
    bowl = lambda x, key: (x**2).sum()
    for seeds in (1, 7, 9, 100):
        train(bowl, jnp.ones(2), jax.random.key(0), steps=2, optimizer=optax.sgd(0.1), seeds=seeds)
    few = [Run(GaussianTask([1.0] * 4, context_size=C), 1) for C in (1, 2, 3, 4)]
    sweep(jax.random.key(0), few, **OPTIONS)
    sweep(jax.random.key(0), [few[0]] * 4, seeds=3, **OPTIONS)
    return [np.array(said)]


def refused(rank, folder):
    """What goes wrong on one process alone is the same error on all."""
    (folder / "there").mkdir(exist_ok=True)
    (folder / "damaged").mkdir(exist_ok=True)
    (folder / "damaged" / "training.json").write_text("no JSON")
    calls = {
        "folder": (RUNS, {"checkpoint": folder / ("missing" if rank == 1 else "there") / "state"}),
        "runs": (RUNS[rank:], {}),
        "steps": (RUNS, {"steps": 20 + rank}),
        "damaged": (RUNS, {"checkpoint": folder / ("new" if rank == 1 else "damaged")}),
    }
    said = []
    for runs, change in calls.values():
        try:
            sweep(jax.random.key(0), runs, **OPTIONS | change)
            said.append("nothing")
        except ValueError as error:
            said.append(str(error))
    return [np.array(said)]


def main(out, folder, cluster, *tasks):
    rank = 0
    if cluster:
        address, processes, rank = cluster.split(",")
        rank = int(rank)
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(address, int(processes), rank, initialization_timeout=900)
    for task in tasks:
        leaves = globals()[task](rank, Path(folder))
        numbered = {str(i): leaf for i, leaf in enumerate(leaves)}
        np.savez(f"{out}-{task}.npz", devices=jax.device_count(), processes=jax.process_count(), **numbered)


if __name__ == "__main__":
    main(*sys.argv[1:])
