"""Many runs of LSA in one compiled loop."""

import dataclasses
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import PyTree

from lsalib import _check
from lsalib.attention import LSAParams
from lsalib.tasks import GaussianTask, standardize
from lsalib.training.loop import State, Trained, advance, make_program
from lsalib.training.objective import Data, gaussian_loss, own_loss, unpack
from lsalib.training.runs import Fit, Run, settings
from lsalib.training.trainer import report_diverged, seed_keys

# Its learning rate is part of its state: (S, R, 1), one for each run.
_ADAM = optax.inject_hyperparams(
    optax.adam, static_args=("b1", "b2", "eps", "eps_root")
)(0.0)


def fit(
    key,
    task,
    heads: int,
    *,
    steps=5000,
    batch_size=2048,
    objective="sampled",
    snapshots=(),
    **options,
) -> Fit:
    """Train one LSA layer: a sweep of one run and of seed 0, whose arrays have no axis
    for seeds.

    ``options`` are those of ``sweep`` except ``seeds``, and the settings of a ``Run``:
    ``guess``, ``bias``, ``train_guess``, ``learning_rate``, ``init_scale`` and
    ``start``.

    Example:
        >>> task = GaussianTask([1.0, 1.0], context_size=5)
        >>> end = fit(jax.random.key(0), task, heads=1, steps=3, objective="population", train_guess=True)
        >>> end.losses.shape, end.params.W_K.shape, end.predict(np.eye(2), [1.0, 2.0], [1.0, 1.0]).shape
        ((3,), (1, 3, 3), ())
    """
    if "seeds" in options:
        raise ValueError(
            "fit trains one seed; use sweep(key, [Run(task, heads)], seeds=...)"
        )
    given = {
        field.name: options.pop(field.name)
        for field in dataclasses.fields(Run)
        if field.name in options
    }
    how = {
        "seeds": 1,
        "steps": steps,
        "batch_size": batch_size,
        "objective": objective,
        "snapshots": snapshots,
    }
    return sweep(key, [Run(task, heads, **given)], **how, **options)[0].seed(0)


