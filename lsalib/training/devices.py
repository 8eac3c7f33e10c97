"""Which devices a group of runs gets, and how its arrays come there and back."""

from itertools import product

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

__all__ = ["BATCH_COST", "fetch", "grid", "make_mesh", "place"]

# Drawing a batch costs about as much as ten runs that read it (studies/benchmarks/results.md),
# and each row draws its own.
BATCH_COST = 10


def grid(seeds: int, runs: int, devices: int, *, every: bool = False) -> tuple[int, int]:
    """The grid of devices, rows for seeds and columns for runs, whose busiest device finishes first.

    Seeds and runs that do not fill the grid are repeated. Among grids that are equally fast, the largest is taken if
    more than half of all devices then have work of their own, else the smallest.

    Args:
        seeds, runs: how many of each there are.
        devices: how many devices there are.
        every: whether all devices have to take part, as with several processes.

    Returns:
        Rows and columns.

    Example:
        >>> [grid(seeds, 1, 8) for seeds in (1, 7, 9, 100)], grid(3, 4, 8), grid(1, 1, 8, every=True)
        ([(1, 1), (8, 1), (8, 1), (8, 1)], (4, 2), (8, 1))
    """
    shapes = [(r, c) for r, c in product(range(1, devices + 1), repeat=2) if r * c <= devices]
    if every:
        shapes = [(r, c) for r, c in shapes if r * c == devices]
    filled = 2 * seeds * runs > devices

    def cost(shape):
        rows, columns = shape
        return -(-seeds // rows) * (BATCH_COST + -(-runs // columns)), rows * columns * (-1 if filled else 1), -rows

    return min(shapes, key=cost)


def make_mesh(seeds: int, runs: int = 1, devices: list | None = None) -> Mesh:
    """Devices in a grid (seeds, runs): seeds first, since runs of one seed share their batches."""
    devices = jax.devices() if devices is None else devices
    rows, columns = grid(seeds, runs, len(devices), every=jax.process_count() > 1)
    return Mesh(np.array(devices[: rows * columns]).reshape(rows, columns), ("seeds", "runs"))


def place(leaf, mesh: Mesh, spec: PartitionSpec, chunk: int = 1) -> jax.Array:
    """Put a host array on the mesh. Along each axis that is spread, the last entry is repeated to fill all devices.

    Runs are spread by chunks of so many, and the last chunk is repeated.

    Example:
        >>> place(np.arange(3.0), make_mesh(3), PartitionSpec("seeds")).shape
        (3,)
    """
    leaf = np.asarray(leaf)
    for axis, name in enumerate(spec):
        if name is not None:
            size = chunk if name == "runs" else 1
            last = leaf.take(range(leaf.shape[axis] - size, leaf.shape[axis]), axis)
            leaf = np.concatenate([leaf, *[last] * (-(leaf.shape[axis] // size) % mesh.shape[name])], axis)
    return jax.make_array_from_callback(leaf.shape, NamedSharding(mesh, spec), lambda index: leaf[index])


def fetch(leaf: jax.Array, lengths: tuple[int, ...], first: int = 0) -> np.ndarray:
    """The array on the host of every process, without repeated entries: axis ``first`` + i has ``lengths[i]``."""
    whole = multihost_utils.process_allgather(leaf, tiled=True) if jax.process_count() > 1 else jax.device_get(leaf)
    return np.asarray(whole)[(slice(None),) * first + tuple(map(slice, lengths))]
