"""Closed forms: the risk of one gradient step, the minimum risk of each model, and
weights that attain it.

Throughout, ``S = X^T X / C`` has mean Lambda, and Isserlis' theorem gives
``E[S B S] = Lambda B Lambda (1 + 1/C) + tr(B Lambda) Lambda / C`` for symmetric B.
Risks are against the noise-free target ``w.x_q``.
"""

from typing import NamedTuple

import numpy as np

from lsalib import _check
from lsalib._arrays import Vector
from lsalib.attention import LSAParams, from_effective
from lsalib.tasks import GaussianTask
from lsalib.theory._shared import (
    Matrix,
    Number,
    Units,
    arrays,
    full_precision,
    guess_vector,
    in_units,
    plain,
    rank,
)


@full_precision
def gd_risk(task: GaussianTask, step_size: Number | None = None) -> Number:
    r"""The risk of one gradient step from the prior mean (:eq:`laws-step-risk` of the
    book).

    .. math:: \mathrm{tr}\, \Lambda \Psi - 2 \eta\, a + \eta^2 b, \qquad a =
       \mathrm{tr}\, \Lambda \Lambda \Psi, \quad
       b = \tfrac{C+1}{C}\, \mathrm{tr}\, \Lambda \Lambda \Psi \Lambda
       + \tfrac 1C (\mathrm{tr}\, \Lambda \Psi + \sigma^2)\, \mathrm{tr}\, \Lambda
       \Lambda

    For identity covariances and no noise that is `d (1 - 2 \eta + \eta^2 (C+d+1)/C)`.

    Args:
        task: the task distribution.
        step_size: `\eta`; None means the best, ``optimal_step(task)``.

    Example:
        >>> task = GaussianTask([2.0] * 10, context_size=10)
        >>> round(gd_risk(task), 4), gd_risk(task, step_size=0.0)
        (5.2381, 10.0)
        >>> # Variances 1, 1 and noise 3, at eta = 1/2:
        >>> # 2 - 2 (2 eta) + eta^2 (5/4 * 2 + (2 + 9)/4 * 2)
        >>> gd_risk(GaussianTask([0.0, 0.0], 4, noise_std=3.0), step_size=0.5)
        2.0

    Source: standard, cf. Wu et al. (2024); ``exact-gd-risk`` in the ledger.
    """
    xp, L, P, noise, lam, psi, C = units = in_units(task)
    eta = _best_step(units)
    if step_size is not None:
        eta = arrays(task, _check.number("step_size", step_size))[1] * lam
    # A mean that no context moves, and fluctuations: nothing cancels in a long context.
    left = xp.eye(task.dim, dtype=L.dtype) - eta * L
    mean = xp.trace(P @ left @ L @ left)
    fluctuation = xp.trace(L @ L @ P @ L) + (xp.trace(L @ P) + noise) * xp.sum(L * L)
    return plain(xp, lam * psi * (mean + eta**2 * fluctuation / C))


@full_precision
def optimal_step(task: GaussianTask) -> Number:
    r"""The step size with the minimum risk, `\eta_\star = a / b` with a and b of
    ``gd_risk``.

    For identity covariances and no noise that is `C/(C+d+1)`.

    Example:
        >>> round(optimal_step(GaussianTask([2.0] * 10, context_size=10)), 4)
        0.4762

    Source: standard, cf. Wu et al. (2024); ``exact-gd-risk`` in the ledger.
    """
    units = in_units(task)
    return plain(units.xp, _best_step(units) / units.lam)


