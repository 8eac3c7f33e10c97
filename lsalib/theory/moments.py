"""Exact moments of the context's Gram matrix, by Wick's theorem.

Given the task weights ``w = w* + eps`` the tokens ``z_i = [x_i; y_i]`` are independent,
``N(0, Omega)``, with ``Omega`` a polynomial in eps. They are independent only *given* w:
the average over eps comes last, and products of ``Omega`` do not factor under it.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float

from lsalib.tasks import GaussianTask
from lsalib.theory._numbers import numbers, precise

__all__ = ["GramMoments", "gram_moments"]


class GramMoments(NamedTuple):
    """``mean`` E[G] (D, D), ``second`` E[G⊗G] (D, D, D, D) and ``cross`` E[w_i G] (d, D, D)."""

    mean: Float[np.ndarray | Array, "D D"]
    second: Float[np.ndarray | Array, "D D D D"]
    cross: Float[np.ndarray | Array, "d D D"]


@precise
def gram_moments(task: GaussianTask) -> GramMoments:
    r"""The first and second moments of `G = \frac 1C \sum_i z_i z_i^\top`, and its correlation with the task weights.

    .. math:: E[G] = E[\Omega], \quad E[w_i G] = E[w_i \Omega], \quad E[G_{mn} G_{pq}] = E[\Omega_{mn} \Omega_{pq}]
       + \tfrac 1C \big( E[\Omega_{mp} \Omega_{nq}] + E[\Omega_{mq} \Omega_{np}] \big), \quad
       \Omega = \begin{pmatrix} \Lambda & \Lambda w \\ w^\top \Lambda & w^\top \Lambda w + \sigma^2 \end{pmatrix}

    Args:
        task: the task distribution.

    Returns:
        ``GramMoments``; ``second`` holds D^4 numbers, so this is for a small D = d+1.
        ``population_risk`` never builds it.

    Example:
        >>> moments = gram_moments(GaussianTask([2.0], context_size=1))
        >>> moments.mean.tolist(), moments.second[0, 0].tolist(), moments.cross.tolist()
        ([[1.0, 2.0], [2.0, 5.0]], [[3.0, 6.0], [6.0, 15.0]], [[[2.0, 5.0], [5.0, 14.0]]])

    Source: what eq. 23 and appendix A.3 of arXiv 2512.04268 are about.
    """
    xp, w, L, P, s = numbers(task)
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
    return GramMoments(mean, product + pairings / task.context_size, xp.tensordot(w, mean, 0) + linear)
