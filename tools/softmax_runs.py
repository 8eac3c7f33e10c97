"""Train the softmax layers that the page on softmax reads: python -m tools.softmax_runs [NAME…] [--out FOLDER]

What comes out is small: the circuits (b, A) of every head after a few numbers of steps, the guesses, and the loss
in means over 500 steps. `lsalib.stored` reads it. The runs of one experiment see the same batches.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from lsalib import attention, stored, tasks, training

BATCH, LEARNING_RATE, WINDOW = 256, 1e-3, 500
DIM, LENGTH, NOISE_VAR = 5, 40, 0.1
SNAPSHOTS = (0, 200, 1000, 3000, 10_000, 40_000)


class Experiment(NamedTuple):
    """Layers that are trained side by side: how many heads each has, and whether its guess is trained along.

    ``draw`` maps a key to tokens (B, L, d+m), queries (B, d) and noise-free targets (B, m).
    """

    draw: Callable
    heads: tuple[int, ...]
    about: dict
    train_guess: tuple[bool, ...] = ()
    dim: int = DIM
    outputs: int = 1
    snapshots: tuple[int, ...] = SNAPSHOTS
    seeds: int = 4


def one_task(heads, *, prior_mean: float = 0.0, rho: float = 0.0, train_guess=()) -> Experiment:
    """Regression with task weights around ``prior_mean * (1, ..., 1)`` and feature covariance ``rho^|i-j|``."""
    steps = np.abs(np.subtract.outer(np.arange(DIM), np.arange(DIM)))
    cov = None if rho == 0 else rho**steps
    task = tasks.GaussianTask(np.full(DIM, prior_mean), LENGTH, cov, np.eye(DIM) / DIM, np.sqrt(NOISE_VAR))

    def draw(key):
        batch = tasks.sample(key, task, BATCH, dtype=jnp.float32)
        return jnp.concatenate([batch.X, batch.y[..., None]], axis=-1), batch.x_q, batch.target[:, None]

    about = {
        "dim": DIM,
        "context_size": LENGTH,
        "noise_var": NOISE_VAR,
        "prior_mean": prior_mean,
        "prior_var": 1 / DIM,
        "rho": rho,
    }
    return Experiment(draw, heads, about, train_guess)


def two_tasks(heads) -> Experiment:
    """Two labels a token: the first depends on features 1-4, the second on features 3-6."""
    d, support = 6, np.array([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]], np.float32)

    def draw(key):
        # White numbers for 8 = 6 + 2 = 4 + 4: features and two noises, weights of the first and of the second task.
        tokens, query, weights = (
            jnp.moveaxis(part, -1, 0)
            for part in tasks.draw(key, 8, LENGTH, BATCH, noisy=False, compress=False, dtype=jnp.float32)
        )
        w = jnp.zeros((BATCH, 2, d), jnp.float32).at[:, support > 0].set(weights / 2)
        X, noise, x_q = tokens[..., :d], tokens[..., d:], query[:, :d]
        y = jnp.einsum("bld,bmd->blm", X, w) + np.float32(NOISE_VAR**0.5) * noise
        return jnp.concatenate([X, y], axis=-1), x_q, jnp.einsum("bd,bmd->bm", x_q, w)

    about = {"dim": d, "context_size": LENGTH, "noise_var": NOISE_VAR, "support": support.tolist(), "prior_var": 0.25}
    return Experiment(draw, heads, about, dim=d, outputs=2)


EXPERIMENTS = {
    "heads": one_task((1, 2, 4, 8))._replace(snapshots=(*SNAPSHOTS, 100_000)),
    "starts": one_task((2,))._replace(snapshots=(0, 200, 8000), seeds=16),
    "correlated": one_task((2, 4), rho=0.5),
    "two_tasks": two_tasks((3, 4))._replace(snapshots=(*SNAPSHOTS, 100_000)),
    "prior_mean": one_task((2, 8, 2, 8), prior_mean=1.0, train_guess=(False, False, True, True)),
}


def loss(experiment: Experiment) -> Callable:
    """The mean squared error of each layer on one batch, summed over outputs; all heads of all layers in a row."""
    layers, d = len(experiment.heads), experiment.dim
    layer_of = np.repeat(np.arange(layers), experiment.heads)
    collect = np.eye(layers, dtype=np.float32)[:, layer_of]
    trained = np.asarray(experiment.train_guess or (False,) * layers)

    def of_batch(params, key):
        heads, guess = params
        Z, x_q, target = experiment.draw(key)
        y_q = x_q @ jnp.where(trained[:, None], guess, jax.lax.stop_gradient(guess)).T

        def one(Z, x_q, y_q, target):
            z_q = jnp.pad(x_q, (0, experiment.outputs))[None].repeat(len(layer_of), 0).at[:, d].set(y_q[layer_of])
            each = jax.vmap(
                lambda head, z_q: attention.softmax_heads(jax.tree.map(lambda W: W[None], head), Z, z_q)[0]
            )(heads, z_q)
            return ((y_q[:, None] + collect @ each - target[None]) ** 2).sum(1)

        return jax.vmap(one)(Z, x_q, y_q, target).mean(0)

    return of_batch


def start(experiment: Experiment, key):
    """Every layer's own initial weights, their heads in a row, and a guess of zero."""
    keys = jax.random.split(key, len(experiment.heads))
    layers = [
        attention.init_softmax(k, experiment.dim, H, outputs=experiment.outputs, dtype=jnp.float32)
        for k, H in zip(keys, experiment.heads, strict=True)
    ]
    heads = jax.tree.map(lambda *W: jnp.concatenate(W), *layers)
    return heads, jnp.zeros((len(experiment.heads), experiment.dim), jnp.float32)


