"""The compiled loop behind every training, and what happens between two calls of it."""

import math
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree

from lsalib import _check
from lsalib.training.checkpoint import Checkpoint

__all__ = ["End", "State", "advance", "make_program", "mesh_of"]

# The most steps of one call of the compiled loop. Its losses go into a buffer of this length: with a buffer for all
# steps, each number of steps would be another program. While a progress bar is shown, calls are shorter.
PIECE, SHORT_PIECE = 1000, 100


class State(NamedTuple):
    """What changes from step to step; each leaf has the seeds in front, and in a sweep the runs behind them."""

    params: PyTree
    opt_state: PyTree


class End(NamedTuple):
    """The end on the host: losses (steps, seeds, ...), and where each seed, or each of its runs, diverged, or -1."""

    state: State
    losses: np.ndarray
    snapshots: PyTree
    stopped: np.ndarray


def make_program(loss, optimizer: optax.GradientTransformation, mesh: Mesh | None):
    """Steps ``begin`` to ``end - 1`` of ``loss(params, data, key)``: the state after them, and their losses."""
    optimizer = optax.with_extra_args_support(optimizer)

    def update(data, state: State, key):
        """One step of one seed."""

        def total(params):
            each = loss(params, data, key)
            if not jax.tree_util.all_leaves([each]):
                raise ValueError(f"loss must return a float scalar or one array of them, got {each!r}")
            return jnp.sum(each), jnp.asarray(each)

        (value, each), gradient = jax.value_and_grad(total, has_aux=True)(state.params)
        extra = {"value": value, "grad": gradient, "value_fn": lambda params: total(params)[0]}
        # Adam raises a float to the power of its integer count, which a strict setting would refuse.
        with jax.numpy_dtype_promotion("standard"):
            updates, opt_state = optimizer.update(gradient, state.opt_state, state.params, **extra)
        return State(optax.apply_updates(state.params, updates), opt_state), each

    @jax.jit
    def program(state, data, keys, begin, end):
        def step(t, carry):
            # The key of a step depends on its number alone, so a training can go on at any step.
            now = jax.vmap(jax.random.fold_in, (0, None))(keys, t)
            state, each = jax.vmap(partial(update, data))(carry[0], now)
            return state, carry[1].at[t - begin].set(each)

        each = jax.eval_shape(jax.vmap(partial(update, data)), state, keys)[1]
        losses = jnp.zeros((PIECE, *each.shape), each.dtype)
        # The ends are traced, so the same program runs however a training is cut into pieces: one that was resumed is
        # the same bit for bit.
        state, losses = jax.lax.fori_loop(begin, end, step, (state, losses))
        if mesh is not None:
            state = jax.lax.with_sharding_constraint(state, jax.tree.map(partial(_sharding, mesh), state))
        return state, losses

    return program


