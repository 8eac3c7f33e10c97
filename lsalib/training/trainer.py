"""One trainer for any loss and any optimizer of optax."""

import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, SupportsIndex

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from lsalib import _arrays, _validate
from lsalib.training.checkpoint import Checkpoint
from lsalib.training.groups import Group, GroupRecord, Plan
from lsalib.training.identity import one_seed, step_text, training_identity
from lsalib.training.loop import Program, State, update
from lsalib.training.schedule import advance
from lsalib.training.stops import report_stopped, watcher

__all__ = [
    "Seeds",
    "Trained",
    "checked",
    "seed_keys",
    "seed_numbers",
    "snapshot_steps",
    "starts",
    "train",
    "transformation",
]


@jax.tree_util.register_static
@dataclass(frozen=True)
class Seeds:
    """The numbers of the seeds, which are the first axis of every array."""

    numbers: tuple[int, ...]


class Trained(NamedTuple):
    """The end of a training. With ``seeds``, they are the first axis of every array.

    ``params`` and ``opt_state`` are those after the last step, ``risk`` is the loss before each step, (steps, ...).
    ``snapshots`` holds the weights after the steps asked for, with one more axis in front of each leaf. ``seeds`` holds
    the numbers of the seeds, and is None for a single training.
    """

    params: PyTree[Float[Array, "..."]]
    risk: Float[Array, "..."]
    snapshots: PyTree[Float[Array, "..."]]
    opt_state: PyTree
    seeds: Seeds | None = None

    def seed(self, place: SupportsIndex) -> "Trained":
        """The training of one seed, by its place among the seeds; negative places count from the end.

        Raises:
            ValueError: if this is a single training already, or there is no such place.

        Example:
            >>> two = Trained(np.ones((2, 3)), np.ones((2, 7)), None, None, Seeds((0, 1)))
            >>> two.seed(0).risk.shape
            (7,)
        """
        if self.seeds is None:
            raise ValueError("seed(place) is for a training with seeds, got a single one: use it as it is")
        return _arrays.entry(self, place, len(self.seeds.numbers))._replace(seeds=None)


