"""The paper's experiments, one run or many at once, on its fast loss."""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PRNGKeyArray

from lsalib import _validate
from lsalib.attention import LSAParams, init
from lsalib.tasks import GaussianTask, standardize
from lsalib.training.checkpoint import Checkpoint
from lsalib.training.loop import Group, Program, Record, State, advance, make_mesh
from lsalib.training.objectives import OBJECTIVES, Sampler, Setting, Weights, pack, risk, unpack
from lsalib.training.runs import Fit, Run
from lsalib.training.trainer import seed_keys, seed_numbers

__all__ = ["fit", "sweep"]


class _Group(NamedTuple):
    """Runs that share one compiled program, and their places in the sweep."""

    runs: list[Run]
    places: list[int]
    sampler: Sampler | None

    @property
    def heads(self) -> int:
        """The most heads: runs with fewer get zeros for the others."""
        return max(run.heads for run in self.runs)


def fit(
    key: PRNGKeyArray,
    task: GaussianTask,
    heads: int,
    *,
    steps: int = 5000,
    batch_size: int = 2048,
    learning_rate: float = 5e-4,
    init_scale: float = 0.1,
    guess=None,
    bias: float = 0.0,
    train_guess: bool = False,
    objective: str = "sampled",
    compress: bool = True,
    dtype=jnp.float32,
) -> Fit:
    """Train multi-head LSA (or, with ``train_guess``, yq-LSA) by Adam on the squared error: a sweep of one run.

    With objective "sampled" every step draws a fresh batch of tasks, so the loss that is recorded is an
    unbiased estimate of the ICL risk (eq. 4) at that step's weights; with "population" it is that risk.

    Args:
        key: a key of ``jax.random``; equal keys give equal runs, and the run of ``sweep``'s seed 0.
        task, heads, learning_rate, init_scale, guess, bias, train_guess: as in ``Run``.
        steps, batch_size, objective, compress, dtype: as in ``sweep``.

    Returns:
        A ``Fit``; ``risk[t]`` is the loss of step t, before its update.

    Raises:
        ValueError: as ``Run`` and ``sweep``.

    Example:
        >>> run = fit(jax.random.key(0), GaussianTask([1.0, 1.0], context_size=5), heads=1, steps=3, batch_size=8)
        >>> run.risk.shape, run.params.W_K.shape
        ((3,), (1, 3, 3))

    Source: appendix C.1 of arXiv 2512.04268.
    """
    run = Run(task, heads, guess, bias, train_guess, learning_rate, init_scale)
    options = {"steps": steps, "batch_size": batch_size, "objective": objective, "compress": compress, "dtype": dtype}
    return sweep(key, [run], **options)[0].seed(0)


