"""What arguments become before anything is computed with them.

``promoted`` is for functions of arrays: it turns any numbers into arrays of one float type. ``numpy_or_jax`` is for
closed forms: they compute in NumPy's float64 where all numbers are known, and in ``jax.numpy`` under ``jax.jit``,
``vmap`` and ``grad``.
"""

import inspect
import operator
import reprlib
from collections.abc import Callable
from functools import cache, wraps
from typing import SupportsIndex, TypeVar, cast, get_args

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["common_type", "describe", "entry", "float_if_known", "numpy_or_jax", "promoted", "real_array", "traced"]

F = TypeVar("F", bound=Callable)


def promoted(function: F, *, skip: tuple[str, ...] = (), least: type | None = None) -> F:
    """Turn the arguments of a function into arrays of one float type.

    Lists, numbers, and arrays of NumPy and JAX are taken; a NamedTuple of weights is taken field by field. The type is
    the widest float type among the arguments, as in JAX, and integers count as JAX's default float. Python's own
    numbers fit every float type and stay numbers. The function itself checks the shapes.

    Args:
        function: what takes the arrays, compiled or not.
        skip: the arguments that are passed on unchanged.
        least: the narrowest float type to compute in; None means that of the arguments, whatever it is.

    Returns:
        A function that raises a ``ValueError`` with the argument's name for anything but real numbers.

    Example:
        >>> add = promoted(lambda a, b: a + b)
        >>> add([1, 2], np.float32(0.5)).tolist()
        [1.5, 2.5]
    """
    parameters = inspect.signature(function).parameters
    names, compiled = tuple(parameters), hasattr(function, "lower")
    weights = {name: p.annotation for name, p in parameters.items() if hasattr(p.annotation, "_fields")}
    optional = {name for name, p in parameters.items() if p.default is None}
    for kind in weights.values():
        optional |= {field for field, hint in kind.__annotations__.items() if type(None) in get_args(hint)}

    def read(name, value, types):
        if name in skip or (value is None and name in optional):
            return value
        if name not in weights:
            return _read(name, value, types)
        if getattr(value, "_fields", None) != weights[name]._fields:
            raise ValueError(f"{name} must be {weights[name].__name__}, got {describe(value)}")
        parts = zip(value._fields, value, strict=True)
        return weights[name]._make(read(field, part, types) for field, part in parts)

    @wraps(function)
    def of_one_type(*args, **options):
        if len(args) > len(names):
            return function(*args, **options)  # Python's own error
        types: set = set()
        given = [read(name, value, types) for name, value in zip(names, args, strict=False)]
        named = {name: read(name, value, types) for name, value in options.items()} if options else {}
        dtype = common_type(types, least)
        # Most calls of compiled functions need no change, and take a few microseconds here.
        if not compiled or types != {dtype}:
            place = _as_type if compiled else _on_device
            convert = lambda name, value: value if name in skip else jax.tree.map(lambda x: place(x, dtype), value)
            given = list(map(convert, names, given))
            named = {name: convert(name, value) for name, value in named.items()}
        return function(*given, **named)

    return cast(F, of_one_type)


def real_array(name: str, value) -> np.ndarray | jax.Array:
    """An array of real numbers: arrays of JAX stay as they are, NumPy reads anything else."""
    array = value
    if not isinstance(value, jax.Array):
        try:
            # NumPy would drop the names of fields, and a mask.
            known_form = not hasattr(value, "_fields") and not np.ma.isMaskedArray(value)
            array = _stacked(value) if traced(value) else np.asarray(value if known_form else None)
        except (TypeError, ValueError, RuntimeError):
            array = np.asarray(None)
    if not _is_real(array.dtype):
        raise ValueError(f"{name} must be an array of real numbers, got {describe(value)}")
    return array


def common_type(types, least: type | None = None) -> np.dtype:
    """The float type to compute in with numbers of these types. None stands for integers: JAX's default float."""
    return _common_type(frozenset(types), least, jax.config.jax_enable_x64)  # type: ignore[attr-defined]


