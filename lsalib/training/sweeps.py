"""Training runs, one or many: the front of this package."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec
from jaxtyping import PRNGKeyArray

from lsalib import _validate
from lsalib._progress import Progress
from lsalib.attention import LSAParams, init
from lsalib.tasks import GaussianTask
from lsalib.theory import standardize
from lsalib.training.checkpoint import Checkpoint
from lsalib.training.loop import SPECS, Plan, State, advance, gather, make_mesh, place, start
from lsalib.training.objectives import OBJECTIVES, Sampler, Setting, Weights
from lsalib.training.runs import Fit, Run

__all__ = ["fit", "sweep"]


class _Group(NamedTuple):
    """Runs that share one compiled program, and their places in the sweep."""

    runs: list[Run]
    places: list[int]
    sampler: Sampler | None


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
            goes on from there, bit for bit on the same devices. Several machines need the path on a file system they share.
        checkpoint_every: steps between two such states.

    Returns:
        One ``Fit`` a run, in order; its arrays have the seeds in front.

    Raises:
        ValueError: if there is no run, a count is below 1, ``dtype`` is not a float type in use, the objective is
            unknown, or ``checkpoint`` is damaged or belongs to another sweep.
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
    seeds = _seeds(seeds)
    keys = [jax.random.split(jax.random.fold_in(key, seed)) for seed in seeds]
    groups = _groups(runs, sampling)
    # Of each group: its state, and how many steps it has taken.
    states = [(_initial(group, keys, steps, dtype), np.int64(0)) for group in groups]
    store = None
    if checkpoint is not None:
        identity = (
            [_identity(run) for run in runs],
            jax.random.key_data(key).tolist(),
            seeds,
            steps,
            sampling,
            np.dtype(dtype).name,
        )
        store = Checkpoint(checkpoint, identity)
        states = store.load(states)

    progress = Progress(steps * len(groups), done=sum(int(taken) for _, taken in states))
    piece = every if store else -(-steps // 50) if progress.shown else steps
    for g, group in enumerate(groups):
        for state, end in _train(group, *states[g], keys, steps, piece, dtype):
            progress.add(end - int(states[g][1]))
            states[g] = state, np.int64(end)
            if store and jax.process_index() == 0:
                store.save(states)
    results = {
        i: fit
        for group, (state, _) in zip(groups, states, strict=True)
        for i, fit in _results(group, state, keys, steps, dtype)
    }
    return [results[i] for i in range(len(runs))]


def _check(runs: Sequence[Run], objective: str, dtype) -> None:
    if objective not in OBJECTIVES:
        raise ValueError(f"objective must be one of {OBJECTIVES}, got {objective!r}")
    if not runs or not all(isinstance(run, Run) for run in runs):
        raise ValueError(f"runs must be a sequence of at least one Run, got {runs!r}")
    try:
        dtype = jnp.dtype(dtype)
    except TypeError:
        raise ValueError(f"dtype must be a float type, got {dtype!r}") from None
    if not jnp.issubdtype(dtype, jnp.floating) or jnp.finfo(dtype).bits > jnp.finfo(jnp.result_type(float)).bits:
        raise ValueError(f"dtype must be a float type in use (float64 needs jax_enable_x64), got {dtype!r}")


def _seeds(seeds: int | Sequence[int]) -> list[int]:
    if np.ndim(seeds) == 0:
        return list(range(_validate.count("seeds", seeds)))
    numbers = np.asarray(seeds)
    whole = numbers.ndim == 1 and numbers.size and np.issubdtype(numbers.dtype, np.integer)
    if not whole or numbers.min() < 0 or len(set(numbers.tolist())) < numbers.size:
        raise ValueError(f"seeds must be a count or different whole numbers of at least 0, got {seeds!r}")
    return numbers.tolist()


def _groups(runs: Sequence[Run], sampling: tuple[int, bool] | None) -> list[_Group]:
    """Runs by the shape of their program."""
    groups: dict[tuple, _Group] = {}
    for place, run in enumerate(runs):
        task, sampler = run.task, None
        if sampling is not None:
            batch_size, compress = sampling
            noisy = task.noise_std > 0
            compress = compress and task.context_size > task.dim + noisy
            sampler = Sampler(batch_size, None if compress else task.context_size, noisy)
        plain = standardize(task).basis is None
        group = groups.setdefault((task.dim, plain, sampler), _Group([], [], sampler))
        group.runs.append(run)
        group.places.append(place)
    return list(groups.values())


def _initial(group: _Group, keys: list, steps: int, dtype) -> State:
    """The state before the first step; runs with fewer heads than the group's most get zeros for the others."""
    heads = max(run.heads for run in group.runs)

    def weights(run: Run, key) -> Weights:
        params = LSAParams(*map(np.asarray, _init(run, key, dtype)))
        trained = params.W_K, params.W_Q, params.W_V, params.W_P[:, -1]
        padded = (np.pad(W, ((0, heads - run.heads),) + ((0, 0),) * (W.ndim - 1)) for W in trained)
        return Weights(*padded, run.guess.astype(dtype))

    def stack(trees):
        return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)

    return start(stack([stack([weights(run, key) for run in group.runs]) for key in keys]), steps)


