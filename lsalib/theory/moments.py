"""Exact moments of the context's Gram matrix, by Wick's theorem.

Given the task weights ``w = w* + eps`` the tokens ``z_i = [x_i; y_i]`` are independent,
``N(0, Omega)``, with ``Omega`` a polynomial in eps. They are independent only *given* w:
the average over eps comes last, and products of ``Omega`` do not factor under it.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from lsalib.tasks import GaussianTask

__all__ = ["GramMoments", "gram_moments"]


class GramMoments(NamedTuple):
    """``mean`` E[G] (D, D), ``second`` E[G⊗G] (D, D, D, D) and ``cross`` E[w_i G] (d, D, D)."""

    mean: Float[np.ndarray, "D D"]
    second: Float[np.ndarray, "D D D D"]
    cross: Float[np.ndarray, "d D D"]


def gram_moments(task: GaussianTask) -> GramMoments:
    """The first and second moments of ``G = (1/C) sum_i z_i z_i^T``, and its correlation with the task weights.

    ``E[G] = E[Omega]``, ``E[w_i G] = E[w_i Omega]`` and
    ``E[G_mn G_pq] = E[Omega_mn Omega_pq] + (E[Omega_mp Omega_nq] + E[Omega_mq Omega_np]) / C``
    with ``Omega = [[L, L w], [w^T L, w^T L w + s^2]]``, L = feature_cov, s = noise_std.

    Args:
        task: the task distribution.

    Returns:
        ``GramMoments`` in float64; ``second`` holds D^4 numbers, so this is for a small D = d+1.
        ``population_risk`` never builds it.

    Example:
        >>> moments = gram_moments(GaussianTask([2.0], context_size=1))
        >>> moments.mean.tolist(), moments.second[0, 0].tolist(), moments.cross.tolist()
        ([[1.0, 2.0], [2.0, 5.0]], [[3.0, 6.0], [6.0, 15.0]], [[[2.0, 5.0], [5.0, 14.0]]])

    Source: what eq. 23 and appendix A.3 of arXiv 2512.04268 are about.
    """
    identity, w, C = np.eye(task.dim), task.prior_mean, task.context_size
    L = identity if task.feature_cov is None else task.feature_cov
    P = identity if task.prior_cov is None else task.prior_cov

    tokens = np.vstack([identity, w])
    mean = tokens @ L @ tokens.T
    mean[-1, -1] += np.trace(L @ P) + task.noise_std**2
    # The part of Omega that is linear in eps; E[eps_i Omega] = linear[i].
    slope = np.einsum("mj,ji,n->imn", tokens, L, np.eye(task.dim + 1)[-1])
    slope = slope + slope.transpose(0, 2, 1)
    linear = np.tensordot(P, slope, 1)

    product = np.multiply.outer(mean, mean) + np.einsum("imn,ipq->mnpq", slope, linear)
    # The two pairings across eps^T L eps times itself; the third one is in mean⊗mean.
    product[-1, -1, -1, -1] += 2 * np.trace(L @ P @ L @ P)
    pairings = product.transpose(0, 2, 1, 3) + product.transpose(0, 2, 3, 1)
    return GramMoments(mean, product + pairings / C, np.multiply.outer(w, mean) + linear)
