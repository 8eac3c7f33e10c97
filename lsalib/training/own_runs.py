"""Runs with a layer, a task or an optimizer of their own. Each is what ``train`` would be given: a loss and a start.

Runs whose steps are the same program, up to their numbers, are trained together: each has its own weights and its own
state of the optimizer, and all read the same batches. ``rows`` does the same for the paper's experiments, faster.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PyTree

from lsalib.attention import gram, predict
from lsalib.metrics import StaticTask, check_batch, check_reads_key
from lsalib.tasks import Batch, GaussianTask, sample_from_roots, standardize, task_roots
from lsalib.training.fits import Fit, Snapshots
from lsalib.training.groups import Group, GroupRecord
from lsalib.training.identity import one_seed, tree_digest
from lsalib.training.loop import Program, State
from lsalib.training.objectives import BatchShape, Setting, Weights, risk
from lsalib.training.rows import LSAStarts, batch_shape_of, shared
from lsalib.training.runs import Run
from lsalib.training.trainer import checked, starts

__all__ = ["OwnGroup", "own_groups"]


class _Member(NamedTuple):
    """A run as ``train`` would take it: its program, the state of its seeds, (S, ...), and what its loss reads."""

    program: Program
    state: State
    data: tuple


class OwnGroup(NamedTuple):
    """Runs that share one compiled program, and their places in the sweep."""

    runs: list[Run]
    places: list[int]
    members: list[_Member]

    def prepared(self, keys: list, dtype) -> Group:
        """The group as the loop takes it: seeds first, then runs."""
        state = jax.tree.map(lambda *leaves: np.stack(leaves, 1), *(member.state for member in self.members))
        data, axes = shared([member.data for member in self.members])
        program = self.members[0].program._replace(data_axes=axes, separate=True)
        data_keys = np.stack([jax.random.key_data(batches) for _, batches in keys])
        return Group(program, GroupRecord(state), data, data_keys, len(self.runs))

    def identity(self) -> list:
        """What the names in ``Run.to_json`` do not say of layer, task and optimizer, as JSON data."""
        numbers = [jax.tree.leaves((member.state, member.data)) for member in self.members]
        return [self.members[0].program.step, [tree_digest(leaves) for leaves in numbers]]

    def results(self, record: GroupRecord, keys: list, dtype, snapshots: list[int]) -> Iterator[tuple[int, Fit]]:
        """Each run's place and ``Fit``."""
        losses, taken = record.loss(), [record.snapshots[step] for step in snapshots if step <= record.steps]
        for r, (run, place) in enumerate(zip(self.runs, self.places, strict=True)):
            own = lambda tree, run=run, r=r: _weights(run, jax.tree.map(lambda leaf: leaf[:, r], tree))
            kept = [own(params) for params in taken]
            stacked = jax.tree.map(lambda *leaves: np.stack(leaves, 1), *kept) if kept else None
            end, losses_here, stacked = jax.device_put((own(record.state.params), losses[:, :, r], stacked))
            yield place, Fit(end.params, end.guess, losses_here, run, stacked)


def own_groups(
    runs: Sequence[Run], places: Sequence[int], keys: list, sampling: tuple[int, bool] | None, dtype
) -> list[OwnGroup]:
    """Runs by the program of their step.

    Programs are compared by their text: an optimizer that is made again for each run, such as ``optax.adam(1e-3)``,
    costs no program. Layers and tasks are compared themselves, too, since a text does not show functions of Python.
    """
    make = _Maker(keys, sampling, dtype)
    groups: dict[tuple, OwnGroup] = {}
    for run, place in zip(runs, places, strict=True):
        member = make(run, place)
        structure = jax.tree.structure((member.state, member.data))
        group = groups.setdefault((member.program.step, run.layer, structure), OwnGroup([], [], []))
        group.runs.append(run)
        group.places.append(place)
        group.members.append(member)
    return list(groups.values())