def mesh_of(seeds: int, runs: int = 1) -> Mesh | None:
    """All devices, in a grid of seeds and runs; what does not divide is computed several times."""
    if jax.device_count() == 1:
        return None
    rows = math.gcd(seeds, jax.device_count())
    columns = math.gcd(runs, jax.device_count() // rows)
    return Mesh(np.reshape(jax.devices(), (rows, columns, -1)), ("seeds", "runs", "copies"))


def _sharding(mesh: Mesh, leaf) -> NamedSharding:
    """Seeds are the first axis, and runs the second one where there are some."""
    names = ("seeds", "runs")[: np.ndim(leaf)] if mesh.shape["runs"] > 1 else ("seeds",)
    return NamedSharding(mesh, PartitionSpec(*names))


def _on_host(tree: Any) -> Any:
    """NumPy arrays on every process."""

    def whole(leaf):
        if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
            return leaf
        from jax.experimental import multihost_utils

        return multihost_utils.process_allgather(leaf, tiled=True)

    return jax.device_get(jax.tree.map(whole, tree))


@contextmanager
def _bar(steps: int, at: int, shown: bool):
    """Yield a function of the steps done, which moves a progress bar."""
    if not shown:
        yield lambda done: None
        return
    from tqdm import tqdm

    with tqdm(total=steps, initial=at, disable=jax.process_index() > 0) as bar:
        yield bar.update


def advance(program, state: State, data, keys, mesh, units: int, settings: dict[str, Any], options: dict) -> End:
    """Train; what trains on its own, a seed or a run of one, has the first ``units`` axes of the losses of a step.

    ``settings`` are what a checkpoint must agree with, and the other options those of ``train``.
    """
    callback, progress, checkpoint = (options.get(name) for name in ("callback", "progress", "checkpoint"))
    steps, every = _check.count("steps", options["steps"]), _check.count("every", options.get("every", 500))
    snapshots = options["snapshots"]
    marks = np.asarray(snapshots)
    whole = marks.ndim == 1 and (not marks.size or np.issubdtype(marks.dtype, np.integer))
    if not whole or (np.diff(marks) <= 0).any() or ((marks < 0) | (marks > steps)).any():
        raise ValueError(f"snapshots must be increasing whole numbers of 0 to {steps}, got {snapshots!r}")
    losses: list[np.ndarray] = []
    kept: list[PyTree] = []
    marks, now, at = marks.astype(int).tolist(), _on_host(state), 0
    store = None if checkpoint is None else Checkpoint(checkpoint, settings, marks)
    if store:
        each = jax.eval_shape(program, now, data, keys, 0, 1)[1]
        at, (now, losses, kept) = store.restored(steps, now, jax.ShapeDtypeStruct(each.shape[1:], each.dtype))
    if at == 0 and 0 in marks:
        kept.append(now.params)
    state = now if mesh is None else jax.device_put(now, jax.tree.map(partial(_sharding, mesh), now))
    piece, pause = SHORT_PIECE if progress else PIECE, every if store or callback else steps
    told, alive = len(losses), np.array(True)
    with _bar(steps, at, bool(progress)) as progressed:
        while at < steps and alive.any():
            stop = min(at + piece, (at // pause + 1) * pause, steps, *(mark for mark in marks if mark > at))
            state, each = program(state, data, keys, at, stop)
            losses.append(_on_host(each)[: stop - at])
            alive = alive & (_first_bad(losses[-1], units) == stop - at)
            progressed(stop - at)
            at, paused = stop, stop % pause == 0 or stop == steps
            if paused or at in marks:
                now = _on_host(state)
            if at in marks:
                kept.append(now.params)
            if paused and callback:
                callback(at, np.concatenate(losses[told:]), now.params)
                told = len(losses)
            if paused and store:
                store.save(at, now, np.concatenate(losses), kept)
                if store.told_to_end(at // pause):
                    raise SystemExit(143)
    now, all_losses = _on_host(state), np.concatenate(losses)
    # All have diverged where steps are missing.
    missing = np.full((steps - at, *all_losses.shape[1:]), np.nan, all_losses.dtype)
    all_losses, kept = np.concatenate([all_losses, missing]), kept + [now.params] * (len(marks) - len(kept))
    first = _first_bad(all_losses, units)
    all_losses[np.arange(steps).reshape(-1, *[1] * units) >= first] = np.nan
    # What the last update breaks only the params show.
    finite = [np.isfinite(leaf.reshape(*leaf.shape[:units], -1)).all(-1) for leaf in jax.tree.leaves(now.params)]
    stopped = np.where((first < steps) | ~np.all(finite, axis=0), first, -1)
    return End(now, all_losses, jax.tree.map(lambda *leaves: np.stack(leaves, 1), *kept) if kept else None, stopped)


def _first_bad(losses: np.ndarray, units: int) -> np.ndarray:
    """For each unit the first step whose loss is not finite, or the number of steps."""
    good = np.isfinite(losses).reshape(*losses.shape[: 1 + units], -1).all(-1)
    return np.where(good.all(0), len(good), good.argmin(0))
