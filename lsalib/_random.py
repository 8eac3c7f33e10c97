"""Random numbers whose programs are few, and cheap to compile."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

__all__ = ["normal"]


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
