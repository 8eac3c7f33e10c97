"""Several layers that rewrite the labels of all tokens: what a wrong guess costs them.

A layer writes only labels and multiplies no two of them: every token's new label is an
affine function of the old ones, ``y + <S, M> y + (M'(S) + N s).x`` with ``s`` the
average of ``y x`` and any M, N and linear map M'. Without label noise, products of
labels gain nothing in a single layer. Two layers that use products can have less risk.
"""

import math

from lsalib import _check
from lsalib.tasks import GaussianTask
from lsalib.theory._shared import (
    Number,
    full_precision,
    guess_vector,
    isotropic,
    numbers,
    plain,
    rank,
)


@full_precision
def depth_price(task: GaussianTask, layers: int) -> Number:
    r"""The lowest price, per unit of a guess's mean squared error, of layers that are
    affine in the labels.

    .. math:: \binom{L + Ck/2}{L}^{-1} = \prod_{j=1}^{L} \frac{j}{j + Ck/2}

    (:eq:`depth-price` of the book) `k` is the rank of `\Lambda`. For identity
    covariances, one layer and two pay exactly this, and so does any number of them for
    one feature; more layers pay it in the limit of large errors. Two layers that
    multiply labels can pay less.

    Args:
        task: the task distribution, free of label noise.
        layers: `L`.

    Returns:
        The least mean squared error of predicting the constant 1 by a polynomial of
        degree `L` in the features' average squared length, without a constant term.

    Example:
        >>> task = GaussianTask([2.0] * 10, context_size=10)
        >>> [round(40 * depth_price(task, layers), 4) for layers in (1, 2, 3)]
        [0.7843, 0.0302, 0.0017]

    Source: new here; ``depth-gap`` in the ledger.
    """
    xp, _, L, _, _ = numbers(task)
    layers = _check.count("layers", layers)
    if task.noisy:
        raise ValueError(f"task must have noise_std 0, got {task.noise_std}")
    order = task.context_size * rank(xp, L, task.feature_cov) / 2
    return plain(xp, math.prod(j / (j + order) for j in range(1, layers + 1)))


@full_precision
def depth_risk(task: GaussianTask, layers: int, guess=None) -> Number:
    r"""The minimum risk of one or two layers that are affine in the labels, or of any
    number for one feature.

    .. math:: R_L + \frac{\lVert w_\star - g \rVert^2}{\binom{L + Cd/2}{L}}, \quad
       R_1 = \frac{d (d+1)}{C+d+1}, \quad
       R_2 = d\, \frac{(d^2+3d+4)\, C + (d-1)(d+1)(d+4)}{(C+d+1) (C^2 + (d+3)\, C +
       (d-1)(d+4))}

    for identity covariances (:eq:`depth-two` of the book); for one feature `R_L =
    \binom{L + C/2}{L}^{-1}`. The prediction is the query's last label, which begins
    with the guess.

    Args:
        task: the task distribution, free of label noise, its covariances multiples of
            the identity. This is not checked for covariances that JAX traces.
        layers: `L`: 1, 2, or any number if d is 1.
        guess: `g`, the weights of the initial guess, (d,); None means zero.

    Example:
        >>> task = GaussianTask([2.0] * 10, context_size=10)
        >>> [round(depth_risk(task, layers), 4) for layers in (1, 2)]
        [6.0224, 3.6765]
        >>> round(depth_risk(task, 2, guess=task.prior_mean), 4)
        3.6463

    Source: new here; ``depth-gap`` in the ledger.
    """
    price, d, C = depth_price(task, layers), task.dim, task.context_size
    if not (isotropic(task.feature_cov) and isotropic(task.prior_cov)):
        raise ValueError(
            "task must have covariances that are multiples of the identity"
        )
    if layers > 2 and d > 1:
        raise ValueError(
            f"layers must be 1 or 2 for more than one feature, got {layers}"
        )
    if d == 1:
        least = price
    elif layers == 1:
        least = (d + 1) / (C + d + 1)
    else:
        above = (d**2 + 3 * d + 4) * C + (d - 1) * (d + 1) * (d + 4)
        least = above / ((C + d + 1) * (C**2 + (d + 3) * C + (d - 1) * (d + 4)))
    xp, w, L, P, _, guess, price, least = numbers(
        task, guess_vector(task, guess), price, least
    )
    return plain(xp, xp.trace(L @ P) * least + (w - guess) @ L @ (w - guess) * price)
