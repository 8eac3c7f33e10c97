"""Many runs of LSA in one compiled loop."""

import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PyTree

from lsalib import _check
from lsalib.attention import LSAParams
from lsalib.tasks import GaussianTask, standardize
from lsalib.training.loop import advance, make_program
from lsalib.training.objective import Data, gaussian_loss, own_loss, unpack
from lsalib.training.records import Schedule, State, Trained
from lsalib.training.runs import Fit, Places, Run, settings
from lsalib.training.trainer import digest, report_diverged, seed_keys

# Its learning rate is part of its state: (S, R, 1), one for each run.
_ADAM = optax.inject_hyperparams(
    optax.adam, static_args=("b1", "b2", "eps", "eps_root")
)(0.0)


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
    start: LSAParams | None = None,
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
        task, heads, guess, bias, train_guess, learning_rate, init_scale, start: those
            of a ``Run``.
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
    run = Run(task, heads, guess, bias, train_guess, learning_rate, init_scale, start)
    before: Any = None
    if start_from is not None:
        before = [start_from.with_seed()] if isinstance(start_from, Fit) else start_from
    fits = sweep(
        key,
        [run],
        start_from=before,
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
    _check_runs(runs)
    if objective not in ("sampled", "population"):
        raise ValueError(
            f'objective must be one of "sampled" and "population", got {objective!r}'
        )
    if (dtype := np.dtype(dtype)) not in (np.float32, jnp.result_type(float)):
        raise ValueError(
            f"dtype must be float32, or float64 if JAX is set to use it, got {dtype}"
        )
    size = _check.count("batch_size", batch_size) if objective == "sampled" else None
    common, keys = seed_keys(key, seeds)
    common |= {"dtype": str(dtype), "batch_size": size}
    if start_from is not None:
        _check_start(start_from, runs, common["seeds"])
    groups: dict[Kind, list[int]] = {}
    for place, run in enumerate(runs):
        groups.setdefault(_kind(run, size), []).append(place)

    fits: dict[int, Fit] = {}
    diverged: dict[str, int] = {}
    for number, (kind, places) in enumerate(groups.items()):
        report = lambda step, losses, params, places=places: callback(
            step, {"runs": places, "losses": losses}
        )
        folder = None if checkpoint is None else Path(checkpoint) / str(number)
        how = Schedule(steps, snapshots, callback and report, every, progress, folder)
        about: dict[str, Any] = {}
        for place in places:
            about[f"run {place}"] = settings(runs[place])
        before = [start_from[place] for place in places] if start_from else None
        if before:
            about["start_from"] = digest([fit[:2] for fit in before])
        group = _Group([runs[place] for place in places], kind, dtype)
        end, bad = group.trained(keys, before, common | about, how)
        numbers = Places(tuple(common["seeds"]), tuple(how.checked().snapshots))
        for r, place in enumerate(places):
            fits[place] = group.fit(end, r, numbers)
            for seed, step in zip(common["seeds"], bad[:, r].tolist(), strict=True):
                diverged[f"run {place}, seed {seed}"] = step
    report_diverged(diverged)
    return [fits[place] for place in range(len(runs))]


def _check_runs(runs) -> None:
    listed = isinstance(runs, Sequence) and all(isinstance(run, Run) for run in runs)
    if not listed or not runs:
        got = "a Run: write [run]" if isinstance(runs, Run) else _check.describe(runs)
        raise ValueError(f"runs must be a list of at least one Run, got {got}")


def _check_start(fits, runs, seeds: list[int]) -> None:
    """That these runs can go on from these fits."""
    expected = [(run.heads, run.task.dim, tuple(seeds)) for run in runs]
    got: Any = _check.describe(fits)
    if isinstance(fits, Sequence) and all(isinstance(fit, Fit) for fit in fits):
        got = [(fit.run.heads, fit.task.dim, fit.places.seeds) for fit in fits]
        if got == expected and all(fit.opt_state is not None for fit in fits):
            return
    raise ValueError(
        "start_from must have for each run a fit as sweep returns it, with heads, "
        f"features and seeds {expected}, got {got}"
    )


class Kind(NamedTuple):
    """What runs of one program share."""

    task: Any  # the structure of a GaussianTask, or the identity of another task
    dim: int
    batch: tuple[int, int | None, bool] | None  # see ``gaussian_loss``
    size: int | None  # of a batch


def _kind(run: Run, size: int | None) -> Kind:
    if isinstance(run.task, GaussianTask):
        C, noisy = run.task.context_size, run.task.noise_std > 0
        batch = None
        if size is not None:
            batch = size, None if C > run.task.dim + noisy else C, noisy
        structure = jax.tree.structure(standardize(run.task))
        return Kind(structure, run.task.dim, batch, size)
    if size is None:
        raise ValueError(
            'objective must be "sampled" for a task that is no GaussianTask: '
            "it has no exact risk"
        )
    return Kind(id(run.task), run.task.dim, None, size)


class _Group:
    """Runs of one program: their weights, one row for each seed and run, and their
    constants.
    """

    def __init__(self, runs: list[Run], kind: Kind, dtype):
        self.runs, self.kind, self.dtype, self.task = runs, kind, dtype, runs[0].task
        self.dim, self.heads = kind.dim, max(run.heads for run in runs)

    def start(self, keys, before: list[Fit] | None) -> State:
        """Weights and guesses in rows, (seeds, runs, P), and Adam's state for them."""
        D, rows = self.dim + 1, []
        # The numbers of ``attention.init``: a draw for fewer heads is the beginning of
        # one for more.
        draw = lambda key: jax.random.normal(key, (4 * self.heads * D**2,), self.dtype)
        drawn = np.asarray(jax.vmap(draw)(keys))
        for run in self.runs:
            shape = (len(keys), 4, run.heads, D, D)
            weights = run.init_scale * drawn[:, : math.prod(shape[1:])].reshape(shape)
            if run.start is not None:
                weights = np.broadcast_to(np.stack(run.start), shape)
            guess = np.broadcast_to(run.guess, (len(keys), self.dim))
            rows.append(self.packed(np.moveaxis(weights, 1, 0), guess))
        params = np.stack(rows, axis=1)
        # Adam begins with zeros; nothing is compiled for them.
        shapes = jax.eval_shape(jax.vmap(_ADAM.init), params)
        state = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
        if before:
            stacked = lambda parts: np.stack([self.packed(*part) for part in parts], 1)
            params = stacked([fit[:2] for fit in before])
            counts, means, squares = zip(
                *(fit.opt_state for fit in before), strict=True
            )
            if any((count != counts[0]).any() for count in counts):
                raise ValueError(
                    "start_from must have fits of as many steps in runs that share a "
                    f"program, got {[int(count[0]) for count in counts]}"
                )
            adam = state.inner_state[0]._replace(
                count=np.asarray(counts[0]), mu=stacked(means), nu=stacked(squares)
            )
            state = state._replace(inner_state=(adam, *state.inner_state[1:]))
        rates = [[[run.learning_rate] for run in self.runs]] * len(keys)
        state = state._replace(
            hyperparams={"learning_rate": np.array(rates, self.dtype)}
        )
        return State(params, state)

    def packed(self, params, guess) -> np.ndarray:
        """As rows, (seeds, P). Fewer heads are padded by zeros, which stay zero, since
        the gradient of each factor contains the others.
        """
        W = np.stack([np.asarray(part, self.dtype) for part in params], axis=1)
        idle = ((0, 0), (0, 0), (0, self.heads - W.shape[2]), (0, 0), (0, 0))
        flat = np.pad(W, idle).reshape(len(W), -1)
        return np.concatenate([flat, np.asarray(guess, self.dtype)], axis=1)

    def data(self) -> tuple[PyTree, tuple]:
        """The constants, and the axis of runs of each: None where all agree, so that it
        is read once for all runs.
        """
        as_type = lambda leaf: np.asarray(
            leaf, bool if isinstance(leaf, bool) else self.dtype
        )
        each = []
        for run in self.runs:
            gaussian = isinstance(run.task, GaussianTask)
            task = standardize(run.task) if gaussian else None
            each.append(Data(task, run.bias, bool(run.train_guess)))
        leaves, structure = jax.tree.flatten(
            jax.tree.map(lambda *run: np.stack([*map(as_type, run)]), *each)
        )
        axes = tuple(None if (leaf == leaf[:1]).all() else 0 for leaf in leaves)
        constants = [
            leaf[0] if axis is None else leaf
            for leaf, axis in zip(leaves, axes, strict=True)
        ]
        return jax.tree.unflatten(structure, constants), axes

    def trained(
        self, keys, before: list[Fit] | None, settings: dict, how: Schedule
    ) -> tuple[Trained, np.ndarray]:
        state, (data, axes) = self.start(keys[0], before), self.data()
        if isinstance(self.task, GaussianTask):
            loss = gaussian_loss(self.heads, self.dim, self.kind.batch)
            program = _cached_program(loss, jax.tree.structure(data), axes)
        else:  # no program is kept for a task of one's own, whose attributes may change
            size = self.kind.size or 0  # never None for such a task
            loss = own_loss(self.heads, self.task, size, self.dtype)
            program = _program(loss, jax.tree.structure(data), axes)
        return advance(program, state, data, keys[1], 2, settings, how)

    def fit(self, end: Trained, r: int, places: Places) -> Fit:
        """The result of one run, without padding."""

        def weights(rows):
            params, guess = unpack(rows[:, r], self.heads, self.dim)
            heads = self.runs[r].heads
            return LSAParams(*(W[..., :heads, :, :] for W in params)), guess

        adam = end.opt_state.inner_state[0]
        state = adam.count, weights(adam.mu), weights(adam.nu)
        snapshots = None if end.snapshots is None else weights(end.snapshots)
        params, guess = weights(end.params)
        losses, run = end.losses[:, r], self.runs[r]
        return jax.device_put(Fit(params, guess, losses, run, snapshots, places, state))


def _program(loss, structure, axes: tuple):
    over_runs = jax.vmap(loss, (0, jax.tree.unflatten(structure, axes), None))

    def over_all(rows, data, keys):
        """Losses (seeds, runs). Without an axis for a single seed a CPU is twice as
        fast.
        """
        if len(rows) == 1:
            return over_runs(rows[0], data, keys[0])[None]
        return jax.vmap(over_runs, (0, None, 0))(rows, data, keys)

    return make_program(over_all, _ADAM, 2, together=True)


_cached_program = cache(_program)
