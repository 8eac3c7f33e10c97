"""The ICL risk in the lifted variables ``M_j = sum_h b_h a_{h,j}^T``, where it is a convex quadratic.

The prediction is linear in them, ``f = y_q + sum_j <G, M_j> z_q[j]``, and the query is independent
of the context. So all that the risk reads is ``E[z_q z_q^T]``, ``E[G⊗G]`` and one slope. Components
of the risk couple through ``E[z_q z_q^T]`` alone.
"""

from functools import partial, wraps
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsalib import _arrays, _validate
from lsalib._arrays import float_if_known
from lsalib.attention import LSAParams, lift
from lsalib.attention.layer import check_params
from lsalib.mixtures import MixtureTask, averaged
from lsalib.tasks import GaussianTask
from lsalib.theory._task_arrays import (
    Number,
    checks_task,
    full_precision,
    guess_vector,
    pseudo_inverse,
    query_cov,
    task_arrays,
)
from lsalib.theory.moments import gram_moments

__all__ = ["LiftedRisk", "lifted_risk", "squared_distance"]

Lift = Float[Array, "D D D"]
# A point may be any numbers; the moments are rounded to its type.
_promote_point = partial(_arrays.promoted, skip=("self",), least=np.float32)
_promote_weights = partial(_arrays.promoted, skip=("task",), least=np.float32)


class LiftedRisk(NamedTuple):
    r"""The quadratic `c + \langle s, M \rangle + \langle M, H M \rangle / 2` in the lifted variables M, (D, D, D).

    ``query`` is `E[z_q z_q^\top]` (D, D), ``second`` `E[G \otimes G]` (D, D, D, D), ``slope`` the gradient `s` at
    M = 0 and ``constant`` the value there; ``curvature`` applies H.
    """

    query: Float[np.ndarray | Array, "D D"]
    second: Float[np.ndarray | Array, "D D D D"]
    slope: Float[np.ndarray | Array, "D D D"]
    constant: Number

    @_promote_point
    def curvature(self, V: Lift) -> Lift:
        r"""The Hessian applied to V, the same at every point.

        .. math:: (H V)_j = 2 \sum_k E[z_q z_q^\top]_{jk}\, E[\langle G, V_k \rangle G]

        Example:
            >>> risk = lifted_risk(GaussianTask([0.0], context_size=1))
            >>> risk.curvature(jnp.ones((2, 2, 2)))[0].tolist()
            [[12.0, 12.0], [12.0, 24.0]]
        """
        return _curvature(*self._moments("V", V), V)

    @_promote_point
    def gradient(self, M: Lift) -> Lift:
        """The gradient at M, for any task and linear guess; for a constant guess these are eqs. 19-20."""
        return _gradient(self.slope.astype(M.dtype), *self._moments("M", M), M)

    @_promote_point
    def value(self, M: Lift) -> Float[Array, ""]:
        """The risk at M: ``population_risk`` of every set of weights whose lift is M."""
        return _value(self.constant, self.slope.astype(M.dtype), *self._moments("M", M), M)

    def minimizer(self) -> Float[np.ndarray | Array, "D D D"]:
        r"""The lift with the smallest risk, and among several the one with the smallest norm.

        .. math:: M = -\tfrac 12\, E[z_q z_q^\top]^+\, s\, E[G \otimes G]^+

        The quadratic is convex, so the lift is optimal exactly if ``gradient`` vanishes there. It needs up to d+1 heads
        (``attention.from_lift``). Under ``jax.grad`` it is held fixed.
        """
        xp, (query, second, slope) = _arrays.numpy_or_jax(*map(_held, (self.query, self.second, self.slope)))
        D = len(query)
        by_token = slope.reshape(D, D * D) @ pseudo_inverse(xp, second.reshape(D * D, D * D))
        return -(pseudo_inverse(xp, query) @ by_token).reshape(D, D, D) / 2

    def minimum(self) -> Number:
        """The smallest risk of enough heads: its gradient with respect to the task and the guess is exact.

        Example:
            >>> from lsalib.mixtures import MixtureTask
            >>> two_modes = MixtureTask([GaussianTask([-2.0, 0.0], 5), GaussianTask([2.0, 0.0], 5)])
            >>> round(lifted_risk(two_modes).minimum(), 4), round(lifted_risk(two_modes.tasks[0]).minimum(), 4)
            (2.1111, 1.4167)
        """
        xp, (query, second, slope, constant, M) = _arrays.numpy_or_jax(*self, self.minimizer())
        pulled = xp.einsum("jk,kpq->jpq", query, xp.einsum("mnpq,kpq->kmn", second, M))
        return float_if_known(xp, constant + xp.sum((slope + pulled) * M))

    def _moments(self, name: str, M: Lift) -> tuple:
        """In the type of a point whose shape fits."""
        _validate.shape(name, M, self.slope.shape)
        return self.query.astype(M.dtype), self.second.astype(M.dtype)


