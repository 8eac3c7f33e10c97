"""The runs of a sweep as rows of one program: groups of one shape, padded to the same heads, and taken apart again."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PyTree

from lsalib.attention import LSAParams, init
from lsalib.tasks import GaussianTask, standardize
from lsalib.training.devices import BATCH_COST
from lsalib.training.fits import Fit, Snapshots
from lsalib.training.groups import Group, GroupRecord
from lsalib.training.loop import Program, State
from lsalib.training.objectives import BatchShape, Setting, Weights, pack, risk, unpack
from lsalib.training.runs import Run

__all__ = ["LSAStarts", "RunGroup", "batch_shape_of", "row_groups", "shared"]


class RunGroup(NamedTuple):
    """Runs that share one compiled program, and their places in the sweep."""

    runs: list[Run]
    places: list[int]
    batch_shape: BatchShape | None
    chunk: int = 1

    @property
    def padded(self) -> bool:
        """Whether contexts are padded to one size."""
        return self.batch_shape is not None and self.batch_shape.padded

    @property
    def heads(self) -> int:
        """The most heads: runs with fewer get zeros for the others."""
        return max(run.heads or 0 for run in self.runs)

    def prepared(self, keys: list, dtype) -> Group:
        """The group as the loop takes it: each run's weights in one row, and its constants."""
        setting, axes = _setting(self.runs, dtype)
        state = State(*_initial(self, keys, dtype))
        loss = _loss(self.batch_shape, self.heads, self.runs[0].task.dim, jax.tree.structure(setting), axes, self.chunk)
        program = Program(loss, _ADAM, str(jax.random.key_impl(keys[0][1])), axes)
        data_keys = np.stack([jax.random.key_data(batches) for _, batches in keys])
        return Group(program, GroupRecord(state), (setting,), data_keys, len(self.runs), self.chunk)

    def results(self, record: GroupRecord, keys: list, dtype, snapshots: list[int]) -> Iterator[tuple[int, Fit]]:
        """Each run's place and ``Fit``, without the padding."""
        losses, start, heads = record.loss(), LSAStarts(keys, dtype), self.heads
        taken = [record.snapshots[step] for step in snapshots if step <= record.steps]
        for r, (run, place) in enumerate(zip(self.runs, self.places, strict=True)):
            W_P = np.stack([start(run, seed).W_P for seed in range(len(keys))])
            end = _unpadded(record.state.params[:, r], heads, run, W_P)
            kept = [_unpadded(rows[:, r], heads, run, W_P) for rows in taken]
            stacked = jax.tree.map(lambda *leaves: np.stack(leaves, 1), *kept) if kept else None
            (params, guess), losses_here, stacked = jax.device_put((end, losses[:, :, r], stacked))
            yield place, Fit(params, guess, losses_here, run, stacked)


def row_groups(
    runs: Sequence[Run], places: Sequence[int], sampling: tuple[int, bool] | None, pads: bool
) -> list[RunGroup]:
    """Runs by the shape of their program; ``pads`` says whether contexts may be padded."""
    tasks = [cast(GaussianTask, run.task) for run in runs]
    standard = map(standardize, tasks)
    covs = [(each.basis is None, each.query_basis is None) for each in standard]
    shapes = [(task.dim, own, batch_shape_of(task, sampling)) for task, own in zip(tasks, covs, strict=True)]
    padded = _padded(shapes) if pads else {}
    groups: dict[tuple, RunGroup] = {}
    for run, place, shape in zip(runs, places, shapes, strict=True):
        shape = padded.get(shape, shape)
        group = groups.setdefault(shape, RunGroup([], [], shape[-1]))
        group.runs.append(run)
        group.places.append(place)
    return [_in_chunks(group) if group.padded else group for group in groups.values()]


