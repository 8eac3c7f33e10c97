"""The ICL risk in the lifted variables ``M_j = sum_h b_h a_{h,j}^T``, where it is a convex quadratic.

The prediction is linear in them, ``f = y_q + sum_j <G, M_j> z_q[j]``, and the query is independent
of the context. So all that the risk reads is ``E[z_q z_q^T]``, ``E[G⊗G]`` and one slope. Components
of the risk couple through ``E[z_q z_q^T]`` alone.

The minimum is computed with residual labels ``r = y - w*.x``. If w* is large, y is nearly a function of x, and the
moments of tokens [x; y] lose the digits of what r adds. Features and residuals may still have any units, so the moments
are divided by their sizes before a pseudo-inverse decides which directions are zero.
"""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

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
    full_precision,
    guess_vector,
    query_cov,
    scaled_inverse,
    task_arrays,
)
from lsalib.theory.moments import gram_moments

__all__ = ["LiftedRisk", "lifted_risk", "squared_distance"]

Lift = Float[Array, "D D D"]
# A point may be any numbers; the moments are rounded to its type.
_promote_point = partial(_arrays.promoted, skip=("self",), least=np.float32)
_promote_weights = partial(_arrays.promoted, skip=("task",), least=np.float32)


class _Residual(NamedTuple):
    """The quadratic of the lift for tokens [x; y - origin.x] and queries [x_q; bias]; ``guess`` leads back."""

    query: Float[np.ndarray | Array, "D D"]
    second: Float[np.ndarray | Array, "D D D D"]
    slope: Float[np.ndarray | Array, "D D D"]
    origin: Float[np.ndarray | Array, " d"]
    guess: Float[np.ndarray | Array, " d"]


class LiftedRisk(NamedTuple):
    r"""The quadratic `c + \langle s, M \rangle + \langle M, H M \rangle / 2` in the lifted variables M, (D, D, D).

    ``query`` is `E[z_q z_q^\top]` (D, D), ``second`` `E[G \otimes G]` (D, D, D, D), ``slope`` the gradient `s` at
    M = 0 and ``constant`` the value there; ``curvature`` applies H. ``residual`` holds the same for labels without
    the mean prediction, in which ``minimum`` and ``minimizer`` are computed.
    """

    query: Float[np.ndarray | Array, "D D"]
    second: Float[np.ndarray | Array, "D D D D"]
    slope: Float[np.ndarray | Array, "D D D"]
    constant: Number
    residual: _Residual

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
        r"""A lift with the smallest risk.

        .. math:: M = -\tfrac 12\, E[z_q z_q^\top]^-\, s\, E[G \otimes G]^-

        The quadratic is convex, so the lift is optimal exactly if ``gradient`` vanishes there. It needs up to d+1 heads
        (``attention.from_lift``). Where moments are singular, their generalized inverses are those with the smallest
        norm for residual labels, and for features and residuals divided by their sizes. So the choice does not depend
        on units. Under ``jax.grad`` it is held fixed.
        """
        xp, (N, origin, guess) = _arrays.numpy_or_jax(self._lowest(), self.residual.origin, self.residual.guess)
        N = xp.concatenate([N[:-1] - guess[:, None, None] * N[-1:], N[-1:]])
        return _changed(xp, N, xp.eye(len(N), dtype=N.dtype), _reads(xp, -origin).T)

    def minimum(self) -> Number:
        """The smallest risk of enough heads: its gradient with respect to the task and the guess is exact.

        It does not depend on the units of features and labels, and a large prior mean costs no digits.

        Example:
            >>> from lsalib.mixtures import MixtureTask
            >>> two_modes = MixtureTask([GaussianTask([-2.0, 0.0], 5), GaussianTask([2.0, 0.0], 5)])
            >>> round(lifted_risk(two_modes).minimum(), 4), round(lifted_risk(two_modes.tasks[0]).minimum(), 4)
            (2.1111, 1.4167)
            >>> far = GaussianTask([500.0, 2.0], 4)
            >>> round(lifted_risk(far, far.prior_mean).minimum(), 4)
            0.8571
        """
        given = *self.residual[:3], self.constant, self._lowest()
        xp, (query, second, slope, constant, N) = _arrays.numpy_or_jax(*given)
        pulled = xp.einsum("jk,kpq->jpq", query, xp.einsum("mnpq,kpq->kmn", second, N))
        return float_if_known(xp, constant + xp.sum((slope + pulled) * N))

    def _lowest(self):
        """The minimizer for residual labels."""
        xp, (query, second, slope) = _arrays.numpy_or_jax(*map(_held, self.residual[:3]))
        D = len(query)
        by_token = slope.reshape(D, D * D) @ scaled_inverse(xp, second.reshape(D * D, D * D))
        return -(scaled_inverse(xp, query) @ by_token).reshape(D, D, D) / 2

    def _moments(self, name: str, M: Lift) -> tuple:
        """In the type of a point whose shape fits."""
        _validate.shape(name, M, self.slope.shape)
        return self.query.astype(M.dtype), self.second.astype(M.dtype)


