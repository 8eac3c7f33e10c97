"""Argument checks. Each raises a ValueError that names the argument, what came and what is expected.

Of a tracer of JAX the shape is checked, and it is handed on: its value is not known yet.
"""

import math
import operator

import jax
import jax.numpy as jnp
import numpy as np

from lsalib._arrays import traced

__all__ = ["context", "count", "covariance", "fourth", "negligible", "number", "shape", "vector"]


def count(name: str, value) -> int:
    """A whole number of at least 1."""
    try:
        whole = operator.index(value)
    except TypeError:
        whole = 0
    if isinstance(value, bool) or whole < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
    return whole


def number(name: str, value, *, minimum: float = -math.inf, above: float = -math.inf):
    """A finite real number, at least ``minimum`` and greater than ``above``."""
    if traced(value):
        shape(name, value, ())
        return value
    try:
        real = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a real number, got {value!r}") from None
    if not math.isfinite(real) or real < minimum or real <= above:
        bound = (
            f" greater than {above:g}"
            if above > -math.inf
            else f" of at least {minimum:g}"
            if minimum > -math.inf
            else ""
        )
        raise ValueError(f"{name} must be a finite number{bound}, got {value!r}")
    return real


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
    """A finite, symmetric, positive semidefinite float64 matrix other than zero."""
    matrix = _float64(name, value)
    shape(name, matrix, (dim, dim))
    if traced(matrix):
        return matrix
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} must be finite, got {matrix}")
    if not np.allclose(matrix, matrix.T, rtol=1e-6, atol=0):
        raise ValueError(f"{name} must be symmetric, got a largest asymmetry of {np.abs(matrix - matrix.T).max():g}")
    smallest, largest = np.linalg.eigvalsh(matrix)[[0, -1]]
    if smallest < -negligible(matrix) * largest or largest <= 0:
        ends = f"eigenvalues from {smallest:g} to {largest:g}"
        raise ValueError(f"{name} must be positive semidefinite and not zero, got {ends}")
    return matrix


def fourth(name: str, value, dim: int):
    """Finite float64 fourth moments, the same for every order of their indices."""
    array = _float64(name, value)
    shape(name, array, (dim,) * 4)
    if traced(array):
        return array
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    turned = [array.transpose(axes) for axes in ((1, 0, 2, 3), (1, 2, 3, 0))]
    if (largest := max(np.abs(array - other).max() for other in turned)) > 1e-6 * np.abs(array).max():
        raise ValueError(f"{name} must be symmetric, got a largest asymmetry of {largest:g}")
    return array


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
    """The shapes of a context and, if there is one, of its query; lists are no arrays."""
    for name, value in {"X": X, "y": y, "x_q": x_q}.items():
        if isinstance(value, list | tuple):
            raise ValueError(f"{name} must be an array, got a {type(value).__name__}")
    shape("X", X, ("C", "d"))
    C, d = X.shape
    count("the context size C of X", C)
    shape("y", y, (C,))
    if x_q is not None:
        shape("x_q", x_q, (d,))


def _float64(name: str, value):
    """A copy that nobody can change: what was checked stays as it was."""
    try:
        if traced(value):
            return jnp.asarray(value, jnp.result_type(float, *jax.tree.leaves(value)))
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of real numbers, got {value!r}") from None
    array.flags.writeable = False
    return array
