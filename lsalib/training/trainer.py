"""One trainer for any loss and any optimiser of optax."""

import os
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from lsalib import _validate
from lsalib.training.checkpoint import Checkpoint
from lsalib.training.loop import Group, Program, Record, State, advance, make_mesh

__all__ = ["Trained", "seed_keys", "seed_numbers", "train"]


class Trained(NamedTuple):
    """The end of a training; with seeds, every array has them in front.

    ``params`` and ``opt_state`` after the last step; ``risk``, the loss before each step, (steps, ...);
    ``snapshots``, the weights after the numbers of steps asked for, one after the other in front of each leaf.
    """

    params: PyTree[Float[Array, "..."]]
    risk: Float[Array, "..."]
    snapshots: PyTree[Float[Array, "..."]]
    opt_state: PyTree

    def seed(self, place: int) -> "Trained":
        """One of the repetitions, by its place among the seeds; nothing is compiled for it.

        Example:
            >>> two = Trained(np.ones((2, 3)), np.ones((2, 7)), None, None)
            >>> two.seed(0).risk.shape
            (7,)
        """
        return jax.tree.map(lambda leaf: jax.device_put(np.asarray(leaf)[place]), self)


def train(
    loss: Callable,
    params: PyTree | Callable,
    key: PRNGKeyArray,
    *,
    steps: int,
    optimizer: optax.GradientTransformation,
    seeds: int | Sequence[int] | None = None,
    snapshots: Sequence[int] = (),
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: int = 500,
) -> Trained:
    r"""Minimise ``loss(params, key)``, with a fresh key at every step, in one compiled loop.

    .. math:: \theta_{t+1} = \theta_t + \mathrm{optimizer}\big(\nabla_\theta\, \mathrm{loss}(\theta_t, k_t)\big)

    The loss may be an array: then its sum is minimised and all of it recorded. Models whose weights are parts of one
    pytree, each with its own entry of the loss, do not disturb each other under an optimiser that works entry by entry
    (Adam, SGD), and share their batches. Seeds are side by side, and spread over the devices. Seed s has
    ``start, batches = split(fold_in(key, s))``, and step t the key ``fold_in(batches, t)``: a shorter training is the
    beginning of a longer one. One loss and one optimiser make one program, whatever the number of steps; a lambda
    that is written anew is another loss.

    Args:
        loss: from (params, key) to a float scalar, or an array of independent losses.
        params: the start, a pytree of float arrays; or a function that draws it from a key, for each seed its own.
        key: a key of ``jax.random``.
        steps: how many.
        optimizer: any of optax's, such as ``optax.adam(5e-4)``, schedules and chains included.
        seeds: how many repetitions, or their numbers; None is seed 0, without an axis for seeds.
        snapshots: increasing numbers of steps, 0 to ``steps``, after which weights are kept.
        checkpoint: a path: the state is stored there every ``checkpoint_every`` steps. A training that was stopped goes
            on from there, bit for bit on the same devices; with more ``steps`` it is extended. Start, key, seeds and
            the form of the optimiser's state must be those that began it; that the loss and the optimiser's
            numbers, such as its step size, are the same is the caller's word.
        checkpoint_every: steps between two such states.

    Returns:
        A ``Trained``.

    Raises:
        ValueError: if a count is below 1, ``params`` holds anything but float arrays, ``loss`` does not return floats,
            ``optimizer`` is none, ``snapshots`` are not increasing or lie outside, or ``checkpoint`` is damaged,
            belongs to another training, or has reached more steps.
        ImportError: if ``checkpoint`` is used without safetensors.

    Example:
        >>> bowl = lambda x, key: ((x - 3.0) ** 2).sum()
        >>> end = train(bowl, jnp.zeros(2), jax.random.key(0), steps=30, optimizer=optax.sgd(0.25), snapshots=[0, 30])
        >>> bool(abs(end.params - 3.0).max() < 1e-6), end.risk[0].tolist(), end.snapshots.shape
        (True, 18.0, (2, 2))
    """
    steps, every = _validate.count("steps", steps), _validate.count("checkpoint_every", checkpoint_every)
    snapshots = _increasing(snapshots, steps)
    if not isinstance(optimizer, optax.GradientTransformation):
        raise ValueError(f"optimizer must be an optax.GradientTransformation, got {optimizer!r}")
    numbers = [0] if seeds is None else seed_numbers(seeds)
    keys = seed_keys(key, numbers)
    start = _start(params, keys)
    _check_loss(loss, start, keys)
    state = State(start, jax.device_get(jax.jit(jax.vmap(optimizer.init))(start)))
    data_keys = np.stack([jax.random.key_data(batches) for _, batches in keys])
    program = Program(loss, optimizer, make_mesh(len(numbers)), str(jax.random.key_impl(key)))
    store = checkpoint if checkpoint is None else Checkpoint(checkpoint, _identity(state, key, numbers))
    group = Group(program, Record(state), (), data_keys)
    (record,) = advance([group], steps, store=store, every=every, snapshots=snapshots)
    taken = [record.snapshots[step] for step in snapshots]
    kept = jax.tree.map(lambda *leaves: np.stack(leaves, 1), *taken) if taken else None
    ended = Trained(*jax.device_put((record.state.params, record.loss(), kept, record.state.opt_state)))
    return ended.seed(0) if seeds is None else ended