def run(experiment: Experiment) -> dict[str, np.ndarray]:
    """Train, and keep what the page needs.

    ``b``, ``A``, ``guess`` with axes (snapshot, seed, …), and ``loss`` (seed, window, layer).
    """

    def one(seed):
        key_start, key_batches = jax.random.split(jax.random.fold_in(jax.random.key(0), seed))
        end = training.descend(
            loss(experiment),
            start(experiment, key_start),
            key_batches,
            experiment.snapshots,
            learning_rate=LEARNING_RATE,
        )
        b, A = jax.vmap(attention.effective_softmax)(end.params[0])
        windows = end.loss[: len(end.loss) // WINDOW * WINDOW].reshape(-1, WINDOW, len(experiment.heads))
        return b, A, end.params[1], windows.mean(1)

    b, A, guess, means = jax.jit(jax.vmap(one))(jnp.arange(experiment.seeds))
    ahead = (np.asarray(part).swapaxes(0, 1) for part in (b, A, guess))
    return dict(zip(("b", "A", "guess"), ahead, strict=True)) | {"loss": np.asarray(means)}


def about(name: str, experiment: Experiment) -> dict:
    """What is stored beside the numbers: enough to make them again."""
    settings = {
        "batch_size": BATCH,
        "learning_rate": LEARNING_RATE,
        "window": WINDOW,
        "seeds": experiment.seeds,
        "snapshots": list(experiment.snapshots),
    }
    layers = {"heads": list(experiment.heads), "train_guess": list(experiment.train_guess)}
    versions = {package.__name__: package.__version__ for package in (jax, np)}
    return (
        {"command": f"python -m tools.softmax_runs {name}", "dtype": "float32", "versions": versions}
        | settings
        | layers
        | experiment.about
    )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Train the softmax layers that the page on softmax reads.")
    parser.add_argument("names", nargs="*", help=f"experiments (default: all): {', '.join(EXPERIMENTS)}")
    parser.add_argument("--out", type=Path, default=stored.FOLDER, help="folder for the results")
    args = parser.parse_args(argv)
    if unknown := set(args.names) - set(EXPERIMENTS):
        parser.error(f"no such experiment: {', '.join(sorted(unknown))}; there are {', '.join(EXPERIMENTS)}")
    for name in args.names or EXPERIMENTS:
        began, experiment = time.perf_counter(), EXPERIMENTS[name]
        stored.save(args.out / f"softmax_{name}.npz", run(experiment), about(name, experiment))
        print(f"{name:<12} {time.perf_counter() - began:7.0f} s", flush=True)


if __name__ == "__main__":
    main()
