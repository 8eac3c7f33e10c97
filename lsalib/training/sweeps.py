"""One run or many at once, over any tasks, layers and optimizers: the paper's on the fast loss of ``objectives``."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PRNGKeyArray, PyTree

from lsalib import _validate
from lsalib._arrays import describe
from lsalib._white import can_pad
from lsalib.attention import LSAParams
from lsalib.tasks import GaussianTask, Task
from lsalib.training.checkpoint import Checkpoint
from lsalib.training.fits import Fit
from lsalib.training.groups import Plan
from lsalib.training.objectives import OBJECTIVES
from lsalib.training.own_runs import OwnGroup, own_groups
from lsalib.training.rows import RunGroup, row_groups
from lsalib.training.runs import Run
from lsalib.training.schedule import advance
from lsalib.training.stops import DivergedError, diverged, report_stopped, watcher
from lsalib.training.trainer import seed_keys, seed_numbers, snapshot_steps

__all__ = ["fit", "merge", "sweep"]


def fit(
    key: PRNGKeyArray,
    task: GaussianTask | Task,
    heads: int | None = None,
    *,
    steps: int = 5000,
    batch_size: int = 2048,
    learning_rate: float = 5e-4,
    init_scale: float = 0.1,
    guess=None,
    bias: float = 0.0,
    train_guess: bool = False,
    start: LSAParams | PyTree | Fit | None = None,
    layer: Callable | None = None,
    init: Callable | None = None,
    optimizer: optax.GradientTransformation | optax.MultiSteps | None = None,
    **options,
) -> Fit:
    """Train multi-head LSA (or, with ``train_guess``, yq-LSA) by Adam on the squared error: a sweep of one run.

    The task, the layer and the optimizer may be others, as in ``Run``.

    With objective "sampled" every step draws a fresh batch of tasks, so the loss that is recorded is an
    unbiased estimate of the ICL risk (eq. 4) at that step's weights; with "population" it is that risk.

    Args:
        key: a key of ``jax.random``; equal keys give equal runs, and the run of ``sweep``'s seed 0.
        task, heads, learning_rate, init_scale, guess, bias, train_guess, layer, init, optimizer: as in ``Run``.
        steps, batch_size: the paper's values (appendix C.1, Table 1) by default.
        start: a warm start: initial weights, or another single fit. Of a fit the weights are taken, and its guess if
            ``guess`` is None, but nothing else: not its ``bias``, ``train_guess`` or the state of the optimizer.
        options: ``objective``, ``compress``, ``dtype``, ``snapshots``, ``checkpoint``, ``checkpoint_every``,
            ``callback`` and ``callback_every``, as in ``sweep``.

    Returns:
        A ``Fit``; ``risk[t]`` is the loss of step t, before its update.

    Raises:
        ValueError: as ``Run`` and ``sweep``.
        DivergedError: if the loss is not finite; ``last`` is the fit at its last good weights.

    Example:
        >>> run = fit(jax.random.key(0), GaussianTask([1.0, 1.0], context_size=5), heads=1, steps=3, batch_size=8)
        >>> run.risk.shape, run.params.W_K.shape
        ((3,), (1, 3, 3))

        A warm start, and the weights after some of its steps:

        >>> longer = fit(jax.random.key(1), run.task, heads=1, start=run, steps=4, batch_size=8, snapshots=[0, 2])
        >>> longer.snapshot(0).population_risk() == run.population_risk(), longer.snapshots.params.W_K.shape
        (True, (2, 1, 3, 3))

    Source: appendix C.1 of arXiv 2512.04268.
    """
    if isinstance(start, Fit):
        if np.ndim(start.risk) > 1:
            raise ValueError(f"start must be a single fit, got one with {len(start.risk)} seeds; write start.seed(0)")
        guess, start = start.guess if guess is None else guess, start.params
    run = Run(task, heads, guess, bias, train_guess, learning_rate, init_scale, start, layer, init, optimizer)
    if "seeds" in options:
        raise ValueError("seeds must be left to sweep: fit trains seed 0")
    try:
        return sweep(key, [run], steps=steps, batch_size=batch_size, **options)[0].seed(0)
    except DivergedError as error:
        raise diverged(f"at step {error.step}", error.step, error.last[0].seed(0)) from None


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
    snapshots: Sequence[int] = (),
    checkpoint=None,
    checkpoint_every: int = 500,
    callback: Callable | None = None,
    callback_every: int = 500,
) -> list[Fit]:
    """Train many runs at once, on all devices: any tasks, layers and optimizers.

    Runs with the same seed see the same tasks (common random numbers), up to the coordinates of each task, and start
    from the same weights if these have the same shapes. Runs with fewer heads are padded with zeros, which stay zero,
    since the gradient of each factor contains the other factors. If more than two context sizes are not compressed,
    contexts are padded by zeros, too. A run has the random numbers that it has alone; its numbers differ by the
    rounding of sums in another order, which after a few steps is 1e-5 of their size in float32. Devices do not
    communicate.

    LSA by Adam on a ``GaussianTask`` has a fast program of its own. Any other run is trained as ``train`` would train
    it: on the mean squared error of a batch, ``task.sample(key, batch_size)``, whose key is that of ``train`` for the
    seed and the step. Runs share a program if only numbers differ: those of a task that is a pytree, the learning rate
    of Adam, and what an optimizer keeps in its state (``optax.inject_hyperparams``).

    If the loss of a run is not finite, the run stops at its last good weights, and a warning names its step. Its losses
    are NaN from there on, and the other runs go on. If all runs have stopped, a ``DivergedError`` is raised.

    A CPU is one device unless you call ``jax.config.update("jax_num_cpu_devices", os.cpu_count())`` first. To use
    several machines, start one process on each and call ``jax.distributed.initialize()`` before anything else; every
    process gets all results. Or let independent jobs train ``runs[i::n]``, and join their results by ``merge``. The
    page "Running large sweeps" has an example for Slurm.

    Args:
        key: a key of ``jax.random``.
        runs: the points.
        seeds: how many repetitions of each, or their numbers; the key of seed s is ``fold_in(key, s)``.
        steps, batch_size: the paper's values (appendix C.1, Table 1) by default.
        objective: "sampled", a fresh batch a step, or "population", the exact risk.
        compress: whether sampled contexts of more than p tokens, p = d or d+1 with label noise, are drawn through
            their Gram matrix (see ``tasks``): the losses have the same distribution, and a step costs the same for
            any C. Another layer always gets the tokens themselves: to compare it with LSA on the same contexts, write
            ``compress=False``.
        dtype: float32, or float64 if JAX is set to use it. Shorter types are refused: Adam's numbers do not fit.
        snapshots: increasing numbers of steps, 0 to ``steps``, after which weights are kept (``Fit.snapshots``).
        checkpoint: a folder for the state. It is stored every ``checkpoint_every`` steps, and at SIGTERM or a
            preemption notice of JAX, which end the process with status 143. The same call then resumes the sweep, on
            the same devices bit for bit; with more ``steps`` it extends a finished sweep. Of several processes only
            the first reads and writes; its parent folder must exist for all.
        checkpoint_every: steps between two such states.
        callback: called as ``callback(step, metrics)`` every ``callback_every`` steps of each group of runs that
            share a program. ``metrics`` holds ``runs``, the places of these runs in the sweep, the ``loss`` of the
            last step, (seeds, runs), and all ``losses`` since the last call, (steps, seeds, runs). If it returns true,
            the group ends.
        callback_every: steps between two calls.

    Returns:
        One ``Fit`` a run, in order; its arrays have the seeds in front.

    Raises:
        ValueError: if ``runs`` is no sequence of at least one ``Run``, ``objective`` is none of ``OBJECTIVES`` or does
            not exist for a run, a count is below 1, ``seeds`` are not different numbers, ``dtype`` is no float type in
            use, a layer does not return a scalar, a task draws the same batch from every key, as with NumPy's random
            numbers, or ``checkpoint`` is damaged, belongs to another sweep, or has reached more steps.
        DivergedError: if no loss is finite; ``last`` holds the fits.

    Example:
        >>> task = GaussianTask([1.0, 1.0], context_size=5)
        >>> runs = [Run(task, heads=1), Run(task, heads=3, learning_rate=1e-3)]
        >>> fits = sweep(jax.random.key(0), runs, seeds=4, steps=3, batch_size=8)
        >>> [fit.risk.shape for fit in fits], fits[0].params.W_K.shape
        ([(4, 3), (4, 3)], (4, 1, 3, 3))

        Two layers of your own by two optimizers, one of them with a schedule:

        >>> import optax
        >>> def ridge(penalty, X, y, x_q):
        ...     gram = X.T @ X + jnp.exp(penalty) * jnp.eye(len(x_q))
        ...     return x_q @ jnp.linalg.solve(gram, X.T @ y)
        >>> descent = lambda step_size, X, y, x_q: step_size * x_q @ X.T @ y
        >>> optimizers = [optax.adamw(1e-2), optax.sgd(optax.cosine_decay_schedule(1e-2, 3))]
        >>> runs = [Run(task, layer=f, start=jnp.zeros(()), optimizer=o) for f in (ridge, descent) for o in optimizers]
        >>> fits = sweep(jax.random.key(0), runs, seeds=4, steps=3, batch_size=8)
        >>> fits[3].risk.shape, fits[0].seed(1).predict(jnp.eye(2), jnp.ones(2), jnp.ones(2)).shape
        ((4, 3), ())

    Source: appendix C.1 of arXiv 2512.04268.
    """
    dtype = _check(runs, objective, dtype)
    steps, every = _validate.count("steps", steps), _validate.count("checkpoint_every", checkpoint_every)
    callback_every, snapshots = _validate.count("callback_every", callback_every), snapshot_steps(snapshots, steps)
    batch_size, compress = _validate.count("batch_size", batch_size), _validate.flag("compress", compress)
    sampling = (batch_size, compress) if objective == "sampled" else None
    seeds = seed_numbers(seeds)
    keys = seed_keys(key, seeds)
    groups = _grouped(runs, keys, sampling, dtype)
    identity = _identity(key, runs, seeds, sampling, dtype, groups)
    store = None if checkpoint is None else Checkpoint(checkpoint, identity)
    watch = watcher(callback, partial(_metrics, groups))
    plan = Plan(steps, identity, store, every, snapshots, watch, callback_every)
    records = advance([group.prepared(keys, dtype) for group in groups], plan)
    fits: dict[int, Fit] = {}
    stopped: dict[str, int] = {}
    for group, record in zip(groups, records, strict=True):
        fits |= dict(group.results(record, keys, dtype, snapshots))
        for r, place in enumerate(group.places):
            steps_of = zip(seeds, record.stopped[:, r].tolist(), strict=True)
            stopped |= {f"run {place}, seed {seed}": step for seed, step in steps_of}
    ordered = [fits[place] for place in range(len(runs))]
    report_stopped(stopped, ordered)
    return ordered


def _check(runs: Sequence[Run], objective: str, dtype) -> np.dtype:
    if not isinstance(objective, str) or objective not in OBJECTIVES:
        raise ValueError(f"objective must be one of {OBJECTIVES}, got {objective!r}")
    if not isinstance(runs, Sequence) or not runs or not all(isinstance(run, Run) for run in runs):
        raise ValueError(f"runs must be a sequence of at least one Run, got {describe(runs)}")
    dtype = _validate.float_type("dtype", dtype)
    if dtype.itemsize < 4:
        raise ValueError(f"dtype must be float32 or float64, in which Adam's numbers fit, got {dtype.name}")
    return dtype


def _grouped(runs: Sequence[Run], keys: list, sampling, dtype) -> list[RunGroup | OwnGroup]:
    """The runs by program: first the paper's experiments, then all others."""
    plain, own = ([place for place, run in enumerate(runs) if run.plain == kind] for kind in (True, False))
    pads = can_pad(keys[0][1], dtype)
    fast = row_groups([runs[place] for place in plain], plain, sampling, pads)
    return [*fast, *own_groups([runs[place] for place in own], own, keys, sampling, dtype)]