def train(
    loss: Callable,
    params: PyTree,
    key: PRNGKeyArray,
    *,
    steps: int,
    optimizer: optax.GradientTransformation | optax.MultiSteps,
    init: Callable | None = None,
    seeds: int | Sequence[int] | None = None,
    snapshots: Sequence[int] = (),
    checkpoint: str | os.PathLike | None = None,
    checkpoint_every: int = 500,
    callback: Callable | None = None,
    callback_every: int = 500,
) -> Trained:
    r"""Minimize ``loss(params, key)``, with a fresh key at every step, in one compiled loop.

    .. math:: \theta_{t+1} = \theta_t + \mathrm{optimizer}\big(\nabla_\theta\, \mathrm{loss}(\theta_t, k_t)\big)

    The loss may be an array: then its sum is minimized and every entry is recorded. So several models can be trained
    at once on the same batches: put their weights into one pytree, and return one loss for each. Under an optimizer
    that works entry by entry (Adam, SGD) they do not influence each other.

    Seeds train side by side, spread over the devices. Seed s has ``start, batches = split(fold_in(key, s))``, and step
    t the key ``fold_in(batches, t)``: a shorter training is the beginning of a longer one.

    A loss and an optimizer are compiled once, for any number of steps; a lambda that is written again is another loss.
    At every call ``train`` reads again what the loss reads from outside. Give it another array; if you change a NumPy
    array in place, JAX may not notice.

    If the loss is not finite, the training stops and raises a ``DivergedError`` with the step and the last good state.
    With several seeds the others go on, with a warning; the losses of the one that stopped are NaN from there on.

    Args:
        loss: from (params, key) to a float scalar, or an array of independent losses.
        params: the start, any pytree of float arrays; None if ``init`` draws it.
        key: a key of ``jax.random``.
        steps: the number of steps.
        optimizer: one of optax, also with chains and schedules, and ``optax.MultiSteps``. Optimizers that use the loss
            or search along a line (``optax.lbfgs``, ``optax.polyak_sgd``, ``optax.contrib.reduce_on_plateau``) get
            ``value``, ``grad`` and ``value_fn`` of the step's batch. With ``optax.contrib.schedule_free`` the weights
            to use are ``schedule_free_eval_params(opt_state, params)``. Refused are optimizers that need more, as the
            opaque mode of ``optax.contrib.sam`` needs ``grad_fn``, and those that keep a key of ``jax.random`` in
            their state, such as ``optax.noisy_sgd``.
        init: draws the start of each seed from a key; ``params`` must be None then.
        seeds: how many repetitions, or their numbers; None is seed 0, without an axis for seeds.
        snapshots: increasing numbers of steps, 0 to ``steps``, after which weights are kept.
        checkpoint: a folder for the state. It is stored every ``checkpoint_every`` steps, and at SIGTERM or a
            preemption notice of JAX, which end the process with status 143. The same call then resumes the training,
            on the same devices bit for bit; with more ``steps`` it extends a finished one. Start, key, seeds, loss and
            optimizer must be the same, as far as the program shows them.
        checkpoint_every: steps between two such states.
        callback: called as ``callback(step, metrics)`` every ``callback_every`` steps; ``metrics`` holds the ``loss``
            of the last step, all ``losses`` since the last call, (steps, ...), and the ``params``, as NumPy arrays,
            with seeds in front of them if there are seeds. If it returns true, the training ends.
        callback_every: steps between two calls.

    Returns:
        A ``Trained``.

    Raises:
        ValueError: if a count is below 1, ``params`` holds anything but float arrays, ``loss`` does not return floats,
            ``optimizer`` is not one of optax or needs more than it gets, ``snapshots`` are not increasing or lie
            outside, or ``checkpoint`` is damaged, belongs to another training, or has reached more steps.
        DivergedError: if the loss is not finite, for a single training or for all seeds; ``last`` is the ``Trained`` at
            the last good state.

    Example:
        >>> bowl = lambda x, key: ((x - 3.0) ** 2).sum()
        >>> end = train(bowl, jnp.zeros(2), jax.random.key(0), steps=30, optimizer=optax.sgd(0.25), snapshots=[0, 30])
        >>> bool(abs(end.params - 3.0).max() < 1e-6), end.risk[0].tolist(), end.snapshots.shape
        (True, 18.0, (2, 2))
    """
    steps, every = _validate.count("steps", steps), _validate.count("checkpoint_every", checkpoint_every)
    callback_every = _validate.count("callback_every", callback_every)
    snapshots = snapshot_steps(snapshots, steps)
    if _arrays.traced((params, key)):
        raise ValueError("params and key must be known: train runs its own program; use seeds in place of jax.vmap")
    if not callable(loss) or not isinstance(loss, Hashable):
        raise ValueError(f"loss must be a function of (params, key) that can be hashed, got {_arrays.describe(loss)}")
    optimizer = transformation(optimizer)
    numbers = [0] if seeds is None else seed_numbers(seeds)
    keys = seed_keys(key, numbers)
    start = starts(params, init, keys)
    state = State(start, jax.device_get(jax.jit(jax.vmap(optimizer.init))(start)))
    if any(map(_is_key, jax.tree.leaves(state))):
        raise ValueError("optimizer must not keep a key in its state, got one that does; draw noise in the loss")
    program = Program(loss, optimizer, str(jax.random.key_impl(keys[0][1])))
    program = checked(program, one_seed(state), (), keys[0][1])
    identity = {}
    if checkpoint is not None or jax.process_count() > 1:
        identity = training_identity(program, state, key, numbers)
    store = None if checkpoint is None else Checkpoint(checkpoint, identity)
    watch = watcher(callback, partial(_metrics, single=seeds is None))
    plan = Plan(steps, identity, store, every, snapshots, watch, callback_every)
    data_keys = np.stack([jax.random.key_data(batches) for _, batches in keys])
    (record,) = advance([Group(program, GroupRecord(state), (), data_keys)], plan)
    taken = [record.snapshots[step] for step in snapshots if step <= record.steps]
    kept = jax.tree.map(lambda *leaves: np.stack(leaves, 1), *taken) if taken else None
    arrays = jax.device_put((record.state.params, record.loss(), kept, record.state.opt_state))
    ended = Trained._make([*arrays, Seeds(tuple(numbers))])
    ended = ended.seed(0) if seeds is None else ended
    stopped = dict(zip([f"seed {number}" for number in numbers], record.stopped.tolist(), strict=True))
    report_stopped({"": int(record.stopped[0])} if seeds is None else stopped, ended)
    return ended


def _metrics(group, record, losses, *, single: bool) -> dict:
    """What a callback sees; of a single training without the axis of seeds."""
    params = record.state.params
    if single:
        losses, params = losses[:, 0], jax.tree.map(lambda leaf: leaf[0], params)
    return {"loss": losses[-1], "losses": losses, "params": params}


def transformation(optimizer) -> optax.GradientTransformation:
    """An optimizer of optax, ``optax.MultiSteps`` included."""
    if isinstance(optimizer, optax.MultiSteps):
        return optimizer.gradient_transformation()
    if not isinstance(optimizer, optax.GradientTransformation):
        raise ValueError(f"optimizer must be an optax.GradientTransformation, got {optimizer!r}")
    return optimizer