def sweep(
    key: PRNGKeyArray,
    runs: Sequence[Run],
    *,
    seeds: int | Sequence[int] = 1,
    steps: int = 5000,
    batch_size: int = 2048,
    objective: str = "sampled",
    compress: bool = True,
    dtype=jnp.float32,
    checkpoint=None,
    checkpoint_every: int = 500,
) -> list[Fit]:
    """Train many runs at once, on all devices.

    Runs with the same seed see the same tasks (common random numbers), up to the coordinates of each
    task, and start from the same weights where their shapes agree. Fewer heads are padded with zeros,
    which stay zero: each factor's gradient contains the others. Devices work without talking to each other.

    A CPU is one device unless ``jax.config.update("jax_num_cpu_devices", os.cpu_count())`` comes first.
    To use more than one machine, start one process on each, with ``jax.distributed.initialize()`` before
    anything else; every process gets all results. With Slurm: ``srun --nodes=4 --ntasks-per-node=1 python train.py``.

    Args:
        key: a key of ``jax.random``.
        runs: the points.
        seeds: how many repetitions of each, or their numbers; the key of seed s is ``fold_in(key, s)``.
        steps, batch_size: the paper's values (appendix C.1, Table 1) by default.
        objective: "sampled", a fresh batch a step, or "population", the exact risk.
        compress: whether sampled contexts of more than p tokens, p = d or d+1 with label noise, are drawn through
            their Gram matrix (see ``tasks``): the law of training is the same, and a step costs the same for any C.
        dtype: the float type that training runs in.
        checkpoint: a path: the state is stored there every ``checkpoint_every`` steps, and a sweep that was stopped
            goes on from there, bit for bit on the same devices, and with more ``steps`` further than it was meant to.
            Several machines need the path on a file system they share.
        checkpoint_every: steps between two such states.

    Returns:
        One ``Fit`` a run, in order; its arrays have the seeds in front.

    Raises:
        ValueError: if there is no run, a count is below 1, ``dtype`` is not a float type in use, the objective is
            unknown, or ``checkpoint`` is damaged, belongs to another sweep, or has reached more steps.
        ImportError: if ``checkpoint`` is used without safetensors.

    Example:
        >>> task = GaussianTask([2.0, 2.0], context_size=5)
        >>> fits = sweep(jax.random.key(0), [Run(task, heads=h) for h in (1, 2)], seeds=4, steps=3, batch_size=8)
        >>> [fit.risk.shape for fit in fits], fits[0].params.W_K.shape
        ([(4, 3), (4, 3)], (4, 1, 3, 3))

    Source: appendix C.1 of arXiv 2512.04268.
    """
    _check(runs, objective, dtype)
    steps, every = _validate.count("steps", steps), _validate.count("checkpoint_every", checkpoint_every)
    sampling = (_validate.count("batch_size", batch_size), compress) if objective == "sampled" else None
    seeds = seed_numbers(seeds)
    keys, store = seed_keys(key, seeds), None
    if checkpoint is not None:
        identity = [_identity(run) for run in runs], jax.random.key_data(key).tolist(), seeds, sampling
        store = Checkpoint(checkpoint, [*identity, np.dtype(dtype).name])
    groups = _groups(runs, sampling)
    records = advance([_prepared(group, keys, dtype) for group in groups], steps, store=store, every=every)
    fits: dict[int, Fit] = {}
    for group, record in zip(groups, records, strict=True):
        fits |= dict(_results(group, record, keys, dtype))
    return [fits[place] for place in range(len(runs))]


def _check(runs: Sequence[Run], objective: str, dtype) -> None:
    if objective not in OBJECTIVES:
        raise ValueError(f"objective must be one of {OBJECTIVES}, got {objective!r}")
    if not isinstance(runs, Sequence) or not runs or not all(isinstance(run, Run) for run in runs):
        raise ValueError(f"runs must be a sequence of at least one Run, got {runs!r}")
    try:
        dtype = jnp.dtype(dtype)
    except TypeError:
        raise ValueError(f"dtype must be a float type, got {dtype!r}") from None
    if not jnp.issubdtype(dtype, jnp.floating) or jnp.finfo(dtype).bits > jnp.finfo(jnp.result_type(float)).bits:
        raise ValueError(f"dtype must be a float type in use (float64 needs jax_enable_x64), got {dtype!r}")


def _groups(runs: Sequence[Run], sampling: tuple[int, bool] | None) -> list[_Group]:
    """Runs by the shape of their program."""
    groups: dict[tuple, _Group] = {}
    for place, run in enumerate(runs):
        task, sampler = run.task, None
        if sampling is not None:
            batch_size, compress = sampling
            compressed = compress and task.context_size > task.dim + task.noisy
            sampler = Sampler(batch_size, None if compressed else task.context_size, task.noisy)
        plain = standardize(task).basis is None
        group = groups.setdefault((task.dim, plain, sampler), _Group([], [], sampler))
        group.runs.append(run)
        group.places.append(place)
    return list(groups.values())