@full_precision
def optimal_preconditioner(task: GaussianTask) -> Matrix:
    r"""The best N of a step `w_\star + N X^\top (y - X w_\star) / C`, (d, d).

    .. math:: N = \Psi \Big[ \tfrac{C+1}{C}\, \Lambda \Psi
       + \tfrac 1C (\mathrm{tr}\, \Lambda \Psi + \sigma^2)\, I \Big]^{-1}

    For identity covariances that is `\eta_\star I`. Where `\Lambda` is singular, every
    N that agrees with this one on the features' directions is as good.

    Example:
        >>> task = GaussianTask([0.0, 0.0], context_size=3)
        >>> optimal_preconditioner(task).round(4).tolist()
        [[0.5, 0.0], [0.0, 0.5]]

    Sources: Ahn et al. (2023) and Zhang, Frei and Bartlett (2024) for isotropic priors,
    with noise Wu et al. (2024); Zhang, Wu and Bartlett (2024) for a prior mean, as it
    seems with positive definite `\Psi` (we read only their abstract). We know of no
    source for singular covariances (``preconditioned-optimum`` in the ledger).
    """
    units = in_units(task)
    return units.P @ _share_left(units)[1] / units.lam


@full_precision
def yq_risk(task: GaussianTask) -> Number:
    r"""The minimum risk of yq-LSA, for any number of heads: that of the best
    preconditioned step.

    .. math:: \mathrm{tr}\, \Lambda (\Psi - N \Lambda \Psi)

    N is that of ``optimal_preconditioner``. For identity covariances and no noise this
    is `d (d+1)/(C+d+1)`.

    Example:
        >>> round(yq_risk(GaussianTask([2.0] * 10, context_size=10)), 4)
        5.2381

    Sources: those of ``optimal_preconditioner``, and for one head Zhang, Wu and
    Bartlett (2024). That more heads do not help is new (``conjecture-global-optimum``
    in the ledger).
    """
    xp, L, P, _, lam, psi, _ = units = in_units(task)
    # tr L (P - N L P), as a product of positive factors: nothing cancels.
    left, inverse = _share_left(units)
    return plain(xp, lam * psi * xp.trace(L @ P @ left @ inverse))


@full_precision
def optimal_risk(
    task: GaussianTask, guess: Vector = None, bias: Number = 0.0
) -> Number:
    r"""The minimum risk of multi-head LSA with enough heads and a *fixed* initial guess
    `y_q = g^\top x_q + \beta`.

    .. math:: \mathcal R_\mathrm{yq} + \frac{u^\top \Lambda u + \beta^2}{1 + Ck/2 +
       \sigma^4/V},
       \qquad u = w_\star - g

    `\mathcal R_\mathrm{yq}` is ``yq_risk``, `k` is the rank of `\Lambda`, and `V` is
    that of ``constant_regression``. The guess is off by `u^\top x_q - \beta`, and a
    correction of it would need a constant, which attention does not have. Without label
    noise d heads are enough, otherwise d+1.

    Args:
        task: the task distribution.
        guess: `g`, the weights of the initial guess, (d,); None means zero.
        bias: `\beta`, its constant part.

    Example:
        >>> task = GaussianTask([2.0] * 10, context_size=10)
        >>> round(optimal_risk(task), 4), round(optimal_risk(task, guess=[2.0] * 10), 4)
        (6.0224, 5.2381)

    Source: that the price of a wrong guess is positive, Zhang, Wu and Bartlett (2024).
    Its size is new (``exact-multihead-risk`` and ``price-general`` in the ledger).
    """
    guess, bias = guess_vector(task, guess), _check.number("bias", bias)
    best, price = yq_risk(task), constant_regression(task).error
    (xp, w, L, *_), guess, bias, best, price = arrays(task, guess, bias, best, price)
    return plain(xp, best + ((w - guess) @ L @ (w - guess) + bias**2) * price)


class ConstantRegression(NamedTuple):
    """The ``features`` (d, d) and ``residual`` of the combination closest to 1, and its
    mean squared ``error``.
    """

    features: Matrix
    residual: Number
    error: Number


