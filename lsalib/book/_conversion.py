"""Numbers of Python or any array library, converted for checks, and written as text for the book."""

import math
import operator
import re
from collections.abc import Iterable
from numbers import Integral, Real

import numpy as np

__all__ = ["real", "scalar", "whole", "written"]


def real(name: str, value) -> np.ndarray:
    """Convert a real number or an array of them to a finite, nonempty float64 array.

    Booleans, strings and complex numbers would convert, too, but are refused as mistakes.

    Args:
        name: what an error calls the argument.
        value: a number or an array, a list, of any type of real numbers.

    Returns:
        The array, () for a number.

    Raises:
        ValueError: if it is something else, is empty, or has an entry that is infinite or NaN.

    Example:
        >>> real("atol", [1, 2]).tolist()
        [1.0, 2.0]
    """
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.asarray(None)
    if array.dtype == object and all(isinstance(each, Real) and not isinstance(each, bool) for each in array.flat):
        array = array.astype(np.float64)  # as fractions
    if array.dtype.kind not in "iufV":  # V: bfloat16 and its like
        raise ValueError(f"{name} must be a real number or an array of real numbers, got {value!r}")
    array = array.astype(np.float64)
    if not (array.size and np.isfinite(array).all()):
        raise ValueError(f"{name} must be finite and not empty, got {value!r}")
    return array


def scalar(name: str, value) -> bool | int | float:
    """Convert a single number to a Python number; unlike in ``real``, booleans, infinities and NaN are allowed.

    Args:
        name: what an error calls the argument.
        value: a number or an array of shape ().

    Returns:
        The number.

    Raises:
        ValueError: if it is something else.

    Example:
        >>> scalar("value", np.int64(12345))
        12345
    """
    if isinstance(value, bool):
        return value
    if isinstance(value, Real):  # not only those of Python: NumPy's, fractions
        return int(value) if isinstance(value, Integral) else float(value)
    array = np.asarray(value)
    if array.shape or array.dtype.kind not in "biufV":
        raise ValueError(f"{name} must be a single number or a text, got {value!r}")
    return array.item()


def whole(name: str, values: Iterable) -> list[int]:
    """Convert whole numbers to Python integers.

    Example:
        >>> whole("seeds", np.arange(3))
        [0, 1, 2]
    """
    try:
        numbers = list(values)
        if not any(isinstance(number, bool | np.bool_) for number in numbers):
            return [operator.index(number) for number in numbers]
    except TypeError:
        pass
    raise ValueError(f"{name} must be a sequence of whole numbers, got {values!r}")


def written(value: float | int, spec: str) -> str:
    """Write a number, with a minus sign in place of the hyphen, and without a sign if it is rounded to zero.

    Example:
        >>> written(-1.5, ".2f"), written(-1e-4, ".2f"), written(1e-9, ".2g")
        ('−1.50', '0.00', '1e−09')
    """
    text = format(value, spec)
    if isinstance(value, float) and math.isfinite(value) and not re.search("[1-9]", text):
        text = format(0.0, spec)
    return text.replace("-", "−")
