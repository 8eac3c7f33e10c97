"""The minimum risk of H heads: exact where a proof exists, otherwise the result of a search.

The symmetric parts of a layer's N_k (see ``risk``) are those of H heads exactly if they vanish, as quadratic forms, on
the k = d+1-H directions that no value vector reads. For given directions V the rest is least squares with linear
constraints, so the risk above ``optimal_risk`` is an explicit function of V. The search minimizes this function.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lsalib import _arrays, _validate
from lsalib._minimum import minimize
from lsalib.attention import LSAParams, effective, from_effective
from lsalib.tasks import GaussianTask, standardize
from lsalib.theory._task_arrays import (
    Number,
    checks_task,
    full_precision,
    guess_vector,
    isotropic,
    query_cov,
    rank,
    task_arrays,
)
from lsalib.theory.closed_forms import optimal_risk
from lsalib.theory.few_heads import few_heads_weights, own_coordinates
from lsalib.theory.moments import gram_moments
from lsalib.theory.optimum import optimal_weights
from lsalib.theory.risk import _constants, standard_form, standard_risk

try:
    from jax import enable_x64
except ImportError:  # before JAX 0.8
    from jax.experimental import enable_x64  # type: ignore[attr-defined, no-redef]  # the types are those of newer JAX

__all__ = ["LeastRisk", "least_risk"]


class LeastRisk(NamedTuple):
    """The ``risk``, weights ``params`` that have it, and the evidence that no risk is smaller.

    ``exact`` says whether that is proved, ``reason`` how it is known. ``gradient`` is the norm of the risk's gradient
    with respect to the effective heads (b, A) at these weights: if it is far from zero, the search needs more steps.
    """

    risk: Number
    params: LSAParams
    exact: bool
    reason: str
    gradient: Number


@checks_task
def least_risk(
    task: GaussianTask,
    heads: int,
    guess=None,
    bias: Number = 0.0,
    *,
    starts: int = 64,
    steps: int = 500,
    seed: int = 0,
) -> LeastRisk:
    r"""The minimum risk of H heads with the initial guess `y_q = g^\top x_q + \beta`, on any task.

    .. math:: \min_{b, A} E \Big[ \Big( y_q + \sum_{h \le H} b_h^\top G A_h z_q - w^\top x_q \Big)^2 \Big]

    The result is exact by ``optimal_weights`` if H heads are enough for them: one for a correct guess, otherwise d, and
    d+1 with label noise. It is exact by ``few_heads_weights`` if both covariances are multiples of the identity.
    Otherwise it is the lowest end of many searches in float64, and exact if that attains ``optimal_risk``, a lower
    bound.

    Tasks that JAX traces work, too, in their own type. Whether the result is exact is then decided without the traced
    values, and the risk's gradient is taken at fixed weights, which is correct at a minimum.

    Args:
        task: the task distribution. A search works on d (d+1)/2 numbers at a time, for a d of up to about ten.
        heads: H.
        guess: `g`, the weights of the initial guess, (d,); None means zero.
        bias: `\beta`, its constant part.
        starts: how many searches there are, side by side.
        steps: how many steps of L-BFGS each has.
        seed: the seed of the starts.

    Returns:
        A ``LeastRisk``, its weights arrays of NumPy in float64, of at most H heads.

    Raises:
        ValueError: if ``heads``, ``starts`` or ``steps`` is below 1, ``guess`` does not have shape (d,) or ``bias`` is
            not finite; if Lambda is singular and a search is needed.

    Example:
        >>> least = least_risk(GaussianTask([2.0] * 10, context_size=10), heads=2)
        >>> round(least.risk, 4), least.exact, bool(least.gradient < 1e-6)
        (9.7738, True, True)

    Source: new here; ``sharp-head-count`` in the ledger.
    """
    counts = {"heads": heads, "starts": starts, "steps": steps}
    heads, starts, steps = (_validate.count(name, value) for name, value in counts.items())
    guess = guess_vector(task, guess)
    bias = _validate.number("bias", bias)
    options = starts, steps, seed
    if _arrays.traced((task, guess, bias)):
        return _least(task, heads, guess, bias, *options)
    with enable_x64(True):
        risk, params, exact, reason, gradient = _least(task, heads, guess, bias, *options)
        return LeastRisk(float(risk), jax.tree.map(np.asarray, params), exact, reason, float(gradient))


def _least(task: GaussianTask, heads: int, guess, bias, *options) -> LeastRisk:
    # At a minimum the weights need no gradient, and none is sent through the search.
    held = jax.tree.map(lambda x: lax.stop_gradient(x) if _arrays.traced(x) else x, (task, guess, bias))
    params, exact, reason = optimal_weights(*held), True, "heads enough for optimal_risk (page heads)"
    if len(params.W_K) > heads:
        covs = held[0].feature_cov, held[0].prior_cov, held[0].query_cov
        if not _arrays.traced(covs) and all(map(isotropic, covs)):
            params, reason = few_heads_weights(held[0], heads, *held[1:]), "the best few heads (page few_heads)"
        else:
            params, exact, reason = _search(heads, *held, *options)
    # A singular covariance has a root only while its numbers are known: outside of the program.
    dtype = params.W_K.dtype
    y_q = jnp.append(jnp.asarray(guess, dtype), jnp.asarray(bias, dtype))
    risk, gradient = _risk_and_gradient(params, y_q, _constants(task, dtype))
    return LeastRisk(risk, params, exact, reason, gradient)


@jax.jit
@full_precision
def _risk_and_gradient(params, y_q, task):
    risk = lambda pair: standard_risk(*standard_form(pair[0], pair[1], y_q, y_q, task), task)
    value, slopes = jax.value_and_grad(risk)(effective(params))
    return value, jnp.sqrt(sum(jnp.vdot(slope, slope) for slope in slopes))


@full_precision
def _search(heads: int, task: GaussianTask, guess, bias, starts: int, steps: int, seed: int):
    """The weights of the lowest of many searches, whether they are proved to be the best, and the reason."""
    xp, w, L, _, s, guess, bias, _ = task_arrays(task, guess, bias, query_cov(task))
    if xp is np and rank(xp, L) < task.dim:
        raise ValueError(
            "task must have a positive definite feature_cov where heads are fewer than optimal_weights has"
        )
    d, standard = task.dim, standardize(task)
    # White features, and labels to which each adds a variance of 1 on average.
    U, T = (xp.eye(d, dtype=w.dtype) if root is None else root for root in (standard.basis, standard.prior_root))
    unit = xp.sqrt(xp.sum(T * T) / d)
    white = GaussianTask(np.zeros(d), task.context_size, None, T @ T.T / unit**2, s / unit if task.noisy else 0.0)
    # The white coordinates of a query with a covariance of its own are xi_q of x_q = V xi_q = U turn^T xi_q.
    turn = xp.eye(d, dtype=w.dtype) if standard.query_basis is None else xp.linalg.solve(U, standard.query_basis).T
    query_inverse = xp.linalg.inv(U) if standard.query_basis is None else xp.linalg.pinv(standard.query_basis)
    problem = _problem(white, (w - guess) @ U / unit, bias / unit, turn)
    V, N, values = _lowest(*problem, _starts(d, heads, starts, seed), steps)
    # The value vectors are orthogonal to V, and A takes up what is theirs of each form.
    b = xp.linalg.qr(V, mode="complete")[0][:, V.shape[1] :].T
    A = 2 * xp.einsum("kmn,hn->hmk", N, b) - xp.einsum("gm,gi,kin,hn->hmk", b, b, N, b)
    pair = own_coordinates(xp, b, A, (xp.linalg.inv(U), w, unit), (query_inverse, guess, unit))
    params = from_effective(*map(jax.device_put, pair))
    if xp is jnp:
        return params, False, f"the lowest of {starts} searches"
    bound = optimal_risk(task, guess, bias)
    risks = bound + unit**2 * np.asarray(values)
    if risks.min() <= bound * (1 + 1e-10):
        return params, True, "a search that attains optimal_risk, which nothing is below"
    agree = np.sum(risks <= risks.min() * (1 + 1e-9))
    return params, False, f"the lowest of {starts} searches, {agree} of which agree to nine digits"


def _problem(white: GaussianTask, u, bias, turn):
    """``E[vec(G) vec(G)^T]`` inverted, (F, F), and the best N_k without constraints, (D, F), with what each counts for.

    The last answers 1 instead of the bias, and counts for the bias squared. The others answer the entries of the
    query's white features, which are what ``turn`` makes of a token's.
    """
    xp, *_, u, bias, turn, (mean, second, cross) = task_arrays(white, u, bias, turn, gram_moments(white))
    target = xp.concatenate([xp.tensordot(turn, cross + xp.tensordot(u, mean, 0), 1), -mean[None]])
    rows, columns, norm, _ = _entries(len(mean))
    norm = xp.asarray(norm, mean.dtype)
    inverse = xp.linalg.inv(second[rows, columns][:, rows, columns] * xp.outer(norm, norm))
    return inverse, target[:, rows, columns] * norm[None] @ inverse, xp.append(xp.ones_like(u), bias**2)


def _entries(size: int):
    """Rows and columns of a symmetric matrix's F entries, what each adds to its norm, and where each entry is kept."""
    rows, columns = np.triu_indices(size)
    place = np.zeros((size, size), int)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    return rows, columns, np.where(rows == columns, 1.0, 2**0.5), place


