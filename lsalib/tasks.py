"""The distribution of in-context regression tasks (section 2 of the paper), and its sampler.

Attention reads of a context only the Gram matrix of its tokens. Of C > p tokens in p dimensions that is a Wishart
matrix, and ``compress`` draws p tokens whose Gram matrix has the same distribution (``_white.draw``). The cost of a
batch then no longer grows with the context.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _arrays, _validate
from lsalib._white import contract, data_from_draw, draw, root

__all__ = ["Batch", "GaussianTask", "StandardTask", "Task", "sample", "standardize"]


class Batch(NamedTuple):
    """B tasks: contexts, queries, targets and, where tasks are linear, the weights behind them."""

    X: Float[Array, "B C d"]
    y: Float[Array, "B C"]
    x_q: Float[Array, "B d"]
    target: Float[Array, " B"]
    w: Float[Array, "B d"] | None = None


@runtime_checkable
class Task(Protocol):
    """What measuring and training ask of a distribution: ``dim``, d, and ``sample(key, n)``, a ``Batch`` of n tasks.

    Any object that has both will do. All draws must come from the key: what NumPy draws would be the same in every call
    of a compiled program. If the object is a pytree, like ``GaussianTask``, its numbers are arguments of the
    compiled programs, so that a task with other numbers compiles nothing.

    Example:
        >>> class Signs:
        ...     dim = 3
        ...     def sample(self, key, n):
        ...         x, x_q = jnp.sign(jax.random.normal(key, (n, 6, 3))), jnp.ones((n, 3))
        ...         return Batch(x, x.sum(-1), x_q, x_q.sum(-1))
        >>> isinstance(Signs(), Task), isinstance(GaussianTask([2.0], context_size=5), Task)
        (True, True)
    """

    @property
    def dim(self) -> int: ...

    def sample(self, key: PRNGKeyArray, n: int) -> Batch: ...


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, eq=False)
class GaussianTask:
    r"""A Gaussian distribution over noisy linear regression tasks.

    .. math:: w \sim N(w_\star, \Psi), \qquad x_i \sim N(0, \Lambda), \qquad y_i = w^\top x_i + \sigma n_i,
       \qquad x_q \sim N(0, Q)

    The *target* `w^\top x_q` has no noise; add ``noise_std**2`` to get the risk against a noisy label. The query has
    the distribution of the examples, `Q = \Lambda`, unless ``query_cov`` is given. A layer can then be trained on one
    distribution of queries and tested on another. Of this distribution the risk of linear attention reads only
    `E[x_q x_q^\top]`, if the guess has no bias: queries of covariance S around a mean m have the risk of
    `Q = S + m m^\top`.

    A task is a pytree: ``jax.vmap`` and ``jax.grad`` work on its fields. Shapes are always checked, values if they are
    known. A ``noise_std`` of exactly 0 is part of the structure, not a number that can change. So is a known context
    size. For functions of C, replace it by a number that JAX traces, and which need not be whole: the exact results of
    ``theory`` take such tasks, but nothing can be sampled from them. A traced C below 1 is not refused, and results
    for it have no meaning.

    Two tasks are equal, and have the same hash, if all their fields agree bit for bit. A covariance of None differs
    from the identity, since ``jax.grad`` sees the one but not the other. A task that JAX traces equals only itself.

    Args:
        prior_mean: `w_\star`, shape (d,).
        context_size: C, the number of labeled examples, at least 1; or any number that JAX traces.
        feature_cov: `\Lambda`, shape (d, d), symmetric and positive semidefinite up to rounding, and not
            zero; rounding is averaged out. None means the identity. An eigenvalue below about d 2e-16 of the largest
            counts as zero in the exact results, so units of features must not differ by more than about 1e7.
        prior_cov: `\Psi`, the same. A covariance that JAX traces must be positive definite if its root is needed, as
            it is to sample and for the risk of given weights.
        noise_std: `\sigma`, the standard deviation of the context's label noise.
        query_cov: Q, (d, d), as ``feature_cov``; None means that of the examples, ``feature_cov``.

    Raises:
        ValueError: if a field is not finite or does not have its shape, if ``context_size < 1``, if ``noise_std < 0``
            or a covariance is zero, not symmetric or not positive semidefinite.

    Example:
        >>> task = GaussianTask(prior_mean=[2.0, 2.0], context_size=5)
        >>> task.dim
        2
        >>> from lsalib.theory import gd_risk
        >>> slope = jax.grad(lambda noise: gd_risk(GaussianTask([2.0], 2, noise_std=noise), step_size=0.5))
        >>> float(slope(0.3))  # eta^2 d 2 s / C
        0.07500000...
        >>> from dataclasses import replace
        >>> risk = lambda C: gd_risk(replace(task, context_size=C))  # of the best step, d (d+1) / (C+d+1)
        >>> [round(float(value), 4) for value in jax.vmap(risk)(jnp.array([3.0, 9.0]))]
        [1.0, 0.5]
        >>> round(float(jax.grad(risk)(3.0)), 4)
        -0.1667

        Train with queries like the examples, test with queries that vary more along the first feature:

        >>> from lsalib.training import fit
        >>> trained = fit(jax.random.key(0), task, heads=1, steps=3, batch_size=8)
        >>> wider = replace(task, query_cov=[[9.0, 0.0], [0.0, 1.0]])
        >>> bool(trained.population_risk(wider) > trained.population_risk())
        True

    Source: section 2 of arXiv 2512.04268, where both covariances are the identity and there is no noise.
    """

    # Any array-like comes in; a float64 NumPy array is what is kept, or a tracer.
    prior_mean: npt.ArrayLike
    context_size: int | Any  # a whole number, or one that JAX traces
    feature_cov: npt.ArrayLike | None = None
    prior_cov: npt.ArrayLike | None = None
    noise_std: float | npt.ArrayLike = 0.0
    query_cov: npt.ArrayLike | None = None

    def __post_init__(self):
        prior_mean = _validate.vector("prior_mean", self.prior_mean)
        object.__setattr__(self, "prior_mean", prior_mean)
        object.__setattr__(self, "context_size", _examples(self.context_size))
        for name in ("feature_cov", "prior_cov", "query_cov"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, _validate.covariance(name, value, prior_mean.size))
        object.__setattr__(self, "noise_std", _validate.number("noise_std", self.noise_std, minimum=0.0))

    def __eq__(self, other):
        if not isinstance(other, GaussianTask):
            return NotImplemented
        mine, others = self._bits(), other._bits()
        return self is other if mine is None or others is None else mine == others

    def __hash__(self):
        bits = self._bits()
        return object.__hash__(self) if bits is None else hash(bits)

    def _bits(self) -> tuple | None:
        """All fields as bytes; None where there is a tracer, or one of JAX's placeholders."""
        leaves, structure = jax.tree.flatten(self)
        known = float | np.ndarray | np.generic | jax.Array
        if _arrays.traced(leaves) or not all(isinstance(leaf, known) for leaf in leaves):
            return None
        arrays = map(np.asarray, leaves)
        return self.context_size, structure, tuple((array.dtype.str, array.shape, array.tobytes()) for array in arrays)

    @property
    def dim(self) -> int:
        """d, the number of features."""
        return np.shape(self.prior_mean)[-1]

    @property
    def noisy(self) -> bool:
        """Whether the labels have noise, as far as that is known."""
        return not (isinstance(self.noise_std, float) and self.noise_std == 0)

    def sample(self, key: PRNGKeyArray, n: int, *, compress: bool = False, dtype=None) -> Batch:
        """Draw n tasks: ``tasks.sample``."""
        return sample(key, self, n, compress=compress, dtype=dtype)

    def tree_flatten(self):
        noise_std = self.noise_std if self.noisy else None
        leaves = self.prior_mean, self.feature_cov, self.prior_cov, noise_std, self.query_cov
        # A known number is part of the structure; one that JAX traces, or has computed, is a leaf.
        return (
            (leaves, self.context_size) if isinstance(self.context_size, int) else ((*leaves, self.context_size), None)
        )

    @classmethod
    def tree_unflatten(cls, context_size, leaves):
        """Without a check: JAX puts placeholders here, and whole batches."""
        task = object.__new__(cls)
        names = "prior_mean", "feature_cov", "prior_cov", "noise_std", "query_cov"
        if context_size is None:
            *leaves, context_size = leaves
        for name, leaf in zip(names, leaves, strict=True):
            object.__setattr__(task, name, 0.0 if name == "noise_std" and leaf is None else leaf)
        object.__setattr__(task, "context_size", context_size)
        return task


