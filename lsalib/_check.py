"""What happens to arguments at the door: plain numbers become arrays once, and what cannot be right is refused.

Each refusal is a ValueError that names the argument, what came and what is expected. What JAX traces is checked for its
shape only. All other mistakes are left to JAX's own errors.
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
    # A result of training is often handed on whole.
    hints = [f"{name.lower()}.{part}" for part in ("params", "task") if hasattr(value, part)]
    return f"a {name} (did you mean {' or '.join(hints)}?)" if hints else reprlib.repr(value)


def traced(*values) -> bool:
    """Whether any of these is a tracer of ``jax.jit``, ``vmap`` or ``grad``, whose value is not known."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values))


def array(name: str, value, expected: tuple[int | str, ...] | None = None):
    """An array of real floats: NumPy reads lists and numbers, arrays of JAX stay where they are."""
    try:
        found = value if isinstance(value, jax.Array) else jnp.asarray(value) if traced(value) else np.asarray(value)
    except (TypeError, ValueError):
        found = np.asarray(None)
    if jnp.issubdtype(found.dtype, jnp.integer) or found.dtype == bool:
        found = found.astype(jnp.result_type(float))
    if not jnp.issubdtype(found.dtype, jnp.floating):
        raise ValueError(f"{name} must be an array of real numbers, got {describe(value)}")
    if expected is not None:
        shape(name, found, expected)
    return found


def floats(**given) -> list:
    """All arguments as arrays of one float type, the widest among them; Python's own numbers fit every type.

    A NamedTuple of weights is taken field by field. None stays None.

    Example:
        >>> X, step = floats(X=[[1, 2]], step=0.5)
        >>> X.shape, X.dtype == step.dtype
        ((1, 2), True)
    """
    types: list = []

    def read(name, value):
        if hasattr(value, "_fields"):
            return value._make(read(f"{name}.{field}", part) for field, part in value._asdict().items())
        if value is not None and type(value) not in (float, int):
            value = array(name, value)
            types.append(value.dtype)
        return value

    read_all = [read(name, value) for name, value in given.items()]
    with jax.numpy_dtype_promotion("standard"):
        dtype = jax.dtypes.canonicalize_dtype(jnp.result_type(*types or [float]))
    return jax.tree.map(lambda part: jnp.asarray(part, dtype), read_all)


def namespace(*values):
    """NumPy if all values are known, else ``jax.numpy``; then the values as its arrays, all of one float type.

    Known numbers are computed in float64 whatever JAX's setting is, and nothing is compiled for them.

    Example:
        >>> xp, w, s = namespace([1, 2], 0.5)
        >>> xp is np, w.dtype.name
        (True, 'float64')
    """
    if not traced(values):
        return np, *(None if value is None else np.asarray(value, np.float64) for value in values)
    with jax.numpy_dtype_promotion("standard"):
        dtype = jnp.result_type(float, *(leaf.dtype for leaf in jax.tree.leaves(values) if traced(leaf)))
    return jnp, *(None if value is None else jnp.asarray(value).astype(dtype) for value in values)


def count(name: str, value) -> int:
    """A whole number of at least 1."""
    try:
        whole = operator.index(value)
    except TypeError:
        whole = 0
    if whole < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
    return whole


def number(name: str, value, *, minimum: float = -math.inf, above: float = -math.inf):
    """A finite real number, at least ``minimum`` and greater than ``above``."""
    found = array(name, value, ())
    if traced(found):
        return found
    if not math.isfinite(found) or found < minimum or found <= above:
        bound = f" greater than {above:g}" if above > -math.inf else f" of at least {minimum:g}"
        raise ValueError(f"{name} must be a finite number{bound * (max(minimum, above) > -math.inf)}, got {value!r}")
    return float(found)


def covariance(name: str, value, dim: int):
    """A symmetric, positive semidefinite matrix other than zero, in float64 and exactly symmetric."""
    given = array(name, value, (dim, dim))
    if traced(given):
        return given
    # What comes in float32 may be off by its rounding.
    rounding = dim * float(jnp.finfo(given.dtype).eps)
    matrix = np.asarray(given, np.float64)
    off, size = np.abs(matrix - matrix.T).max(), np.abs(matrix).max()
    if not off <= max(1e-6, 100 * rounding) * size:
        raise ValueError(f"{name} must be finite and symmetric, got a largest asymmetry of {off:g}")
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if values[0] < -max(1e-12, rounding) * values[-1] or values[-1] <= 0:
        ends = f"eigenvalues from {values[0]:g} to {values[-1]:g}"
        raise ValueError(f"{name} must be positive semidefinite and not zero, got {ends}")
    matrix = (matrix + matrix.T) / 2 if values[0] >= 0 else vectors * np.maximum(values, 0) @ vectors.T
    matrix = (matrix + matrix.T) / 2
    matrix.flags.writeable = False  # what was checked cannot change later
    return matrix


def key(value):
    """One key of ``jax.random``, or the raw numbers of one, as ``jax.random.PRNGKey`` makes them."""
    typed = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key) and value.shape == ()
    if not typed and not (getattr(value, "dtype", None) == np.uint32 and value.shape in ((2,), (4,))):
        raise ValueError(f"key must be a key of jax.random, got {describe(value)}; write jax.random.key(0)")
    return value


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
    count("the context size C of X", len(X))
    shape("y", y, (len(X),))
    if x_q is not None:
        shape("x_q", x_q, (X.shape[1],))