def _held(x):
    return jax.lax.stop_gradient(x) if _arrays.traced(x) else x


def _of_one_query(function):
    """A decorator: the mean of several quadratics has their form if all have the same query."""

    @wraps(function)
    def checked(task, *args, **options):
        if isinstance(task, MixtureTask) and not _arrays.traced(task):
            covs = list(map(query_cov, task.tasks))
            if not all(np.array_equal(cov, covs[0]) for cov in covs):
                raise ValueError("task must have one query_cov (or feature_cov without one) for all its components")
        return function(task, *args, **options)

    return checked


@jax.jit
def _curvature(query, second, V):
    return 2 * jnp.einsum("jk,mnpq,kpq->jmn", query, second, V)


@jax.jit
def _gradient(slope, query, second, M):
    return slope + _curvature(query, second, M)


@jax.jit
def _value(constant, slope, query, second, M):
    return constant + jnp.vdot(slope + _curvature(query, second, M) / 2, M)


@_of_one_query
@averaged
@checks_task
@full_precision
def lifted_risk(task: GaussianTask, guess=None, bias: Number = 0.0, *, fourth=None) -> LiftedRisk:
    r"""The ICL risk of multi-head LSA with `y_q = g^\top x_q + \beta` as a quadratic in the lift (eqs. 17-20).

    .. math:: E[z_q z_q^\top] = \begin{pmatrix} Q & Q g \\ g^\top Q & g^\top Q g + \beta^2
       \end{pmatrix}, \qquad s_j = 2 E\big[ z_{q,j}\, (y_q - w^\top x_q)\, G \big]

    Q is the covariance of the query, `\Lambda` unless the task has a ``query_cov``; the risk reads nothing else of the
    query's distribution. For identity features and `g = 0` the first matrix is `\mathrm{diag}(1, \dots, 1, \beta^2)`,
    and the risk splits into one quadratic a component (eq. 18).

    Args:
        task: the task distribution, or a ``MixtureTask`` whose queries have one covariance.
        guess: `g`, the weights of the initial guess, (d,); None means zero.
        bias: `\beta`, its constant part.
        fourth: the features' fourth moments, where they are not Gaussian (``gram_moments``).

    Returns:
        A ``LiftedRisk``. It holds D^4 numbers, so D = d+1 must be small; ``population_risk`` works for any D.

    Raises:
        ValueError: if ``guess`` or ``fourth`` does not have its shape or ``bias`` is not finite; for a mixture, if its
            components' queries have several covariances.

    Example:
        >>> from lsalib.attention import gd_weights, lift
        >>> task = GaussianTask([2.0, 2.0], context_size=3)
        >>> risk = lifted_risk(task, guess=[2.0, 2.0])
        >>> round(float(risk.value(lift(gd_weights(jnp.full(2, 2.0), 0.5)))), 4)
        1.0
        >>> from dataclasses import replace
        >>> wider = lifted_risk(replace(task, query_cov=4 * np.eye(2)), guess=[2.0, 2.0])
        >>> round(float(wider.value(lift(gd_weights(jnp.full(2, 2.0), 0.5)))), 4)
        4.0

    Source: appendices A.2 and A.4 of arXiv 2512.04268; there the second moment is another one (``a4-hessian`` in the
    ledger).
    """
    guess = guess_vector(task, guess)
    given = gram_moments(task, fourth=fourth), guess, _validate.number("bias", bias), query_cov(task)
    xp, w, _, P, _, (mean, second, cross), guess, bias, Q = task_arrays(task, *given)
    # z_q = reads @ x_q + [0; bias], and the guess is off by (g - w).x_q + bias.
    reads, off = xp.concatenate([xp.eye(task.dim, dtype=w.dtype), guess[None]]), guess - w
    last = xp.eye(task.dim + 1, dtype=w.dtype)[-1]
    query = reads @ Q @ reads.T + bias**2 * xp.outer(last, last)
    slope = 2 * xp.einsum("jk,kmn->jmn", reads @ Q, xp.tensordot(guess, mean, 0) - cross)
    slope = slope + 2 * bias**2 * xp.tensordot(last, mean, 0)
    return LiftedRisk(query, second, slope, float_if_known(xp, off @ Q @ off + xp.trace(Q @ P) + bias**2))