def seed_numbers(seeds: int | Sequence[int]) -> list[int]:
    """The seeds that a count, or a list of them, stands for."""
    if np.ndim(seeds) == 0:
        return list(range(_validate.count("seeds", seeds)))
    numbers = np.asarray(seeds)
    whole = numbers.ndim == 1 and numbers.size and np.issubdtype(numbers.dtype, np.integer)
    if not whole or numbers.min() < 0 or len(set(numbers.tolist())) < numbers.size:
        raise ValueError(f"seeds must be a count or different whole numbers of at least 0, got {seeds!r}")
    return numbers.tolist()


def seed_keys(key: PRNGKeyArray, numbers: Sequence[int]) -> list:
    """Of each seed the key of its start and the key of its batches."""
    return [jax.random.split(jax.random.fold_in(key, number)) for number in numbers]


def _increasing(snapshots: Sequence[int], steps: int) -> list[int]:
    ends = np.asarray(snapshots)
    fits = ends.ndim == 1 and (not ends.size or np.issubdtype(ends.dtype, np.integer))
    if not fits or (ends.size and (ends[0] < 0 or ends[-1] > steps or (np.diff(ends) <= 0).any())):
        raise ValueError(f"snapshots must be increasing whole numbers of 0 to {steps}, got {snapshots!r}")
    return ends.tolist()


def _start(params, keys: list) -> PyTree:
    """Every seed's start, on the host, seeds in front."""
    if callable(params):
        drawn = jax.device_get(jax.jit(jax.vmap(params))(jnp.stack([start for start, _ in keys])))
    else:
        drawn = jax.tree.map(lambda leaf: np.stack([np.asarray(leaf)] * len(keys)), params)
    leaves = jax.tree.leaves(drawn)
    if not leaves or not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
        raise ValueError(f"params must be a pytree of float arrays, got {jax.tree.map(jnp.shape, drawn)!r}")
    in_use = jnp.result_type(float)
    return jax.tree.map(lambda leaf: leaf.astype(in_use) if leaf.dtype.itemsize > in_use.itemsize else leaf, drawn)


def _check_loss(loss: Callable, start: PyTree, keys: list) -> None:
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), start)
    each = jax.eval_shape(loss, one, keys[0][1])
    if not isinstance(each, jax.ShapeDtypeStruct) or not jnp.issubdtype(each.dtype, jnp.floating):
        raise ValueError(f"loss must return a float scalar or one array of them, got {each!r}")


def _identity(state: State, key: PRNGKeyArray, numbers: list[int]) -> list:
    """A training as JSON data: it tells a checkpoint whose it is."""
    digest = sha256(repr(jax.tree.structure(state)).encode())
    for leaf in jax.tree.leaves(state):
        digest.update(f"{leaf.dtype.name} {leaf.shape}".encode() + np.ascontiguousarray(leaf).tobytes())
    return ["train", digest.hexdigest(), jax.random.key_data(key).tolist(), numbers]
