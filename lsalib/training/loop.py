"""The compiled loop behind every training, and what happens between two calls of it:
snapshots, checkpoints.
"""

import json
import math
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, PyTree

from lsalib import _check

# The most steps of one call of the compiled loop. Its losses go into a buffer of this
# length: with a buffer for all steps, each number of steps would be another program.
# While a progress bar is shown, calls are shorter.
PIECE, SHORT_PIECE = 1000, 100


class State(NamedTuple):
    """What changes from step to step; each leaf has the seeds in front, and in a sweep
    the runs behind them.
    """

    params: PyTree
    opt_state: PyTree


class Trained(NamedTuple):
    """The end of a training; with ``seeds``, they are the first axis of every array.

    ``losses`` are those before each step, (steps, ...). ``snapshots`` holds the params
    after the steps asked for, with one more axis in front of each leaf, and is None
    without any.
    """

    params: PyTree
    losses: Float[Array | np.ndarray, "..."]
    snapshots: PyTree
    opt_state: PyTree


def make_program(loss, optimizer, units: int):
    """Steps ``begin`` to ``end - 1`` of ``loss(params, data, key)``: the state after
    them, and their losses.
    """
    optimizer = optax.with_extra_args_support(optimizer)

    def update(data, state: State, key):
        def total(params):
            each = loss(params, data, key)
            if not jax.tree_util.all_leaves([each]):
                raise ValueError(
                    f"loss must return a float scalar or one array of them, got {each!r}"
                )
            return jnp.sum(each), jnp.asarray(each)

        (value, each), gradient = jax.value_and_grad(total, has_aux=True)(state.params)
        extra = {
            "value": value,
            "grad": gradient,
            "value_fn": lambda params: total(params)[0],
        }
        # Adam raises a float to the power of its integer count, which a strict setting
        # would refuse.
        with jax.numpy_dtype_promotion("standard"):
            updates, opt_state = optimizer.update(
                gradient, state.opt_state, state.params, **extra
            )
        return State(optax.apply_updates(state.params, updates), opt_state), each

    @jax.jit
    def program(state, data, keys, begin, end):
        updates = jax.vmap(partial(update, data))

        def step(t, carry):
            # The key of a step depends on its number alone, so a training can go on at
            # any step.
            state, each = updates(
                carry[0], jax.vmap(jax.random.fold_in, (0, None))(keys, t)
            )
            return state, carry[1].at[t - begin].set(each)

        each = jax.eval_shape(updates, state, keys)[1]
        losses = jnp.zeros((PIECE, *each.shape), each.dtype)
        # The ends are traced, so the same program runs however a training is cut into
        # pieces: one that was resumed is the same bit for bit.
        state, losses = jax.lax.fori_loop(begin, end, step, (state, losses))
        return _spread(jax.lax.with_sharding_constraint, state, units), losses

    return program


