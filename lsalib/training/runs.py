"""What a run is given."""

from dataclasses import dataclass, fields

import jax
import numpy as np
import numpy.typing as npt

from lsalib import _arrays, _validate
from lsalib.attention import LSAParams
from lsalib.tasks import GaussianTask

__all__ = ["Run"]


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
