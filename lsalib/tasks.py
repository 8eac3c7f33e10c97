"""The distribution of in-context regression tasks (section 2 of the paper), and its
sampler.
"""

import reprlib
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _check
from lsalib._draw import contract, data_from_draw, draw, root

__all__ = ["Batch", "GaussianTask", "Task", "sample"]


class Batch(NamedTuple):
    """B tasks: contexts, queries, targets and, where tasks are linear, the weights
    behind them.

    ``X, y, x_q, target = batch[:4]`` leaves the weights out, and so may a task of your
    own.
    """

    X: Float[Array, "B C d"]
    y: Float[Array, "B C"]
    x_q: Float[Array, "B d"]
    target: Float[Array, " B"]
    w: Float[Array, "B d"] | None = None


@runtime_checkable
class Task(Protocol):
    """What training and measuring need from a task: ``dim``, d, and ``sample(key, n)``,
    a ``Batch`` of n tasks.

    Draw everything from the key, by ``jax.random``: training compiles ``sample``, and
    what NumPy draws would be the same in every step.

    Example:
        >>> class Signs:  # weights are random signs
        ...     dim = 2
        ...     def sample(self, key, n):
        ...         one, two = jax.random.split(key)
        ...         w = jax.random.rademacher(one, (n, 2), float)
        ...         X = jax.random.normal(two, (n, 6, 2))
        ...         y = jnp.einsum("ncd,nd->nc", X, w)
        ...         return Batch(X[:, 1:], y[:, 1:], X[:, 0], y[:, 0])
        >>> isinstance(Signs(), Task), Signs().sample(jax.random.key(0), 4).X.shape
        (True, (4, 5, 2))
    """

    @property
    def dim(self) -> int: ...

    def sample(self, key: PRNGKeyArray, n: int) -> Batch: ...


@dataclass(frozen=True, eq=False)
class GaussianTask:
    r"""A Gaussian distribution over noisy linear regression tasks.

    .. math:: w \sim N(w_\star, \Psi), \qquad x_i, x_q \sim N(0, \Lambda), \qquad y_i =
       w^\top x_i + \sigma n_i

    The *target* `w^\top x_q` has no noise. ``jax.vmap`` and ``jax.grad`` work on prior
    mean, covariances and noise of a task that is made inside of them.

    Args:
        prior_mean: `w_\star`, (d,).
        context_size: C, the number of labeled examples.
        feature_cov: `\Lambda`, (d, d), positive semidefinite and not zero; None means
            the identity. Its rank is decided by the rule below.
        prior_cov: `\Psi`, the same. A covariance that JAX traces must be positive
            definite to be sampled from.
        noise_std: `\sigma`, the standard deviation of the context's label noise.

    Sizes outside of 1e-30 to 1e30 are refused. An eigenvalue of a covariance below
    ``8 d`` roundings of its largest one, in the type in which the matrix comes, counts
    as zero. So features of very different units lose the smallest: a variance of 1e-20
    beside 1 is none. Choose units in which such a feature matters.

    Example:
        >>> from lsalib.theory import gd_risk
        >>> task = GaussianTask(prior_mean=[2.0, 2.0], context_size=3)
        >>> task.dim, round(gd_risk(task), 4)  # d (d+1) / (C+d+1)
        (2, 1.0)
        >>> flat = [[1.0, 0.0], [0.0, 1e-20]]
        >>> GaussianTask([2.0, 2.0], 3, feature_cov=flat).feature_cov.tolist()
        [[1.0, 0.0], [0.0, 0.0]]
        >>> task = lambda noise: GaussianTask([2.0], 2, noise_std=noise)
        >>> slope = jax.grad(lambda noise: gd_risk(task(noise), step_size=0.5))
        >>> float(slope(0.3))  # eta^2 d 2 sigma / C
        0.07500000...

    Source: section 2 of arXiv 2512.04268, where both covariances are the identity and
    there is no noise.
    """

    # Any array-like comes in; a float64 NumPy array is what is kept, or a tracer.
    prior_mean: Any
    context_size: int
    feature_cov: Any = None
    prior_cov: Any = None
    noise_std: Any = 0.0

    def __post_init__(self):
        mean = _check.vector("prior_mean", self.prior_mean)
        fields = {
            "prior_mean": mean,
            "context_size": _check.count("context_size", self.context_size),
            "noise_std": _check.number("noise_std", self.noise_std, minimum=0.0),
        }
        for name in ("feature_cov", "prior_cov"):
            if (value := getattr(self, name)) is not None:
                fields[name] = _check.covariance(name, value, mean.size)
        for name, value in fields.items():
            if _check.traced(value):
                continue
            # Python's whole numbers have no bound
            size = np.max(np.abs(np.asarray(value, object)))
            # Between these, sizes fit into float32, in which samples are drawn, and
            # their products into float64.
            if size > 1e30 or ("cov" in name and size < 1e-30):
                raise ValueError(
                    f"{name} must have a size between 1e-30 and 1e30, "
                    f"got {reprlib.repr(value)}"
                )
        self.__dict__.update(fields)

    @property
    def dim(self) -> int:
        """d, the number of features."""
        return len(self.prior_mean)

    @property
    def noisy(self) -> bool:
        """Whether the labels have noise, as far as that is known."""
        return not (isinstance(self.noise_std, float) and self.noise_std == 0)

    def sample(self, key: PRNGKeyArray, n: int) -> Batch:
        """Draw n tasks: ``tasks.sample``."""
        return sample(key, self, n)


