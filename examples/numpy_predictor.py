"""Measure a predictor that JAX cannot compile, here least squares in NumPy, on the
tasks of the library.

python examples/numpy_predictor.py
"""

import jax
import numpy as np

from lsalib import metrics, tasks, theory

TASK = tasks.GaussianTask([1.0, -0.5, 0.5], context_size=8, noise_std=0.5)


def ridge(X, y, x_q, penalty=TASK.noise_std**2, mean=TASK.prior_mean) -> float:
    """The Bayes predictor of the task, in NumPy; a model in PyTorch takes its place."""
    gram = X.T @ X + penalty * np.eye(len(x_q))
    return x_q @ (mean + np.linalg.solve(gram, X.T @ (y - X @ mean)))


def main(task=TASK, predictor=ridge, count: int = 20_000) -> metrics.Estimate:
    batch = jax.tree.map(np.asarray, task.sample(jax.random.key(0), count))
    examples = zip(batch.X, batch.y, batch.x_q, strict=True)
    squares = (
        np.array([predictor(*example) for example in examples]) - batch.target
    ) ** 2
    risk = metrics.Estimate(squares.mean(), squares.std() / count**0.5)
    print(f"sampled: {risk.mean:.4f} ± {risk.standard_error:.4f}")
    print(f"exact risk of the best predictor: {theory.bayes_risk(task):.4f}")
    return risk


if __name__ == "__main__":
    main()
