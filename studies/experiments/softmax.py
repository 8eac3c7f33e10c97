"""Training of the softmax layers that the pages on softmax read.

The result is small: the circuits (b, A) of every head at a few steps, the guesses, and
means of the loss over 500 steps. The runs of one experiment see the same batches.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lsalib import _draw, attention, tasks, training
from studies.experiments.experiment import Experiment

BATCH, LEARNING_RATE, WINDOW = 256, 1e-3, 500
DIM, LENGTH, NOISE_VAR = 5, 40, 0.1
SNAPSHOTS = (0, 200, 1000, 3000, 10_000, 40_000)


class Training(NamedTuple):
    """Layers that are trained side by side: how many heads each has, and whether its
    guess is trained too.

    ``draw`` maps a key to tokens (B, L, d+m), queries (B, d) and noise-free targets (B,
    m).
    """

    draw: Callable
    heads: tuple[int, ...]
    about: dict
    train_guess: tuple[bool, ...] = ()
    dim: int = DIM
    outputs: int = 1
    snapshots: tuple[int, ...] = SNAPSHOTS
    seeds: int = 4


def one_task(
    heads, *, prior_mean: float = 0.0, rho: float = 0.0, train_guess=()
) -> Training:
    """Regression with task weights around ``prior_mean * (1, ..., 1)`` and feature
    covariance ``rho^|i-j|``.
    """
    steps = np.abs(np.subtract.outer(np.arange(DIM), np.arange(DIM)))
    cov = None if rho == 0 else rho**steps
    task = tasks.GaussianTask(
        np.full(DIM, prior_mean), LENGTH, cov, np.eye(DIM) / DIM, np.sqrt(NOISE_VAR)
    )

    def draw(key):
        batch = jax.tree.map(jnp.float32, tasks.sample(key, task, BATCH))
        return (
            jnp.concatenate([batch.X, batch.y[..., None]], axis=-1),
            batch.x_q,
            batch.target[:, None],
        )

    about = {"dim": DIM, "prior_mean": prior_mean, "prior_var": 1 / DIM, "rho": rho}
    return Training(draw, heads, about, train_guess)


def two_tasks(heads) -> Training:
    """Two labels a token: the first depends on features 1-4, the second on features
    3-6.
    """
    d, support = 6, np.array([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]], np.float32)

    def draw(key):
        # White numbers for 8 = 6 + 2 = 4 + 4: features and two noises, weights of the
        # first and of the second task.
        tokens, query, weights = (
            jnp.moveaxis(part, -1, 0)
            for part in _draw.draw(
                key, 8, LENGTH, BATCH, noisy=False, compress=False, dtype=jnp.float32
            )
        )
        w = jnp.zeros((BATCH, 2, d), jnp.float32).at[:, support > 0].set(weights / 2)
        X, noise, x_q = tokens[..., :d], tokens[..., d:], query[:, :d]
        y = jnp.einsum("bld,bmd->blm", X, w) + np.float32(NOISE_VAR**0.5) * noise
        return jnp.concatenate([X, y], axis=-1), x_q, jnp.einsum("bd,bmd->bm", x_q, w)

    about = {"dim": d, "support": support.tolist(), "prior_var": 0.25}
    return Training(draw, heads, about, dim=d, outputs=2)


def loss(experiment: Training) -> Callable:
    """The mean squared error of each layer on one batch, summed over outputs.

    ``heads`` holds those of all layers.
    """
    layers, d = len(experiment.heads), experiment.dim
    layer_of = np.repeat(np.arange(layers), experiment.heads)
    collect = np.eye(layers, dtype=np.float32)[:, layer_of]
    trained = np.asarray(experiment.train_guess or (False,) * layers)

    def of_batch(params, key):
        heads, guess = params
        Z, x_q, target = experiment.draw(key)
        y_q = x_q @ jnp.where(trained[:, None], guess, jax.lax.stop_gradient(guess)).T

        def one(Z, x_q, y_q, target):
            z_q = (
                jnp.pad(x_q, (0, experiment.outputs))[None]
                .repeat(len(layer_of), 0)
                .at[:, d]
                .set(y_q[layer_of])
            )
            each = jax.vmap(
                lambda head, z_q: attention.softmax_heads(
                    jax.tree.map(lambda W: W[None], head), Z, z_q
                )[0]
            )(heads, z_q)
            return ((y_q[:, None] + collect @ each - target[None]) ** 2).sum(1)

        return jax.vmap(one)(Z, x_q, y_q, target).mean(0)

    return of_batch


def start(experiment: Training, key):
    """The initial weights of all layers, one after the other, and guesses of zero."""
    keys = jax.random.split(key, len(experiment.heads))
    layers = [
        attention.init_softmax(k, experiment.dim, H, outputs=experiment.outputs)
        for k, H in zip(keys, experiment.heads, strict=True)
    ]
    heads = jax.tree.map(lambda *W: jnp.concatenate(W), *layers)
    return heads, jnp.zeros((len(experiment.heads), experiment.dim), jnp.float32)


def run(experiment: Training) -> dict[str, np.ndarray]:
    """Train, and keep what pages need: ``b``, ``A``, ``guess`` (snapshot, seed, …),
    ``loss`` (seed, window, layer).
    """
    end = training.train(
        loss(experiment),
        None,
        jax.random.key(0),
        init=partial(start, experiment),
        steps=experiment.snapshots[-1],
        optimizer=optax.adam(LEARNING_RATE),
        seeds=experiment.seeds,
        snapshots=experiment.snapshots,
    )
    layers, guess = end.snapshots
    b, A = jax.jit(jax.vmap(jax.vmap(attention.effective_softmax)))(layers)
    ahead = (np.asarray(part).swapaxes(0, 1) for part in (b, A, guess))
    risk = np.asarray(end.losses)[:, : experiment.snapshots[-1] // WINDOW * WINDOW]
    means = risk.reshape(experiment.seeds, -1, WINDOW, len(experiment.heads)).mean(2)
    return dict(zip(("b", "A", "guess"), ahead, strict=True)) | {"loss": means}


def entry(line: str, training: Training) -> Experiment:
    """All steps of all seeds; ``again`` is the first steps of the first seed."""
    about = {
        "batch_size": BATCH,
        "learning_rate": LEARNING_RATE,
        "window": WINDOW,
        "dtype": "float32",
    }
    about |= {"context_size": LENGTH, "noise_var": NOISE_VAR} | training.about
    about |= {
        name: getattr(training, name)
        for name in ("seeds", "snapshots", "heads", "train_guess")
    }
    again = partial(run, training._replace(snapshots=training.snapshots[:2], seeds=1))
    return Experiment(line, partial(run, training), again, about, rtol=2e-3, atol=2e-4)


LONG = (*SNAPSHOTS, 100_000)
EXPERIMENTS = {
    "softmax_heads": entry(
        "1, 2, 4 and 8 heads", one_task((1, 2, 4, 8))._replace(snapshots=LONG)
    ),
    "softmax_starts": entry(
        "2 heads from 16 starts",
        one_task((2,))._replace(snapshots=(0, 200, 8000), seeds=16),
    ),
    "softmax_correlated": entry(
        "2 and 4 heads, correlated features", one_task((2, 4), rho=0.5)
    ),
    "softmax_two_tasks": entry(
        "3 and 4 heads, two labels a token", two_tasks((3, 4))._replace(snapshots=LONG)
    ),
    "softmax_prior_mean": entry(
        "2 and 8 heads around a prior mean of one, the guess fixed and trained",
        one_task((2, 8, 2, 8), prior_mean=1.0, train_guess=(False, False, True, True)),
    ),
}
