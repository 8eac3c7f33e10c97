"""A mixture of Gaussian tasks: a prior with several modes, or contexts of several kinds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import PRNGKeyArray

from lsalib import _arrays, _validate
from lsalib.tasks import Batch, GaussianTask, check_task

__all__ = ["MixtureTask"]

Result = TypeVar("Result")


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, eq=False)
class MixtureTask:
    r"""A task that is one of several Gaussian tasks, drawn for every context.

    .. math:: p(w, X, y) = \sum_k p_k\, p_k(w, X, y)

    It can be sampled, measured and trained on (``training.train``). The risk of given weights is the mean of the
    components' risks: ``population_risk``, ``ltb_risk``, ``squared_distance`` and ``optimal_guess`` take it, and so do
    ``gram_moments`` and ``lifted_risk``, whose ``minimum`` is the smallest risk of enough heads.

    Two mixtures are equal, and have the same hash, if their components are equal and their weights agree bit for bit.

    Args:
        tasks: the components, of one d and one context size.
        weights: `p_k`, their probabilities, (K,); None means equal ones.

    Raises:
        ValueError: if ``tasks`` is empty, or holds anything but GaussianTasks of one d and one context size; if
            ``weights`` does not have shape (K,), is negative or does not add up to 1.

    Example:
        >>> from lsalib.attention import gd_weights
        >>> from lsalib.theory import population_risk
        >>> modes = MixtureTask([GaussianTask([-2.0], 5), GaussianTask([2.0], 5)], [0.25, 0.75])
        >>> round(float(population_risk(gd_weights([1.0], 0.0), modes, guess=[1.0])), 4)  # 1 + E (w* - 1)^2
        4.0
        >>> modes.sample(jax.random.key(0), 4).X.shape
        (4, 5, 1)
    """

    tasks: Sequence[GaussianTask]
    weights: npt.ArrayLike | None = None

    def __post_init__(self):
        tasks = tuple(self.tasks) if isinstance(self.tasks, list | tuple) else ()
        if not tasks or not all(isinstance(task, GaussianTask) for task in tasks):
            raise ValueError(f"tasks must be a list of GaussianTasks, got {_arrays.describe(self.tasks)}")
        shapes = sorted({(task.dim, task.context_size) for task in tasks}) if not _arrays.traced(tasks) else [()]
        if len(shapes) > 1:
            raise ValueError(f"tasks must have one d and one context_size, got {shapes}")
        count = len(tasks)
        weights = np.full(count, 1 / count) if self.weights is None else self.weights
        weights = _validate.vector("weights", weights, count)
        if not _arrays.traced(weights) and (weights.min() < 0 or abs(weights.sum() - 1) > 1e-6):
            raise ValueError(f"weights must be probabilities, which add up to 1, got {weights}")
        object.__setattr__(self, "tasks", tasks)
        object.__setattr__(self, "weights", weights)

    def __eq__(self, other):
        if not isinstance(other, MixtureTask):
            return NotImplemented
        mine, others = self._value(), other._value()
        return self is other if mine is None or others is None else mine == others

    def __hash__(self):
        value = self._value()
        return object.__hash__(self) if value is None else hash(value)

    def _value(self) -> tuple | None:
        """The components and the bytes of the weights; None where there is a tracer, or one of JAX's placeholders."""
        if not isinstance(self.weights, np.ndarray | jax.Array) or _arrays.traced(self.weights):
            return None
        weights = np.asarray(self.weights)
        return self.tasks, weights.dtype.str, weights.shape, weights.tobytes()

    @property
    def dim(self) -> int:
        """d, the number of features."""
        return self.tasks[0].dim

    def sample(self, key: PRNGKeyArray, n: int, *, dtype=None) -> Batch:
        """Draw n tasks, each from a component of its own."""
        which, *keys = jax.random.split(_validate.key(key), len(self.tasks) + 1)
        batches = [task.sample(k, n, dtype=dtype) for task, k in zip(self.tasks, keys, strict=True)]
        chances = jnp.asarray(self.weights, batches[0].X.dtype)
        place = jax.random.categorical(which, jnp.log(chances), shape=(n,))
        return jax.tree.map(lambda *parts: jnp.stack(parts)[place, jnp.arange(n)], *batches)

    def tree_flatten(self):
        return (self.tasks, self.weights), None

    @classmethod
    def tree_unflatten(cls, _, leaves):
        """Without a check: JAX puts placeholders here."""
        mixture = object.__new__(cls)
        for name, leaf in zip(("tasks", "weights"), leaves, strict=True):
            object.__setattr__(mixture, name, leaf)
        return mixture


def averaged(function: Callable[..., Result]) -> Callable[..., Result]:
    """A decorator: ``task`` must be a GaussianTask or a mixture, whose result is the mean over the components."""
    parameters = signature(function)
    place = list(parameters.parameters).index("task")

    @wraps(function)
    def of_any_task(*args, **options):
        mixture = options.get("task", args[place] if place < len(args) else None)
        if not isinstance(mixture, MixtureTask):
            # A missing argument is for the function itself to refuse.
            if place < len(args) or "task" in options:
                check_task(mixture, expected="a GaussianTask or a MixtureTask")
            return function(*args, **options)
        given = parameters.bind(*args, **options).arguments
        chances: Any = mixture.weights if _arrays.traced(mixture.weights) else map(float, np.asarray(mixture.weights))
        results = [
            jax.tree.map(lambda part, p=p: p * part, function(**given | {"task": task}))
            for p, task in zip(chances, mixture.tasks, strict=True)
        ]
        return jax.tree.map(lambda *parts: sum(parts[1:], start=parts[0]), *results)

    return of_any_task