@full_precision
def constant_regression(
    task: GaussianTask, *, noise_cumulant: Number = 0.0
) -> ConstantRegression:
    r"""Least squares for the constant 1 on a context's second moments, attention's
    substitute for a constant.

    .. math:: \min_{F, \varphi} E \big( \langle F, S \rangle + \varphi q - 1 \big)^2 = e
       = \Big( 1 + \frac{C k}{2} + \frac{\sigma^4}{V} \Big)^{-1}, \qquad
       F = e \Big( \frac{C}{2} \Lambda^+ - \frac{\sigma^2}{V} \Psi \Big), \qquad \varphi
       = \frac{e \sigma^2}{V}

    `S` and `q` are the averages of `x x^\top` and `r^2`, with `r` the residual label `y
    - w_\star^\top x`, and `k` is the rank of `\Lambda`. Of whitened features the
    average squared length has mean 1 and variance `2/(C k)`. The part of `q` that `S`
    does not explain has mean `\sigma^2` and variance `V = 2 \tau_2 + 2 ((\tau_1 +
    \sigma^2)^2 + \tau_2) / C + \kappa_4 / C`, `\tau_k = \mathrm{tr} (\Lambda \Psi)^k`.

    Args:
        task: the task distribution, its covariances singular or not.
        noise_cumulant: `\kappa_4 = E[\nu^4] - 3 \sigma^4` of label noise `\nu` that is
            not Gaussian: `-2 \sigma^4` of random signs, `3 \sigma^4` of Laplace noise.

    Raises:
        ValueError: if no noise of the task's strength has this cumulant.

    Example:
        >>> error = constant_regression(GaussianTask([2.0, 2.0], 5)).error
        >>> round(error * (1 + 5 * 2 / 2), 12)  # 1 + C k/2
        1.0
        >>> task = GaussianTask([2.0, 2.0], 5, noise_std=2.0)
        >>> regress = lambda n: constant_regression(task, noise_cumulant=n * 2.0**4)
        >>> [round(regress(n).error, 4) for n in (0, -2, 3)]
        [0.1463, 0.1379, 0.1525]
    """
    extra = _check.number("noise_cumulant", noise_cumulant)
    xp, L, P, noise, lam, psi, C = in_units(task)
    if not _check.traced(extra, task.noise_std):
        least = -2 * float(task.noise_std) ** 4
        if extra < least * (1 + 1e-9) or (extra and not task.noisy):
            raise ValueError(
                f"noise_cumulant must be at least -2 noise_std^4 = {least:g}, and 0 "
                f"without label noise, got {extra:g}"
            )
    spread, square = xp.trace(L @ P), xp.trace(L @ P @ L @ P)
    fourth = 2 * noise**2 + arrays(task, extra)[1] / lam**2 / psi**2
    V = 2 * square * (1 + 1 / C) + (2 * spread * (spread + 2 * noise) + fourth) / C
    by_features = 1 + C * rank(xp, L, task.feature_cov) / 2
    # Random signs as noise on labels that are known otherwise have V = 0, and their
    # square is the constant itself.
    error, residual = 1 / by_features, 0 * noise
    if task.noisy:
        total = V * by_features + noise**2
        error, residual = V / total, noise / total
    features = (error * C / 2 * xp.linalg.pinv(L, hermitian=True) - residual * P) / lam
    return ConstantRegression(
        features, plain(xp, residual / lam / psi), plain(xp, error)
    )


