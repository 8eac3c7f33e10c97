"""Exact moments of the context's Gram matrix, by Wick's theorem, and for features that
are not Gaussian.

Given the task weights ``w = w* + eps`` the tokens ``z_i = [x_i; y_i]`` are independent,
``N(0, Omega)``, with ``Omega`` a polynomial in eps. They are independent only *given*
w: the average over eps comes last, and products of ``Omega`` do not factor under it.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from lsalib import _check
from lsalib._arrays import Fourth
from lsalib.tasks import GaussianTask, check_task
from lsalib.theory._shared import arrays, full_precision


class GramMoments(NamedTuple):
    """``mean`` E[G] (D, D), ``second`` E[G⊗G] (D, D, D, D) and ``cross`` E[w_i G] (d,
    D, D).
    """

    mean: Float[np.ndarray | Array, "D D"]
    second: Float[np.ndarray | Array, "D D D D"]
    cross: Float[np.ndarray | Array, "d D D"]


@full_precision
def gram_moments(task: GaussianTask, *, fourth: Fourth = None) -> GramMoments:
    r"""The first and second moments of `G = \frac 1C \sum_i z_i z_i^\top`, and its
    correlation with the task weights.

    .. math:: E[G] = E[\Omega], \quad E[w_i G] = E[w_i \Omega], \quad E[G_{mn} G_{pq}] =
       E[\Omega_{mn} \Omega_{pq}]
       + \tfrac 1C \big( E[\Omega_{mp} \Omega_{nq}] + E[\Omega_{mq} \Omega_{np}] \big),
       \quad \Omega = \begin{pmatrix} \Lambda & \Lambda w \\ w^\top \Lambda & w^\top
       \Lambda w + \sigma^2 \end{pmatrix}

    For features that are not Gaussian, such as rows of a data set drawn with
    replacement, the difference of their fourth moments from the Gaussian ones, mapped
    through the same tokens and divided by C, is added to ``second``.

    Args:
        task: the task distribution. Its ``feature_cov`` is `E[x x^\top]`, whatever the
            features' mean.
        fourth: `E[x_i x_j x_k x_l]`, (d, d, d, d), the same for every order of the
            indices; None means those of Gaussian features.

    Returns:
        ``GramMoments``; ``second`` holds D^4 numbers. ``population_risk`` never builds
        it.

    Example:
        >>> task = GaussianTask([2.0], context_size=1)
        >>> moments = gram_moments(task)
        >>> moments.mean.tolist(), moments.second[0, 0].tolist()
        ([[1.0, 2.0], [2.0, 5.0]], [[3.0, 6.0], [6.0, 15.0]])
        >>> moments.cross.tolist()
        [[[2.0, 5.0], [5.0, 14.0]]]
        >>> signs = np.ones((1, 1, 1, 1))  # a feature of ±1
        >>> gram_moments(task, fourth=signs).second[0, 0].tolist()
        [[1.0, 2.0], [2.0, 5.0]]

    Source: what eq. 23 and appendix A.3 of arXiv 2512.04268 are about.
    """
    check_task(task)
    # The fourth moments may be traced where the task is known.
    if fourth is not None:
        fourth = _check.array("fourth", fourth, (task.dim,) * 4)
        if not _check.traced(fourth):
            _check_fourth(fourth, task)
    (xp, w, L, P, s), fourth = arrays(task, fourth)
    C, label = task.context_size, xp.eye(task.dim + 1, dtype=w.dtype)[-1]
    tokens = xp.concatenate([xp.eye(task.dim, dtype=w.dtype), w[None]])
    corner = xp.outer(label, label)
    mean = tokens @ L @ tokens.T + (xp.trace(L @ P) + s**2) * corner
    # The part of Omega that is linear in eps; E[eps_i Omega] = linear[i].
    slope = xp.einsum("mj,ji,n->imn", tokens, L, label)
    slope = slope + slope.transpose(0, 2, 1)
    linear = xp.tensordot(P, slope, 1)

    product = xp.tensordot(mean, mean, 0) + xp.einsum("imn,ipq->mnpq", slope, linear)
    # The two pairings across eps^T L eps times itself; the third one is in mean⊗mean.
    product = product + 2 * xp.trace(L @ P @ L @ P) * xp.tensordot(corner, corner, 0)
    second = product + _crossed(product) / C
    if fourth is not None:
        gaussian = xp.tensordot(L, L, 0)
        above = fourth - gaussian - _crossed(gaussian)
        second = second + _through_tokens(xp, tokens, corner, P, above) / C
    return GramMoments(mean, second, xp.tensordot(w, mean, 0) + linear)


def _check_fourth(fourth, task: GaussianTask) -> None:
    """The order of indices is free, and products of two features have a covariance,
    which is no less than zero.
    """
    swapped = (np.swapaxes(fourth, 0, axis) for axis in (1, 2, 3))
    off = max(np.abs(fourth - other).max() for other in swapped)
    if not off <= 1e-6 * np.abs(fourth).max():
        raise ValueError(
            f"fourth must be finite and symmetric, got a largest asymmetry of {off:g}"
        )
    if _check.traced(task.feature_cov):
        return
    L = np.eye(task.dim) if task.feature_cov is None else task.feature_cov
    covariance = np.asarray(fourth, np.float64) - np.multiply.outer(L, L)
    least = np.linalg.eigvalsh(covariance.reshape(L.size, L.size))[0]
    if least < -1e-6 * np.abs(fourth).max() - 1e-12 * np.abs(L).max() ** 2:
        raise ValueError(
            "fourth must be at least the products of feature_cov, got products of "
            f"features with a variance of {least:g}"
        )


def _through_tokens(xp, tokens, corner, P, above):
    """E[T⊗T⊗T⊗T above] for random tokens x -> [x; w.x] with the mean ``tokens``."""
    every = above
    for _ in range(4):  # the first index goes, a token's comes last
        every = xp.tensordot(every, tokens, ((0,), (1,)))
    two = xp.tensordot(above, P, 2)
    # One pair of eps in two of the four labels, six ways; two pairs in all four, three
    # ways.
    mixed = xp.tensordot(tokens @ two @ tokens.T, corner, 0)
    pair = mixed + mixed.transpose(2, 3, 0, 1)
    pairs = 3 * xp.sum(two * P) * xp.tensordot(corner, corner, 0)
    return every + pair + _crossed(pair) + pairs


def _crossed(pairs):
    """The other two ways to pair four indices: (m, p), (n, q) and (m, q), (n, p)."""
    return pairs.transpose(0, 2, 1, 3) + pairs.transpose(0, 2, 3, 1)
