"""Layers that write labels and treat all directions alike, at any dimension: searches
for the minimum risk.

The error is a polynomial in S and its mean eigenvalue t. The risk is a quadratic form
in its coefficients, whose entries are moments of the Gram matrix: a sum over all
pairings of the entries of X (Isserlis' theorem).
"""

from collections import Counter
from functools import cache, partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np

from studies.experiments import depth
from studies.experiments.experiment import Experiment

SETTINGS = ((10, 10), (10, 30), (10, 100))  # d, C
DEPTHS, ERRORS, STARTS = (1, 2, 3), (0.0, 2.0), 96  # errors in each entry
SCALES = (0.3, 1.0, 2.0)  # of the starts, in turn


def pairings(free: tuple):
    if not free:
        yield []
    for i in range(1, len(free)):
        for rest in pairings(free[1:i] + free[i + 1 :]):
            yield [(free[0], free[i]), *rest]


def loops(pairs: list, others: list) -> int:
    """How many loops two ways to pair the same things make."""
    loop = list(range(2 * len(pairs)))
    for a, b in (*pairs, *others):
        loop = [loop[b] if each == loop[a] else each for each in loop]
    return len(set(loop))


@cache
def counted(power: int) -> Counter:
    """How many terms C^i d^j E tr (X'X)^power has.

    Entries 2k, 2k+1 share a token, and 2k+1, 2k+2 a feature.
    """
    token = [(2 * k, 2 * k + 1) for k in range(power)]
    feature = [(2 * k + 1, (2 * k + 2) % (2 * power)) for k in range(power)]
    return Counter(
        (loops(pairs, token), loops(pairs, feature))
        for pairs in pairings(tuple(range(2 * power)))
    )


def traces(dim: int, length: int, most: int) -> np.ndarray:
    """E tr S^k for k up to ``most``."""
    terms = [counted(k) if k else {(0, 1): 1} for k in range(most + 1)]
    total = [
        sum(n * length**i * dim**j for (i, j), n in each.items()) for each in terms
    ]
    return np.array(total) / float(length) ** np.arange(most + 1)


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


def alike(flat, R, length_of_u, sign, *, depth: int):
    """Its squared length is the risk.

    A layer adds own t y + (read s + (move t + turn S) u).x to labels.
    """
    zero = jnp.zeros((depth + 1,) * 2)
    one = zero.at[0, 0].set(1.0)
    t, S = (
        (lambda p: jnp.roll(p, 1, 0).at[0].set(0)),
        (lambda p: jnp.roll(p, 1, 1).at[:, 0].set(0)),
    )
    of_eps, q_eps, of_u, q_u = one, zero, zero, -sign * one
    for own, read, move, turn in flat.reshape(depth, 4):
        scale, step, add = (
            (lambda p, f=own: p + f * t(p)),
            (lambda p, c=read: c * S(p)),
            move * t(one) + turn * S(one),
        )
        q_eps, of_eps = scale(q_eps) + step(of_eps), scale(of_eps) + step(of_eps)
        q_u, of_u = scale(q_u) + step(of_u) + add, scale(of_u) + step(of_u) + add
    return jnp.concatenate(
        [R @ (sign * q_eps - one).ravel(), length_of_u * (R @ q_u.ravel())]
    )


def run(
    settings=SETTINGS, depths=DEPTHS, sizes=ERRORS, signs=depth.SIGNS, count=STARTS
) -> dict[str, np.ndarray]:
    """Where the searches end, by setting, depth, error, sign and start; and the
    moments.
    """
    scale, shape = (
        np.resize(SCALES, (count, 1)),
        (*map(len, (settings, depths, sizes, signs)), count),
    )
    with jax.enable_x64(True):
        risks = [
            depth.search(
                alike,
                {"depth": n},
                4 * n,
                (form(d, C, n), size, float(sign)),
                count,
                scale,
            )[0]
            for (d, C), n, size, sign in product(settings, depths, sizes, signs)
        ]
    moments = np.array([traces(d, C, 6) for d, C in settings])
    return {"risk": np.reshape(risks, shape), "traces": moments}


GRID = {"settings": SETTINGS, "depths": DEPTHS, "errors": ERRORS, "signs": depth.SIGNS}
EXPERIMENT = Experiment(
    "several layers that treat all directions alike, at the paper's scale",
    run,
    # Here all searches end in one place. Elsewhere rounding decides which minimum a
    # search finds.
    partial(run, SETTINGS[:1], DEPTHS[:2], signs=depth.SIGNS[:1]),
    GRID
    | {"starts": STARTS, "steps": depth.STEPS, "scales": SCALES, "dtype": "float64"},
    rtol=1e-6,
    atol=1e-6,
)