def _metrics(groups: list[RunGroup | OwnGroup], group, record, losses) -> dict:
    """What a callback sees of a group."""
    places = groups[group].places
    # A run that fills up a chunk is there twice.
    columns = [places.index(place) for place in dict.fromkeys(places)]
    losses = losses[:, :, columns]
    return {"runs": [places[column] for column in columns], "loss": losses[-1], "losses": losses}


def _identity(key, runs: Sequence[Run], seeds: list[int], sampling, dtype: np.dtype, groups: list) -> dict:
    """What identifies a sweep for its checkpoint, as JSON data."""
    own = [group.identity() for group in groups if isinstance(group, OwnGroup)]
    return {
        "runs": [run.to_json() for run in runs],
        "key": [str(jax.random.key_impl(key)), jax.random.key_data(key).tolist()],
        "seeds": seeds,
        "objective, batch_size or compress": sampling,
        "dtype": dtype.name,
        "groups of runs": [group.places for group in groups],
        "layer, task, optimizer or version of JAX": [jax.__version__, own] if own else [],
    }


def merge(parts: Iterable[Iterable[Fit]], runs: Iterable[Run] | None = None) -> list[Fit]:
    """Put the results of ``sweep(key, runs[i::n])``, i = 0..n-1, into the order of ``runs``.

    Args:
        parts: the result of each job, in the order of their i, as ``sweep`` or ``load`` returned it.
        runs: all runs; where they are given, each fit must be that of its run.

    Returns:
        One ``Fit`` a run.

    Raises:
        ValueError: if a part has too many or too few fits for its place, or a fit belongs to another run.

    Example:
        >>> params = LSAParams(*np.ones((4, 1, 2, 2), np.float32))
        >>> fits = [Fit(params, np.ones(1), np.ones(5), Run(GaussianTask([2.0], C), heads=1)) for C in (1, 2, 3, 4, 5)]
        >>> [fit.task.context_size for fit in merge([fits[0::2], fits[1::2]])]
        [1, 2, 3, 4, 5]
    """
    # A Fit is a sequence itself: two of them are not two parts.
    if not np.iterable(parts):
        raise ValueError(f"parts must be one list of fits from each job, got {describe(parts)}")
    jobs = [list(part) if np.iterable(part) else [part] for part in parts]
    if not all(isinstance(fit, Fit) for part in jobs for fit in part):
        raise ValueError(f"parts must be one list of fits from each job, got {describe(jobs)}")
    lengths = [len(part) for part in jobs]
    total = sum(lengths)
    if not total or lengths != [len(range(i, total, len(jobs))) for i in range(len(jobs))]:
        raise ValueError(f"parts must be the results of all runs[i::n], in the order of their i, got {lengths} fits")
    merged: list[Fit | None] = [None] * total
    for i, part in enumerate(jobs):
        merged[i :: len(jobs)] = part
    whole = [fit for fit in merged if fit is not None]
    if runs is not None:
        runs = list(runs)
        if len(runs) != total:
            raise ValueError(f"runs must be those that were trained, got {len(runs)} for {total} fits")
        for place, (fit, run) in enumerate(zip(whole, runs, strict=True)):
            if fit.run != run:
                raise ValueError(
                    f"parts must be in the order of their i, but run {place} is another one than the merged fit's"
                )
    return whole