def _examples(context_size):
    """A count, or a tracer as a float."""
    if not _arrays.traced(context_size):
        return _validate.count("context_size", context_size)
    context_size = _validate.number("context_size", context_size)
    whole = jnp.issubdtype(context_size.dtype, jnp.integer)
    return context_size.astype(jnp.result_type(float)) if whole else context_size


def check_task(task, instead: str = "", expected: str = "a GaussianTask") -> None:
    """Refuse anything but a GaussianTask."""
    if not isinstance(task, GaussianTask):
        raise ValueError(f"task must be {expected}, got {_arrays.describe(task)}{instead}")


class StandardTask(NamedTuple):
    """What is left of a task in the coordinates where it is simple (see ``standardize``)."""

    prior_mean: Float[np.ndarray | Array, " d"]
    basis: Float[np.ndarray | Array, "d d"] | None  # U; None means the identity
    prior_root: Float[np.ndarray | Array, "d d"] | None  # T; None means the identity, and goes with U
    noise_std: float | Float[Array, ""]
    context_size: float | Any
    query_basis: Float[np.ndarray | Array, "d d"] | None = None  # V, beside U; None means U
    query_root: Float[np.ndarray | Array, "d d"] | None = None  # of the query's eps; goes with V


def standardize(task: GaussianTask) -> StandardTask:
    r"""The change of coordinates in which features are white and labels are residuals.

    Subtract the prior mean from the labels and whiten the features, `x = U \xi` and `r = y - w_\star^\top x`, with U
    a root of ``feature_cov``, Cholesky's where there is one. Then `\varepsilon = U^\top (w - w_\star)` has the
    covariance `T T^\top`, `T = U^\top R` with R that of ``prior_cov``, and whatever the task was,

    .. math:: \xi \sim N(0, I), \qquad \varepsilon = T g, \quad g \sim N(0, I), \qquad
       r = \varepsilon^\top \xi + \sigma n.

    A query with a covariance of its own is whitened by a root V of ``query_cov``, `x_q = V \xi_q`. Its residual target
    is `(V^\top R g)^\top \xi_q`.

    Args:
        task: the task distribution.

    Returns:
        A ``StandardTask``, in float64 where the task's numbers are known.

    Raises:
        ValueError: if ``task`` is no GaussianTask.

    Example:
        >>> standardize(GaussianTask([0.0, 0.0], 3, feature_cov=[[4.0, 0.0], [0.0, 1.0]])).prior_root.tolist()
        [[2.0, 0.0], [0.0, 1.0]]
    """
    check_task(task)
    xp, (prior_mean, noise_std, *covs) = _arrays.numpy_or_jax(
        task.prior_mean, task.noise_std, task.feature_cov, task.prior_cov, task.query_cov
    )
    noise_std = noise_std if task.noisy else 0.0
    if all(cov is None for cov in covs):
        return StandardTask(prior_mean, None, None, noise_std, task.context_size)
    U, R, V = (xp.eye(task.dim, dtype=prior_mean.dtype) if cov is None else root(xp, cov) for cov in covs)
    query = (None, None) if task.query_cov is None else (V, V.T @ R)
    return StandardTask(prior_mean, U, U.T @ R, noise_std, task.context_size, *query)