def _prepared(group: _Group, keys: list, dtype) -> Group:
    """The group as the loop takes it: each run's weights in a row, its constants beside it."""
    setting, axes = _setting(group.runs, dtype)
    state = State(*_initial(group, keys, dtype))
    loss = _loss(group.sampler, group.heads, group.runs[0].task.dim, jax.tree.structure(setting), axes)
    mesh = make_mesh(len(keys), len(group.runs))
    program = Program(loss, _ADAM, mesh, str(jax.random.key_impl(keys[0])), axes)
    data_keys = np.stack([jax.random.key_data(batches) for _, batches in keys])
    return Group(program, Record(state), (setting,), data_keys, len(group.runs))


@cache
def _loss(sampler: Sampler | None, heads: int, dim: int, structure, axes: tuple):
    """The losses of one seed's runs, which share its batch; the same function for the same program."""
    over_runs = jax.tree.unflatten(structure, axes)

    def one(row, setting, key):
        return risk(unpack(row, heads, dim), setting, key, sampler)

    return jax.vmap(one, (0, over_runs, None))


def _own_rate() -> optax.GradientTransformation:
    """The last step of Adam, with a learning rate for each run: its state."""
    return optax.GradientTransformation(
        lambda rows: jnp.zeros((*rows.shape[:-1], 1), rows.dtype),
        lambda updates, rates, rows=None: (-rates * updates, rates),
    )


_ADAM = optax.chain(optax.scale_by_adam(), _own_rate())


def _initial(group: _Group, keys: list, dtype):
    """Rows (S, R, P) of weights before the first step, and Adam's state there; on the host, nothing is compiled."""

    def row(run: Run, key):
        params = jax.device_get(_init(run, key, dtype))
        trained = params.W_K, params.W_Q, params.W_V, params.W_P[:, -1]
        padded = [np.pad(W, ((0, group.heads - run.heads),) + ((0, 0),) * (W.ndim - 1)) for W in trained]
        return pack(Weights._make([*padded, np.asarray(run.guess, dtype)]))

    rows = np.stack([[row(run, key) for run in group.runs] for key in keys])
    shapes = jax.eval_shape(jax.vmap(_ADAM.init), rows)
    adam, rates = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    return rows, (adam, rates + np.array([[run.learning_rate] for run in group.runs], dtype))


def _init(run: Run, key, dtype) -> LSAParams:
    return init(key[0], run.task.dim, run.heads, run.init_scale, dtype=dtype)


def _setting(runs: list[Run], dtype) -> tuple[Setting, tuple[int | None, ...]]:
    """The constants of the runs, and the axis of each that runs over them: None where all of them agree."""
    each = [Setting(standardize(run.task), run.bias, run.train_guess) for run in runs]
    stacked = jax.tree.map(
        lambda *leaves: np.stack(leaves).astype(bool if leaves[0] is True or leaves[0] is False else dtype), *each
    )
    agree = jax.tree.map(lambda leaf: bool((leaf == leaf[:1]).all()), stacked)
    setting = jax.tree.map(lambda leaf, same: leaf[0] if same else leaf, stacked, agree)
    return setting, tuple(None if same else 0 for same in jax.tree.leaves(agree))


def _results(group: _Group, record: Record, keys: list, dtype) -> Iterator[tuple[int, Fit]]:
    """Each run's place and ``Fit``, without the padding."""
    losses = record.loss()
    for r, (run, place) in enumerate(zip(group.runs, group.places, strict=True)):
        own = unpack(record.state.params[:, r], group.heads, run.task.dim)
        W_P = np.stack([_init(run, key, dtype).W_P for key in keys])
        W_P[:, :, -1] = own.row_P[:, : run.heads]
        params = LSAParams._make([own.W_K[:, : run.heads], own.W_Q[:, : run.heads], W_P, own.W_V[:, : run.heads]])
        params, guess, losses_here = jax.device_put((params, own.guess, losses[:, :, r]))
        yield place, Fit(params, guess, losses_here, run)


def _identity(run: Run) -> dict:
    """A run as JSON data: it tells a checkpoint whose it is."""
    fields = {**vars(run.task), **vars(run)}
    del fields["task"]
    return {name: np.asarray(value).tolist() for name, value in fields.items()}
