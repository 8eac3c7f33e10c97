"""Other samples for an unchanged page: one number shifts its seeds.

Set ``LSALIB_SEED_SHIFT`` to a whole number before ``lsalib.book`` is imported: the page then draws other samples for the
same computation. This reveals a claim that holds only for the seeds on the page. Tests read the variable, too.

Three functions move: ``jax.random.key``, ``jax.random.PRNGKey`` and ``numpy.random.default_rng``, called under these
names with a seed, by the page, by ``lsalib`` or by another package. Keys that are split or folded from a moved key move
with it. Everything else draws as before:

- a function that was imported by name before the shift, as by ``from jax.random import key``;
- generators that are built otherwise: ``numpy.random.RandomState``, ``numpy.random.seed``, ``Generator(PCG64(0))``, and
  with them the ``random_state`` of scikit-learn;
- Python's ``random``, and generators without a seed;
- stored results.

So pages write ``jax.random.key(seed)`` and ``np.random.default_rng(seed)``.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps

import jax
import numpy as np

__all__ = ["MOST", "STRIDE", "VARIABLE", "from_environment", "shifted"]

VARIABLE = "LSALIB_SEED_SHIFT"
# The distance between the seeds of two shifts, larger than any seed on a page.
STRIDE = 1_000_003
# Seeds stay below 2³¹, whatever the integers.
MOST = 1000
# The three functions as they are without a shift.
PLAIN = jax.random.key, jax.random.PRNGKey, np.random.default_rng


def from_environment() -> int:
    """Move the seeds of this process by ``LSALIB_SEED_SHIFT``; importing ``lsalib.book`` does so.

    Returns:
        The shift; 0, which changes nothing, where the variable is empty or not there.

    Raises:
        ValueError: if the variable is no whole number from 0 to 1000.

    Example:
        >>> from_environment()
        0
    """
    said = os.environ.get(VARIABLE) or "0"
    shift = _checked(VARIABLE, int(said) if said.isascii() and said.isdigit() else said)
    if shift:
        _install(shift)
    return shift


@contextmanager
def shifted(shift: int) -> Iterator[None]:
    """Move the seeds within the context: ``seed`` gives what ``seed`` + 1000003 ``shift`` gives without a shift.

    It replaces the shift of the process: with 0 the seeds are as written, for what rests on a stored run.

    Args:
        shift: a whole number from 0 to 1000.

    Raises:
        ValueError: if it is no such number.

    Example:
        >>> with shifted(2):
        ...     moved = np.random.default_rng(7).normal()
        >>> bool(moved == np.random.default_rng(7 + 2 * STRIDE).normal())
        True
    """
    _checked("shift", shift)
    before = jax.random.key, jax.random.PRNGKey, np.random.default_rng
    _install(shift)
    try:
        yield
    finally:
        jax.random.key, jax.random.PRNGKey, np.random.default_rng = before


def _checked(name: str, shift) -> int:
    if isinstance(shift, bool) or not isinstance(shift, int) or not 0 <= shift <= MOST:
        raise ValueError(f"{name} must be a whole number from 0 to {MOST}, got {shift!r}")
    return shift


def _install(shift: int) -> None:
    """Replace the three functions that take seeds."""
    moved = [_moved(make, shift * STRIDE) for make in PLAIN] if shift else PLAIN
    jax.random.key, jax.random.PRNGKey, np.random.default_rng = moved


def _moved(make, move: int):
    @wraps(make)
    def other(seed=None, *args, **kwargs):
        return make(_seed(seed, move), *args, **kwargs)

    return other


def _seed(seed, move: int):
    """Shift a seed, or each in a list; anything else, such as a generator, stays as it is."""
    if isinstance(seed, (list, tuple)):
        return [_seed(each, move) for each in seed]
    if isinstance(seed, (int, np.integer)):
        return int(seed) + move
    return seed + move if hasattr(seed, "dtype") else seed
