"""What a run is given."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from types import MethodType
from typing import cast
from weakref import WeakValueDictionary

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax
from jaxtyping import PyTree

from lsalib import _arrays, _validate
from lsalib.attention import LSAParams
from lsalib.tasks import GaussianTask, Task
from lsalib.training.identity import tree_digest
from lsalib.training.trainer import transformation

__all__ = ["Run"]


@jax.tree_util.register_static
@dataclass(frozen=True, eq=False)
class Run:
    """One point of a sweep: a task, a layer and an optimizer. Two runs are equal if all their settings are.

    The layer is LSA with ``heads`` heads, or any other as ``layer``. Methods of equal objects are equal, such as
    ``Layer("delta").predict`` and that of a layer made again. Other functions, and optimizers, are equal only to
    themselves.

    Args:
        task: the task distribution, a ``GaussianTask`` or any object with ``dim`` and ``sample(key, n)``
            (``tasks.Task``).
        heads: H, the number of heads of LSA; None for another layer.
        guess: weights of the initial guess ``y_q = guess.x_q + bias``, (d,), or their starting point; None means zero.
        bias: its constant part; never trained.
        train_guess: whether ``guess`` is trained jointly with the weights: yq-LSA (eq. 11).
        learning_rate: Adam's, the optimizer unless ``optimizer`` is another one.
        init_scale: standard deviation of the initial weights; the paper does not give it.
        start: initial weights of every seed, such as the ``params`` of another fit; None means random. Those of LSA
            are (H, D, D) each, those of another layer any pytree of float arrays.
        layer: another layer, ``layer(params, X, y, x_q)``, the prediction for one example, a scalar. ``guess``,
            ``bias``, ``train_guess`` and ``init_scale`` belong to LSA, and must be left out.
        init: draws the layer's initial weights, ``init(key, dim)``.
        optimizer: one of optax, with any schedule and chain, in place of Adam.

    Raises:
        ValueError: if ``task`` has no ``dim`` or ``sample``, there are not either ``heads`` or a ``layer``,
            ``heads < 1``, ``guess`` or ``start`` does not have its shape, a number is not finite or not positive,
            ``optimizer`` is not one of optax, or a setting does not go with the others.

    Example:
        >>> Run(GaussianTask([2.0, 2.0], context_size=5), heads=3).guess.tolist()
        [0.0, 0.0]
        >>> Run(GaussianTask([2, 2], 5), 3) == Run(GaussianTask([2.0, 2.0], 5), 3)
        True
        >>> mean = lambda scale, X, y, x_q: scale * y.mean()
        >>> Run(GaussianTask([2.0, 2.0], 5), layer=mean, start=np.zeros(()), optimizer=optax.lion(1e-3)).heads
    """

    task: GaussianTask | Task
    heads: int | None = None
    guess: npt.ArrayLike | None = None
    bias: float = 0.0
    train_guess: bool = False
    learning_rate: float = 5e-4
    init_scale: float = 0.1
    start: LSAParams | PyTree | None = None
    layer: Callable | None = None
    init: Callable | None = None
    optimizer: optax.GradientTransformation | optax.MultiSteps | None = None

    def __post_init__(self):
        for field in fields(self):
            if _arrays.traced(getattr(self, field.name)):
                raise ValueError(f"{field.name} must be known where a run is made: use sweep in place of jax.vmap")
        if not isinstance(self.task, Task):
            raise ValueError(f"task must have dim and sample(key, n), got {_arrays.describe(self.task)}")
        kept: dict[str, object] = {"bias": _validate.number("bias", self.bias)}
        kept["train_guess"] = _validate.flag("train_guess", self.train_guess)
        for name in ("learning_rate", "init_scale"):
            kept[name] = _validate.number(name, getattr(self, name), above=0.0)
        if self.optimizer is not None:
            kept["optimizer"] = transformation(self.optimizer)
            if self.learning_rate != Run.learning_rate:
                raise ValueError(f"learning_rate must be left to the optimizer, got {self.learning_rate!r}")
        kept |= self._of_lsa() if self.layer is None else self._of_layer()
        for name, value in kept.items():
            object.__setattr__(self, name, value)

    def _of_lsa(self) -> dict[str, object]:
        d = self.task.dim
        if self.heads is None:
            raise ValueError("heads must be the number of heads of LSA, got None; another layer is given as layer=")
        if self.init is not None:
            raise ValueError("init must be left out without a layer=: init_scale says how LSA's weights are drawn")
        heads = _validate.count("heads", self.heads)
        start = None if self.start is None else _weights("start", self.start, (heads, d + 1, d + 1))
        guess = _validate.vector("guess", np.zeros(d) if self.guess is None else self.guess, d)
        return {"heads": heads, "start": start, "guess": guess}

    def _of_layer(self) -> dict[str, object]:
        for name in ("heads", "guess", "bias", "train_guess", "init_scale"):
            if not np.array_equal(getattr(self, name), getattr(Run, name)):
                raise ValueError(
                    f"{name} must be left out with a layer, got {getattr(self, name)!r}; it belongs to LSA"
                )
        kept: dict[str, object] = {"start": jax.tree.map(_kept, self.start)}
        for name in ("layer", "init"):
            given = getattr(self, name)
            if given is not None and not (callable(given) and isinstance(given, Hashable)):
                raise ValueError(f"{name} must be a function that can be hashed, got {_arrays.describe(given)}")
            kept[name] = _one_method(given)
        if (self.init is None) == (self.start is None):
            raise ValueError("init or start must say where a layer begins, got " + ("both" if self.init else "neither"))
        return kept

    @property
    def plain(self) -> bool:
        """Whether the run is one of the paper's experiments: LSA on a ``GaussianTask`` by Adam."""
        return self.layer is None and self.optimizer is None and isinstance(self.task, GaussianTask)

    def to_json(self) -> dict[str, object]:
        """All settings of the run and of its task, as JSON data.

        A method is given by its name and its object, ``functools.partial`` by what it was made of, and a task of one's
        own by its fields if it is a dataclass, or its arrays if it is a pytree. Any other function or object is given
        by its name only, and so are optimizers: two of one name are not told apart.
        """
        given = self._own()
        own = {name: _described(given.pop(name)) for name in ("layer", "init")}
        own["optimizer"] = None if self.optimizer is None else _name(given.pop("optimizer"))
        given.pop("optimizer", None)
        named = {name: value for name, value in own.items() if value is not None}
        if self.layer is not None:
            named["start"] = [leaf.tolist() for leaf in jax.tree.leaves(given.pop("start"))]
        if isinstance(self.task, GaussianTask):
            given |= {field.name: getattr(self.task, field.name) for field in fields(self.task)}
            if self.task.query_cov is None:
                del given["query_cov"]  # as in files and checkpoints from before it existed
        else:
            named["task"] = _described(self.task)
        return {name: None if value is None else np.asarray(value).tolist() for name, value in given.items()} | named

    def _own(self) -> dict[str, object]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "task"}

    def __eq__(self, other):
        if not isinstance(other, Run):
            return NotImplemented
        if self._shape() != other._shape():
            return False
        return all(jax.tree.leaves(jax.tree.map(np.array_equal, (self.guess, self.start), (other.guess, other.start))))

    def __hash__(self):
        return hash(self._shape())

    def _shape(self) -> tuple:
        """Settings that are quick to compare."""
        numbers = self.heads, self.bias, self.train_guess, self.learning_rate, self.init_scale
        return self.task_key, self.layer, self.init, self.optimizer, jax.tree.structure(self.start), *numbers

    @property
    def task_key(self) -> Hashable:
        """The task if it has a hash, and so a comparison by value; else what only this object has."""
        try:
            hash(self.task)
        except TypeError:
            return id(self.task)
        return cast(Hashable, self.task)


