"""One trainer for any loss, any pytree of parameters and any optimizer of optax, in one
compiled loop.
"""

import warnings
from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lsalib import _check
from lsalib.training.loop import advance, make_program
from lsalib.training.records import Record, State, Trained, whole_numbers


def train(
    loss: Callable,
    params,
    key,
    *,
    steps: int,
    optimizer,
    init=None,
    opt_state=None,
    seeds=None,
    snapshots=(),
    callback=None,
    every=500,
    progress=False,
    checkpoint=None,
) -> Trained:
    r"""Minimize ``loss(params, key)`` with a fresh key at every step.

    .. math:: \theta_{t+1} = \theta_t + \mathrm{optimizer}\big(\nabla_\theta\,
       \mathrm{loss}(\theta_t, k_t)\big)

    Seed s has ``start, batches = split(fold_in(key, s))``, and step t the key
    ``fold_in(batches, t)``: a shorter training is the beginning of a longer one. Seeds
    train side by side, spread over all devices and processes of JAX.

    If the loss is not finite, a ``FloatingPointError`` names the step. If this happens
    to some of several seeds, a warning names them, and their losses are NaN from there
    on.

    Args:
        loss: from (params, key) to a float scalar, or an array: its sum is minimized,
            every entry recorded. So models whose weights are in one pytree train on the
            same batches. It is read again at every call.
        params: the start, any pytree of floats, such as the part of a module that
            ``equinox.partition`` splits off; None if ``init`` draws it.
        key, steps: a key of ``jax.random``, and the number of steps.
        optimizer: one of optax, also those that use the loss, such as ``optax.lbfgs``.
        init: a function that draws the start of each seed from its key ``start``.
        opt_state: the state of the optimizer at the start, such as ``end.opt_state`` of
            a training that this one goes on from, with its ``params``: so a curriculum
            is two calls. The steps count from 0 again, so take another key. None means
            the optimizer's own start.
        seeds: how many, or a list of their numbers; None is seed 0, without an axis for
            seeds.
        snapshots: increasing numbers of steps, 0 to ``steps``, after which params are
            kept.
        callback: called as ``callback(step, metrics)`` every so many steps and at the
            end. ``metrics`` holds the ``losses`` since the last call and the
            ``params``, as NumPy arrays.
        every: the steps between two calls of the callback, and between two checkpoints.
        progress: whether to show a bar of tqdm.
        checkpoint: a folder for checkpoints. The same call resumes the training, on the
            same devices bit for bit, and extends it to more steps. Other settings are
            refused; loss and optimizer are up to you.

    Example:
        >>> import optax
        >>> bowl = lambda x, key: ((x - 3.0) ** 2).sum()
        >>> settings = dict(steps=30, optimizer=optax.sgd(0.25), snapshots=[0, 30])
        >>> end = train(bowl, jnp.zeros(2), jax.random.key(0), **settings)
        >>> near = bool(abs(end.params - 3.0).max() < 1e-6)
        >>> near, end.losses[0].tolist(), end.snapshots.shape
        (True, 18.0, (2, 2))
    """
    settings, (starts, batches) = seed_keys(key, 1 if seeds is None else seeds)
    numbers = settings["seeds"]
    if (params is None) == (init is None):
        raise ValueError(
            "params or init must say where the training starts, got both or neither"
        )
    if not hasattr(optimizer, "update"):
        raise ValueError(
            "optimizer must be one of optax, such as optax.adam(1e-3), "
            f"got {_check.describe(optimizer)}"
        )
    if not callable(loss):
        raise ValueError(f"loss must be a function, got {_check.describe(loss)}")

    def begin(params, key, seed):
        params = params if init is None else init(key)
        opt_state = jax.tree.map(partial(_own, seed), optimizer.init(params))
        return State(params, opt_state)

    if init is None:
        params = _check.pytree("params", params)
    state = jax.jit(jax.vmap(begin, (None, 0, 0)))(
        params, starts, np.array(numbers, np.uint32)
    )
    if opt_state is not None:
        if seeds is None:
            opt_state = jax.tree.map(
                lambda leaf: _own(0, jnp.asarray(leaf))[None], opt_state
            )
        shapes = jax.tree.map(np.shape, opt_state)
        if shapes != jax.tree.map(np.shape, state.opt_state):
            raise ValueError(
                "opt_state must be a state of this optimizer for these params, "
                f"got {jax.tree.map(_check.describe, opt_state)}"
            )
        state = state._replace(opt_state=opt_state)
    part = lambda tree: (
        jax.tree.map(lambda leaf: leaf[0], tree) if seeds is None else tree
    )

    report = lambda step, losses, params: callback(
        step, {"losses": part(losses), "params": part(params)}
    )
    # New functions, of which no program is kept: JAX reads again what the loss reads
    # from outside.
    program = make_program(lambda params, _, key: loss(params, key), optimizer, 1)
    record = Record(steps, snapshots, callback and report, every, progress, checkpoint)
    end, diverged = advance(program, None, state, batches, 1, settings, record)
    each = zip(numbers, diverged.tolist(), strict=True)
    report_diverged({f"seed {number}": step for number, step in each})
    return jax.device_put(part(end))


def _own(seed, leaf):
    """An optimizer that draws keeps a key: each seed but 0 gets one of its own, and its
    numbers are kept, which a file can hold.
    """
    if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    folded = jax.random.fold_in(leaf, seed)
    return jax.random.key_data(jnp.where(seed == 0, leaf, folded))


def seed_keys(key, seeds: int | Sequence[int]) -> tuple[dict, tuple[Array, Array]]:
    """What a checkpoint keeps of them; then for each seed the key of its start, and the
    key of its batches.
    """
    if np.ndim(seeds) == 0:
        seeds = range(_check.count("seeds", seeds))
    numbers = whole_numbers("seeds", seeds, 2**32 - 1)
    _check.count("the number of seeds", len(numbers))
    if _check.key(key).shape:
        key = jax.random.wrap_key_data(key)
    settings = {"key": jax.random.key_data(key), "seeds": numbers}
    return settings, _seed_keys(key, np.array(numbers, np.uint32))


_seed_keys = jax.jit(
    jax.vmap(
        lambda key, seed: tuple(jax.random.split(jax.random.fold_in(key, seed))),
        (None, 0),
    )
)


def report_diverged(stopped: dict[str, int]) -> None:
    """Raise an error if all have diverged, and warn if some have."""
    bad = {name: step for name, step in stopped.items() if step >= 0}
    if len(bad) == len(stopped):
        raise FloatingPointError(f"the loss is not finite at step {min(bad.values())}")
    if bad:
        named = ", ".join(f"{name} at step {step}" for name, step in bad.items())
        warnings.warn(
            f"the loss is not finite for {named}: NaN from there on",
            RuntimeWarning,
            stacklevel=3,
        )
