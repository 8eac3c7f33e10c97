"""A sweep over prior means that you can stop at any time, resume from its last
checkpoint, and extend.

python examples/resumed_sweep.py STEPS [FOLDER]
"""

import sys

import jax

from lsalib import tasks, theory, training

MEANS = (0.0, 0.5, 1.0, 2.0)


def main(steps: int, checkpoint: str = "sweep") -> list[training.Fit]:
    runs = [
        training.Run(tasks.GaussianTask([mean] * 10, context_size=10), heads=11)
        for mean in MEANS
    ]
    options = {
        "seeds": 2,
        "steps": steps,
        "batch_size": 512,
        "checkpoint": checkpoint,
        "every": 100,
    }
    fits = training.sweep(jax.random.key(0), runs, **options)
    for mean, fit in zip(MEANS, fits, strict=True):
        print(
            f"prior mean {mean}: risks {fit.population_risk()}, "
            f"minimum {theory.optimal_risk(fit.task):.3f}"
        )
    return fits


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
