"""Training of the softmax layers that the pages on softmax read.

The result is small: the circuits (b, A) of every head at a few steps, the guesses, and
means of the loss over 500 steps. The runs of one experiment see the same batches.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lsalib import _draw, attention, tasks, training
from studies.experiments.experiment import Experiment, constants

BATCH_SIZE, LEARNING_RATE, WINDOW = 256, 1e-3, 500
CONTEXT_SIZE, NOISE_VAR = 40, 0.1


class Training(NamedTuple):
    """Layers that are trained side by side: how many heads each has, and whether its
    guess is trained too.

    With one output the task weights lie around ``prior_mean * (1, ..., 1)`` and the
    feature covariance is ``rho^|i-j|``; with two, both are plain.
    """

    heads: tuple[int, ...]
    train_guess: tuple[bool, ...] = ()
    prior_mean: float = 0.0
    rho: float = 0.0
    dim: int = 5
    outputs: int = 1
    snapshots: tuple[int, ...] = (0, 200, 1000, 3000, 10_000, 40_000)
    seeds: int = 4


def one_task(experiment: Training, key):
    """Tokens (B, L, d+1), queries (B, d) and noise-free targets (B, 1)."""
    d, rho = experiment.dim, experiment.rho
    steps = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    cov = rho**steps if rho else None
    prior_mean = np.full(d, experiment.prior_mean)
    task = tasks.GaussianTask(
        prior_mean, CONTEXT_SIZE, cov, np.eye(d) / d, np.sqrt(NOISE_VAR)
    )
    batch = jax.tree.map(jnp.float32, tasks.sample(key, task, BATCH_SIZE))
    tokens = jnp.concatenate([batch.X, batch.y[..., None]], axis=-1)
    return tokens, batch.x_q, batch.target[:, None]


def two_tasks(experiment: Training, key):
    """The same with two labels a token and two targets: the first label depends on
    features 1-4, the second on features 3-6.
    """
    d, support = experiment.dim, np.array([[1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
    # White numbers for 8 = 6 + 2 = 4 + 4: features and two noises, weights of the first
    # and of the second task.
    tokens, query, weights = (
        jnp.moveaxis(part, -1, 0)
        for part in _draw.draw(
            key,
            8,
            CONTEXT_SIZE,
            BATCH_SIZE,
            noisy=False,
            compress=False,
            dtype=jnp.float32,
        )
    )
    w = jnp.zeros((BATCH_SIZE, 2, d), jnp.float32)
    w = w.at[:, support > 0].set(weights / 2)
    X, noise, x_q = tokens[..., :d], tokens[..., d:], query[:, :d]
    y = jnp.einsum("bld,bmd->blm", X, w) + np.float32(NOISE_VAR**0.5) * noise
    return jnp.concatenate([X, y], axis=-1), x_q, jnp.einsum("bd,bmd->bm", x_q, w)


def loss(experiment: Training, params, key):
    """The mean squared error of each layer on one batch, summed over outputs.

    ``params`` are the heads of all layers, and their guesses.
    """
    layers, d = len(experiment.heads), experiment.dim
    layer_of = np.repeat(np.arange(layers), experiment.heads)
    collect = np.eye(layers, dtype=np.float32)[:, layer_of]
    trained = np.array(experiment.train_guess or (False,) * layers)
    heads, guess = params
    Z, x_q, target = [one_task, two_tasks][experiment.outputs - 1](experiment, key)
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
                effective(jax.tree.map(lambda W: W[None], head)), Z, z_q
            )[0]
        )(heads, z_q)
        return ((y_q[:, None] + collect @ each - target[None]) ** 2).sum(1)

    return jax.vmap(one)(Z, x_q, y_q, target).mean(0)


def weights(key, H: int, m: int, D: int) -> list:
    """A layer's initial W_K, W_Q, W_V and W_O, uniform as those of the linear layers in
    the authors' public code.
    """
    shapes, widths = [(H, D, D)] * 3 + [(H, m, D)], [D, D, D, D * H]
    return [
        jax.random.uniform(k, shape, minval=-(n**-0.5), maxval=n**-0.5)
        for k, shape, n in zip(jax.random.split(key, 4), shapes, widths, strict=True)
    ]


def effective(weights: list) -> attention.SoftmaxParams:
    """What a prediction reads of the weights."""
    W_K, W_Q, W_V, W_O = weights
    b = jnp.einsum("hmi,hij->hmj", W_O, W_V)
    A = jnp.einsum("hki,hkj->hij", W_K, W_Q) * W_K.shape[-1] ** -0.5
    return attention.from_effective_softmax(b, A)


def start(experiment: Training, key):
    """The initial weights of all layers, one after the other, and guesses of zero."""
    keys, m = jax.random.split(key, len(experiment.heads)), experiment.outputs
    layers = [
        weights(k, H, m, experiment.dim + m)
        for k, H in zip(keys, experiment.heads, strict=True)
    ]
    heads = jax.tree.map(lambda *W: jnp.concatenate(W), *layers)
    return heads, jnp.zeros((len(experiment.heads), experiment.dim), jnp.float32)


def run(experiment: Training) -> dict[str, np.ndarray]:
    """Train, and keep what pages need: ``b``, ``A``, ``guess`` (snapshot, seed, …),
    ``loss`` (seed, window, layer).
    """
    end = training.train(
        partial(loss, experiment),
        None,
        jax.random.key(0),
        init=partial(start, experiment),
        steps=experiment.snapshots[-1],
        optimizer=optax.adam(LEARNING_RATE),
        seeds=experiment.seeds,
        snapshots=experiment.snapshots,
    )
    layers, guess = end.snapshots
    b, A = jax.jit(jax.vmap(jax.vmap(effective)))(layers)
    b, A, guess = (np.asarray(part).swapaxes(0, 1) for part in (b, A, guess))
    risk = np.asarray(end.losses)[:, : experiment.snapshots[-1] // WINDOW * WINDOW]
    means = risk.reshape(experiment.seeds, -1, WINDOW, len(experiment.heads)).mean(2)
    return {"b": b, "A": A, "guess": guess, "loss": means}


def entry(line: str, training: Training) -> Experiment:
    """All steps of all seeds; ``again`` is the first steps of the first seed."""
    settings = constants(globals()) | training._asdict()
    again = partial(run, training._replace(snapshots=training.snapshots[:2], seeds=1))
    return Experiment(
        line, partial(run, training), again, settings, rtol=2e-3, atol=2e-4
    )


long = (0, 200, 1000, 3000, 10_000, 40_000, 100_000)
EXPERIMENTS = {
    "softmax_heads": entry(
        "1, 2, 4 and 8 heads", Training((1, 2, 4, 8), snapshots=long)
    ),
    "softmax_starts": entry(
        "2 heads from 16 starts", Training((2,), snapshots=(0, 200, 8000), seeds=16)
    ),
    "softmax_correlated": entry(
        "2 and 4 heads, correlated features", Training((2, 4), rho=0.5)
    ),
    "softmax_two_tasks": entry(
        "3 and 4 heads, two labels a token",
        Training((3, 4), dim=6, outputs=2, snapshots=long),
    ),
    "softmax_prior_mean": entry(
        "2 and 8 heads around a prior mean of one, the guess fixed and trained",
        Training((2, 8, 2, 8), (False, False, True, True), prior_mean=1.0),
    ),
}
