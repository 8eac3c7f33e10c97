"""The ICL risk in the lifted variables ``M_j = sum_h b_h a_{h,j}^T``, where it is a
convex quadratic.

The prediction is linear in them, ``f = y_q + sum_j <G, M_j> z_q[j]``, and the query is
independent of the context. So all that the risk reads is ``E[z_q z_q^T]``, ``E[G⊗G]``
and one slope.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsalib import _check
from lsalib._arrays import Fourth, Lift, Scalar, Vector
from lsalib.attention import LSAParams, effective
from lsalib.tasks import GaussianTask, standardize
from lsalib.theory._shared import Number, arrays, full_precision, guess_vector, plain
from lsalib.theory.moments import gram_moments
from lsalib.theory.risk import as_type, read_layer, standard_form, standard_parts


class LiftedRisk(NamedTuple):
    r"""The quadratic `c + \langle s, M \rangle + \langle M, H M \rangle / 2` in the
    lifted variables M, (D, D, D).

    ``query`` is `E[z_q z_q^\top]`, ``second`` `E[G \otimes G]`, ``slope`` the gradient
    `s` at M = 0 and ``constant`` the value there.
    Its minimum is ``optimal_risk``, where the gradient is zero.

    Example:
        >>> task = GaussianTask([2.0, 2.0], context_size=3)
        >>> risk = lifted_risk(task)
        >>> M, _ = jax.scipy.sparse.linalg.cg(risk.curvature, -risk.slope)
        >>> round(float(risk.value(M)), 3)
        3.0
    """

    query: Float[np.ndarray | Array, "D D"]
    second: Float[np.ndarray | Array, "D D D D"]
    slope: Float[np.ndarray | Array, "D D D"]
    constant: Number

    def curvature(self, V: Lift | Any) -> Lift:
        r"""The Hessian applied to V, `(H V)_j = 2 \sum_k E[z_q z_q^\top]_{jk} E[\langle
        G, V_k \rangle G]`.

        Example:
            >>> risk = lifted_risk(GaussianTask([0.0], context_size=1))
            >>> risk.curvature(jnp.ones((2, 2, 2)))[0].tolist()
            [[12.0, 12.0], [12.0, 24.0]]
        """
        (V,) = _check.floats(V=V)
        _check.shape("V", V, self.slope.shape)
        query, second = (jnp.asarray(x, V.dtype) for x in (self.query, self.second))
        return _curvature(query, second, V)

    def gradient(self, M: Lift | Any) -> Lift:
        """The gradient at M, for any task and linear guess; for a constant guess these
        are eqs. 19-20.
        """
        bend = self.curvature(M)
        return jnp.asarray(self.slope, bend.dtype) + bend

    def value(self, M: Lift | Any) -> Scalar:
        """The risk at M: ``population_risk`` of all weights whose lift is M."""
        bend = self.curvature(M)
        constant, slope, M = (
            jnp.asarray(x, bend.dtype) for x in (self.constant, self.slope, M)
        )
        return constant + jnp.vdot(slope + bend / 2, M)


@jax.jit
@full_precision
def _curvature(query, second, V):
    return 2 * jnp.einsum("jk,mnpq,kpq->jmn", query, second, V)


@full_precision
def lifted_risk(
    task: GaussianTask,
    guess: Vector = None,
    bias: Number = 0.0,
    *,
    fourth: Fourth = None,
) -> LiftedRisk:
    r"""The ICL risk of multi-head LSA with `y_q = g^\top x_q + \beta` as a quadratic in
    the lift (eqs. 17-20).

    .. math:: E[z_q z_q^\top] = \begin{pmatrix} \Lambda & \Lambda g \\ g^\top \Lambda &
       g^\top \Lambda g + \beta^2
       \end{pmatrix}, \qquad s_j = 2 E\big[ z_{q,j}\, (y_q - w^\top x_q)\, G \big]

    For identity features and `g = 0` the first matrix is `\mathrm{diag}(1, \dots, 1,
    \beta^2)`, and the risk splits into one quadratic a component (eq. 18).

    Args:
        task: the task distribution.
        guess, bias: as in ``optimal_risk``.
        fourth: the features' fourth moments, where they are not Gaussian
            (``gram_moments``).

    Returns:
        A ``LiftedRisk``. It holds D^4 numbers, D = d+1; ``population_risk`` works for
        any D.

    Example:
        >>> from lsalib.attention import gd_weights, lift
        >>> task = GaussianTask([2.0, 2.0], context_size=3)
        >>> risk = lifted_risk(task, guess=[2.0, 2.0])
        >>> round(float(risk.value(lift(gd_weights(jnp.full(2, 2.0), 0.5)))), 4)
        1.0

    Source: appendices A.2 and A.4 of arXiv 2512.04268; there the second moment is
    another one (``a4-hessian`` in the ledger).
    """
    mean, second, cross = gram_moments(task, fourth=fourth)
    guess, bias = guess_vector(task, guess), _check.number("bias", bias)
    of_task, guess, bias, *moments = arrays(task, guess, bias, mean, second, cross)
    (xp, w, L, P, _), (mean, second, cross) = of_task, moments
    # y_q - w.x_q = (guess - w).x_q + bias, and z_q = [x_q; guess.x_q + bias].
    features = xp.einsum("jk,kmn->jmn", L, xp.tensordot(guess, mean, 0) - cross)
    label = xp.tensordot(guess, features, 1) + bias**2 * mean
    slope = xp.concatenate([features, label[None]])
    reads = xp.concatenate([xp.eye(task.dim, dtype=w.dtype), guess[None]])
    corner, off = xp.eye(task.dim + 1, dtype=w.dtype)[-1], guess - w
    query = reads @ L @ reads.T + bias**2 * xp.outer(corner, corner)
    constant = off @ L @ off + xp.trace(L @ P) + bias**2
    return LiftedRisk(query, second, 2 * slope, plain(xp, constant))


def squared_distance(
    params: LSAParams,
    other_params: LSAParams,
    task: GaussianTask,
    guess: Vector = None,
    other_guess: Vector = None,
) -> Scalar:
    r"""The mean squared difference between the predictions of two layers on the same
    tasks, exact.

    .. math:: E \big[ (f - \tilde f)^2 \big] = E \Big[ \Big( \sum_k t_k \big( c_k +
       \langle G, N_k \rangle \big) \Big)^2
       \Big], \qquad t = [x_q; 1]

    The guess `c^\top t` of one layer reads `c = [g; 0]`, and its heads `N_k = M_k +
    c_k M_{d+1}`, without the first term in the last `N_k`; here c and N stand for the
    differences of the two layers'. From the best step, this is the excess risk of a
    layer.

    Args:
        params, other_params: the weights of the two layers, (H, D, D) each, D = d+1;
            they may differ in H.
        task: the task distribution.
        guess, other_guess: the weights of their initial guesses, (d,); None means zero.

    Returns:
        A scalar, in units of y squared.

    Example:
        >>> from lsalib.attention import gd_weights
        >>> w_star, task = [2.0, 2.0], GaussianTask([2.0, 2.0], context_size=3)
        >>> half, best = gd_weights(w_star, 0.25), gd_weights(w_star, 0.5)
        >>> round(float(squared_distance(half, best, task, w_star, w_star)), 4)
        0.25

    Source: new here; ``pythagoras-general`` in the ledger.
    """
    standard = standardize(task)
    one = read_layer(task, params, guess, 0.0)
    two = read_layer(task, other_params, other_guess, 0.0, "other_")
    dtype = jnp.promote_types(one[1].dtype, two[1].dtype)
    one, two = jax.tree.map(lambda leaf: leaf.astype(dtype), (one, two))
    return _squared_distance(one, two, as_type(standard, dtype))


@jax.jit
@full_precision
def _squared_distance(one, two, task):
    """In standard coordinates, where a prior mean that both layers share is gone."""
    (b, A, c), (b_2, A_2, c_2) = (
        standard_form(*effective(params), y_q, y_q, task) for params, y_q in (one, two)
    )
    heads = jnp.concatenate([b, -b_2]), jnp.concatenate([A, A_2])
    return standard_parts(*heads, c - c_2, task)[0]