def _held(x):
    return jax.lax.stop_gradient(x) if _arrays.traced(x) else x


@jax.jit
def _curvature(query, second, V):
    return 2 * jnp.einsum("jk,mnpq,kpq->jmn", query, second, V)


@jax.jit
def _gradient(slope, query, second, M):
    return slope + _curvature(query, second, M)


@jax.jit
def _value(constant, slope, query, second, M):
    return constant + jnp.vdot(slope + _curvature(query, second, M) / 2, M)


@full_precision
def lifted_risk(task: GaussianTask | MixtureTask | Any, guess=None, bias: Number = 0.0, *, fourth=None) -> LiftedRisk:
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
    origin = _mean(task)
    if isinstance(task, MixtureTask) and not _arrays.traced(task):
        # The mean of several quadratics has their form if all have the same query.
        covs = list(map(query_cov, task.tasks))
        if not all(np.array_equal(cov, covs[0]) for cov in covs):
            raise ValueError("task must have one query_cov (or feature_cov without one) for all its components")
    guess = guess_vector(task, guess)
    found = _of_residuals(task, origin, guess, _validate.number("bias", bias), fourth)
    xp, (query, second, slope, constant, origin, guess) = _arrays.numpy_or_jax(*found, origin, guess)
    tokens, reads = _reads(xp, origin), _reads(xp, guess)
    whole = xp.einsum("ma,nb,pc,qd,abcd->mnpq", tokens, tokens, tokens, tokens, second, optimize=True)
    residual = _Residual(query, second, slope, origin, guess)
    own = reads @ query @ reads.T, whole, _changed(xp, slope, reads, tokens)
    return LiftedRisk(*own, float_if_known(xp, constant), residual)


@averaged
def _mean(task: GaussianTask):
    return _arrays.numpy_or_jax(task.prior_mean)[1][0]


@averaged
def _of_residuals(task: GaussianTask, origin, guess, bias: Number, fourth):
    """Query, second moments, slope and constant for tokens [x; y - origin.x] and queries [x_q; bias]."""
    _, (mean, center) = _arrays.numpy_or_jax(task.prior_mean, origin)
    given = gram_moments(replace(task, prior_mean=mean - center), fourth=fourth), origin, guess, bias, query_cov(task)
    xp, w, _, P, _, (mean, second, cross), origin, guess, bias, Q = task_arrays(task, *given)
    slope = 2 * xp.einsum("jk,kmn->jmn", Q, xp.tensordot(guess - origin, mean, 0) - cross)
    slope = xp.concatenate([slope, 2 * bias**2 * mean[None]])
    last = xp.eye(len(mean), dtype=w.dtype)[-1]
    query, off = xp.pad(Q, (0, 1)) + bias**2 * xp.outer(last, last), guess - w
    return query, second, slope, off @ Q @ off + xp.trace(Q @ P) + bias**2


def _reads(xp, weights):
    """The matrix that maps [x; r] to [x; r + weights.x]."""
    eye = xp.eye(len(weights) + 1, dtype=weights.dtype)
    return xp.concatenate([eye[:-1], xp.append(weights, xp.ones_like(weights[:1]))[None]])


def _changed(xp, each, queries, tokens):
    """``sum_k queries_jk tokens each_k tokens^T``."""
    return xp.einsum("jk,mp,kpq,nq->jmn", queries, tokens, each, tokens, optimize=True)


@averaged
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