def optimal_weights(
    task: GaussianTask, guess: Vector = None, bias: Number = 0.0
) -> LSAParams:
    r"""Weights with ``population_risk(weights, task, guess, bias) == optimal_risk(task,
    guess, bias)``.

    .. math:: b_h = e_h, \qquad A_h = \rho\, (N e_h)^\top - (F e_h)\, \rho^\top, \qquad
       \rho = [-w_\star; 1]

    F and `\varphi` are those of ``constant_regression``, N is that of
    ``optimal_preconditioner``. With label noise one more head has `b = \rho` and `A =
    -\varphi \rho \rho^\top`. They predict `y_q + (w_\star^\top x_q - y_q)\, t +
    x_q^\top N X^\top (y - X w_\star) / C`: a preconditioned step and a correction of
    the guess, with t in the place of the constant 1. The weights do not depend on the
    guess.

    Args:
        task, guess, bias: as in ``optimal_risk``.

    Returns:
        ``LSAParams`` with d heads; d+1 with label noise; one, that of
        ``yq_optimal_weights``, if the guess is known to be the prior mean, without a
        bias.

    Example:
        >>> task = GaussianTask([2.0, 2.0, 2.0], context_size=5)
        >>> optimal_weights(task).W_K.shape
        (3, 4, 4)
        >>> optimal_weights(task, guess=[2.0, 2.0, 2.0]).W_K.shape
        (1, 4, 4)

    Source: new here; ``sharp-head-count`` in the ledger.
    """
    N, constant = optimal_preconditioner(task), constant_regression(task)
    guess, bias = guess_vector(task, guess), _check.number("bias", bias)
    known = not _check.traced(task.prior_mean, guess, bias)
    if known and not bias and np.array_equal(guess, task.prior_mean):
        return yq_optimal_weights(task)
    (xp, w, *_), N, F, residual = arrays(task, N, constant.features, constant.residual)
    rho = xp.append(-w, xp.ones_like(w[:1]))
    rows = lambda matrix: xp.concatenate([matrix.T, xp.zeros_like(w)[:, None]], 1)
    b, A = rows(xp.eye(task.dim, dtype=w.dtype)), xp.einsum("m,hn->hmn", rho, rows(N))
    A = A - xp.einsum("hm,n->hmn", rows(F), rho)
    if task.noisy:
        b = xp.concatenate([b, rho[None]])
        A = xp.concatenate([A, -residual * xp.outer(rho, rho)[None]])
    return from_effective(b, A)


def yq_optimal_weights(task: GaussianTask) -> LSAParams:
    r"""The one head of optimal yq-LSA, whose initial guess is `w_\star^\top x_q`: a
    preconditioned step from there.

    .. math:: b = \rho, \qquad A = \begin{pmatrix} N^\top & 0 \\ 0 & 0 \end{pmatrix},
       \qquad \rho = [-w_\star; 1]

    ``population_risk(weights, task, guess=task.prior_mean)`` is ``yq_risk(task)``. For
    identity covariances this head does what ``attention.gd_weights`` with the optimal
    step does.

    Example:
        >>> yq_optimal_weights(GaussianTask([2.0], context_size=2)).W_Q.tolist()
        [[[0.5, 0.0], [0.0, 0.0]]]

    Sources: those of ``optimal_preconditioner``; ``preconditioned-optimum`` in the
    ledger.
    """
    (xp, w, *_), N = arrays(task, optimal_preconditioner(task))
    rho = xp.append(-w, xp.ones_like(w[:1]))
    return from_effective(rho[None], xp.pad(N.T, (0, 1))[None])


def _share_left(units: Units):
    """``L P / C + c`` and the inverse of ``(1 + 1/C) L P + c``, with c the variance of
    labels over C: of ``I - L N`` the numerator and the denominator.

    If no label ever deviates from the prior mean, c is zero, and every step is as good.
    """
    xp, L, P, noise, *_, C = units
    c, identity = (xp.trace(L @ P) + noise) / C, xp.eye(len(L), dtype=L.dtype)
    c = xp.where(c == 0, xp.ones_like(c), c)
    inverse = xp.linalg.inv((1 + 1 / C) * (L @ P) + c * identity)
    return L @ P / C + c * identity, inverse


def _best_step(units: Units) -> Number:
    """a / b of ``gd_risk`` in units of the features' variance."""
    xp, L, P, noise, *_, C = units
    linear = xp.trace(L @ L @ P)
    quadratic = (1 + 1 / C) * xp.trace(L @ L @ P @ L)
    quadratic = quadratic + (xp.trace(L @ P) + noise) * xp.sum(L * L) / C
    # If no label ever deviates from the prior mean, every step has the same risk.
    return linear / xp.where(quadratic == 0, xp.ones_like(quadratic), quadratic)
