"""Plain numbers become arrays, and what cannot be right is refused by its name.

Tracers are checked for shape only.
"""

import inspect
import reprlib
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

F = TypeVar("F", bound=Callable)


def describe(value) -> str:
    """A short description of a value, for an error message."""
    if hasattr(value, "dtype"):
        return f"{value.dtype} of shape {np.shape(value)}"
    # A trained layer has both, and both are arguments of many functions.
    parts = [part for part in ("params", "task") if hasattr(value, part)]
    if not parts:
        return reprlib.repr(value)
    return f"a {type(value).__name__} (did you mean its {' or '.join(parts)}?)"


def traced(*values) -> bool:
    """Whether any of these is a tracer of ``jax.jit``, ``vmap`` or ``grad``, whose
    value is not known.
    """
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def array(name: str, value, expected: tuple[int | str, ...] | None = None):
    """An array of real floats: NumPy reads lists and numbers, arrays of JAX stay where
    they are.
    """
    if np.ma.is_masked(value):
        raise ValueError(f"{name} must have no masked entries, got {value!r}")
    try:
        # A list that holds tracers is none itself, and NumPy cannot read it.
        read = jnp.asarray if traced(value) else np.asarray
        result = value if isinstance(value, jax.Array) else read(value)
    except (TypeError, ValueError):
        result = np.asarray(None)
    if result.dtype == np.longdouble:  # which JAX does not have
        result = result.astype(np.float64)
    if jnp.issubdtype(result.dtype, jnp.integer) or result.dtype == bool:
        result = result.astype(jnp.result_type(float))
    if not jnp.issubdtype(result.dtype, jnp.floating):
        kind = "a real number" if expected == () else "an array of real numbers"
        raise ValueError(f"{name} must be {kind}, got {describe(value)}")
    return result if expected is None else shape(name, result, expected)


def pytree(name: str, value):
    """A pytree of arrays of real floats, each named by its place where it is wrong."""

    def read(path, leaf):
        return jnp.asarray(array(f"{name}{jax.tree_util.keystr(path)}", leaf))

    if not jax.tree.leaves(value):
        raise ValueError(f"{name} must hold at least one array, got {value!r}")
    return jax.tree_util.tree_map_with_path(read, value)


def floats(optional: tuple[str, ...] = (), least=None, **values) -> list:
    """Arrays of JAX, all of the widest float type among them and ``least``, which
    Python's own numbers take; what is ``optional`` may be None and stays so.
    """
    for name, value in values.items():
        if value is None and name not in optional:
            raise ValueError(f"{name} must be given, got None")
        if hasattr(value, "params"):  # a trained layer, whose fields are no weights
            got = describe(value)
            raise ValueError(f"{name} must be the weights of a layer, got {got}")

    def read(name, value):
        if value is None:
            return None
        if hasattr(value, "_fields"):  # weights: field by field
            names = [f"{name}.{field}" for field in value._fields]
            return type(value)(*map(read, names, value))
        # Python's numbers stay weak, so that they take the type of the arrays.
        return jnp.asarray(value if type(value) in (float, int) else array(name, value))

    arrays = [read(name, value) for name, value in values.items()]
    with jax.numpy_dtype_promotion("standard"):
        widest = jax.tree.leaves((arrays, least))
        dtype = jnp.result_type(float, *widest)
    return jax.tree.map(lambda part: part.astype(dtype), arrays)


def compiled(function: F) -> F:
    """A decorator: the arguments become arrays by ``floats``, and the function a
    program of JAX.
    """
    signature, program = inspect.signature(function), jax.jit(function)

    @wraps(function)
    def call(*args, **options):
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        arrays = floats(**bound.arguments)
        return program(**dict(zip(bound.arguments, arrays, strict=True)))

    return cast(F, call)


def namespace(*values):
    """NumPy in float64 if all values are known, else ``jax.numpy``; then the values as
    its arrays of one float type.
    """
    xp: Any = np
    dtype: Any = np.float64
    if traced(values):
        types = [leaf.dtype for leaf in jax.tree.leaves(values) if traced(leaf)]
        with jax.numpy_dtype_promotion("standard"):
            xp, dtype = jnp, jnp.result_type(float, *types)
    return xp, *(
        value if value is None else xp.asarray(value, dtype) for value in values
    )


def count(name: str, value, minimum: int = 1) -> int:
    """A whole number of at least ``minimum``."""
    if traced(value):
        raise ValueError(
            f"{name} must be a number that is known, not one that JAX traces: "
            "it decides the shape of the program"
        )
    # True would count as 1
    whole = hasattr(value, "__index__") and not isinstance(value, bool | np.bool_)
    if not whole or value.__index__() < minimum:
        raise ValueError(
            f"{name} must be a whole number of at least {minimum}, got {value!r}"
        )
    return value.__index__()


