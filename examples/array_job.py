"""A sweep divided among independent jobs: each of n jobs trains every n-th run.

python examples/array_job.py train I N FOLDER    # job I of N, I from 0
python examples/array_job.py merge N FOLDER      # when all jobs are done

A job that was stopped early continues when you submit it again. With Slurm:

    #!/bin/bash
    #SBATCH --array=0-3 --time=4:00:00 --signal=TERM@60
    srun python examples/array_job.py train $SLURM_ARRAY_TASK_ID 4 results
"""

import logging
import os
import sys
from pathlib import Path

import jax

from lsalib import tasks, training

TASKS = [tasks.GaussianTask([mean] * 10, 10) for mean in (0.0, 0.5, 1.0, 2.0)]
RUNS = [training.Run(task, heads) for heads in (1, 2, 4, 8) for task in TASKS]


def train(i: int, n: int, folder: Path, steps: int = 5000) -> None:
    """Train this job's runs; a seed draws the same tasks in every job."""
    folder.mkdir(parents=True, exist_ok=True)
    options = {"seeds": 3, "steps": steps, "checkpoint": folder / f"state-{i}"}
    fits = training.sweep(jax.random.key(0), RUNS[i::n], **options)
    training.save(folder / f"part-{i}.npz", fits)


def merge(n: int, folder: Path) -> list[training.Fit]:
    """All fits, in the order of the runs."""
    parts = [training.load(folder / f"part-{i}.npz") for i in range(n)]
    fits = training.merge(parts, RUNS)
    training.save(folder / "all.npz", fits)
    print("heads  prior mean  mean risk of the seeds")
    for fit in fits:
        mean, risks = fit.task.prior_mean[0], fit.population_risk()
        print(f"{fit.heads:5}  {mean:10}  {risks.mean():22.3f}")
    return fits


if __name__ == "__main__":
    # One device per core, and a log instead of a progress bar.
    jax.config.update("jax_num_cpu_devices", len(os.sched_getaffinity(0)))
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    command, *numbers, folder = sys.argv[1:]
    {"train": train, "merge": merge}[command](*map(int, numbers), Path(folder))
