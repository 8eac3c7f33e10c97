"""What comes out of a run, and how it is kept in a file."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, SupportsIndex

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree

from lsalib import _arrays, _npz, _validate
from lsalib.attention import LSAParams, gram, predict
from lsalib.mixtures import MixtureTask
from lsalib.tasks import GaussianTask, Task
from lsalib.theory import population_risk
from lsalib.training.checkpoint import digest
from lsalib.training.runs import Run

__all__ = ["Fit", "Snapshots", "load", "save"]

Scalar = Float[Array, "..."]

_TASK = ("prior_mean", "context_size", "feature_cov", "prior_cov", "noise_std", "query_cov")


class Snapshots(NamedTuple):
    """Weights and guesses after K of the steps. Each leaf has the K in front, and seeds before them."""

    params: LSAParams | PyTree
    guess: Float[Array, "*seeds K d"] | None


class Fit(NamedTuple):
    """A finished run: its settings, its results, and a predictor.

    Weights (H, D, D) each, guess (d,), and the loss before each step, (steps,); from ``sweep`` every array has the
    seeds in front. ``run`` holds the settings. ``snapshots`` holds the weights at the steps asked for, and is None
    without any. Of another layer than LSA ``params`` is its pytree, and ``guess`` is None.
    """

    params: LSAParams | PyTree
    guess: Float[Array, "*seeds d"] | None
    risk: Float[Array, "*seeds steps"]
    run: Run
    snapshots: Snapshots | None = None

    @property
    def task(self) -> GaussianTask | Task:
        """The task it was trained on."""
        return self.run.task

    @property
    def heads(self) -> int | None:
        """The number of heads; None for another layer than LSA."""
        return self.run.heads

    @property
    def bias(self) -> float:
        """The constant part of its guess."""
        return self.run.bias

    def predict(self, X: Float[Array, "C d"], y: Float[Array, " C"], x_q: Float[Array, " d"]) -> Scalar:
        """The trained layer's prediction for one context, that of LSA with ``y_q = guess.x_q + bias`` (eqs. 6, 11).

        Args:
            X, y, x_q: context and query, (C, d), (C,), (d,), of any C.

        Returns:
            A scalar; for a result of ``sweep`` one prediction for each seed, (seeds,).

        Raises:
            ValueError: if a shape does not fit.

        Example:
            >>> import jax.numpy as jnp
            >>> from lsalib.attention import gd_weights
            >>> task = GaussianTask([0.0, 0.0], context_size=2)
            >>> one_step = Fit(gd_weights(jnp.zeros(2), 2.0), jnp.zeros(2), jnp.zeros(1), Run(task, heads=1))
            >>> float(one_step.predict(jnp.eye(2), jnp.array([1.0, 2.0]), jnp.ones(2)))
            3.0
        """
        if self.run.layer is not None:
            return _layer_predict(self.run.layer, self._has_seeds, self.params, X, y, x_q)
        one = partial(_predict, X=X, y=y, x_q=x_q, bias=self.bias)
        return jax.vmap(one)(self.params, self.guess) if self._has_seeds else one(self.params, self.guess)

    def population_risk(self, task: GaussianTask | MixtureTask | None = None) -> float | np.ndarray | Array:
        """The exact risk of these weights with the guess that was trained or given (eq. 4).

        Args:
            task: the distribution to test on, for example one with another ``query_cov``; None means the one it was
                trained on.

        Returns:
            A number; for a result of ``sweep`` one for each seed, (seeds,).

        Raises:
            ValueError: if the task has another d or is no GaussianTask or MixtureTask, or the layer is not LSA.

        Example:
            >>> import jax.numpy as jnp
            >>> from lsalib.attention import gd_weights
            >>> task = GaussianTask([2.0, 2.0], context_size=3)
            >>> one_step = Fit(gd_weights(jnp.full(2, 2.0), 0.5), jnp.full(2, 2.0), jnp.zeros(1), Run(task, heads=1))
            >>> round(one_step.population_risk(), 4)
            1.0
        """
        tested = self.task if task is None else task
        if self.run.layer is not None or not isinstance(tested, GaussianTask | MixtureTask):
            raise ValueError(
                "the exact risk is known for LSA on GaussianTasks and mixtures of them only: sample another layer or "
                "task by metrics.sampled_risk(key, task, fit.predict), of a sweep's result by fit.seed(0).predict"
            )
        if tested.dim != self.task.dim:
            raise ValueError(f"task must have d = {self.task.dim}, as in training, got d = {tested.dim}")
        one = lambda params, guess: population_risk(params, tested, guess, self.bias)
        risks = jax.vmap(one)(self.params, self.guess) if self._has_seeds else one(self.params, self.guess)
        if _arrays.traced(risks):
            return risks
        return np.asarray(risks) if self._has_seeds else float(risks)

    def seed(self, place: SupportsIndex) -> "Fit":
        """The result of one seed of a sweep, by its place among the seeds; negative places count from the end.

        Raises:
            ValueError: if this is a single fit already, or there is no such place.

        Example:
            >>> two = Fit(None, np.ones((2, 3)), np.ones((2, 7)), None)
            >>> two.seed(0).risk.shape
            (7,)
        """
        if not self._has_seeds:
            raise ValueError("seed(place) is for a result of sweep, got a single fit: use it as it is")
        return _arrays.entry(self, place, len(self.risk))

    def snapshot(self, place: SupportsIndex) -> "Fit":
        """The fit as it was at one of its snapshots, by their order; ``risk`` stays that of the whole training.

        Raises:
            ValueError: if no snapshots were asked for, or there is no such place.
        """
        if self.snapshots is None:
            raise ValueError("snapshot(place) needs snapshots, got a fit without: ask for some with snapshots=")
        axis = int(self._has_seeds)
        length = np.shape(jax.tree.leaves(self.snapshots)[0])[axis]
        params, guess = _arrays.entry(self.snapshots, place, length, axis)
        return self._replace(params=params, guess=guess, snapshots=None)

    def save(self, path: str | os.PathLike) -> None:
        """Write the fit to a file, its arrays and its settings, without pickle.

        Example:
            >>> import tempfile, pathlib
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "fit.npz"
            >>> params = LSAParams(*np.ones((4, 3, 2, 2), np.float32))
            >>> Fit(params, np.ones(1), np.ones(5), Run(GaussianTask([2.0], 4), heads=3)).save(path)
            >>> Fit.load(path).run == Run(GaussianTask([2.0], 4), heads=3)
            True
        """
        save(path, [self])

    @classmethod
    def load(cls, path: str | os.PathLike, run: Run | None = None) -> "Fit":
        """Read a fit that ``save`` wrote, bit for bit; ``run`` as in ``training.load``.

        Raises:
            ValueError: if there is no such file, or it does not hold one fit, or that of another run.
        """
        fits = load(path, None if run is None else [run])
        if len(fits) != 1:
            raise ValueError(f"path must be a file with one fit, got {path} with {len(fits)}: use training.load")
        return fits[0]

    @property
    def _has_seeds(self) -> bool:
        return np.ndim(self.risk) == 2


def save(path: str | os.PathLike, fits: Sequence[Fit]) -> None:
    """Write fits to one file, at once: arrays in NumPy's npz format, runs as JSON; no pickle.

    Args:
        path: the file; its folder is made if it is missing.
        fits: what ``sweep`` or ``fit`` returned.

    Raises:
        ValueError: if ``fits`` is not a sequence of at least one ``Fit``.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "fits.npz"
        >>> params = LSAParams(*np.ones((4, 3, 2, 2), np.float32))
        >>> save(path, [Fit(params, np.ones(1), np.ones(5), Run(GaussianTask([2.0], 4), heads=3))] * 2)
        >>> [fit.heads for fit in load(path)]
        [3, 3]
    """
    if isinstance(fits, Fit) or not isinstance(fits, Sequence) or not fits or not all(isinstance(f, Fit) for f in fits):
        raise ValueError(f"fits must be a sequence of at least one Fit, got a {type(fits).__name__}")
    arrays: dict[str, np.ndarray] = {}
    for place, fit in enumerate(fits):
        leaves = {"risk": fit.risk, **_named(fit)}
        if fit.snapshots is not None:
            leaves |= {f"snapshot {name}": leaf for name, leaf in _named(fit.snapshots).items()}
        arrays |= {f"{place} {name}": np.asarray(leaf) for name, leaf in leaves.items()}
    _npz.write(path, arrays, {"fits": [fit.run.to_json() for fit in fits]})


def _named(fit: Fit | Snapshots) -> dict:
    """The weights of a fit by name; those of another layer than LSA, which has no guess, by their number."""
    if fit.guess is not None:
        return {"guess": fit.guess, **fit.params._asdict()}
    return {str(number): leaf for number, leaf in enumerate(jax.tree.leaves(fit.params))}


def load(path: str | os.PathLike, runs: Sequence[Run] | None = None) -> list[Fit]:
    """Read the fits of a file, bit for bit.

    Args:
        path: the file.
        runs: the runs of these fits. They are needed where a run has a layer, a task or an optimizer of its own, since
            a file cannot hold functions. It holds what ``Run.to_json`` says of them: the settings of a ``Layer`` and
            the numbers of a ``MixtureTask``, for example, but of a function only its name. So ``load`` refuses runs of
            another layer, and cannot see that you have changed a function since.

    Raises:
        ValueError: if there is no such file, ``save`` did not write it, or ``runs`` are needed or are others.

    Example:
        >>> import tempfile, pathlib
        >>> from lsalib.layers import Layer
        >>> from lsalib.training import sweep
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "fits.npz"
        >>> task = GaussianTask([2.0], 4)
        >>> runs = [Run(task, layer=f.predict, init=f.init) for f in (Layer("delta"), Layer("gated"))]
        >>> save(path, sweep(jax.random.key(0), runs, steps=3, batch_size=8))
        >>> load(path, runs[::-1])
        Traceback (most recent call last):
        ValueError: runs must be those of the 2 fits of ...fits.npz, got another run for fit 0
    """
    try:
        arrays, about = _npz.read(path)
        stored = list(about["fits"])  # type: ignore[index]  # other data raise errors that are caught below
        own = [place for place, numbers in enumerate(stored) if {"layer", "task", "optimizer"} & numbers.keys()]
        read = [None if place in own else _run(numbers) for place, numbers in enumerate(stored)]
    except FileNotFoundError:
        raise ValueError(f"path must be a file that save wrote, got {path}, which does not exist") from None
    except (_npz.Damaged, IsADirectoryError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"path must be a file that save wrote, got {path}: {error}") from None
    if runs is None and own:
        raise ValueError(
            f"runs must be given to read {path}: a file cannot hold the functions of the run of fit {own[0]}"
        )
    given = [run for run in read if run is not None] if runs is None else list(runs)
    if runs is not None:
        same = [digest(run.to_json()) == digest(numbers) for run, numbers in zip(given, stored, strict=False)]
        if not all(same) or len(given) != len(stored):
            got = f"another run for fit {same.index(False)}" if not all(same) else f"{len(given)}"
            raise ValueError(f"runs must be those of the {len(stored)} fits of {path}, got {got}")
    return [_fit(arrays, place, run) for place, run in enumerate(given)]


@partial(_arrays.promoted, least=np.float32)
@jax.jit
def _predict(params: LSAParams, guess, X, y, x_q, bias):
    _validate.context(X, y, x_q)
    _validate.shape("x_q", x_q, guess.shape)
    return predict(params, gram(X, y), x_q, guess @ x_q + bias)


@partial(_arrays.promoted, skip=("layer", "seeds", "params"), least=np.float32)
@partial(jax.jit, static_argnames=("layer", "seeds"))
def _layer_predict(layer: Callable, seeds: bool, params: PyTree, X, y, x_q):
    _validate.context(X, y, x_q)
    one = lambda params: layer(params, X, y, x_q)
    return jax.vmap(one)(params) if seeds else one(params)


def _run(numbers: dict) -> Run:
    # Only tasks that have a query_cov store it: files from before it existed read the same.
    numbers = {"query_cov": None} | numbers
    rest = {name: value for name, value in numbers.items() if name not in _TASK}
    if rest["start"] is not None:
        rest["start"] = LSAParams._make(map(np.array, rest["start"]))
    return Run(GaussianTask(**{name: numbers[name] for name in _TASK}), **rest)


def _fit(arrays: dict[str, np.ndarray], place: int, run: Run) -> Fit:
    # Without jax_enable_x64, JAX would turn float64 into float32; NumPy keeps it.
    fits = lambda leaf: leaf.dtype == jax.dtypes.canonicalize_dtype(leaf.dtype)
    kept = lambda leaf: jax.device_put(leaf) if fits(leaf) else leaf
    named = lambda name: kept(arrays[f"{place} {name}"])

    def weights(prefix: str) -> Snapshots:
        if run.layer is None:
            own = LSAParams(*(named(f"{prefix}{name}") for name in LSAParams._fields))
            return Snapshots(own, named(f"{prefix}guess"))
        begin, draw = run.start, run.init
        if draw is not None:
            begin = jax.eval_shape(lambda key: draw(key, run.task.dim), jax.random.key(0))
        leaves = [named(f"{prefix}{number}") for number in range(len(jax.tree.leaves(begin)))]
        return Snapshots(jax.tree.unflatten(jax.tree.structure(begin), leaves), None)

    taken = weights("snapshot ") if any(name.startswith(f"{place} snapshot") for name in arrays) else None
    return Fit(*weights(""), named("risk"), run, taken)