def number(name: str, value, *, minimum: float = -np.inf, above: float = -np.inf):
    """A finite real number, at least ``minimum`` and greater than ``above``."""
    result = array(name, value, ())
    if traced(result):
        return result
    if not (np.isfinite(result) and result >= minimum and result > above):
        bound = f" of at least {minimum:g}" if minimum > -np.inf else ""
        bound = f" greater than {above:g}" if above > -np.inf else bound
        raise ValueError(f"{name} must be a finite number{bound}, got {value!r}")
    return float(result)


def vector(name: str, value, length: int | None = None):
    """A finite vector with at least one entry, in float64."""
    result = array(name, value, ("d" if length is None else length,))
    if traced(result):
        return result
    if not np.isfinite(result).all():
        raise ValueError(f"{name} must hold finite numbers, got {result}")
    # a copy: who changes the original later does not change a task
    return np.array(result, np.float64)


def negligible(dim: int, dtype) -> float:
    """The share of a covariance's largest eigenvalue below which another one is zero.

    The one rule for ranks. Eigenvalues that should be zero come out of d x d sums in
    ``dtype`` as a few of its rounding errors.
    """
    return 8 * dim * float(jnp.finfo(dtype).eps)


def covariance(name: str, value, dim: int):
    """A symmetric, positive semidefinite matrix other than zero, in float64 and exactly
    symmetric.

    What is rounding in the type that came is removed here, so that nobody has to know
    that type later: eigenvalues that are ``negligible`` become zero, and what is a
    multiple of the identity up to rounding becomes one.
    """
    cov = array(name, value, (dim, dim))
    if traced(cov):
        return cov
    M, rounding = np.array(cov, np.float64), negligible(dim, cov.dtype)
    # Products of two factors in float32 or less are symmetric up to rounding.
    tolerance = max(1e-6, 12 * rounding) * np.abs(M).max()
    if not (np.isfinite(M).all() and np.allclose(M, M.T, 0, tolerance)):
        raise ValueError(f"{name} must be finite and symmetric, got {M}")
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    if values[0] < -max(1e-12, rounding) * values[-1] or values[-1] <= 0:
        raise ValueError(
            f"{name} must be positive semidefinite and not zero, "
            f"got eigenvalues {values[[0, -1]]}"
        )
    multiple = M[0, 0]
    if np.abs(M - multiple * np.eye(dim)).max() <= rounding * multiple / 8:
        return multiple * np.eye(dim)
    zero = values <= rounding * values[-1]
    M = vectors * np.where(zero, 0, values) @ vectors.T if zero.any() else M
    return (M + M.T) / 2


def choice(name: str, value, choices):
    """One of these values."""
    if value not in choices:
        listed = ", ".join(map(str, choices)) or "none"
        raise ValueError(f"{name} must be one of {listed}, got {value!r}")
    return value


def listed(name: str, values, kind: type) -> None:
    """A list or tuple of at least one ``kind``."""
    listed = isinstance(values, list | tuple) and not hasattr(values, "_fields")
    if not (listed and values and all(isinstance(each, kind) for each in values)):
        raise ValueError(
            f"{name} must be a list of at least one {kind.__name__}, "
            f"got {reprlib.repr(values)}"
        )


def key(value):
    """One key of ``jax.random``, or the raw numbers of one, as ``jax.random.PRNGKey``
    makes them.
    """
    dtype = getattr(value, "dtype", np.dtype(object))
    raw = ((2,), (4,)) if dtype == np.uint32 else ()
    typed = jnp.issubdtype(dtype, jax.dtypes.prng_key)
    if np.shape(value) not in (((),) if typed else raw):
        raise ValueError(
            f"key must be a key of jax.random, got {describe(value)}; "
            "write jax.random.key(0)"
        )
    return value


def shape(name: str, value, expected: tuple[int | str, ...]):
    """The array, of this shape; letters in ``expected`` stand for any length of at
    least 1.
    """
    sizes = np.shape(value)
    fits = len(sizes) == len(expected) and all(
        size > 0 if isinstance(e, str) else e == size
        for e, size in zip(expected, sizes, strict=True)
    )
    if not fits:
        text = str(expected).replace("'", "")
        raise ValueError(f"{name} must have shape {text}, got shape {sizes}")
    return value


def context(X, y, x_q=None) -> None:
    """The shapes of a context and, if there is one, of its query."""
    shape("X", X, ("C", "d"))
    shape("y", y, (len(X),))
    if x_q is not None:
        shape("x_q", x_q, (X.shape[1],))
