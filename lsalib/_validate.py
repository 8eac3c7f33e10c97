"""Argument checks. Each raises a ValueError that names the argument, what was given and what is expected.

A tracer of JAX is checked for its shape and kind, and passed on: its value is not known yet.
"""

import itertools
import math
import operator
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np

from lsalib._arrays import describe, real_array, traced

__all__ = [
    "context",
    "count",
    "covariance",
    "flag",
    "float_type",
    "fourth_moments",
    "key",
    "negligible",
    "number",
    "shape",
    "symmetric",
    "vector",
]


def count(name: str, value) -> int:
    """A whole number of at least 1."""
    try:
        # A bool is an index, and NumPy's own is one in NumPy 1.
        whole = 0 if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        whole = 0
    if whole < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
    return whole


def flag(name: str, value) -> bool:
    """True or False, Python's or NumPy's."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def float_type(name: str, value) -> np.dtype:
    """A float type that JAX computes in as it is set."""
    try:
        dtype = jnp.dtype(value)
    except TypeError:
        raise ValueError(f"{name} must be a float type, got {value!r}") from None
    if not jnp.issubdtype(dtype, jnp.floating) or jnp.finfo(dtype).bits > jnp.finfo(jnp.result_type(float)).bits:
        raise ValueError(f"{name} must be a float type in use (float64 needs jax_enable_x64), got {dtype!r}")
    return dtype


def key(value):
    """One key of ``jax.random``, or the raw numbers of one, as ``jax.random.PRNGKey`` makes them."""
    dtype, size = (getattr(value, name, None) for name in ("dtype", "shape"))
    typed = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key) and size == ()
    if not typed and not (dtype == np.uint32 and size in ((2,), (4,))):
        seed = value if isinstance(value, int) and not isinstance(value, bool) else 0
        raise ValueError(f"key must be a key of jax.random, got {describe(value)}; write jax.random.key({seed})")
    return value


def number(name: str, value, *, minimum: float = -math.inf, above: float = -math.inf):
    """A finite real number, at least ``minimum`` and greater than ``above``."""
    if traced(value):
        shape(name, real_array(name, value), ())
        return value
    try:
        # float() alone would read strings, booleans and arrays with one entry, too.
        array = value if type(value) in (float, int) else real_array(name, value)
        found = float(array) if np.shape(array) == () else None
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise ValueError(f"{name} must be a real number, got {describe(value)}")
    if not math.isfinite(found) or found < minimum or found <= above:
        bound = (
            f" greater than {above:g}"
            if above > -math.inf
            else f" of at least {minimum:g}"
            if minimum > -math.inf
            else ""
        )
        raise ValueError(f"{name} must be a finite number{bound}, got {value!r}")
    return found


def vector(name: str, value, length: int | None = None):
    """A finite float64 vector, of the given length if there is one."""
    array = _float64(name, value)
    if array.ndim != 1 or array.size == 0 or length not in (None, array.size):
        expected = "(d,) with d >= 1" if length is None else f"({length},)"
        raise ValueError(f"{name} must have shape {expected}, got shape {array.shape}")
    if not traced(array) and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array}")
    return array


def covariance(name: str, value, dim: int):
    """A finite, symmetric, positive semidefinite float64 matrix other than zero, made exactly symmetric."""
    given = real_array(name, value)
    matrix, rounding = _float64(name, given), _rounding(given.dtype)
    shape(name, matrix, (dim, dim))
    if traced(matrix):
        return matrix
    matrix = symmetric(name, matrix, rounding)
    values = np.linalg.eigvalsh(matrix)
    if values[0] < -dim * rounding * values[-1] or values[-1] <= 0:
        ends = f"eigenvalues from {values[0]:g} to {values[-1]:g}"
        raise ValueError(f"{name} must be positive semidefinite and not zero, got {ends}")
    if values[0] < -negligible(matrix) * values[-1]:
        # Rounding to a narrower type leaves such an eigenvalue in the place of a zero. In float64 it would count, and
        # its inverse would be huge.
        values, vectors = np.linalg.eigh(matrix)
        matrix = symmetric(name, vectors * np.maximum(values, 0) @ vectors.T, rounding)
    return matrix


def fourth_moments(name: str, value, dim: int):
    """Finite float64 fourth moments, the same for every order of their indices."""
    given = real_array(name, value)
    array = _float64(name, given)
    shape(name, array, (dim,) * 4)
    if traced(array):
        return array
    return symmetric(name, array, _rounding(given.dtype))


def symmetric(name: str, array: np.ndarray, rounding: float) -> np.ndarray:
    """A finite array that is the same for every order of its axes up to rounding, which is averaged out.

    In inverses and products of matrices, rounding is larger by a condition number. An asymmetry of more than a
    millionth of the largest entry, or of a thousand times a narrower type's rounding, counts as a mistake.
    """
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array if array.ndim == 2 else describe(array)}")
    turned = [array.transpose(order) for order in itertools.permutations(range(array.ndim))]
    off = max(np.abs(array - other).max() for other in turned)
    if off > max(1e-6, 1e3 * rounding) * np.abs(array).max():
        raise ValueError(f"{name} must be symmetric, got a largest asymmetry of {off:g}")
    return _fixed(reduce(np.add, turned) / len(turned) if off else array)


def negligible(matrix) -> float:
    """The share of a matrix's largest eigenvalue below which another one is zero, up to rounding."""
    return len(matrix) * float(np.finfo(matrix.dtype).eps)


def shape(name: str, value, expected: tuple[int | str, ...]) -> None:
    """The shape of an array; letters in ``expected`` stand for any length."""
    got = np.shape(value)
    fits = len(got) == len(expected) and all(isinstance(e, str) or e == g for e, g in zip(expected, got, strict=True))
    if not fits:
        wanted = ", ".join(map(str, expected)) + ("," if len(expected) == 1 else "")
        raise ValueError(f"{name} must have shape ({wanted}), got shape {got}")


def context(X, y, x_q=None) -> None:
    """The shapes of a context and, if there is one, of its query."""
    shape("X", X, ("C", "d"))
    C, d = X.shape
    count("the context size C of X", C)
    shape("y", y, (C,))
    if x_q is not None:
        shape("x_q", x_q, (d,))


def _float64(name: str, value):
    """A read-only copy: what was checked cannot change later."""
    array = real_array(name, value)
    if traced(array):
        return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(jnp.result_type(float))
    return _fixed(np.array(array, np.float64))


def _fixed(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _rounding(dtype) -> float:
    """The relative rounding of float64, or of float32 for numbers that come in float32 or less."""
    narrow = jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize < 8
    return float(np.finfo(np.float32 if narrow else np.float64).eps)
