"""The settings of a run, and its results."""

import operator
import os
from dataclasses import dataclass, fields
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float

from lsalib import _arrays, _validate
from lsalib.attention import LSAParams, gram, predict
from lsalib.tasks import GaussianTask
from lsalib.theory import population_risk

__all__ = ["Fit", "Run", "Snapshots", "entry"]

Scalar = Float[Array, "..."]


@jax.tree_util.register_static
@dataclass(frozen=True, eq=False)
class Run:
    """One point of a sweep. Two runs are equal if all their numbers are.

    Args:
        task: the task distribution.
        heads: H, the number of heads.
        guess: weights of the initial guess ``y_q = guess.x_q + bias``, (d,), or their starting point; None means zero.
        bias: its constant part; never trained.
        train_guess: whether ``guess`` is trained jointly with the weights: yq-LSA (eq. 11).
        learning_rate: Adam's.
        init_scale: standard deviation of the initial weights; the paper does not give it.
        start: initial weights of every seed, (H, D, D) each, such as the ``params`` of another fit; None means random.

    Raises:
        ValueError: if ``task`` is no GaussianTask, ``heads < 1``, ``guess`` or ``start`` does not have its shape, or a
            number is not finite or not positive.

    Example:
        >>> Run(GaussianTask([2.0, 2.0], context_size=5), heads=3).guess.tolist()
        [0.0, 0.0]
        >>> Run(GaussianTask([2, 2], 5), 3) == Run(GaussianTask([2.0, 2.0], 5), 3)
        True
    """

    task: GaussianTask
    heads: int
    guess: npt.ArrayLike | None = None
    bias: float = 0.0
    train_guess: bool = False
    learning_rate: float = 5e-4
    init_scale: float = 0.1
    start: LSAParams | None = None

    def __post_init__(self):
        for field in fields(self):
            if _arrays.traced(getattr(self, field.name)):
                raise ValueError(f"{field.name} must be known where a run is made: use sweep in place of jax.vmap")
        if not isinstance(self.task, GaussianTask):
            raise ValueError(f"task must be a GaussianTask, got {self.task!r}")
        d = self.task.dim
        object.__setattr__(self, "heads", _validate.count("heads", self.heads))
        if self.start is not None:
            object.__setattr__(self, "start", _weights("start", self.start, (self.heads, d + 1, d + 1)))
        guess = _validate.vector("guess", np.zeros(d) if self.guess is None else self.guess, d)
        object.__setattr__(self, "guess", guess)
        object.__setattr__(self, "bias", _validate.number("bias", self.bias))
        object.__setattr__(self, "train_guess", _validate.flag("train_guess", self.train_guess))
        for name in ("learning_rate", "init_scale"):
            object.__setattr__(self, name, _validate.number(name, getattr(self, name), above=0.0))

    def to_json(self) -> dict[str, object]:
        """All settings of the run and of its task, as JSON data."""
        given = self._own() | {field.name: getattr(self.task, field.name) for field in fields(self.task)}
        return {name: None if value is None else np.asarray(value).tolist() for name, value in given.items()}

    def _own(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "task"}

    def __eq__(self, other):
        if not isinstance(other, Run):
            return NotImplemented
        same = jax.tree.map(np.array_equal, self._own(), other._own()) if self._shape() == other._shape() else False
        return self.task == other.task and all(jax.tree.leaves(same))

    def __hash__(self):
        return hash((self.task, self._shape()))

    def _shape(self) -> tuple:
        """Settings that are quick to compare."""
        return self.heads, self.bias, self.train_guess, self.learning_rate, self.init_scale, self.start is None


def _weights(name: str, params, shape: tuple[int, ...]) -> LSAParams:
    """Weights as read-only float arrays."""
    if not (isinstance(params, tuple) and len(params) == 4):
        raise ValueError(f"{name} must be LSAParams, got a {type(params).__name__}")
    parts = zip(LSAParams._fields, params, strict=True)
    kept = LSAParams._make(np.array(_arrays.real_array(f"{name}.{field}", W), np.float64) for field, W in parts)
    for field, W in kept._asdict().items():
        _validate.shape(f"{name}.{field}", W, shape)
        if not np.isfinite(W).all():
            raise ValueError(f"{name}.{field} must be finite")
        W.flags.writeable = False
    return kept


class Snapshots(NamedTuple):
    """Weights and guesses after K of the steps. Each leaf has the K in front, and seeds before them."""

    params: LSAParams
    guess: Float[Array, "*seeds K d"]