@averaged
@checks_task
@_promote_weights
@full_precision
def squared_distance(
    params: LSAParams,
    other: LSAParams,
    task: GaussianTask,
    guess=None,
    other_guess=None,
    bias: Number = 0.0,
    other_bias: Number = 0.0,
) -> Float[Array, ""]:
    r"""The mean squared difference between the predictions of two layers on the same tasks, exact.

    .. math:: E \big[ (f - \tilde f)^2 \big] = E \Big[ \Big( \sum_k t_k \big( c_k + \langle G, N_k \rangle \big) \Big)^2
       \Big], \qquad t = [x_q; 1]

    The guess `c^\top t` of one layer reads `c = [g; \beta]`, and its heads `N_k = M_k + c_k M_{d+1}`, without the
    first term in the last `N_k`; here c and N stand for the differences of the two layers'. The target does not enter.
    From the best step, this is the excess risk of a layer.

    Args:
        params, other: the weights of the two layers, (H, D, D) each, D = d+1; they may differ in H.
        task: the task distribution.
        guess, other_guess: the weights of their initial guesses, (d,); None means zero.
        bias, other_bias: the guesses' constant parts.

    Returns:
        A scalar, in units of y squared. The moments hold D^4 numbers, so D must be small.

    Raises:
        ValueError: if a shape does not fit the task's d or a bias is not finite.

    Example:
        >>> from lsalib.attention import gd_weights
        >>> from lsalib.theory import population_risk
        >>> w_star, task = [2.0, 2.0], GaussianTask([2.0, 2.0], context_size=3)
        >>> half, best = gd_weights(w_star, 0.25), gd_weights(w_star, 0.5)
        >>> [round(float(population_risk(step, task, w_star)), 4) for step in (half, best)]
        [1.25, 1.0]
        >>> round(float(squared_distance(half, best, task, w_star, w_star)), 4)
        0.25

    Source: new here; ``pythagoras-general`` in the ledger.
    """
    layers = []
    for name, weights, g, b in (("", params, guess, bias), ("other_", other, other_guess, other_bias)):
        check_params(weights, task.dim)
        g = np.zeros(task.dim) if g is None else g
        _validate.shape(f"{name}guess", g, (task.dim,))
        layers.append((lift(weights), g, _validate.number(f"{name}bias", b)))
    _, _, _, _, _, mean, second, _, Q = task_arrays(task, *gram_moments(task), query_cov(task))
    dtype = params.W_K.dtype
    return _squared_distance(*layers, *(moment.astype(dtype) for moment in (Q, mean, second)))


@jax.jit
def _squared_distance(one, other, Q, mean, second):
    (N, c), (its_N, its_c) = (_by_query(*layer) for layer in (one, other))
    N, c = N - its_N, c - its_c
    on_mean = jnp.einsum("kmn,mn->k", N, mean)
    products = jnp.outer(c, c) + jnp.outer(c, on_mean) + jnp.outer(on_mean, c)
    products = products + jnp.einsum("jmn,mnpq,kpq->jk", N, second, N)
    return jnp.vdot(Q, products[:-1, :-1]) + products[-1, -1]


def _by_query(M, guess, bias):
    """The N and c with ``f = sum_k t_k (c_k + <G, N_k>)``."""
    c = jnp.append(jnp.asarray(guess, M.dtype), jnp.asarray(bias, M.dtype))
    return M.at[-1].set(0) + c[:, None, None] * M[-1][None], c