def _starts(d: int, heads: int, count: int, seed: int) -> np.ndarray:
    """Orthonormal directions that the value vectors miss, (count, D, d+1-H).

    In every second one a single direction reads labels, at any angle to them: random ones are seldom near, and
    minima may be.
    """
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((count, d + 1, d + 1 - heads))
    V[1::2, :-1, :1] *= 10 ** rng.uniform(-2, 1, (count // 2, 1, 1))
    V[1::2, -1] = np.eye(d + 1 - heads)[0]
    return np.linalg.qr(V)[0]


@partial(jax.jit, static_argnames="steps")
def _lowest(inverse, best, counts, starts, steps):
    """The best directions (D, k), the forms (D, D, D) that vanish on them, and what all searches end with."""
    rows, columns, norm, place = _entries(starts.shape[1])
    norm, first, second = jnp.asarray(norm, best.dtype), *np.triu_indices(starts.shape[2])

    def constraints(V):
        pairs = V[rows][:, first] * V[columns][:, second] + V[rows][:, second] * V[columns][:, first]
        B = norm[:, None] * pairs
        return B, best @ B, B.T @ inverse @ B

    def excess(V):
        _, missed, weight = constraints(V)
        # Only the space that V spans counts; the last term keeps V orthonormal.
        uneven = V.T @ V - jnp.eye(V.shape[1], dtype=V.dtype)
        return jnp.vdot(missed * counts[:, None], _solve(weight, missed.T).T) + jnp.sum(uneven**2)

    ends = jax.vmap(partial(minimize, excess, steps=steps, patience=10))(jnp.asarray(starts, best.dtype))
    V = ends.params[jnp.argmin(ends.value)]
    B, missed, weight = constraints(V)
    forms = (best - _solve(weight, missed.T).T @ B.T @ inverse) / norm[None]
    return V, forms[:, place], ends.value


def _solve(matrix, right):
    """A positive definite system, by elimination: LAPACK in a loop over a batch can deadlock on its own threads."""

    def eliminate(i, rows):
        row = rows[i] / rows[i, i]
        return (rows - jnp.outer(rows[:, i], row)).at[i].set(row)

    def solve(_, right):
        return lax.fori_loop(0, len(matrix), eliminate, jnp.concatenate([matrix, right], 1))[:, len(matrix) :]

    return lax.custom_linear_solve(partial(jnp.matmul, matrix), right, solve, symmetric=True)