class _Maker:
    """What is drawn, sampled or traced for one run serves all runs that agree in it."""

    def __init__(self, keys: list, sampling: tuple[int, bool] | None, dtype):
        self.keys, self.sampling, self.dtype = keys, sampling, dtype
        self.lsa_start = LSAStarts(keys, dtype)
        self.drawn: dict = {}
        self.texts: dict = {}
        self.tasks: dict = {}

    def __call__(self, run: Run, place: int) -> _Member:
        loss, data = self._loss(run, place)
        params, optimizer = self._start(run), run.optimizer or _adam(run.learning_rate)
        # Not compiled: runs of one shape share the programs of the single operations, whatever their optimizers.
        state = State(params, jax.device_get(jax.vmap(optimizer.init)(params)))
        program = Program(loss, optimizer, str(jax.random.key_impl(self.keys[0][1])))
        one = one_seed(state)
        shapes = tuple((np.shape(leaf), str(leaf.dtype)) for leaf in jax.tree.leaves((one, data)))
        what = loss, optimizer, jax.tree.structure((one, data)), shapes
        if what not in self.texts:
            self.texts[what] = checked(program, one, data, self.keys[0][1]).step
        return _Member(program._replace(step=self.texts[what]), state, data)

    def _start(self, run: Run) -> PyTree:
        """The trained numbers, seeds in front: the layer's weights; of LSA also the guess if it is trained."""
        seeds = range(len(self.keys))
        if run.layer is None:
            weights = jax.tree.map(lambda *W: np.stack(W), *(self.lsa_start(run, seed) for seed in seeds))
            return weights, np.stack([np.asarray(run.guess, self.dtype)] * len(seeds)) if run.train_guess else None
        if run.init is None:
            drawn = starts(run.start, None, self.keys, "start")
        else:
            what = run.init, run.task.dim
            if what not in self.drawn:
                self.drawn[what] = starts(None, partial(_call, *what), self.keys)
            drawn = self.drawn[what]
        return jax.tree.map(lambda leaf: leaf.astype(self.dtype), drawn)

    def _loss(self, run: Run, place: int) -> tuple[Callable, tuple]:
        """The loss of one run, and the numbers that it reads."""
        as_type = lambda tree: jax.tree.map(lambda leaf: np.asarray(leaf, self.dtype), tree)
        guess = None if run.train_guess else run.guess
        if run.layer is None and isinstance(run.task, GaussianTask):
            task, bias, guess = as_type((standardize(run.task), run.bias, guess))
            setting = Setting._make([task, bias, np.array(True)])
            return _GaussianLoss(batch_shape_of(run.task, self.sampling)), (setting, guess)
        if self.sampling is None:
            own = "task" if run.layer is None else "layer"
            raise ValueError(f'objective must be "sampled" for run {place}, since its {own} has no exact risk')
        loss = _SampledLoss(run.layer or _lsa, self.sampling[0], self.dtype)
        return loss, (
            self._task(run, place, self.sampling[0]),
            *(as_type((guess, run.bias)) if run.layer is None else ()),
        )

    def _task(self, run: Run, place: int, size: int):
        """The task as the data of a program: a pytree, whose structure has all that is no number."""
        task = run.task
        if isinstance(task, GaussianTask):
            return _RootedTask(*task_roots(task, self.dtype), task.context_size, self.dtype)
        own = jax.tree_util.all_leaves([task])
        data = self.tasks.setdefault(run.task_key, StaticTask(task)) if own else jax.tree.map(_on_host, task)

        def draw(key, task) -> Batch:
            batch = task.sample(key, size)
            check_batch(batch, size, task.dim)
            return batch

        check_reads_key(draw, self.keys[0][1], data, f" in run {place}")
        return data


def _on_host(leaf) -> np.ndarray:
    array = np.asarray(leaf)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype))


def _call(init, dim: int, key):
    return init(key, dim)


def _adam(learning_rate: float) -> optax.GradientTransformation:
    """Adam with its learning rate in its state, so that runs with different rates share a program."""
    return optax.inject_hyperparams(optax.adam, static_args=("b1", "b2", "eps", "eps_root"))(learning_rate)


def _lsa(params, guess, bias, X, y, x_q):
    """LSA's prediction with a guess that is trained or given."""
    weights, trained = params
    guess = trained if guess is None else guess
    return predict(weights, gram(X, y), x_q, guess @ x_q + bias)


def _weights(run: Run, params) -> Snapshots:
    """The weights and the guess of a run's seeds."""
    if run.layer is not None:
        return Snapshots(params, None)
    weights, guess = params
    seeds = len(weights.W_K)
    fixed = np.broadcast_to(np.asarray(run.guess, weights.W_K.dtype), (seeds, run.task.dim))
    return Snapshots._make([weights, fixed if guess is None else guess])


@dataclass(frozen=True)
class _GaussianLoss:
    """LSA on a ``GaussianTask``: the loss of ``rows``, on the same batches."""

    batch_shape: BatchShape | None

    def __call__(self, params, setting: Setting, guess, key):
        weights, trained = params
        row_P = weights.W_P[:, -1]
        guess = trained if guess is None else guess
        return risk(Weights(weights.W_K, weights.W_Q, weights.W_V, row_P, guess), setting, key, self.batch_shape)


@dataclass(frozen=True)
class _SampledLoss:
    """The mean squared error of a layer on a fresh batch of a task."""

    layer: Callable
    batch_size: int
    dtype: np.dtype

    def __call__(self, params, task, *given_and_key):
        *given, key = given_and_key
        batch = task.sample(key, self.batch_size)
        check_batch(batch, self.batch_size, task.dim)
        X, y, x_q, target = (part.astype(self.dtype) for part in batch[:4])
        predictions = jax.vmap(lambda X, y, x_q: self.layer(params, *given, X, y, x_q))(X, y, x_q)
        if np.shape(predictions) != target.shape:
            raise ValueError(f"layer must return a scalar for one example, got shape {np.shape(predictions)[1:]}")
        return jnp.mean((predictions - target) ** 2)


@dataclass(frozen=True)
class _RootedTask:
    """A ``GaussianTask`` by the roots of its covariances, which are computed once, on the host.

    Contexts are never compressed: of a layer of one's own nobody knows whether it reads the Gram matrix alone.
    """

    # Arrays, or what JAX puts in their place.
    prior_mean: Any
    feature_root: Any
    prior_root: Any
    noise_std: Any
    query_root: Any
    context_size: int
    dtype: np.dtype

    @property
    def dim(self) -> int:
        return len(self.prior_mean)

    def sample(self, key, n: int) -> Batch:
        roots = self.prior_mean, self.feature_root, self.prior_root, self.noise_std, self.query_root
        return sample_from_roots(key, *roots, self.dtype.type(self.context_size), (self.context_size, n, self.dtype))


jax.tree_util.register_dataclass(
    _RootedTask, ["prior_mean", "feature_root", "prior_root", "noise_std", "query_root"], ["context_size", "dtype"]
)
