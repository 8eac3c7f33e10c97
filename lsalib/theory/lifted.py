"""The ICL risk as what it is in the lifted variables ``M_j = sum_h b_h a_{h,j}^T``: a convex quadratic.

The prediction is linear in them, ``f = y_q + sum_j <G, M_j> z_q[j]``, and the query is independent
of the context. So all that the risk reads is ``E[z_q z_q^T]``, ``E[G⊗G]`` and one slope. Components
of the risk couple through ``E[z_q z_q^T]`` alone.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsalib import _validate
from lsalib.tasks import GaussianTask
from lsalib.theory.moments import gram_moments

__all__ = ["LiftedRisk", "lifted_risk"]

Lift = Float[Array, "D D D"]


class LiftedRisk(NamedTuple):
    """The quadratic ``constant + <slope, M> + <M, curvature(M)>/2`` in the lifted variables M, (D, D, D).

    ``query`` is E[z_q z_q^T] (D, D), ``second`` E[G⊗G] (D, D, D, D), ``slope`` the gradient at M = 0.
    """

    query: Float[np.ndarray, "D D"]
    second: Float[np.ndarray, "D D D D"]
    slope: Float[np.ndarray, "D D D"]
    constant: float

    def curvature(self, V: Lift) -> Lift:
        """The Hessian applied to V: ``sum_k 2 E[z_q z_q^T]_jk E[<G, V_k> G]``, the same at every point.

        Example:
            >>> risk = lifted_risk(GaussianTask([0.0], context_size=1))
            >>> risk.curvature(jnp.ones((2, 2, 2)))[0].tolist()
            [[12.0, 12.0], [12.0, 24.0]]
        """
        return _curvature(*self._moments("V", V), V)

    def gradient(self, M: Lift) -> Lift:
        """The gradient at M, eqs. 19-20 for any task and guess."""
        return _gradient(self.slope.astype(M.dtype), *self._moments("M", M), M)

    def value(self, M: Lift) -> Float[Array, ""]:
        """The risk at M: ``population_risk`` of every set of weights whose lift is M."""
        return _value(self.constant, self.slope.astype(M.dtype), *self._moments("M", M), M)

    def _moments(self, name: str, M: Lift) -> tuple[np.ndarray, np.ndarray]:
        """In the type of a point whose shape fits."""
        _validate.shape(name, M, self.slope.shape)
        return self.query.astype(M.dtype), self.second.astype(M.dtype)


@jax.jit
def _curvature(query, second, V):
    return 2 * jnp.einsum("jk,mnpq,kpq->jmn", query, second, V)


@jax.jit
def _gradient(slope, query, second, M):
    return slope + _curvature(query, second, M)


@jax.jit
def _value(constant, slope, query, second, M):
    return constant + jnp.vdot(slope + _curvature(query, second, M) / 2, M)


def lifted_risk(task: GaussianTask, guess=None, bias: float = 0.0) -> LiftedRisk:
    """The ICL risk of multi-head LSA with ``y_q = guess.x_q + bias`` as a quadratic in the lift (eqs. 17-20; ledger: a4-hessian).

    ``E[z_q z_q^T] = [[L, L g], [g^T L, g^T L g + bias^2]]`` with L = feature_cov, g = guess, and
    ``slope_j = 2 E[z_q[j] (y_q - w.x_q) G]``. For identity features and g = 0 the first matrix is
    ``diag(1, .., 1, bias^2)``, and the risk splits into one quadratic a component (eq. 18).

    Args:
        task: the task distribution.
        guess: weights of the initial guess, (d,); None means zero.
        bias: its constant part.

    Returns:
        A ``LiftedRisk`` in float64. It holds D^4 numbers, so this is for a small D = d+1; ``population_risk`` is for any.

    Raises:
        ValueError: if ``guess`` does not have shape (d,) or ``bias`` is not finite.

    Example:
        >>> from lsalib.attention import gd_weights, lift
        >>> task = GaussianTask([2.0, 2.0], context_size=3)
        >>> risk = lifted_risk(task, guess=[2.0, 2.0])
        >>> round(float(risk.value(lift(gd_weights(jnp.full(2, 2.0), 0.5)))), 4)
        1.0

    Source: appendices A.2 and A.4 of arXiv 2512.04268; there the second moment is another one.
    """
    guess = np.zeros(task.dim) if guess is None else _validate.vector("guess", guess, task.dim)
    bias = _validate.number("bias", bias)
    mean, second, cross = gram_moments(task)
    identity = np.eye(task.dim)
    L = identity if task.feature_cov is None else task.feature_cov
    P = identity if task.prior_cov is None else task.prior_cov
    # z_q = reads @ x_q + [0; bias], and the guess is off by (g - w).x_q + bias.
    reads, off = np.vstack([identity, guess]), guess - task.prior_mean
    query = reads @ L @ reads.T
    query[-1, -1] += bias**2
    slope = 2 * np.einsum("jk,kmn->jmn", reads @ L, np.multiply.outer(guess, mean) - cross)
    slope[-1] += 2 * bias**2 * mean
    return LiftedRisk(query, second, slope, float(off @ L @ off + np.trace(L @ P) + bias**2))