_METHODS: WeakValueDictionary = WeakValueDictionary()


def _one_method(given):
    """One and the same method for all equal objects: Python compares methods by the identity of their objects."""
    if not isinstance(given, MethodType):
        return given
    try:
        return _METHODS.setdefault((given.__func__, type(given.__self__), given.__self__), given)
    except TypeError:  # an object without a hash, such as a model that holds arrays
        return given


def _described(given) -> object:
    """A setting as JSON data: by its value where that can be read, else by its name."""
    if given is None or isinstance(given, bool | int | float | str):
        return given
    if isinstance(given, jax.Array) and jnp.issubdtype(given.dtype, jax.dtypes.prng_key):
        given = jax.random.key_data(given)
    if isinstance(given, np.generic | np.ndarray | jax.Array):
        return tree_digest(given)
    if isinstance(given, MethodType):
        return [_name(given), _described(given.__self__)]
    if isinstance(given, partial):
        return ["partial", _described(given.func), _described(given.args), _described(given.keywords)]
    if isinstance(given, dict):
        return {str(name): _described(value) for name, value in given.items()}
    if is_dataclass(given) and not isinstance(given, type):
        return [_name(given), {field.name: _described(getattr(given, field.name, None)) for field in fields(given)}]
    if isinstance(given, list | tuple):
        return [_name(type(given)), *map(_described, given)]
    if not jax.tree_util.all_leaves([given]):
        return [_name(given), *map(_described, jax.tree.leaves(given))]
    return _name(given)


def _name(given) -> str:
    """The name of a function; of any other object that of its type."""
    given = given if hasattr(given, "__qualname__") else type(given)
    return f"{given.__module__}.{given.__qualname__}"


def _kept(leaf):
    """A read-only copy of an array; trainings check what it holds."""
    if jnp.issubdtype(getattr(leaf, "dtype", float), jax.dtypes.prng_key):
        return leaf
    kept = np.array(leaf)
    kept.flags.writeable = False
    return kept


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