def sample(key: PRNGKeyArray, task: GaussianTask, batch_size: int, *, compress: bool = False, dtype=None) -> Batch:
    r"""Draw tasks, `w \sim N(w_\star, \Psi)`, `x \sim N(0, \Lambda)`, `y = X w + \sigma n`, `x_q \sim N(0, Q)`.

    Args:
        key: a key of ``jax.random``.
        task: the distribution.
        batch_size: B, at least 1.
        compress: whether a context of C > p tokens, p = d or d+1 with label noise, may be replaced by p tokens
            whose Gram matrix ``attention.gram`` has the same distribution jointly with w, and with it every prediction
            of linear attention. The single tokens have another distribution, and softmax sees the difference.
        dtype: a float type; None means JAX's default.

    Returns:
        A ``Batch`` of shapes (B, C, d), (B, C), (B, d), (B,), (B, d), with p for C where it is compressed.

    Raises:
        ValueError: if ``key`` is no key, ``task`` no GaussianTask, ``batch_size < 1``, ``compress`` not True or False,
            or ``dtype`` no float type in use.

    Example:
        >>> task = GaussianTask([2.0, 2.0, 2.0], context_size=5)
        >>> batch = sample(jax.random.key(0), task, batch_size=4)
        >>> batch.X.shape, batch.y.shape, batch.x_q.shape, batch.target.shape
        ((4, 5, 3), (4, 5), (4, 3), (4,))
        >>> sample(jax.random.key(0), task, batch_size=4, compress=True).X.shape
        (4, 3, 3)

    Source: section 2 of arXiv 2512.04268.
    """
    check_task(task, "; another one has its own sample(key, n)")
    key, batch_size = _validate.key(key), _validate.count("batch_size", batch_size)
    if not isinstance(task.context_size, int):
        raise ValueError("task must have a known context_size to be sampled, got one that JAX traces or has computed")
    dtype = jnp.result_type(float) if dtype is None else _validate.float_type("dtype", dtype)
    compress = _validate.flag("compress", compress) and task.context_size > task.dim + task.noisy
    shape = None if compress else task.context_size, batch_size, dtype
    return sample_from_roots(key, *task_roots(task, dtype), dtype.type(task.context_size), shape)


