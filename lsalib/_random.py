"""Random numbers whose programs are few, and cheap to compile; and whether a draw reads its key."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["normal", "reads_key"]


def normal(key, shape: tuple[int, ...], dtype=None):
    """Standard normal numbers, those of ``jax.random.normal``; a NumPy array, unless the key is traced.

    They are drawn as one row whose length is a power of two: a draw with four axes takes ten times as long to compile,
    and other shapes of about the same size share the program. With JAX's default generator, number i depends only on
    the key and on i.
    """
    count, dtype = math.prod(shape), jnp.result_type(float) if dtype is None else jnp.dtype(dtype)
    if isinstance(key, jax.core.Tracer):
        # The barrier keeps the compiler from drawing each number at its place among the axes.
        return lax.optimization_barrier(jax.random.normal(key, (count,), dtype)).reshape(shape)
    row = _row(key, max(8192, 1 << (count - 1).bit_length()), dtype)
    return np.asarray(row)[:count].reshape(shape)


@partial(jax.jit, static_argnames=("count", "dtype"))
def _row(key, count, dtype):
    return jax.random.normal(key, (count,), dtype)


def reads_key(draw, key, *given) -> bool:
    """Whether anything that ``draw(key, *given)`` returns depends on the key. It is traced, and nothing is compiled.

    What NumPy draws is a constant of the trace: a compiled program returns the same numbers for every key.

    Example:
        >>> key, constant = jax.random.key(0), np.ones(3)
        >>> reads_key(lambda key: jax.random.normal(key, (3,)), key), reads_key(lambda key: constant, key)
        (True, False)
    """
    jaxpr = jax.make_jaxpr(draw)(key, *given).jaxpr
    return any(_dependent(jaxpr, [True] + [False] * (len(jaxpr.invars) - 1)))


def _dependent(jaxpr, inputs: list[bool]) -> list[bool]:
    """Which outputs depend on inputs that vary."""
    varies = dict(zip(jaxpr.invars, inputs, strict=True))
    of = lambda variable: not hasattr(variable, "val") and varies.get(variable, False)  # a literal has a ``val``
    for equation in jaxpr.eqns:
        name, given = equation.primitive.name, [of(variable) for variable in equation.invars]
        if name in ("jit", "pjit"):
            found = _dependent(equation.params["jaxpr"].jaxpr, given)
        else:
            # A callback may return other numbers each time it is called.
            found = [any(given) or "callback" in name] * len(equation.outvars)
        varies |= dict(zip(equation.outvars, found, strict=True))
    return [of(variable) for variable in jaxpr.outvars]