def seed_numbers(seeds: int | Sequence[int]) -> list[int]:
    """The numbers of the seeds, from a count or a list of them."""
    if np.ndim(seeds) == 0:
        return list(range(_validate.count("seeds", seeds)))
    numbers = np.asarray(seeds)
    whole = numbers.ndim == 1 and numbers.size and np.issubdtype(numbers.dtype, np.integer)
    # ``fold_in`` takes 32 bits.
    if not whole or numbers.min() < 0 or numbers.max() >= 2**32 or len(set(numbers.tolist())) < numbers.size:
        raise ValueError(f"seeds must be a count or different whole numbers of 0 to 2**32 - 1, got {seeds!r}")
    return numbers.tolist()


def seed_keys(key: PRNGKeyArray, numbers: Sequence[int]) -> list:
    """For each seed the key of its start and the key of its batches."""
    key = _validate.key(key)
    if not _is_key(key):
        key = jax.random.wrap_key_data(key)
    pairs = _key_pairs(key, np.array(numbers, np.uint32))
    if _arrays.traced(pairs):
        raise ValueError(
            "key must be known: a training runs its own program, outside of jax.jit; use seeds in place of jax.vmap"
        )
    as_key = lambda data: jax.random.wrap_key_data(data, impl=jax.random.key_impl(key))
    return [(as_key(start), as_key(batches)) for start, batches in jax.device_get(pairs)]


@jax.jit
def _key_pairs(key, numbers):
    """For each number the data of two keys; one program for all of them."""
    pair = lambda number: jax.random.split(jax.random.fold_in(key, number))
    return jax.random.key_data(jax.vmap(pair)(numbers))


def snapshot_steps(snapshots: Sequence[int], steps: int) -> list[int]:
    """Numbers of steps to take snapshots at."""
    ends = np.asarray(snapshots)
    fits = ends.ndim == 1 and (not ends.size or np.issubdtype(ends.dtype, np.integer))
    if not fits or (ends.size and (ends[0] < 0 or ends[-1] > steps or (np.diff(ends) <= 0).any())):
        raise ValueError(f"snapshots must be increasing whole numbers of 0 to {steps}, got {snapshots!r}")
    return ends.tolist()


def starts(params, init, keys: list, name: str = "params") -> PyTree:
    """Every seed's start, on the host, seeds in front."""
    if init is not None:
        name = "what init returns"
        if params is not None:
            raise ValueError("params must be None where init draws the start, got both")
        if not callable(init):
            raise ValueError(f"init must be a function of a key, got {_arrays.describe(init)}")
        drawn = jax.device_get(jax.jit(jax.vmap(init))(jnp.stack([start for start, _ in keys])))
    elif jax.tree_util.all_leaves([params]) and callable(params):
        raise ValueError(f"{name} must be a pytree of float arrays, got a function, {params!r}; write init=")
    else:
        # A key is kept as it is, and refused below.
        repeated = lambda leaf: leaf[None] if _is_key(leaf) else np.stack([np.asarray(leaf)] * len(keys))
        drawn = jax.tree.map(repeated, params)
    leaves = jax.tree.leaves(drawn)
    if not leaves or not all(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves):
        got = jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape[1:])}", drawn)
        raise ValueError(f"{name} must be a pytree of float arrays, got {got!r}")
    in_use = jnp.result_type(float)
    return jax.tree.map(lambda leaf: leaf.astype(in_use) if leaf.dtype.itemsize > in_use.itemsize else leaf, drawn)


def _is_key(leaf) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def checked(program: Program, one: State, data: tuple, key) -> Program:
    """Trace a step, so that errors come before anything is compiled; return the program with the text of the step.

    JAX caches traces by function. New functions are traced here, so that the loss is read again: a number from outside,
    such as a global variable, may have changed, and the same function is then another program.

    Args:
        program: a program of one training.
        one: the shapes of its state.
        data: what its loss reads besides, or shapes of it.
        key: a key, whichever.
    """
    each = jax.eval_shape(lambda params, data, key: program.loss(params, *data, key), one.params, data, key)
    if not isinstance(each, jax.ShapeDtypeStruct) or not jnp.issubdtype(each.dtype, jnp.floating):
        raise ValueError(f"loss must return a float scalar or one array of them, got {each!r}")
    try:
        traced, (after, _) = jax.make_jaxpr(partial(update, program), return_shape=True)(one, data, key)
    except (TypeError, ValueError) as error:
        expected = "optimizer must work with value, grad and value_fn"
        raise ValueError(f"{expected}, got one that does not: {error}") from error
    types = lambda tree: [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)]
    if types(after) != types(one):
        raise ValueError("optimizer must keep the shapes and types of params and of its state, got one that does not")
    return program._replace(step=step_text(traced))