def task_roots(task: GaussianTask, dtype) -> tuple[Any, Any, Any, Any, Any]:
    """What ``data_from_draw`` takes of a task, as arrays."""
    covs = task.feature_cov, task.prior_cov, task.query_cov
    xp, (prior_mean, noise_std, *covs) = _arrays.numpy_or_jax(task.prior_mean, task.noise_std, *covs)
    feature_root, prior_root, query_root = (None if cov is None else root(xp, cov).astype(dtype) for cov in covs)
    noise_std = noise_std.astype(dtype) if task.noisy else None
    return prior_mean.astype(dtype), feature_root, prior_root, noise_std, query_root


@partial(jax.jit, static_argnames="shape")
def sample_from_roots(key, prior_mean, feature_root, prior_root, noise_std, query_root, context_size, shape) -> Batch:
    """One program for all tasks of one shape; compressed contexts have one shape, whatever their size."""
    tokens, batch_size, dtype = shape
    d, options = len(prior_mean), {"noisy": noise_std is not None, "compress": tokens is None, "dtype": dtype}
    white = draw(key, d, context_size if tokens is None else tokens, batch_size, **options)
    X, y, x_q, w = data_from_draw(white, prior_mean, feature_root, prior_root, noise_std, query_root)
    target = contract(x_q, w)
    return Batch(*(jnp.moveaxis(part, -1, 0) for part in (X, y, x_q, target, w)))
