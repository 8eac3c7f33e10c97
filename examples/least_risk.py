"""The minimum risk for each number of heads, with your own covariances, noise and guess.

python examples/least_risk.py
"""

import numpy as np

from lsalib import tasks, theory

TASK = tasks.GaussianTask(
    prior_mean=[1.0, -0.5, 0.5],
    context_size=8,
    feature_cov=np.diag([2.0, 1.0, 0.3]),
    prior_cov=[[1.0, 0.3, 0.0], [0.3, 0.5, 0.0], [0.0, 0.0, 1.5]],
    noise_std=0.5,
)
GUESS = [0.5, 0.0, 0.5]


def main(task=TASK, guess=GUESS) -> list[theory.LeastRisk]:
    least = [theory.least_risk(task, heads, guess) for heads in range(1, task.dim + 2)]
    print("heads  least risk  exact  why")
    for heads, found in enumerate(least, start=1):
        print(f"{heads:5}  {found.risk:10.6f}  {'yes' if found.exact else 'no':5}  {found.reason}")
    print(f"the minimum over any number of heads: {theory.optimal_risk(task, guess):.6f}")
    return least


if __name__ == "__main__":
    main()
