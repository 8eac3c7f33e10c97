"""A sweep shared among jobs that know nothing of each other, as Slurm's array jobs: each trains every n-th run.

python examples/array_job.py train I N FOLDER    # job I of N; it may be killed and started again
python examples/array_job.py merge N FOLDER      # when all are done

With Slurm, in a file that `sbatch` is given:

    #!/bin/bash
    #SBATCH --array=0-15 --time=4:00:00 --signal=TERM@60 --requeue
    srun python examples/array_job.py train $SLURM_ARRAY_TASK_ID 16 results
"""

import logging
import sys
from pathlib import Path

import jax

from lsalib import tasks, training

HEADS = (1, 2, 4, 8)
MEANS = (0.0, 0.5, 1.0, 2.0)
RUNS = [training.Run(tasks.GaussianTask([mean] * 10, 10), heads) for heads in HEADS for mean in MEANS]


def train(i: int, n: int, folder: Path, steps: int = 5000) -> None:
    """Train this job's runs; equal seeds see the same tasks in all jobs."""
    folder.mkdir(parents=True, exist_ok=True)
    fits = training.sweep(jax.random.key(0), RUNS[i::n], seeds=3, steps=steps, checkpoint=folder / f"state-{i}")
    training.save(folder / f"part-{i}.npz", fits)


def merge(n: int, folder: Path) -> list[training.Fit]:
    """All fits, in the order of the runs."""
    fits = training.merge([training.load(folder / f"part-{i}.npz") for i in range(n)], RUNS)
    training.save(folder / "all.npz", fits)
    print("heads  prior mean  mean risk of the seeds")
    for fit in fits:
        print(f"{fit.heads:5}  {fit.task.prior_mean[0]:10}  {fit.population_risk().mean():22.3f}")
    return fits


if __name__ == "__main__":
    # On a cluster nobody watches a bar: the log says every two minutes how far the sweep has come.
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    command, *numbers, folder = sys.argv[1:]
    {"train": train, "merge": merge}[command](*map(int, numbers), Path(folder))
