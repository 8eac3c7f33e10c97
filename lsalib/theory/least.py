"""The minimum risk of H heads: exact where a proof exists, otherwise the result of a
search.

The symmetric parts of a layer's N_k (see ``risk``) are those of H heads exactly if they
vanish, as quadratic forms, on the k = d+1-H directions that no value vector reads. For
given directions V the rest is least squares with linear constraints, so the risk above
``optimal_risk`` is an explicit function of V. The search minimizes this function.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from lsalib import _check
from lsalib._arrays import Vector
from lsalib._minimum import minimize
from lsalib.attention import LSAParams, effective, from_effective
from lsalib.tasks import GaussianTask, standardize
from lsalib.theory._shared import arrays, full_precision, guess_vector, isotropic, rank
from lsalib.theory.closed import optimal_risk, optimal_weights
from lsalib.theory.few_heads import few_heads_weights, own_coordinates
from lsalib.theory.moments import gram_moments
from lsalib.theory.risk import as_type, standard_form, standard_risk


class LeastRisk(NamedTuple):
    """The ``risk``, weights ``params`` that have it, and the evidence that no risk is
    smaller.

    ``exact`` says whether that is proved, ``reason`` how it is known. ``gradient`` is
    the norm of the risk's gradient with respect to the effective heads (b, A) at these
    weights: if it is far from zero, the search needs more steps.
    """

    risk: float
    params: LSAParams
    exact: bool
    reason: str
    gradient: float


@full_precision
def least_risk(
    task: GaussianTask,
    heads: int,
    guess: Vector = None,
    bias: float = 0.0,
    *,
    starts: int = 64,
    steps: int = 500,
    seed: int = 0,
) -> LeastRisk:
    r"""The minimum risk of H heads with the initial guess `y_q = g^\top x_q + \beta`,
    on any task.

    .. math:: \min_{b, A} E \Big[ \Big( y_q + \sum_{h \le H} b_h^\top G A_h z_q - w^\top
       x_q \Big)^2 \Big]

    The result is exact by ``optimal_weights`` if H heads are enough for them: one for a
    correct guess, otherwise the rank of `\Lambda`, and one more with label noise. It is
    exact by ``few_heads_weights`` if both covariances are multiples of the identity.
    Otherwise it is the lowest end of many searches in float64, and exact if that
    attains ``optimal_risk``, a lower bound.

    Args:
        task: the task distribution, its numbers known. A search works on d (d+1)/2
            numbers at a time, for a d of up to about ten.
        heads: `H`.
        guess, bias: as in ``optimal_risk``.
        starts: how many searches there are, side by side.
        steps: how many steps of L-BFGS each has.
        seed: the seed of the starts.

    Returns:
        A ``LeastRisk``, its weights arrays of NumPy in float64, of at most H heads.

    Raises:
        ValueError: if Lambda is singular and a search is needed.

    Example:
        >>> least = least_risk(GaussianTask([2.0] * 10, context_size=10), heads=2)
        >>> round(least.risk, 4), least.exact, bool(least.gradient < 1e-6)
        (9.7738, True, True)

    Source: new here; ``sharp-head-count`` in the ledger.
    """
    guess, bias = guess_vector(task, guess), _check.number("bias", bias)
    counts = {"heads": heads, "starts": starts, "steps": steps}
    heads, starts, steps = (_check.count(name, value) for name, value in counts.items())
    seed = _check.count("seed", seed, minimum=0)
    with jax.enable_x64(True):
        params, exact = optimal_weights(task, guess, bias), True
        reason = "heads enough for optimal_risk (page heads)"
        if len(params.W_K) > 1:
            params = _in_range(params, task)
        if len(params.W_K) > heads:
            if isotropic(task.feature_cov, task.prior_cov):
                params = few_heads_weights(task, heads, guess, bias)
                reason = "the best few heads (page few_heads)"
            else:
                params, exact, reason = _search(
                    heads, task, guess, bias, starts, steps, seed
                )
        params = jax.tree.map(np.asarray, params)
        # Idle heads up to d + 1: one program for all numbers of heads.
        idle = max(0, task.dim + 1 - len(params.W_K))
        padded = jax.tree.map(lambda W: np.pad(W, ((0, idle), (0, 0), (0, 0))), params)
        standard = as_type(standardize(task), np.float64)
        risk, gradient = _risk_and_gradient(padded, np.append(guess, bias), standard)
        return LeastRisk(float(risk), params, exact, reason, float(gradient))


def _in_range(params: LSAParams, task: GaussianTask) -> LSAParams:
    """One head for each direction that features have, in place of one for each feature;
    the same function.
    """
    L = arrays(task)[0].L
    d, k = len(L), int(rank(np, L, task.feature_cov))
    if k == d:
        return params
    U = np.linalg.eigh(L)[1][:, d - k :]
    # the head of the label noise stays
    turn = lambda x: np.concatenate([np.tensordot(U.T, x[:d], 1), x[d:]])
    return from_effective(*map(turn, effective(params)))


@jax.jit
def _risk_and_gradient(params, y_q, task):
    risk = lambda pair: standard_risk(
        *standard_form(pair[0], pair[1], y_q, y_q, task), task
    )
    value, slopes = jax.value_and_grad(risk)(effective(params))
    return value, jnp.sqrt(sum(jnp.vdot(slope, slope) for slope in slopes))


def _search(
    heads: int, task: GaussianTask, guess, bias, starts: int, steps: int, seed: int
):
    """The weights of the lowest of many searches, whether they are proved to be the
    best, and the reason.
    """
    [(_, w, L, _, s)] = arrays(task)
    if rank(np, L, task.feature_cov) < task.dim:
        raise ValueError(
            "task must have a positive definite feature_cov if heads are fewer than "
            "its rank, plus 1 with noise"
        )
    d, standard = task.dim, standardize(task)
    # White features, and labels to which each adds a variance of 1 on average.
    U, T = np.asarray(standard.basis), np.asarray(standard.prior_root)
    unit = np.sqrt(np.sum(T * T) / d)
    white = GaussianTask(
        np.zeros(d), task.context_size, None, T @ T.T / unit**2, s / unit
    )
    problem = _problem(white, (w - guess) @ U / unit, bias / unit)
    begin = _starts(d, heads, starts, seed)
    V, N, values = map(np.asarray, _lowest(*problem, begin, steps))
    # The value vectors are orthogonal to V, and A takes up what is theirs of each form.
    b = np.linalg.qr(V, mode="complete")[0][:, V.shape[1] :].T
    A = 2 * np.einsum("kmn,hn->hmk", N, b) - np.einsum("gm,gi,kin,hn->hmk", b, b, N, b)
    params = from_effective(*own_coordinates(b, A, np.linalg.inv(U), w, guess, unit))
    bound = optimal_risk(task, guess, bias)
    risks = bound + unit**2 * values
    agree = np.sum(risks <= risks.min() * (1 + 1e-9))
    reason = f"the lowest of {starts} searches, {agree} of which agree to nine digits"
    exact = risks.min() <= bound * (1 + 1e-10)
    if exact:
        reason = (
            "a search that attains optimal_risk, a lower bound for any number of heads"
        )
    return params, bool(exact), reason


def _problem(white: GaussianTask, u, bias):
    """``E[vec(G) vec(G)^T]`` inverted, (F, F), and the best N_k without constraints,
    (D, F), with what each counts for.

    The last answers 1 instead of the bias, and counts for the bias squared. The others
    answer the entries of ``w``.
    """
    mean, second, cross = gram_moments(white)
    target = np.concatenate([cross + np.multiply.outer(u, mean), -mean[None]])
    rows, columns, norm = _entries(len(mean))
    second = second[rows, columns][:, rows, columns]
    inverse = np.linalg.inv(second * np.outer(norm, norm))
    best = target[:, rows, columns] * norm @ inverse
    return inverse, best, np.append(np.ones_like(u), bias**2)


def _entries(size: int):
    """Rows and columns of a symmetric matrix's F entries, and what each adds to its
    norm.
    """
    rows, columns = np.triu_indices(size)
    return rows, columns, np.where(rows == columns, 1.0, 2**0.5)


def _starts(d: int, heads: int, count: int, seed: int) -> np.ndarray:
    """Orthonormal directions that the value vectors miss, (count, D, d+1-H).

    In every second one a single direction reads labels, at any angle to them: random
    ones are seldom near, and minima may be.
    """
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((count, d + 1, d + 1 - heads))
    V[1::2, :-1, :1] *= 10 ** rng.uniform(-2, 1, (count // 2, 1, 1))
    V[1::2, -1] = np.eye(d + 1 - heads)[0]
    return np.linalg.qr(V)[0]


@partial(jax.jit, static_argnames="steps")
def _lowest(inverse, best, counts, starts, steps):
    """The best directions (D, k), the forms (D, D, D) that vanish on them, and what all
    searches end with.
    """
    rows, columns, norm = _entries(starts.shape[1])
    first, second = np.triu_indices(starts.shape[2])

    def constraints(V):
        one, two = V[rows], V[columns]
        pairs = one[:, first] * two[:, second] + one[:, second] * two[:, first]
        B = norm[:, None] * pairs
        return B, best @ B, B.T @ inverse @ B

    def excess(V):
        _, gaps, weight = constraints(V)
        # Only the space that V spans counts; the last term keeps V orthonormal.
        uneven = V.T @ V - jnp.eye(V.shape[1], dtype=V.dtype)
        price = jnp.vdot(gaps * counts[:, None], _solve(weight, gaps.T).T)
        return price + jnp.sum(uneven**2)

    ends = jax.vmap(partial(minimize, excess, steps=steps, patience=10))(starts)
    V = ends.params[jnp.argmin(ends.value)]
    B, gaps, weight = constraints(V)
    entries = (best - _solve(weight, gaps.T).T @ B.T @ inverse) / norm[None]
    forms = jnp.zeros((len(V), len(V), len(best)), V.dtype)
    forms = forms.at[rows, columns].set(entries.T).at[columns, rows].set(entries.T)
    return V, jnp.moveaxis(forms, -1, 0), ends.value


def _solve(matrix, right):
    """A positive definite system, by elimination: LAPACK in a loop over a batch can
    deadlock on its own threads.
    """

    def eliminate(i, rows):
        row = rows[i] / rows[i, i]
        return (rows - jnp.outer(rows[:, i], row)).at[i].set(row)

    def solve(_, right):
        rows = jnp.concatenate([matrix, right], 1)
        return lax.fori_loop(0, len(matrix), eliminate, rows)[:, len(matrix) :]

    return lax.custom_linear_solve(
        partial(jnp.matmul, matrix), right, solve, symmetric=True
    )