def describe(value) -> str:
    """A short description of a value, for an error message."""
    if hasattr(value, "dtype"):
        return f"{value.dtype} of shape {np.shape(value)}" + (", masked" if np.ma.isMaskedArray(value) else "")
    name = type(value).__name__
    parts = {"params": "weights", "task": "task", "population_risk": "risk", "predict": "predictions"}
    # A result of training is often handed on whole.
    hints = [f"its {what}: {name.lower()}.{part}" for part, what in parts.items() if hasattr(value, part)]
    return f"a {name}; {', '.join(hints)}" if hints else reprlib.repr(value)


def traced(tree) -> bool:
    """Whether any part is a tracer of ``jax.jit``, ``vmap`` or ``grad``, whose value is not known."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def numpy_or_jax(*trees):
    """NumPy if all values are known, else ``jax.numpy``, and the values as its arrays, all of one float type.

    NumPy's arrays are float64 whatever JAX's setting is, and nothing is compiled for them.

    Example:
        >>> xp, (a, b) = numpy_or_jax(1.0, [2.0, 3.0])
        >>> xp is np, a.dtype.name, jax.jit(lambda x: numpy_or_jax(x, 2.0)[1][1])(1).dtype.name
        (True, 'float64', 'float32')
    """
    tracers = [leaf for leaf in jax.tree.leaves(trees) if isinstance(leaf, jax.core.Tracer)]
    if not tracers:
        return np, jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), trees)
    dtype = common_type({_float_type(leaf.dtype) for leaf in tracers}, np.float32)
    return jnp, jax.tree.map(lambda leaf: jnp.asarray(leaf).astype(dtype), trees)


def float_if_known(xp, value):
    """A Python float if the value is known, else the tracer."""
    return float(value) if xp is np else value


def _read(name: str, value, types: set):
    """A Python float, or an array whose float type is added to the types."""
    if type(value) is float:
        return value
    if type(value) is int:
        return float(value)
    array = value if isinstance(value, jax.Array) and _is_real(value.dtype) else real_array(name, value)
    types.add(_float_type(array.dtype))
    return array


def _as_type(leaf, dtype):
    if type(leaf) is float or leaf.dtype == dtype:
        return leaf
    return leaf.astype(dtype) if isinstance(leaf, jax.Array) else np.asarray(leaf, dtype)


def _on_device(leaf, dtype):
    """An array of JAX, for what is not compiled; unlike ``jnp.asarray``, this compiles no program for each shape."""
    array = _as_type(leaf, dtype)
    if type(array) is float or isinstance(array, jax.Array):
        return array
    with jax.ensure_compile_time_eval():
        return jax.device_put(array)


def _stacked(value):
    """A list with tracers in it."""
    with jax.numpy_dtype_promotion("standard"):
        return jnp.asarray(value)


@cache
def _common_type(types: frozenset, least, x64: bool) -> np.dtype:
    default = jnp.result_type(float)
    known = [default if dtype is None or dtype.itemsize > default.itemsize else dtype for dtype in types or {None}]
    with jax.numpy_dtype_promotion("standard"):
        return jnp.result_type(*known, *([] if least is None else [least]))


@cache
def _is_real(dtype) -> bool:
    return any(jnp.issubdtype(dtype, kind) for kind in (jnp.integer, jnp.floating))


@cache
def _float_type(dtype) -> np.dtype | None:
    """The float type that a real type counts as; None for integers, and for floats too narrow to compute with."""
    if not jnp.issubdtype(dtype, jnp.floating) or dtype.itemsize < 2:
        return None
    return dtype if dtype.itemsize <= 8 else np.dtype(np.float64)


def entry(tree, place: SupportsIndex, length: int, axis: int = 0):
    """One entry of every array along an axis of this length; nothing is compiled for it."""
    try:
        index = length if isinstance(place, bool | np.bool_) else operator.index(place)
    except TypeError:
        index = length
    if not -length <= index < length:
        raise ValueError(f"place must be a whole number from {-length} to {length - 1}, got {place!r}")
    where = (slice(None),) * axis + (index,)
    return jax.tree.map(lambda leaf: leaf[where] if traced(leaf) else jax.device_put(np.asarray(leaf)[where]), tree)
