"""Layers that write labels and treat all directions alike, at any dimension: searches of the least risk.

The error is a polynomial in S and its mean eigenvalue t, and the risk a quadratic form in its coefficients, whose
entries are moments of the Gram matrix. They are counted: a sum over all pairings of the entries of X.
"""

from collections import Counter
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from studies.experiments import depth
from studies.experiments.experiment import Experiment, versions

SETTINGS = ((10, 10), (10, 30), (10, 100))  # d, C
DEPTHS, ERRORS, STARTS = (1, 2, 3), (0.0, 2.0), 96  # errors in each entry
SCALES = (0.3, 1.0, 2.0)  # of the starts, in turn


def pairings(free: tuple):
    if not free:
        yield []
    for i in range(1, len(free)):
        for rest in pairings(free[1:i] + free[i + 1 :]):
            yield [(free[0], free[i]), *rest]


def loops(pairs, others: dict) -> int:
    """How many loops two ways to pair the same things make."""
    of, count = dict(pairs) | {b: a for a, b in pairs}, 0
    while of:
        at, count = next(iter(of)), count + 1
        while at in of:
            end = of.pop(at)
            del of[end]
            at = others[end]
    return count


@cache
def counted(power: int) -> Counter:
    """Of E tr (X'X)^power: how many terms C^i d^j. Entries 2k, 2k+1 are of one token, 2k+1, 2k+2 of one feature."""
    size = 2 * power
    token = {k: k ^ 1 for k in range(size)}
    feature = {k: (k + 1 if k % 2 else k - 1) % size for k in range(size)}
    return Counter((loops(pairs, token), loops(pairs, feature)) for pairs in pairings(tuple(range(size))))


def traces(dim: int, length: int, most: int) -> np.ndarray:
    """E tr S^k for k up to ``most``."""
    terms = [counted(k) if k else {(0, 1): 1} for k in range(most + 1)]
    total = [sum(n * length**i * dim**j for (i, j), n in each.items()) for each in terms]
    return np.array(total) / float(length) ** np.arange(most + 1)


def form(dim: int, length: int, layers: int) -> np.ndarray:
    """R with E tr p(t, S)^2 = |R c|^2, where c are the coefficients of t^i S^j in p, at i (layers + 1) + j."""
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
    """What is squared and summed to the risk; a layer adds own t y + (read s + (move t + turn S) u).x to a label."""
    zero = jnp.zeros((depth + 1,) * 2)
    one = zero.at[0, 0].set(1.0)
    t, S = (lambda p: jnp.roll(p, 1, 0).at[0].set(0)), (lambda p: jnp.roll(p, 1, 1).at[:, 0].set(0))
    of_eps, q_eps, of_u, q_u = one, zero, zero, -sign * one
    for own, read, move, turn in flat.reshape(depth, 4):
        scale, step, add = (lambda p, f=own: p + f * t(p)), (lambda p, c=read: c * S(p)), move * t(one) + turn * S(one)
        q_eps, of_eps = scale(q_eps) + step(of_eps), scale(of_eps) + step(of_eps)
        q_u, of_u = scale(q_u) + step(of_u) + add, scale(of_u) + step(of_u) + add
    return jnp.concatenate([R @ (sign * q_eps - one).ravel(), length_of_u * (R @ q_u.ravel())])


def run(settings=SETTINGS, depths=DEPTHS, sizes=ERRORS, signs=depth.SIGNS, count=STARTS) -> dict[str, np.ndarray]:
    """Where the searches end: by setting, depth, error, sign and start; with the moments."""
    scale = np.resize(SCALES, (count, 1))
    with jax.enable_x64(True):
        risks = [
            depth.search(alike, {"depth": n}, 4 * n, (form(*setting, n), size, float(sign)), count, scale)[0]
            for setting in settings
            for n in depths
            for size in sizes
            for sign in signs
        ]
    shape = len(settings), len(depths), len(sizes), len(signs), count
    return {"risk": np.reshape(risks, shape), "traces": np.array([traces(*setting, 6) for setting in settings])}


ABOUT = {
    "settings": [list(setting) for setting in SETTINGS],
    "depths": list(DEPTHS),
    "errors": list(ERRORS),
    "signs": list(depth.SIGNS),
    "starts": STARTS,
    "steps": depth.STEPS,
    "scales": list(SCALES),
    "dtype": "float64",
}
EXPERIMENTS = {
    "depth_alike": Experiment(
        "layers after one another that treat all directions alike, at the paper's scale",
        run,
        # Where all searches end at one place; elsewhere the last digit of a library decides which minimum one finds.
        partial(run, SETTINGS[:1], DEPTHS[:2], signs=depth.SIGNS[:1]),
        ABOUT,
        partial(versions, "jax", "numpy", "scipy"),
        rtol=1e-6,
        atol=1e-6,
    )
}