def _init(run: Run, key, dtype) -> LSAParams:
    return init(key[0], run.task.dim, run.heads, run.init_scale, dtype=dtype)


def _setting(runs: list[Run], dtype) -> tuple[Setting, tuple[int | None, ...]]:
    """The constants of the runs, and the axis of each that runs over them: None where all of them agree."""
    each = [Setting(standardize(run.task), run.bias, run.train_guess, run.learning_rate) for run in runs]
    stacked = jax.tree.map(
        lambda *leaves: np.stack(leaves).astype(bool if leaves[0] is True or leaves[0] is False else dtype), *each
    )
    agree = jax.tree.map(lambda leaf: bool((leaf == leaf[:1]).all()), stacked)
    setting = jax.tree.map(lambda leaf, same: leaf[0] if same else leaf, stacked, agree)
    return setting, tuple(None if same else 0 for same in jax.tree.leaves(agree))


def _train(group: _Group, state: State, begin, keys: list, steps: int, piece: int, dtype):
    """Yield the group's state on the host, and the number of its steps so far, after each piece."""
    setting, axes = _setting(group.runs, dtype)
    mesh = make_mesh(len(keys), len(group.runs))
    plan = Plan(group.sampler, mesh, str(jax.random.key_impl(keys[0])), axes)
    data = place(np.stack([jax.random.key_data(key[1]) for key in keys]), mesh, PartitionSpec("seeds"))
    leaves, structure = jax.tree.flatten(setting)
    specs = [PartitionSpec() if axis is None else PartitionSpec("runs") for axis in axes]
    setting = structure.unflatten([place(leaf, mesh, spec) for leaf, spec in zip(leaves, specs, strict=True)])
    state = State(*(place(part, mesh, spec) for part, spec in zip(state, SPECS, strict=True)))
    for first in range(int(begin), steps, piece):
        end = min(first + piece, steps)
        state = advance(state, setting, data, first, end, plan=plan)
        yield gather(state, len(group.runs)), end


def _results(group: _Group, state: State, keys: list, steps: int, dtype):
    """Each run's place and ``Fit``, without the padding."""
    for r, (run, place) in enumerate(zip(group.runs, group.places, strict=True)):
        own = jax.tree.map(lambda leaf: leaf[:, r], state.weights)
        W_P = np.stack([_init(run, key, dtype).W_P for key in keys])
        W_P[:, :, -1] = own.row_P[:, : run.heads]
        params = LSAParams(own.W_K[:, : run.heads], own.W_Q[:, : run.heads], W_P, own.W_V[:, : run.heads])
        yield place, jax.tree.map(jax.device_put, Fit(params, own.guess, state.risk[:steps, :, r].T))


def _identity(run: Run) -> dict:
    """A run as JSON data: it tells a checkpoint whose it is."""
    fields = {**vars(run.task), **vars(run)}
    del fields["task"]
    return {name: np.asarray(value).tolist() for name, value in fields.items()}