def _spread(put, state: State, units: int) -> State:
    """Over all devices, in a grid of seeds and runs; what does not divide is computed
    several times.
    """
    if (devices := jax.device_count()) == 1:
        return state
    seeds, runs = (*jax.tree.leaves(state)[0].shape[:units], 1)[:2]
    rows = math.gcd(seeds, devices)
    columns = math.gcd(runs, devices // rows)
    mesh = Mesh(
        np.reshape(jax.devices(), (rows, columns, -1)), ("seeds", "runs", "copies")
    )
    axes = lambda leaf: ("seeds", "runs")[: min(units, np.ndim(leaf))]
    return put(
        state,
        jax.tree.map(
            lambda leaf: NamedSharding(mesh, PartitionSpec(*axes(leaf))), state
        ),
    )


def whole_numbers(name: str, given, last: int) -> list[int]:
    """Increasing whole numbers of 0 to ``last``."""
    numbers = np.ravel(given).tolist()
    whole = np.ndim(given) == 1 and all(
        type(number) is int and 0 <= number <= last for number in numbers
    )
    if not whole or numbers != sorted(set(numbers)):
        raise ValueError(
            f"{name} must be increasing whole numbers of 0 to {last}, got {given!r}"
        )
    return numbers


class Checkpoint:
    """Checkpoints of one training, by Orbax, that the first process alone reads and
    writes.
    """

    def __init__(self, folder, settings: dict[str, Any], snapshots: list[int]):
        import orbax.checkpoint as ocp

        self.folder, self.settings, self.snapshots = (
            Path(folder).absolute(),
            settings,
            snapshots,
        )
        # On several machines, the step after which all processes end, since one of them
        # got SIGTERM.
        self.args, self.told_to_end, self.manager = (
            ocp.args,
            ocp.utils.reached_preemption,
            None,
        )
        if jax.process_index() == 0:
            self.folder.mkdir(parents=True, exist_ok=True)
            last = ocp.checkpoint_managers.LatestN(2)
            alone = ocp.options.MultiprocessingOptions(
                primary_host=0, active_processes={0}
            )
            options = ocp.CheckpointManagerOptions(
                preservation_policy=last,
                enable_async_checkpointing=False,
                create=False,
                multiprocessing_options=alone,
            )
            # without it, reading settings logs that a restore is impossible
            handler = ocp.StandardCheckpointHandler()
            self.manager = ocp.CheckpointManager(
                self.folder, options=options, item_handlers=handler
            )

    def restored(
        self, state: State, losses: np.ndarray
    ) -> tuple[int, tuple[PyTree, np.ndarray, list]]:
        """The last stored step; the state there, losses and snapshots.

        Given are the state at 0 and room for losses.
        """
        at, problem = 0, ""
        if self.manager and (at := self.manager.latest_step() or 0):
            stored, mine = (
                self.manager.metadata(at).custom_metadata,
                self._settings_at(at),
            )
            if at > len(losses):
                problem = f"{at} steps, more than steps = {len(losses)}"
            elif differ := [
                name
                for name in {**stored, **mine}
                if stored.get(name) != mine.get(name)
            ]:
                problem = f"other settings: {', '.join(differ)}"
        at, refused = (int(each) for each in _from_first((at, bool(problem))))
        if refused:
            raise ValueError(
                f"checkpoint {self.folder} has {problem or 'other settings, as the first process says'}"
            )
        tree = (
            state,
            losses[:at],
            [state.params] * sum(step <= at for step in self.snapshots),
        )
        if at and self.manager:
            tree = self.manager.restore(at, args=self.args.StandardRestore(tree))
        return at, _from_first(tree) if at else tree

    def save(self, at: int, state: PyTree, losses: np.ndarray, kept: list) -> None:
        """Add the state at a step; if that is interrupted, the checkpoint before it
        stays.
        """
        if self.manager:
            tree = self.args.StandardSave((state, losses, kept))
            self.manager.save(
                at, args=tree, custom_metadata=self._settings_at(at), force=True
            )

    def _settings_at(self, at: int) -> dict[str, Any]:
        # A training that is extended may ask for more snapshots. Orbax keeps JSON,
        # which has lists for tuples.
        snapshots = [step for step in self.snapshots if step <= at]
        return json.loads(json.dumps(self.settings | {"snapshots": snapshots}))


def _from_first(tree: PyTree) -> PyTree:
    """What the first process has."""
    return jax.tree.map(np.asarray, multihost_utils.broadcast_one_to_all(tree))


def advance(
    program,
    state: State,
    data,
    keys,
    units: int,
    settings,
    *,
    steps,
    snapshots,
    callback,
    every,
    progress,
    checkpoint,
) -> tuple[Trained, np.ndarray]:
    """The end on the host, and the step at which each unit, a seed or its run,
    diverged, or -1.

    The first ``units`` axes of all arrays are those of the units. A checkpoint must
    agree with ``settings``.
    """
    steps, every = _check.count("steps", steps), _check.count("every", every)
    marks, now = whole_numbers("snapshots", snapshots, steps), jax.device_get(state)
    each = jax.eval_shape(program, now, data, keys, 0, 1)[1]
    losses = np.full((steps, *each.shape[1:]), np.nan, each.dtype)
    at, kept = 0, [now.params] if 0 in marks else []
    store = None if checkpoint is None else Checkpoint(checkpoint, settings, marks)
    if store:
        at, (now, known, kept) = store.restored(now, losses)
        losses[:at] = known
    everywhere = (
        partial(multihost_utils.process_allgather, tiled=True)
        if jax.process_count() > 1
        else jax.device_get
    )
    state = _spread(jax.device_put, now, units)
    told, piece, alive = at, SHORT_PIECE if progress else PIECE, np.array(True)
    bar: Any = nullcontext()
    if shown := progress and jax.process_index() == 0:
        from tqdm import tqdm

        bar = tqdm(total=steps, initial=at)
    with bar:
        while at < steps and alive.any():
            stop = min(
                at + piece,
                (at // every + 1) * every,
                steps,
                *(mark for mark in marks if mark > at),
            )
            state, each = program(state, data, keys, at, stop)
            now, each = everywhere((state, each))
            losses[at:stop] = each[: stop - at]
            alive = alive & (_first_bad(losses[at:stop], units) == stop - at)
            if shown:
                bar.update(stop - at)
            at = stop
            if at in marks:
                kept.append(now.params)
            if at % every == 0 or at == steps:
                if callback:
                    callback(
                        at, np.moveaxis(losses[told:at], 0, units).copy(), now.params
                    )
                    told = at
                if store:
                    store.save(at, now, losses[:at], kept)
                    if store.told_to_end(at // every):
                        raise SystemExit(143)
    first = _first_bad(losses, units)
    losses[np.arange(steps).reshape(-1, *[1] * units) >= first] = np.nan
    # What the last update breaks only the params show.
    finite = [
        np.isfinite(leaf.reshape(*leaf.shape[:units], -1)).all(-1)
        for leaf in jax.tree.leaves(now.params)
    ]
    stopped = np.where((first < steps) | ~np.all(finite, axis=0), first, -1)
    kept += [now.params] * (len(marks) - len(kept))
    taken = (
        jax.tree.map(lambda *leaves: np.stack(leaves, units), *kept) if kept else None
    )
    return Trained(
        now.params, np.moveaxis(losses, 0, units), taken, now.opt_state
    ), stopped


def _first_bad(losses: np.ndarray, units: int) -> np.ndarray:
    """For each unit the first step whose loss is not finite, or the number of steps."""
    good = np.isfinite(losses).reshape(*losses.shape[: 1 + units], -1).all(-1)
    return np.where(good.all(0), len(good), good.argmin(0))
