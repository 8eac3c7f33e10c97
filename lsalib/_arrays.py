"""One formula for values and tracers: NumPy in float64 where all numbers are known, ``jax.numpy`` where JAX asks."""

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["like", "scalar", "traced"]


def traced(tree) -> bool:
    """Whether any part of this is a stand-in of ``jax.jit``, ``vmap`` or ``grad``, whose value cannot be looked at."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(tree))


def like(*trees):
    """The module that computes with these values, and the values as its arrays, all of one float type.

    Known values are float64 arrays of NumPy whatever JAX's setting is, and nothing is compiled for them.

    Example:
        >>> xp, (a, b) = like(1.0, [2.0, 3.0])
        >>> xp is np, a.dtype.name, jax.jit(lambda x: like(x, 2.0)[1][1])(1).dtype.name
        (True, 'float64', 'float32')
    """
    tracers = [leaf for leaf in jax.tree.leaves(trees) if isinstance(leaf, jax.core.Tracer)]
    if not tracers:
        return np, jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), trees)
    dtype = jnp.result_type(*tracers)
    dtype = dtype if jnp.issubdtype(dtype, jnp.floating) else jnp.result_type(float)
    return jnp, jax.tree.map(lambda leaf: jnp.asarray(leaf).astype(dtype), trees)


def scalar(xp, value):
    """A Python number where it is known."""
    return float(value) if xp is np else value
