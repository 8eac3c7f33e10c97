"""Exact moments of the context's Gram matrix, by Wick's theorem, and for features that are not Gaussian.

Given the task weights ``w = w* + eps`` the tokens ``z_i = [x_i; y_i]`` are independent,
``N(0, Omega)``, with ``Omega`` a polynomial in eps. They are independent only *given* w:
the average over eps comes last, and products of ``Omega`` do not factor under it.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from lsalib import _validate
from lsalib.mixtures import averaged
from lsalib.tasks import GaussianTask
from lsalib.theory._task_arrays import full_precision, task_arrays

__all__ = ["GramMoments", "gram_moments"]


class GramMoments(NamedTuple):
    """``mean`` E[G] (D, D), ``second`` E[G⊗G] (D, D, D, D) and ``cross`` E[w_i G] (d, D, D)."""

    mean: Float[np.ndarray | Array, "D D"]
    second: Float[np.ndarray | Array, "D D D D"]
    cross: Float[np.ndarray | Array, "d D D"]


@averaged
@full_precision
def gram_moments(task: GaussianTask, *, fourth=None) -> GramMoments:
    r"""The first and second moments of `G = \frac 1C \sum_i z_i z_i^\top`, and its correlation with the task weights.

    .. math:: E[G] = E[\Omega], \quad E[w_i G] = E[w_i \Omega], \quad E[G_{mn} G_{pq}] = E[\Omega_{mn} \Omega_{pq}]
       + \tfrac 1C \big( E[\Omega_{mp} \Omega_{nq}] + E[\Omega_{mq} \Omega_{np}] \big), \quad
       \Omega = \begin{pmatrix} \Lambda & \Lambda w \\ w^\top \Lambda & w^\top \Lambda w + \sigma^2 \end{pmatrix}

    The moments depend on the features only through their second and fourth moments. For features that are not Gaussian,
    such as rows of a data set drawn with replacement, the difference of their fourth moments from the Gaussian ones,
    mapped through the same tokens and divided by C, is added to ``second``. They are those of the context, and do not
    depend on the task's ``query_cov``.

    Args:
        task: the task distribution, or a ``MixtureTask``. Its ``feature_cov`` is `E[x x^\top]`, whatever the features'
            mean.
        fourth: `E[x_i x_j x_k x_l]`, (d, d, d, d); None means those of Gaussian features.

    Returns:
        ``GramMoments``; ``second`` holds D^4 numbers, so D = d+1 must be small.
        ``population_risk`` never builds it.

    Raises:
        ValueError: if ``fourth`` is not finite, not symmetric, or does not have its shape.

    Example:
        >>> moments = gram_moments(GaussianTask([2.0], context_size=1))
        >>> moments.mean.tolist(), moments.second[0, 0].tolist(), moments.cross.tolist()
        ([[1.0, 2.0], [2.0, 5.0]], [[3.0, 6.0], [6.0, 15.0]], [[[2.0, 5.0], [5.0, 14.0]]])
        >>> gram_moments(GaussianTask([2.0], context_size=1), fourth=np.ones((1, 1, 1, 1))).second[0, 0].tolist()
        [[1.0, 2.0], [2.0, 5.0]]

    Source: what eq. 23 and appendix A.3 of arXiv 2512.04268 are about.
    """
    # The fourth moments may be traced where the task is known.
    given = () if fourth is None else (_validate.fourth_moments("fourth", fourth, task.dim),)
    xp, w, L, P, s, C, *own = task_arrays(task, task.context_size, *given)
    label = xp.eye(task.dim + 1, dtype=w.dtype)[-1]
    tokens, corner = xp.concatenate([xp.eye(task.dim, dtype=w.dtype), w[None]]), xp.outer(label, label)
    mean = tokens @ L @ tokens.T + (xp.trace(L @ P) + s**2) * corner
    # The part of Omega that is linear in eps; E[eps_i Omega] = linear[i].
    slope = xp.einsum("mj,ji,n->imn", tokens, L, label)
    slope = slope + slope.transpose(0, 2, 1)
    linear = xp.tensordot(P, slope, 1)

    product = xp.tensordot(mean, mean, 0) + xp.einsum("imn,ipq->mnpq", slope, linear)
    # The two pairings across eps^T L eps times itself; the third one is in mean⊗mean.
    product = product + 2 * xp.trace(L @ P @ L @ P) * xp.tensordot(corner, corner, 0)
    pairings = product.transpose(0, 2, 1, 3) + product.transpose(0, 2, 3, 1)
    second = product + pairings / C
    if own:
        above = own[0] - _paired(xp, L)
        second = second + _through_tokens(xp, tokens, corner, P, above) / C
    return GramMoments(mean, second, xp.tensordot(w, mean, 0) + linear)


def _paired(xp, L):
    """The fourth moments of Gaussian features."""
    product = xp.tensordot(L, L, 0)
    return product + product.transpose(0, 2, 1, 3) + product.transpose(0, 2, 3, 1)


def _through_tokens(xp, tokens, corner, P, above):
    """E[T⊗T⊗T⊗T above] for the random tokens x -> [x; w.x], whose mean is ``tokens``."""
    every = above
    for _ in range(4):  # the first index goes, a token's comes last
        every = xp.tensordot(every, tokens, ((0,), (1,)))
    two = xp.tensordot(above, P, 2)
    # One pair of eps in two of the four labels, six ways; two pairs in all four, three ways.
    mixed = xp.tensordot(tokens @ two @ tokens.T, corner, 0)
    pair = mixed + mixed.transpose(2, 3, 0, 1)
    pairs = pair + _crossed(pair)
    return every + pairs + 3 * xp.sum(two * P) * xp.tensordot(corner, corner, 0)


def _crossed(pair):
    """The four ways in which each of two pairs of indices (m, n), (p, q) has one of the label's."""
    return pair.transpose(0, 2, 1, 3) + pair.transpose(0, 2, 3, 1)
