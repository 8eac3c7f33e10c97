"""Many runs of LSA in one compiled loop."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from lsalib import _check
from lsalib.attention import LSAParams
from lsalib.tasks import GaussianTask, standardize
from lsalib.training.loop import advance, make_program
from lsalib.training.objective import Data, GaussianSampler, OwnSampler, loss, unpack
from lsalib.training.records import Record, State, Trained
from lsalib.training.runs import Fit, Run, settings
from lsalib.training.trainer import report_diverged, seed_keys


def fit(
    key,
    task,
    heads: int,
    *,
    guess=None,
    bias: float = 0.0,
    train_guess: bool = False,
    learning_rate: float = 5e-4,
    init_scale: float = 0.1,
    start_from: Fit | None = None,
    steps: int = 5000,
    batch_size: int = 2048,
    objective: str = "sampled",
    snapshots: Sequence[int] = (),
    dtype=jnp.float32,
    callback=None,
    every: int = 500,
    progress: bool = False,
    checkpoint=None,
) -> Fit:
    """Train one LSA layer: a sweep of one run and of seed 0, whose arrays have no axis
    for seeds.

    Args:
        task, heads, guess, bias, train_guess, learning_rate, init_scale: those of a
            ``Run``.
        start_from: a fit that this training goes on from, as in ``sweep``.
        key, steps, batch_size, objective, snapshots, dtype, callback, every, progress,
            checkpoint: those of ``sweep``.

    Example:
        >>> task = GaussianTask([1.0, 1.0], context_size=5)
        >>> how = {"steps": 3, "objective": "population", "train_guess": True}
        >>> first = fit(jax.random.key(0), task, heads=1, **how)
        >>> longer = GaussianTask([1.0, 1.0], context_size=9)
        >>> second = fit(jax.random.key(1), longer, heads=1, start_from=first, **how)
        >>> second.losses.shape, second.params.W_K.shape
        ((3,), (1, 3, 3))
        >>> second.predict(np.eye(2), [1.0, 2.0], [1.0, 1.0]).shape
        ()
    """
    fits = sweep(
        key,
        [Run(task, heads, guess, bias, train_guess, learning_rate, init_scale)],
        start_from=start_from and [start_from],
        steps=steps,
        batch_size=batch_size,
        objective=objective,
        snapshots=snapshots,
        dtype=dtype,
        callback=callback,
        every=every,
        progress=progress,
        checkpoint=checkpoint,
    )
    return fits[0].seed(0)


def sweep(
    key,
    runs: Sequence[Run],
    *,
    seeds: int | Sequence[int] = 1,
    start_from: Sequence[Fit] | None = None,
    steps: int = 5000,
    batch_size: int = 2048,
    objective: str = "sampled",
    snapshots: Sequence[int] = (),
    dtype=jnp.float32,
    callback=None,
    every: int = 500,
    progress: bool = False,
    checkpoint=None,
) -> list[Fit]:
    """Train many runs at once, by default as in appendix C.1 and Table 1 of arXiv
    2512.04268.

    Runs of one seed see the same tasks (common random numbers). They start from the
    same weights if these have the same shapes. Runs that differ only in numbers share a
    compiled program: prior means, covariances, guesses, learning rates, numbers of
    heads, and context sizes above d. Keys and divergence of each seed and run are as in
    ``train``. A run in float64 draws other tasks than one in float32, so the two differ
    by more than rounding.

    Args:
        key, seeds, snapshots, every, progress, checkpoint: as in ``train``, which takes
            any optimizer, loss and layer.
        runs: what to train. Each gives one ``Fit``, whose arrays have the seeds in
            front.
        start_from: one fit a run, of the same seeds, heads and features, that this
            training goes on from: with its weights, its guess and Adam's state, and the
            learning rate of the new run. The steps count from 0 again, so take another
            key.
        steps, batch_size: the paper's values by default.
        objective: "sampled", a fresh batch at every step, or "population", the exact
            risk of a ``GaussianTask``.
        dtype: float32, or float64 if JAX is set to use it.
        callback: called as in ``train``, once for each group of runs that share a
            program. Its ``metrics`` hold ``runs``, their places in the sweep, and the
            ``losses`` since the last call, (seeds, runs, steps).

    Example:
        >>> task = GaussianTask([1.0, 1.0], context_size=5)
        >>> runs = [Run(task, heads=1), Run(task, heads=3, learning_rate=1e-3)]
        >>> fits = sweep(jax.random.key(0), runs, seeds=4, steps=3, batch_size=8)
        >>> [fit.losses.shape for fit in fits], fits[0].params.W_K.shape
        ([(4, 3), (4, 3)], (4, 1, 3, 3))
    """
    _check.listed("runs", runs, Run)
    _check.choice("objective", objective, ("sampled", "population"))
    _check.choice("dtype", dtype, sorted({np.dtype("float32"), jnp.result_type(float)}))
    size = _check.count("batch_size", batch_size) if objective == "sampled" else None
    common, keys = seed_keys(key, seeds)
    common["batch_size"] = size
    if start_from is not None:
        _check_start(start_from, runs, common["seeds"])
    groups: dict[Any, list[int]] = {}
    constants = [_constants(run, size) for run in runs]
    for place, data in enumerate(constants):
        # Adam counts the steps of all runs of a program together.
        count = int(np.max(start_from[place].opt_state.count)) if start_from else 0
        kind = runs[place].task.dim, jax.tree.structure(data), count
        groups.setdefault(kind, []).append(place)

    fits: list[Any] = [None] * len(runs)
    diverged: dict[str, int] = {}
    for group, places in enumerate(groups.values()):
        report = lambda step, losses, params, places=places: callback(
            step, {"runs": places, "losses": losses}
        )
        folder = checkpoint and Path(checkpoint, str(group))
        record = Record(steps, snapshots, callback and report, every, progress, folder)
        about = {f"run {place}": settings(runs[place]) for place in places}
        before = [start_from[place] for place in places] if start_from else []
        state = _start([runs[place] for place in places], before, keys[0], dtype)
        program, data = _program_of([constants[place] for place in places], dtype)
        end, bad = advance(program, data, state, keys[1], 2, common | about, record)
        for r, place in enumerate(places):
            fits[place] = _fit(end, r, runs[place], common["seeds"], record.marks)
        for (s, r), step in np.ndenumerate(bad):
            diverged[f"run {places[r]}, seed {common['seeds'][s]}"] = int(step)
    report_diverged(diverged)
    return jax.device_put(fits)


def _check_start(fits, runs: Sequence[Run], seeds: tuple[int, ...]) -> None:
    """That these runs can go on from these fits."""
    _check.listed("start_from", fits, Fit)
    expected = [(run.heads, run.task.dim, seeds) for run in runs]
    got = [(fit.run.heads, fit.task.dim, fit.seeds or (0,)) for fit in fits]
    if got != expected or any(fit.opt_state is None for fit in fits):
        raise ValueError(
            "start_from must have for each run a fit as sweep returns it, with heads, "
            f"features and seeds {expected}, got {got}"
        )


def _constants(run: Run, size: int | None) -> Data:
    task = run.task
    sampler: Any = None
    if not isinstance(task, GaussianTask):
        if size is None:
            raise ValueError(
                'objective must be "sampled" for a task that is no GaussianTask: '
                "it has no exact risk"
            )
        sampler = OwnSampler(size, task.dim, task.sample)
        task = GaussianTask(np.zeros(task.dim), 1)  # its own coordinates
    elif size is not None:
        C, noisy = task.context_size, task.noisy
        sampler = GaussianSampler(size, None if C > task.dim + noisy else C, noisy)
    return Data(sampler, standardize(task), run.bias, run.train_guess)


def _start(runs: list[Run], before: list[Fit], keys, dtype) -> State:
    """Weights and guesses in rows, (seeds, runs, P), and Adam's state for them.

    Fewer heads are padded by zeros, which stay zero, since the gradient of each factor
    contains the others.
    """
    D, H = runs[0].task.dim + 1, max(run.heads for run in runs)
    axes = len(keys), len(runs)

    def rows(parts) -> np.ndarray:
        weights = np.zeros((*axes, 4, H, D, D), dtype)
        guesses = np.zeros((*axes, D - 1), dtype)
        for r, (params, guess) in enumerate(parts):
            weights[:, r, :, : runs[r].heads] = np.stack(params, axis=-4)
            guesses[:, r] = guess
        return np.concatenate([weights.reshape(*axes, -1), guesses], axis=2)

    count, starts = 0, [(fit.params, fit.guess) for fit in before]
    if before:
        count = np.max(before[0].opt_state.count)
    else:
        # The numbers of ``attention.init``: a draw for fewer heads is the beginning of
        # one for more.
        draw = lambda key: jax.random.normal(key, (4 * H * D**2,), dtype)
        drawn = np.asarray(jax.vmap(draw)(keys))
        for run in runs:
            part = drawn[:, : 4 * run.heads * D**2]
            W = run.init_scale * part.reshape(-1, 4, run.heads, D, D)
            starts.append((LSAParams(*W.swapaxes(0, 1)), run.guess))
    moments = optax.ScaleByAdamState(
        np.int32(count),
        rows(fit.opt_state.mu for fit in before),
        rows(fit.opt_state.nu for fit in before),
    )
    rates = np.array([[[run.learning_rate] for run in runs]] * len(keys), dtype)
    return State(rows(starts), (moments, rates))


def _adam(grads, state, params=None):
    """Adam; its state has the learning rate of each run, (S, R, 1)."""
    moments, rates = state
    updates, moments = optax.scale_by_adam().update(grads, moments)
    return -rates * updates, (moments, rates)


def _program_of(constants: list[Data], dtype):
    """The program of runs of one kind, and its data: what all runs share has no axis of
    runs, so that it is read once.
    """
    leaves, structure = jax.tree.flatten(
        jax.tree.map(lambda *parts: np.array(parts, dtype), *constants)
    )
    axes = tuple(None if (leaf == leaf[:1]).all() else 0 for leaf in leaves)
    # No program is kept for a task of one's own, whose attributes may change.
    own = isinstance(constants[0].sampler, OwnSampler)
    program = (_program if own else _cached_program)(structure, axes)
    leaves = [
        leaf[0] if axis is None else leaf
        for leaf, axis in zip(leaves, axes, strict=True)
    ]
    return program, jax.tree.unflatten(structure, leaves)


def _program(structure, axes: tuple):
    over_runs = jax.vmap(loss, (0, jax.tree.unflatten(structure, axes), None))

    def over_all(rows, data, keys):
        """Losses (seeds, runs). Without an axis for a single seed a CPU is twice as
        fast.
        """
        if len(rows) == 1:
            return over_runs(rows[0], data, keys[0])[None]
        return jax.vmap(over_runs, (0, None, 0))(rows, data, keys)

    return make_program(
        over_all, optax.GradientTransformation(None, _adam), 2, together=True
    )


_cached_program = cache(_program)


def _fit(end: Trained, r: int, run: Run, seeds: tuple, steps: tuple) -> Fit:
    """The result of run ``r``, without padding."""

    def weights(rows):
        params, guess = unpack(rows[:, r], run.task.dim)
        return LSAParams(*(W[..., : run.heads, :, :] for W in params)), guess

    (count, *moments), _ = end.opt_state
    (params, guess), snapshots, *moments = jax.tree.map(
        weights, (end.params, end.snapshots, *moments)
    )
    adam = optax.ScaleByAdamState(np.repeat(count, len(end.losses)), *moments)
    return Fit(params, guess, end.losses[:, r], run, snapshots, adam, seeds, steps)