def check_task(task: object, instead: str = "") -> None:
    """Refuse anything but a GaussianTask."""
    if not isinstance(task, GaussianTask):
        raise ValueError(
            f"task must be a GaussianTask, got {_check.describe(task)}{instead}"
        )


def check_any_task(task: object) -> None:
    """Refuse what cannot be sampled, such as a class in the place of its instance."""
    if isinstance(task, type) or not isinstance(task, Task):
        raise ValueError(
            f"task must have dim and sample(key, n), got {_check.describe(task)}"
        )


def checked_sample(task: Task, key: PRNGKeyArray, n: int) -> list:
    """Contexts, labels, queries and targets of n tasks of any distribution, in one
    float type.
    """
    check_any_task(task)
    batch, names = task.sample(key, n), Batch._fields[:4]
    if not all(hasattr(batch, name) for name in names):
        raise ValueError(
            f"the task's sample must return a tasks.Batch, got a {type(batch).__name__}"
        )
    drawn = {f"the {name} of the task's sample": getattr(batch, name) for name in names}
    parts = _check.floats(**drawn)
    shapes = ((n, "C", task.dim), parts[0].shape[:2], (n, task.dim), (n,))
    for name, part, shape in zip(drawn, parts, shapes, strict=True):
        _check.shape(name, part, shape)
    return parts


def sample(key: PRNGKeyArray, task: GaussianTask, batch_size: int) -> Batch:
    r"""Draw tasks, `w \sim N(w_\star, \Psi)`, `x, x_q \sim N(0, \Lambda)`, `y = X w +
    \sigma n`.

    Args:
        key: a key of ``jax.random``.
        task: the distribution.
        batch_size: `B`.

    Example:
        >>> task = GaussianTask([2.0, 2.0, 2.0], context_size=5)
        >>> batch = sample(jax.random.key(0), task, batch_size=4)
        >>> batch.X.shape, batch.y.shape, batch.x_q.shape, batch.target.shape
        ((4, 5, 3), (4, 5), (4, 3), (4,))
    """
    check_task(task, "; another one has its own sample(key, n)")
    key, batch_size = _check.key(key), _check.count("batch_size", batch_size)
    xp, w, s, *covs = _check.namespace(
        task.prior_mean, task.noise_std, task.feature_cov, task.prior_cov
    )
    roots = [None if cov is None else root(xp, cov) for cov in covs]
    arrays = jax.tree.map(
        lambda value: value.astype(jnp.result_type(float)),
        (w, *roots, s if task.noisy else None),
    )
    return _sample(key, *arrays, context_size=task.context_size, batch_size=batch_size)


@partial(jax.jit, static_argnames=("context_size", "batch_size"))
def _sample(
    key, prior_mean, feature_root, prior_root, noise_std, *, context_size, batch_size
) -> Batch:
    """One program for all tasks of one shape."""
    d, noisy = len(prior_mean), noise_std is not None
    white = draw(key, d, context_size, batch_size, noisy=noisy, compress=False)
    X, y, x_q, w = data_from_draw(
        white, prior_mean, feature_root, prior_root, noise_std
    )
    return Batch(
        *(jnp.moveaxis(part, -1, 0) for part in (X, y, x_q, contract(x_q, w), w))
    )


class StandardTask(NamedTuple):
    """A task in the coordinates of ``standardize``; None means the identity."""

    prior_mean: Float[np.ndarray | Array, " d"]
    basis: Float[np.ndarray | Array, "d d"] | None  # U
    prior_root: Float[np.ndarray | Array, "d d"] | None  # T, which goes with U
    noise_std: float | Float[np.ndarray | Array, ""]
    context_size: float | Any


def standardize(task: GaussianTask) -> StandardTask:
    r"""The change of coordinates in which features are white and labels are residuals.

    With `x = U \xi` and `r = y - w_\star^\top x`, U a root of ``feature_cov``,
    `\varepsilon = U^\top (w - w_\star)` is `T g`, `T = U^\top R` with R a root of
    ``prior_cov`` and `g \sim N(0, I)`, and `r = \varepsilon^\top \xi + \sigma n`
    whatever the prior mean was.
    """
    check_task(task)
    xp, w, s, L, P = _check.namespace(
        task.prior_mean, task.noise_std, task.feature_cov, task.prior_cov
    )
    if L is None and P is None:
        return StandardTask(w, None, None, s, task.context_size)
    U, R = (
        xp.eye(task.dim, dtype=w.dtype) if cov is None else root(xp, cov)
        for cov in (L, P)
    )
    return StandardTask(w, U, U.T @ R, s, task.context_size)