def _padded(shapes: list[tuple]) -> dict[tuple, tuple]:
    """Larger shapes of programs that serve several context sizes, where shapes differ in more than two.

    All sizes share one program if zeros at most double the tokens, or else two.
    """
    alike: dict[tuple, set[int]] = {}
    for dim, covs, batch in shapes:
        if batch is not None and batch.context_size is not None:
            alike.setdefault((dim, covs, batch._replace(context_size=0)), set()).add(batch.context_size)
    larger: dict[tuple, tuple] = {}
    for (dim, covs, batch), sizes in alike.items():
        classes = [[size] for size in sorted(sizes)]
        while len(classes) > 1:
            # Merge the neighbors that need the fewest zeros.
            zeros = [len(low) * (high[-1] - low[-1]) for low, high in pairwise(classes)]
            i = zeros.index(min(zeros))
            if len(classes) == 2 and (len(sizes) == 2 or zeros[i] > sum(sizes)):
                break
            classes[i : i + 2] = [classes[i] + classes[i + 1]]
        for found in classes:
            if len(found) > 1:
                most = dim, covs, batch._replace(context_size=found[-1], padded=True)
                larger |= {(dim, covs, batch._replace(context_size=size)): most for size in found}
    return larger


def _in_chunks(group: RunGroup) -> RunGroup:
    """The runs in chunks of one length that have one context size each; where runs are missing, the last is repeated.

    The runs of a chunk share a draw. The length is the one that costs least.
    """
    by_size: dict[int, list[int]] = {}
    for i, run in enumerate(group.runs):
        by_size.setdefault(cast(GaussianTask, run.task).context_size, []).append(i)
    lengths = range(1, max(map(len, by_size.values())) + 1)
    chunk = min(lengths, key=lambda m: (BATCH_COST + m) * sum(-(-len(each) // m) for each in by_size.values()))
    order = [i for each in by_size.values() for i in each + [each[-1]] * (-len(each) % chunk)]
    return RunGroup([group.runs[i] for i in order], [group.places[i] for i in order], group.batch_shape, chunk)


def batch_shape_of(task: GaussianTask, sampling: tuple[int, bool] | None) -> BatchShape | None:
    """The shape of a task's batches, from their size and whether contexts may be compressed."""
    if sampling is None:
        return None
    batch_size, compress = sampling
    compressed = compress and task.context_size > task.dim + task.noisy
    return BatchShape(batch_size, None if compressed else task.context_size, task.noisy)


@cache
def _loss(batch_shape: BatchShape | None, heads: int, dim: int, structure, axes: tuple, chunk: int):
    """The losses of one seed's runs, which share its batch; the same function for the same program.

    If contexts are padded, runs share the batch of their chunk.
    """
    over_runs = jax.tree.unflatten(structure, axes)

    def one(row, setting, key):
        return risk(unpack(row, heads, dim), setting, key, batch_shape)

    if batch_shape is None or not batch_shape.padded:
        return jax.vmap(one, (0, over_runs, None))

    def of_size(setting: Setting, context_size) -> Setting:
        return setting._replace(task=setting.task._replace(context_size=context_size))

    together = jax.vmap(one, (0, of_size(over_runs, None), None))

    def one_chunk(rows, setting, key):
        """The losses of a chunk and their gradients."""
        setting = of_size(setting, setting.task.context_size[0])
        total = lambda rows: (lambda each: (each.sum(), each))(together(rows, setting, key))
        (_, each), gradient = jax.value_and_grad(total, has_aux=True)(rows)
        return each, gradient

    def losses(rows, setting, key):
        split = lambda leaf: leaf.reshape(-1, chunk, *leaf.shape[1:])
        numbers = jax.tree.leaves(setting)
        varied = [split(leaf) for leaf, axis in zip(numbers, axes, strict=True) if axis == 0]

        def body(part):
            own, varied = part[0], iter(part[1])
            leaves = [leaf if axis is None else next(varied) for leaf, axis in zip(numbers, axes, strict=True)]
            return one_chunk(own, jax.tree.unflatten(structure, leaves), key)

        # The gradients are computed here, chunk by chunk: that of the loop would need the batches of all chunks.
        each, gradient = jax.lax.map(body, (split(jax.lax.stop_gradient(rows)), varied))
        return _with_gradient(rows, each.ravel(), gradient.reshape(rows.shape))

    return losses


@jax.custom_vjp
def _with_gradient(rows, losses, gradient):
    """The losses (R,) of rows (R, P), each with a gradient that is known already."""
    return losses


_with_gradient.defvjp(
    lambda rows, losses, gradient: (losses, gradient),
    lambda gradient, cotangent: (cotangent[:, None] * gradient, None, None),
)


def _own_rate() -> optax.GradientTransformation:
    """The last step of Adam, with a learning rate for each run: its state."""
    return optax.GradientTransformation(
        lambda rows: jnp.zeros((*rows.shape[:-1], 1), rows.dtype),
        lambda updates, rates, rows=None: (-rates * updates, rates),
    )


_ADAM = optax.chain(optax.scale_by_adam(), _own_rate())


def _initial(group: RunGroup, keys: list, dtype):
    """Rows (S, R, P) of weights before the first step, and Adam's state there; on the host, nothing is compiled."""

    start, heads = LSAStarts(keys, dtype), group.heads

    def row(run: Run, seed: int):
        params = start(run, seed)
        trained = params.W_K, params.W_Q, params.W_V, params.W_P[:, -1]
        padded = [np.pad(W, ((0, heads - len(params.W_K)),) + ((0, 0),) * (W.ndim - 1)) for W in trained]
        return pack(Weights._make([*padded, np.asarray(run.guess, dtype)]))

    rows = np.stack([[row(run, seed) for run in group.runs] for seed in range(len(keys))])
    shapes = jax.eval_shape(jax.vmap(_ADAM.init), rows)
    adam, rates = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    return rows, (adam, rates + np.array([[run.learning_rate] for run in group.runs], dtype))


class LSAStarts:
    """The weights that a run of a seed starts with, on the host; runs of one shape and scale share a draw."""

    def __init__(self, keys: list, dtype):
        self.keys, self.dtype = keys, dtype
        self.drawn: dict[tuple, LSAParams] = {}

    def __call__(self, run: Run, seed: int) -> LSAParams:
        if run.start is not None:
            return LSAParams._make(W.astype(self.dtype) for W in run.start)
        what = seed, run.task.dim, run.heads or 0, run.init_scale
        if what not in self.drawn:
            self.drawn[what] = jax.device_get(init(self.keys[seed][0], *what[1:], dtype=self.dtype))
        return self.drawn[what]


def _setting(runs: list[Run], dtype) -> tuple[Setting, tuple[int | None, ...]]:
    """The constants of the runs, and the axis of runs of each."""
    # ``standardize`` computes in float64, where covariances lose few digits to their roots; the type changes last.
    tasks = [standardize(run.task) for run in runs if isinstance(run.task, GaussianTask)]
    each = [Setting(task, run.bias, run.train_guess) for task, run in zip(tasks, runs, strict=True)]
    return shared(jax.tree.map(lambda leaf: np.asarray(leaf, bool if isinstance(leaf, bool) else dtype), each))


def shared(each: Sequence[PyTree]) -> tuple[PyTree, tuple[int | None, ...]]:
    """The constants of the runs in one tree, and the axis of runs of each: None if all runs agree.

    A constant that all runs share is not mapped over, so that what follows from it is computed once for all of them.
    """
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *each)
    agree = jax.tree.map(lambda leaf: bool((leaf == leaf[:1]).all()), stacked)
    setting = jax.tree.map(lambda leaf, same: leaf[0] if same else leaf, stacked, agree)
    return setting, tuple(None if same else 0 for same in jax.tree.leaves(agree))


def _unpadded(rows: np.ndarray, heads: int, run: Run, W_P: np.ndarray) -> Snapshots:
    """The weights and guesses of one run's seeds; the rows of W_P that nothing trains are those of the start."""
    own = unpack(rows, heads, run.task.dim)
    W_P = W_P.copy()
    W_P[:, :, -1] = own.row_P[:, : run.heads]
    params = [own.W_K[:, : run.heads], own.W_Q[:, : run.heads], W_P, own.W_V[:, : run.heads]]
    return Snapshots._make([LSAParams._make(params), own.guess])
