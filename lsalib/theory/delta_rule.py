"""The delta rule: gradient steps on one example at a time, as a fast-weight layer takes them with its state.

Each example is independent of the state that it changes, so the second moments of the error, ``M = E[e e^T]`` with
``e = w - w_t``, have an exact linear recursion. For a Gaussian x Isserlis' theorem gives

    E[(I - b x x^T) V (I - b x x^T)] = V - b (Lambda V + V Lambda) + b^2 (2 Lambda V Lambda + tr(Lambda V) Lambda).

If Lambda is a multiple of the identity, the trace of M has a recursion of its own, which is enough if the covariance of
the query is one, too. For a random direction n, ``E[n n^T V n n^T] = (2 V + tr(V) I) / (d (d + 2))``.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from lsalib import _arrays, _validate
from lsalib._arrays import float_if_known
from lsalib.tasks import GaussianTask
from lsalib.theory._task_arrays import (
    Number,
    check_query,
    checks_task,
    full_precision,
    isotropic,
    query_cov,
    repeat,
    task_arrays,
)

__all__ = ["delta_rule_risk", "delta_rule_step"]


@checks_task
@full_precision
def delta_rule_risk(
    task: GaussianTask,
    step_size: Number | None = None,
    start: ArrayLike | None = None,
    *,
    schedule: ArrayLike | None = None,
    normalized: bool = False,
    decay: Number = 1.0,
) -> Number:
    r"""Risk of ``estimators.delta_rule``: one gradient step on each example in turn, from a given start.

    .. math:: w_{t+1} = \alpha w_t + \beta_t x_t (y_t - \alpha w_t^\top x_t), \qquad f = w_C^\top x_q

    For identity covariances, no noise and `\alpha = 1`, with `u = w_\star - w_0`, that is

    .. math:: \rho^C (d + \lVert u \rVert^2), \qquad \rho = 1 - 2 \beta + \beta^2 (d + 2), \quad
       \text{or normalized} \quad \rho = 1 - (2 \beta - \beta^2) / d

    In general the risk is `\mathrm{tr}\, Q M_C`, Q the covariance of the query, `\Lambda` unless the task has a
    ``query_cov``. With `e_t = w - w_t`, `V_t = E[v v^\top]` for
    `v = \alpha e_t + (1 - \alpha) w`,

    .. math:: M_{t+1} = V_t - \beta_t (\Lambda V_t + V_t \Lambda) + \beta_t^2 \big( 2 \Lambda V_t \Lambda
       + (\mathrm{tr}\, \Lambda V_t + \sigma^2) \Lambda \big)

    Args:
        task: the task distribution. JAX may trace its context size if the formula for identity covariances holds, or
            the same plus `\beta^2 \sigma^2 d\, (1 - \rho^C) / (1 - \rho)` for label noise: for a constant step,
            covariances of examples and query that are known multiples of the identity, and `\alpha = 1`.
        step_size: `\beta`, a number; None means the best constant, ``delta_rule_step(task, start)``.
        start: `w_0`, the first state, (d,); None means zero.
        schedule: `\beta_t`, a step size for each example in their order, (C,), in the place of ``step_size``.
        normalized: whether each step is divided by the squared length of its example, `\beta_t / \lVert x_t \rVert^2`.
            Lambda must then be a multiple of the identity, which is not checked if JAX traces it.
        decay: `\alpha`, by which the state is multiplied before each step.

    Returns:
        The risk against the noise-free target, in units of y squared.

    Raises:
        ValueError: if ``step_size``, ``schedule`` or ``start`` does not have its shape, both of the first are given,
            ``decay`` is not a finite number, the rule is normalized and Lambda is no multiple of the identity, or
            d < 3 with label noise, where the risk of a normalized step is infinite; if neither a step nor a schedule
            is given and ``decay`` is not 1 or ``delta_rule_step`` refuses the task; if JAX traces the context size
            where there is no formula in it.

    Example:
        >>> task = GaussianTask([1.0] * 5, context_size=10)
        >>> round(delta_rule_risk(task), 4), round(delta_rule_risk(task, start=task.prior_mean), 4)
        (2.1406, 1.0703)
        >>> round(delta_rule_risk(task, normalized=True), 4)
        1.0737
        >>> slope = jax.grad(lambda C: delta_rule_risk(replace(task, context_size=C)))
        >>> round(float(slope(10.0)), 4)  # log(rho) times the risk, rho = 6/7
        -0.33

    Source: new here.
    """
    if schedule is not None and step_size is not None:
        raise ValueError("step_size must be None where schedule is given")
    if schedule is None and step_size is None:
        if _arrays.traced(decay) or _validate.number("decay", decay) != 1:
            raise ValueError(f"step_size must be given where decay is not 1, got None with decay = {decay}")
        step_size = delta_rule_step(task, start, normalized=normalized)
    if step_size is not None and (shape := np.shape(_arrays.real_array("step_size", step_size))):
        raise ValueError(f"step_size must be a number, got shape {shape}; one for each example is schedule=...")
    decay = _validate.number("decay", decay)
    if schedule is None:
        step_size = _validate.number("step_size", step_size)
        if not isinstance(task.context_size, int):
            return _by_powers(task, start, normalized, step_size, decay)
        schedule = (jnp if _arrays.traced(step_size) else np).full(task.context_size, step_size)
    given = _validate.vector("schedule", schedule, _examples(task)), decay
    xp, rule, (M, K, W), _, steps, decay = _prepared(task, start, normalized, *given)

    def step(state, beta):
        M, K = state
        V = decay**2 * M + decay * (1 - decay) * (K + K.T) + (1 - decay) ** 2 * W
        K = decay * K + (1 - decay) * W
        return rule.after(V, beta), K - beta * rule.drift(K)

    M, _ = repeat(xp, step, (M, K), steps)
    return float_if_known(xp, rule.risk(M))


@checks_task
@full_precision
def delta_rule_step(
    task: GaussianTask, start: ArrayLike | None = None, *, normalized: bool = False, schedule: bool = False
) -> Number | Float[np.ndarray | Array, " C"]:
    r"""The step sizes of the delta rule with the minimum risk: one for all examples, or the best schedule.

    .. math:: \beta = \frac{1}{\lambda (d + 2)}, \quad \text{or normalized} \quad \beta = 1

    for `\Lambda = \lambda I` without label noise, for every context. With noise the best constant depends on the
    context and the start. It is then the only root of the risk's derivative; in general it is the lowest point of a
    grid on `\beta \le (2\, \mathrm{tr}\, \Lambda^2)^{-1/2}`, refined by bisection: above that, no step reduces the
    risk. The best schedule for `\Lambda = \lambda I` has a closed form,

    .. math:: \beta_t = \frac{m_t}{\lambda (d + 2)\, m_t + \sigma^2 d}, \qquad
       m_{t+1} = (1 - \lambda \beta_t)\, m_t, \qquad m_0 = \mathrm{tr}\, \Psi + \lVert w_\star - w_0 \rVert^2

    or normalized `\beta_t = \lambda m_t / (\lambda m_t + \sigma^2 d / (d - 2))`, `m_{t+1} = (1 - \beta_t / d)\, m_t`.

    Args:
        task: the task distribution; a ``query_cov`` must be a multiple of its ``feature_cov``.
        start: `w_0`, (d,); None means zero.
        normalized: as in ``delta_rule_risk``.
        schedule: whether every example has its own step size; Lambda must then be a multiple of the identity.

    Returns:
        The step size, or C of them.

    Raises:
        ValueError: if ``start`` does not have shape (d,), Lambda is no multiple of the identity where it must be, the
            query has another covariance than a multiple of Lambda, or d < 3 for a normalized step with label noise.

    Example:
        >>> round(delta_rule_step(GaussianTask([1.0] * 5, context_size=10)), 4)
        0.1429
        >>> delta_rule_step(GaussianTask([1.0] * 5, 3, noise_std=2.0), schedule=True).round(4).tolist()
        [0.1111, 0.1081, 0.105]

    Source: new here.
    """
    schedule = _validate.flag("schedule", schedule)
    check_query(task, "the best step size", multiple=True)
    task = replace(task, query_cov=None)
    if schedule and not isotropic(task.feature_cov):
        raise ValueError("task must have a feature_cov that is a multiple of the identity for a schedule")
    xp, rule, (M, *_), _ = _prepared(task, start, normalized, by_trace=schedule)
    if schedule:
        return xp.stack(_greedy(rule, M, _examples(task)))
    if len(M) == 1 and not task.noisy:
        return float_if_known(xp, _greedy(rule, M, 1)[0])
    # No gradient is sent through the search.
    held = jax.tree.map(lambda x: lax.stop_gradient(x) if _arrays.traced(x) else x, (task, start))
    found = _lowest(_examples(task), *_prepared(*held, normalized))
    if xp is np:
        return float(found)
    # A step of Newton's method, which moves nothing but carries the exact derivative by the task and the start.
    slope = lambda beta: _risk_and_slope(xp, rule, M, _examples(task), beta)[1]
    bend = lax.stop_gradient(jax.grad(slope)(found))
    return found - slope(found) / jnp.where(bend == 0, 1, bend)


class _Rule(NamedTuple):
    """What a step of size b does: ``V - b pull(V) + b^2 (spread(V) + noise)`` to E[v v^T], ``K - b drift(K)`` to means.

    These are matrices (d, d), or their traces as matrices (1, 1).
    """

    pull: Callable
    spread: Callable
    noise: Float[np.ndarray | Array, "n n"]
    drift: Callable
    risk: Callable

    def after(self, V, beta):
        return V - beta * self.pull(V) + beta**2 * (self.spread(V) + self.noise)

    def after_slope(self, V, slope, beta):
        """The derivative of ``after`` by the step size, for V with this derivative."""
        own = 2 * beta * (self.spread(V) + self.noise) - self.pull(V)
        return slope - beta * self.pull(slope) + beta**2 * self.spread(slope) + own


def _prepared(task: GaussianTask, start, normalized, *given, by_trace: bool = False):
    """The rule, its first M, K = E[e w^T] and W = E[w w^T], a bound of the best step, and what is given."""
    normalized, d = _validate.flag("normalized", normalized), task.dim
    if normalized and not isotropic(task.feature_cov):
        raise ValueError("normalized must be False where feature_cov is no multiple of the identity, got True")
    if normalized and task.noisy and d < 3:
        raise ValueError(f"normalized must be False where labels are noisy and d < 3 (infinite risk), got d = {d}")
    start = np.zeros(d) if start is None else _validate.vector("start", start, d)
    xp, w, L, P, s, Q, start, *given = task_arrays(task, query_cov(task), start, *given)
    moments = tuple(P + xp.outer(a, b) for a, b in ((w - start, w - start), (w - start, w), (w, w)))
    bound = xp.ones_like(w[0]) if normalized else 1 / xp.sqrt(2 * xp.sum(L * L))
    scale, risk = xp.trace(L) / d, lambda M: xp.trace(Q @ M)
    uneven = lambda cov: _arrays.traced(cov) or not isotropic(cov)
    if normalized and uneven(task.query_cov):
        one = xp.eye(d, dtype=w.dtype)
        spread = lambda V: (2 * V + xp.trace(V) * one) / (d * (d + 2))
        noise = s**2 / (scale * max(d - 2, 1) * d) * one
        return xp, _Rule(lambda V: 2 * V / d, spread, noise, lambda K: K / d, risk), moments, bound, *given
    if not (normalized or by_trace) and (uneven(task.feature_cov) or uneven(task.query_cov)):
        spread = lambda V: 2 * L @ V @ L + xp.trace(L @ V) * L
        return xp, _Rule(lambda V: L @ V + V @ L, spread, s**2 * L, lambda K: L @ K, risk), moments, bound, *given
    moments = tuple(xp.trace(each)[None, None] for each in moments)
    # Of a random direction, x x^T / |x|^2 has the mean I/d, and E[1/|x|^2] = 1 / (scale (d - 2)).
    rate, share, noise = (
        (1 / d, 1 / d, 1 / (scale * max(d - 2, 1))) if normalized else (scale, scale**2 * (d + 2), scale * d)
    )
    rule = _Rule(
        lambda V: 2 * rate * V,
        lambda V: share * V,
        (s**2 * noise)[None, None],
        lambda K: rate * K,
        lambda M: xp.trace(Q) / d * M[0, 0],
    )
    return xp, rule, moments, bound, *given


def _by_powers(task: GaussianTask, start, normalized, step_size, decay):
    """The risk for a context size that need not be whole: each step multiplies a number and adds another one."""
    xp, rule, (M, *_), _, beta, C = _prepared(task, start, normalized, step_size, task.context_size)
    if len(M) > 1 or _arrays.traced(decay) or decay != 1:
        _examples(task)
    added = beta**2 * rule.noise
    rho = rule.after(xp.ones_like(M), beta) - added
    still = rho == 1
    powers = rho**C
    sums = xp.where(still, C * xp.ones_like(rho), (1 - powers) / xp.where(still, xp.ones_like(rho), 1 - rho))
    return float_if_known(xp, rule.risk(powers * M + sums * added))


def _examples(task: GaussianTask) -> int:
    if not isinstance(task.context_size, int):
        raise ValueError(
            "task must have a known context_size for the delta rule, which takes a step on each example, got one that "
            "JAX traces; only a constant step without decay has a formula in C, for known multiples of the identity"
        )
    return task.context_size


def _greedy(rule: _Rule, M, count: int) -> list:
    """The best step size of each example, for traces: what the last step leaves grows with what it found."""
    best = []
    for _ in range(count):
        beta = rule.pull(M) / (2 * (rule.spread(M) + rule.noise))
        best.append(beta[0, 0])
        M = rule.after(M, beta)
    return best


def _risk_and_slope(xp, rule: _Rule, M, count: int, beta):
    """The risk after so many steps of one size, and its derivative by this size."""
    step = lambda state, _: (rule.after(state[0], beta), rule.after_slope(state[0], state[1], beta))
    return tuple(map(rule.risk, repeat(xp, step, (M, 0 * M), np.arange(count))))


def _lowest(count: int, xp, rule: _Rule, moments, bound):
    """The step size at the lowest point of a grid, refined by bisection of the risk's derivative."""
    at = partial(_risk_and_slope, xp, rule, moments[0], count)

    def halve(ends, _):
        middle = sum(ends) / 2
        rises = at(middle)[1] > 0
        return xp.where(rises, ends[0], middle), xp.where(rises, middle, ends[1])

    grid = bound * xp.asarray(10 ** np.linspace(-8, 0, 81), bound.dtype)
    lowest = xp.argmin(np.array([at(beta)[0] for beta in grid]) if xp is np else jax.vmap(at)(grid)[0])
    low = xp.where(lowest == 0, xp.zeros_like(bound), grid[xp.maximum(lowest - 1, 0)])
    return sum(repeat(xp, halve, (low, grid[xp.minimum(lowest + 1, len(grid) - 1)]), np.arange(60))) / 2
