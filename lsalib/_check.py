"""Plain numbers become arrays. What cannot be right is refused by its name, with what came and what is expected.

What JAX traces is checked for its shape only. All other mistakes are left to JAX.
"""

import math
import operator
import reprlib

import jax
import jax.numpy as jnp
import numpy as np


def describe(value) -> str:
    """A short description of a value, for an error message."""
    if hasattr(value, "dtype"):
        return f"{value.dtype} of shape {np.shape(value)}"
    name = type(value).__name__
    hints = [f"{name.lower()}.{part}" for part in ("params", "task") if hasattr(value, part)]  # of a trained layer
    return f"a {name} (did you mean {' or '.join(hints)}?)" if hints else reprlib.repr(value)


def traced(*values) -> bool:
    """Whether any of these is a tracer of ``jax.jit``, ``vmap`` or ``grad``, whose value is not known."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def array(name: str, value, expected: tuple[int | str, ...] | None = None):
    """An array of real floats: NumPy reads lists and numbers, arrays of JAX stay where they are."""
    try:
        found = value if isinstance(value, jax.Array) else (jnp if traced(value) else np).asarray(value)
    except (TypeError, ValueError):
        found = np.asarray(None)
    if jnp.issubdtype(found.dtype, jnp.integer) or found.dtype == bool:
        found = found.astype(jnp.result_type(float))
    if not jnp.issubdtype(found.dtype, jnp.floating):
        raise ValueError(f"{name} must be an array of real numbers, got {describe(value)}")
    return found if expected is None else shape(name, found, expected)


def floats(**given) -> list:
    """Arrays of JAX, all of the widest float type among them, which Python's own numbers take; None stays None."""

    def read(name, value):
        if hasattr(value, "_fields"):  # weights are taken field by field
            return value._make(read(f"{name}.{field}", part) for field, part in value._asdict().items())
        return value if value is None or type(value) in (float, int) else array(name, value)

    values = [read(name, value) for name, value in given.items()]
    types = [jax.dtypes.canonicalize_dtype(leaf.dtype) for leaf in jax.tree.leaves(values) if hasattr(leaf, "dtype")]
    with jax.numpy_dtype_promotion("standard"):
        dtype = jnp.result_type(*types or [jnp.result_type(float)])
    return jax.tree.map(lambda part: jnp.asarray(part, dtype), values)


def namespace(*values):
    """NumPy in float64 if all values are known, else ``jax.numpy``; then the values as its arrays of one float type."""
    if not traced(values):
        return np, *(None if value is None else np.asarray(value, np.float64) for value in values)
    with jax.numpy_dtype_promotion("standard"):
        dtype = jnp.result_type(float, *(leaf.dtype for leaf in jax.tree.leaves(values) if traced(leaf)))
    return jnp, *(None if value is None else jnp.asarray(value).astype(dtype) for value in values)


def count(name: str, value) -> int:
    """A whole number of at least 1."""
    if not hasattr(value, "__index__") or operator.index(value) < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
    return operator.index(value)


def number(name: str, value, *, minimum: float = -math.inf, above: float = -math.inf):
    """A finite real number, at least ``minimum`` and greater than ``above``."""
    found = array(name, value, ())
    if not traced(found) and not (math.isfinite(found) and found >= minimum and found > above):
        bound = f" greater than {above:g}" if above > -math.inf else f" of at least {minimum:g}"
        raise ValueError(f"{name} must be a finite number{bound * (max(minimum, above) > -math.inf)}, got {value!r}")
    return found if traced(found) else float(found)


def vector(name: str, value, length: int | None = None):
    """A finite vector with at least one entry, in float64."""
    given = array(name, value, ("d" if length is None else length,))
    if not traced(given) and not (given.size and np.isfinite(given).all()):
        raise ValueError(f"{name} must hold finite numbers, got {given}")
    return given if traced(given) else np.array(given, np.float64)


def covariance(name: str, value, dim: int):
    """A symmetric, positive semidefinite matrix other than zero, in float64 and exactly symmetric."""
    given = array(name, value, (dim, dim))
    if traced(given):
        return given
    # What comes in float32 may be off by its rounding.
    matrix, rounding = np.array(given, np.float64), dim * float(jnp.finfo(given.dtype).eps)
    off = max(1e-6, 100 * rounding) * np.abs(matrix).max()
    if not (np.isfinite(off) and np.allclose(matrix, matrix.T, 0, off)):
        raise ValueError(f"{name} must be finite and symmetric, got {matrix}")
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] < -max(1e-12, rounding) * values[-1] or values[-1] <= 0:
        ends = f"{values[0]:g} to {values[-1]:g}"
        raise ValueError(f"{name} must be positive semidefinite and not zero, got eigenvalues from {ends}")
    matrix = matrix if values[0] >= 0 else vectors * np.maximum(values, 0) @ vectors.T
    return (matrix + matrix.T) / 2


def key(value):
    """One key of ``jax.random``, or the raw numbers of one, as ``jax.random.PRNGKey`` makes them."""
    typed = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key) and value.shape == ()
    if not typed and not (getattr(value, "dtype", None) == np.uint32 and value.shape in ((2,), (4,))):
        raise ValueError(f"key must be a key of jax.random, got {describe(value)}; write jax.random.key(0)")
    return value


def shape(name: str, value, expected: tuple[int | str, ...]):
    """The array, of this shape; letters in ``expected`` stand for any length."""
    got = np.shape(value)
    if len(got) != len(expected) or any(not isinstance(e, str) and e != g for e, g in zip(expected, got, strict=True)):
        wanted = str(expected).replace("'", "")
        raise ValueError(f"{name} must have shape {wanted}, got shape {got}")
    return value


def context(X, y, x_q=None) -> None:
    """The shapes of a context and, if there is one, of its query."""
    shape("X", X, ("C", "d"))
    count("the context size C of X", len(X))
    shape("y", y, (len(X),))
    if x_q is not None:
        shape("x_q", x_q, (X.shape[1],))