class Fit(NamedTuple):
    """A finished run: its settings, its results, and a predictor.

    Weights (H, D, D) each, guess (d,), and the loss before each step, (steps,); from ``sweep`` every array has the
    seeds in front. ``run`` holds the settings. ``snapshots`` holds the weights at the steps asked for, and is None
    without any.
    """

    params: LSAParams
    guess: Float[Array, "*seeds d"]
    risk: Float[Array, "*seeds steps"]
    run: Run
    snapshots: Snapshots | None = None

    @property
    def task(self) -> GaussianTask:
        """The task it was trained on."""
        return self.run.task

    @property
    def heads(self) -> int:
        """The number of heads."""
        return self.run.heads

    @property
    def bias(self) -> float:
        """The constant part of its guess."""
        return self.run.bias

    def predict(self, X: Float[Array, "C d"], y: Float[Array, " C"], x_q: Float[Array, " d"]) -> Scalar:
        """The trained layer's prediction for one context, with ``y_q = guess.x_q + bias`` (eqs. 6, 11).

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
        one = partial(_predict, X=X, y=y, x_q=x_q, bias=self.bias)
        return jax.vmap(one)(self.params, self.guess) if self._has_seeds else one(self.params, self.guess)

    def population_risk(self, task: GaussianTask | None = None) -> float | np.ndarray | Array:
        """The exact risk of these weights with the guess that was trained or given (eq. 4).

        Args:
            task: the distribution to test on; None means the one it was trained on.

        Returns:
            A number; for a result of ``sweep`` one for each seed, (seeds,).

        Raises:
            ValueError: if the task has another d.

        Example:
            >>> import jax.numpy as jnp
            >>> from lsalib.attention import gd_weights
            >>> task = GaussianTask([2.0, 2.0], context_size=3)
            >>> one_step = Fit(gd_weights(jnp.full(2, 2.0), 0.5), jnp.full(2, 2.0), jnp.zeros(1), Run(task, heads=1))
            >>> round(one_step.population_risk(), 4)
            1.0
        """
        task = self.task if task is None else task
        if isinstance(task, GaussianTask) and task.dim != self.task.dim:
            raise ValueError(f"task must have d = {self.task.dim}, as in training, got d = {task.dim}")
        one = lambda params, guess: population_risk(params, task, guess, self.bias)
        risks = jax.vmap(one)(self.params, self.guess) if self._has_seeds else one(self.params, self.guess)
        if _arrays.traced(risks):
            return risks
        return np.asarray(risks) if self._has_seeds else float(risks)

    def seed(self, place: int) -> "Fit":
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
        return entry(self, place, len(self.guess))

    def snapshot(self, place: int) -> "Fit":
        """The fit as it was at one of its snapshots, by their order; ``risk`` stays that of the whole training.

        Raises:
            ValueError: if no snapshots were asked for, or there is no such place.
        """
        if self.snapshots is None:
            raise ValueError("snapshot(place) needs snapshots, got a fit without: ask for some with snapshots=")
        axis = int(self._has_seeds)
        params, guess = entry(self.snapshots, place, np.shape(self.snapshots.guess)[axis], axis)
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
        from lsalib.training.results import save

        save(path, [self])

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Fit":
        """Read a fit that ``save`` wrote, bit for bit.

        Raises:
            ValueError: if there is no such file, or it does not hold one fit.
        """
        from lsalib.training.results import load

        fits = load(path)
        if len(fits) != 1:
            raise ValueError(f"path must be a file with one fit, got {path} with {len(fits)}: use training.load")
        return fits[0]

    @property
    def _has_seeds(self) -> bool:
        return np.ndim(self.guess) == 2


def entry(tree, place: int, length: int, axis: int = 0):
    """One entry of every array along an axis of this length; nothing is compiled for it."""
    try:
        index = operator.index(place)
    except TypeError:
        index = length
    if isinstance(place, bool) or not -length <= index < length:
        raise ValueError(f"place must be a whole number from {-length} to {length - 1}, got {place!r}")
    where = (slice(None),) * axis + (index,)
    return jax.tree.map(
        lambda leaf: leaf[where] if _arrays.traced(leaf) else jax.device_put(np.asarray(leaf)[where]), tree
    )


@partial(_arrays.promoted, least=np.float32)
@jax.jit
def _predict(params: LSAParams, guess, X, y, x_q, bias):
    _validate.context(X, y, x_q)
    _validate.shape("x_q", x_q, guess.shape)
    return predict(params, gram(X, y), x_q, guess @ x_q + bias)
