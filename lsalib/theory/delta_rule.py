"""The delta rule: gradient steps on one example at a time, as a fast-weight layer takes
them with its state.

Each example is independent of the state that it changes, so the second moments of the
error, ``M = E[e e^T]`` with ``e = w - w_t``, have an exact linear recursion. For a
Gaussian x Isserlis' theorem gives

    E[(I - b x x^T) V (I - b x x^T)] = V - b (Lambda V + V Lambda) + b^2 (2 Lambda V
    Lambda + tr(Lambda V) Lambda),

and for a random direction n, ``E[n n^T V n n^T] = (2 V + tr(V) I) / (d (d + 2))``.
"""

import jax

from lsalib import _check
from lsalib.tasks import GaussianTask
from lsalib.theory._shared import (
    Number,
    full_precision,
    guess_vector,
    isotropic,
    numbers,
    plain,
)


@full_precision
def delta_rule_risk(
    task: GaussianTask,
    step_size: Number | None = None,
    start=None,
    *,
    normalized: bool = False,
    decay: Number = 1.0,
) -> Number:
    r"""The risk of ``estimators.delta_rule``: one gradient step on each example in
    turn, from a given start.

    .. math:: w_{t+1} = \lambda w_t + \eta x_t (y_t - \lambda w_t^\top x_t), \qquad f =
       w_C^\top x_q

    For identity covariances, no noise and `\lambda = 1`, with `u = w_\star - w_0`, that
    is

    .. math:: \gamma^C (d + \lVert u \rVert^2), \qquad \gamma = 1 - 2 \eta + \eta^2 (d +
       2), \quad
       \text{or normalized} \quad \gamma = 1 - (2 \eta - \eta^2) / d

    In general it is `\mathrm{tr}\, \Lambda M_C`. With `e_t = w - w_t` and `V_t = E[v
    v^\top]` for `v = \lambda e_t + (1 - \lambda) w`,

    .. math:: M_{t+1} = V_t - \eta (\Lambda V_t + V_t \Lambda) + \eta^2 \big( 2 \Lambda
       V_t \Lambda
       + (\mathrm{tr}\, \Lambda V_t + \sigma^2) \Lambda \big)

    Args:
        task: the task distribution.
        step_size: `\eta`; None means the best one of `\Lambda = \sigma_x^2 I` without
            label noise and decay, `1 / (\sigma_x^2 (d + 2))`, or normalized 1.
        start: `w_0`, the first state, (d,); None means zero.
        normalized: whether each step is divided by the squared length of its example.
            Lambda must then be a multiple of the identity, which is not checked if JAX
            traces it.
        decay: `\lambda`, by which the state is multiplied before each step.

    Raises:
        ValueError: if no ``step_size`` is given and the best one has no closed form,
            and for normalized steps if Lambda is no multiple of the identity, or d < 3
            with label noise, where the risk is infinite.

    Example:
        >>> task = GaussianTask([1.0] * 5, context_size=10)
        >>> round(delta_rule_risk(task), 4), round(delta_rule_risk(task, start=task.prior_mean), 4)
        (2.1406, 1.0703)

    Sources: LMS of Feuer and Weinstein (1985); normalized, the randomized Kaczmarz
    method of Strohmer and Vershynin (2009). The decay and general covariances are
    worked out here.
    """
    given = guess_vector(task, start, "start"), _check.number("decay", decay)
    xp, w, L, P, s, start, decay = numbers(task, *given)
    d, one, alike = (
        task.dim,
        xp.eye(task.dim, dtype=w.dtype),
        isotropic(task.feature_cov),
    )
    scale = xp.trace(L) / d
    if normalized and not alike:
        raise ValueError(
            "normalized must be False where feature_cov is no multiple of the identity, got True"
        )
    if normalized and task.noisy and d < 3:
        raise ValueError(
            f"normalized must be False where labels are noisy and d < 3 (infinite risk), got d = {d}"
        )
    if step_size is None:
        if task.noisy or not alike or _check.traced(decay) or decay != 1:
            raise ValueError(
                "step_size must be given where labels are noisy, decay is not 1 or feature_cov is no multiple of the "
                "identity, got None"
            )
        step_size = 1.0 if normalized else 1 / (scale * (d + 2))
    beta = _check.number("step_size", step_size)
    # E[1/|x|^2] = 1 / (scale (d - 2)).
    noise = s**2 * (one / (scale * max(d - 2, 1) * d) if normalized else L)

    def step(state):
        M, K = state  # E[e e^T] and E[e w^T]
        V = decay**2 * M + decay * (1 - decay) * (K + K.T) + (1 - decay) ** 2 * W
        K = decay * K + (1 - decay) * W
        if normalized:
            pull, spread, drift = (
                2 * V / d,
                (2 * V + xp.trace(V) * one) / (d * (d + 2)),
                K / d,
            )
        else:
            pull, spread, drift = (
                L @ V + V @ L,
                2 * L @ V @ L + xp.trace(L @ V) * L,
                L @ K,
            )
        return V - beta * pull + beta**2 * (spread + noise), K - beta * drift

    M, K, W = (
        P + xp.outer(a, b) for a, b in ((w - start, w - start), (w - start, w), (w, w))
    )
    if _check.traced(M, beta, decay):
        M = jax.lax.fori_loop(
            0, task.context_size, lambda _, state: step(state), (M, K)
        )[0]
    else:
        for _ in range(task.context_size):
            M, K = step((M, K))
    return plain(xp, xp.trace(L @ M))