def sweep(
    key,
    runs: Sequence[Run],
    *,
    seeds=1,
    steps=5000,
    batch_size=2048,
    objective="sampled",
    snapshots=(),
    dtype=jnp.float32,
    callback=None,
    every=500,
    progress=False,
    checkpoint=None,
) -> list[Fit]:
    """Train many runs at once, by default as in appendix C.1 and Table 1 of arXiv
    2512.04268.

    Runs of one seed see the same tasks (common random numbers). They start from the
    same weights if these have the same shapes. Runs that differ only in numbers share a
    compiled program: prior means, covariances, guesses, learning rates, numbers of
    heads, and context sizes above d. Keys and divergence of each seed and run are as in
    ``train``.

    Args:
        key, seeds, snapshots, every, progress, checkpoint: as in ``train``, which takes
            any optimizer, loss and layer.
        runs: what to train. Each gives one ``Fit``, whose arrays have the seeds in
            front.
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
    if (
        not isinstance(runs, Sequence)
        or not runs
        or not all(isinstance(run, Run) for run in runs)
    ):
        got = "a Run: write [run]" if isinstance(runs, Run) else _check.describe(runs)
        raise ValueError(f"runs must be a list of at least one Run, got {got}")
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
    groups: dict[tuple, list[int]] = {}
    for place, run in enumerate(runs):
        groups.setdefault(_kind(run, size), []).append(place)
    options = {
        "steps": steps,
        "snapshots": snapshots,
        "every": every,
        "progress": progress,
    }
    fits: dict[int, Fit] = {}
    stopped: dict[str, int] = {}
    for number, (kind, places) in enumerate(groups.items()):
        told = lambda step, losses, params, places=places: callback(
            step, {"runs": places, "losses": losses}
        )
        folder = None if checkpoint is None else Path(checkpoint) / str(number)
        own = {f"run {place}": settings(runs[place]) for place in places}
        group = _Group([runs[place] for place in places], kind, dtype)
        end, bad = group.trained(
            keys,
            common | own,
            options | {"callback": callback and told, "checkpoint": folder},
        )
        for r, place in enumerate(places):
            fits[place] = group.fit(end, r)
            stopped |= {
                f"run {place}, seed {s}": int(step)
                for s, step in zip(common["seeds"], bad[:, r], strict=True)
            }
    report_diverged(stopped)
    return [fits[place] for place in range(len(runs))]


def _kind(run: Run, size: int | None) -> tuple:
    """What runs of one program share."""
    if isinstance(run.task, GaussianTask):
        C, noisy = run.task.context_size, run.task.noise_std > 0
        batch = (
            None
            if size is None
            else (size, None if C > run.task.dim + noisy else C, noisy)
        )
        return run.task.dim, batch, jax.tree.structure(standardize(run.task))
    if size is None:
        raise ValueError(
            'objective must be "sampled" for a task that is no GaussianTask: it has no exact risk'
        )
    return id(run.task), size


class _Group:
    """Runs of one program: their weights, one row for each seed and run, and their
    constants.
    """

    def __init__(self, runs: list[Run], kind: tuple, dtype):
        self.runs, self.kind, self.dtype, self.task = runs, kind, dtype, runs[0].task
        self.dim, self.heads = self.task.dim, max(run.heads for run in runs)

    def rows(self, keys) -> np.ndarray:
        """The initial weights and guesses, (seeds, runs, P).

        Fewer heads are padded by zeros, which stay zero, since the gradient of each
        factor contains the others.
        """
        D = self.dim + 1
        # The numbers of ``attention.init``: a draw for fewer heads is the beginning of
        # one for more.
        normal = np.asarray(
            jax.vmap(
                lambda key: jax.random.normal(key, (4 * self.heads * D**2,), self.dtype)
            )(keys)
        )
        weights = np.zeros(
            (len(normal), len(self.runs), 4, self.heads, D, D), self.dtype
        )
        for r, run in enumerate(self.runs):
            drawn = run.init_scale * normal[:, : 4 * run.heads * D**2].reshape(
                -1, 4, run.heads, D, D
            )
            weights[:, r, :, : run.heads] = (
                drawn if run.start is None else np.stack(run.start)
            )
        guesses = np.array([[run.guess for run in self.runs]] * len(normal), self.dtype)
        return np.concatenate(
            [weights.reshape(*guesses.shape[:2], -1), guesses], axis=2
        )

    def data(self) -> tuple[PyTree, tuple]:
        """The constants, and the axis of runs of each: None where all agree, so that it
        is read once for all runs.
        """
        as_type = lambda leaf: np.asarray(
            leaf, bool if isinstance(leaf, bool) else self.dtype
        )
        tasks = [
            standardize(run.task) if isinstance(run.task, GaussianTask) else None
            for run in self.runs
        ]
        each = [
            Data(task, run.bias, bool(run.train_guess))
            for task, run in zip(tasks, self.runs, strict=True)
        ]
        leaves, structure = jax.tree.flatten(
            jax.tree.map(lambda *run: np.stack([*map(as_type, run)]), *each)
        )
        axes = tuple(None if (leaf == leaf[:1]).all() else 0 for leaf in leaves)
        kept = [
            leaf[0] if axis is None else leaf
            for leaf, axis in zip(leaves, axes, strict=True)
        ]
        return jax.tree.unflatten(structure, kept), axes

    def trained(
        self, keys, settings: dict, options: dict
    ) -> tuple[Trained, np.ndarray]:
        rows, (data, axes) = self.rows(keys[0]), self.data()
        # Adam begins with zeros; nothing is compiled for them.
        adam = jax.tree.map(
            lambda x: np.zeros(x.shape, x.dtype),
            jax.eval_shape(jax.vmap(_ADAM.init), rows),
        )
        rates = np.array(
            [[[run.learning_rate] for run in self.runs]] * len(rows), self.dtype
        )
        state = State(rows, adam._replace(hyperparams={"learning_rate": rates}))
        if isinstance(self.task, GaussianTask):
            program = _program(
                gaussian_loss(self.heads, self.dim, self.kind[1]),
                jax.tree.structure(data),
                axes,
            )
        else:  # no program is kept for a task of one's own, whose attributes may change
            loss = own_loss(self.heads, self.task, self.kind[1], self.dtype)
            program = _program.__wrapped__(loss, jax.tree.structure(data), axes)
        return advance(program, state, data, keys[1], 2, settings, **options)

    def fit(self, end: Trained, r: int) -> Fit:
        """The result of one run, without padding."""

        def weights(rows):
            params, guess = unpack(rows, self.heads, self.dim)
            return LSAParams(
                *(W[..., : self.runs[r].heads, :, :] for W in params)
            ), guess

        params, guess = weights(end.params[:, r])
        snapshots = None if end.snapshots is None else weights(end.snapshots[:, r])
        return jax.device_put(
            Fit(params, guess, end.losses[:, r], self.runs[r], snapshots)
        )


@cache
def _program(loss, structure, axes: tuple):
    return make_program(
        jax.vmap(loss, (0, jax.tree.unflatten(structure, axes), None)), _ADAM, 2
    )
