"""Layers that write labels and treat all directions alike, at any dimension: searches
for the minimum risk.

The error is a polynomial in S and its mean eigenvalue t. The risk is a quadratic form
in its coefficients, whose entries are moments of the Gram matrix.
"""

from functools import cache, partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

from studies.experiments import depth
from studies.experiments.experiment import Experiment

DIM, LENGTH, STEPS = 10, 10, depth.STEPS
DEPTHS, ERRORS, STARTS = (1, 2, 3), (0.0, 2.0), 96  # errors in each entry
SCALES = (0.3, 1.0, 2.0)  # of the starts, in turn


@cache
def moment(dim: int, length: int, k: int, *powers: int) -> int:
    """E tr (X'X)^k prod_m tr (X'X)^m over the other powers m, for X of white Gaussian
    entries.

    Partial integration over the first X of the first trace: the derivative meets the X'
    beside it, another X or X' of this trace, or another trace.
    """
    one = partial(moment, dim, length)
    if k == 0:
        return dim * (one(*powers) if powers else 1)
    total = (length + k - 1) * one(k - 1, *powers)
    total += sum(one(j, k - 1 - j, *powers) for j in range(1, k))
    for i, m in enumerate(powers):
        total += 2 * m * one(k + m - 1, *powers[:i], *powers[i + 1 :])
    return total


def traces(dim: int, length: int, most: int) -> np.ndarray:
    """E tr S^k for k up to ``most``."""
    return np.array([moment(dim, length, k) / length**k for k in range(most + 1)])


def form(dim: int, length: int, layers: int) -> np.ndarray:
    """R with E tr p(t, S)^2 = |R c|^2, where c are the coefficients of t^i S^j in p, at
    i (layers + 1) + j.
    """
    trace = traces(dim, length, 2 * layers)
    rise = np.cumprod(np.append(1, 1 + 2 * np.arange(4 * layers) / (length * dim)))
    i, j = np.divmod(np.arange((layers + 1) ** 2), layers + 1)
    inside = np.flatnonzero(i + j <= layers)
    many, power = (each[inside][:, None] + each[inside] for each in (i, j))
    factor = np.linalg.cholesky(trace[power] * rise[many + power] / rise[power])
    R = np.zeros((len(inside), len(i)))
    R[:, inside] = factor.T
    return R


def alike(flat, R, length_of_u):
    """Its squared length is the risk.

    A layer adds own t y + (read s + (move t + turn S) u).x to labels.
    """
    zero = jnp.zeros((len(flat) // 4 + 1,) * 2)
    one = zero.at[0, 0].set(1.0)
    t = lambda p: jnp.roll(p, 1, 0).at[0].set(0)
    S = lambda p: jnp.roll(p, 1, 1).at[:, 0].set(0)
    of_eps, q_eps, of_u, q_u = one, zero, zero, -one
    for own, read, move, turn in flat.reshape(-1, 4):
        add = move * t(one) + turn * S(one)
        q_eps = q_eps + own * t(q_eps) + read * S(of_eps)
        q_u = q_u + own * t(q_u) + read * S(of_u) + add
        of_eps = of_eps + own * t(of_eps) + read * S(of_eps)
        of_u = of_u + own * t(of_u) + read * S(of_u) + add
    return jnp.concatenate([R @ (q_eps - one).ravel(), length_of_u * (R @ q_u.ravel())])


def run(depths=DEPTHS) -> dict[str, np.ndarray]:
    """Where the searches end, by depth, error and start; and the moments."""
    scales = np.resize(SCALES, (STARTS, 1))
    with jax.enable_x64(True):
        risks = [
            depth.search(alike, 4 * n, (form(DIM, LENGTH, n), size), scales)
            for n, size in product(depths, ERRORS)
        ]
    shape = len(depths), len(ERRORS), STARTS
    return {"risk": np.reshape(risks, shape), "traces": traces(DIM, LENGTH, 6)}


EXPERIMENT = Experiment(
    "several layers that treat all directions alike, at the paper's scale",
    run,
    # Here all searches end in one place. Elsewhere rounding decides which minimum a
    # search finds.
    partial(run, DEPTHS[:2]),
    rtol=1e-6,
    atol=1e-6,
)
