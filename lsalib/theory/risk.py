"""The ICL risk of given weights, exactly: a polynomial in them, without a sample and at no cost in C.

LSA, yq-LSA and the linear transformer block all predict
``f = c.t + sum_h b_h^T G A_h t`` with ``t = [x_q; 1]``: an offset c and heads (b_h, A_h).
In the coordinates of ``standard`` the error is ``sum_k t_k e_k``, with

    e_k = <G, N_k> + c_k - eps_k,   N_k = sum_h b_h A_h[:, k]^T   (no eps_k for the last k),

uncorrelated over k, and every E[e_k^2] follows from the moments of G (Isserlis' theorem).
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsalib import _validate
from lsalib.attention import LSAParams, effective
from lsalib.tasks import GaussianTask
from lsalib.theory.standard import standardize

__all__ = ["ltb_risk", "population_risk"]

Scalar = Float[Array, ""]


def population_risk(params: LSAParams, task: GaussianTask, guess=None, bias: float = 0.0) -> Scalar:
    """The ICL risk ``E[(f(E) - w.x_q)^2]`` (eq. 4) of multi-head LSA with the initial guess ``guess.x_q + bias``.

    Exact, differentiable in ``params`` and ``guess``, and made for ``jax.jit`` with the task closed
    over. With ``guess`` among the trained weights it is the risk of yq-LSA (eq. 11). Memory grows
    like the weights, H D^2: neither a D^4 moment tensor nor the D^3 lift is built.

    Args:
        params: the weights, (H, D, D) each, D = d+1; their type is the type of the result.
        task: the task distribution.
        guess: weights of the initial guess, (d,); None means zero.
        bias: its constant part.

    Returns:
        The risk against the noise-free target, a scalar.

    Raises:
        ValueError: if a shape does not fit the task's d or ``bias`` is not finite.

    Example:
        >>> from lsalib.attention import gd_weights
        >>> task = GaussianTask([2.0, 2.0], context_size=3)
        >>> round(float(population_risk(gd_weights(jnp.full(2, 2.0), 0.5), task, guess=[2.0, 2.0])), 4)
        1.0
    """
    dtype = _check_params(params, task)
    guess = np.zeros(task.dim) if guess is None else guess
    _validate.shape("guess", guess, (task.dim,))
    offset = jnp.append(jnp.asarray(guess, dtype), jnp.asarray(_validate.number("bias", bias), dtype))
    # On a GPU the default may be a shortened float, which would not do for an exact risk.
    with jax.default_matmul_precision("highest"):
        b, A = effective(params)
        # z_q = [x_q; y_q] = [[I, 0], [guess^T, bias]] t
        query = jnp.einsum("hm,k->hmk", A[:, :, -1], offset)
        return _risk(b, query.at[:, :, :-1].add(A[:, :, :-1]), offset, task)


def ltb_risk(params: LSAParams, W_1: Float[Array, "m D"], W_2: Float[Array, "m D"], task: GaussianTask) -> Scalar:
    """The ICL risk of the linear transformer block, ``[W_2^T W_1 (E + heads)]_{-1,-1}`` with y_q = 0 (eq. 30).

    Only the last row v of ``W_2^T W_1`` is read: the first d entries of v are a guess, and every head has ``b_h = v^T W_P W_V``.

    Args:
        params: the weights of the attention, (H, D, D) each, D = d+1.
        W_1, W_2: weights of the MLP, (m, D), of any width m.
        task: the task distribution.

    Returns:
        The risk against the noise-free target, a scalar.

    Raises:
        ValueError: if a shape does not fit.

    Example:
        >>> from lsalib.attention import gd_weights
        >>> task = GaussianTask([0.0, 0.0], context_size=3)
        >>> round(float(ltb_risk(gd_weights(jnp.zeros(2), 0.5), jnp.eye(3), jnp.eye(3), task)), 4)
        1.0
    """
    _check_params(params, task)
    _validate.shape("W_1", W_1, ("m", task.dim + 1))
    _validate.shape("W_2", W_2, (W_1.shape[0], task.dim + 1))
    with jax.default_matmul_precision("highest"):
        v = W_2[:, -1] @ W_1
        _, A = effective(params)
        b = jnp.einsum("m,hmi,hin->hn", v, params.W_P, params.W_V)
        return _risk(b, A.at[:, :, -1].set(0), v.at[-1].set(0), task)


def _risk(b: Float[Array, "H D"], A: Float[Array, "H D D"], offset: Float[Array, " D"], task: GaussianTask) -> Scalar:
    """The risk of ``offset.t + sum_h b_h^T G A_h t``, ``t = [x_q; 1]``, for the target ``w.x_q``."""
    basis, p = standardize(task)
    b, A, c = _standard_form(b, A, offset, task, basis)
    noise, C = task.noise_std**2, task.context_size
    level, square = p.sum() + noise, p @ p
    fourth = level**2 + 2 * square
    b_x, b_y, A_x, A_y = b[:, :-1], b[:, -1], A[:, :-1], A[:, -1]
    p = jnp.asarray(p, b.dtype)

    # <G, N_k> = tr(N_k S) + cross_k.s + corner_k q; Gram matrices over pairs of heads give |sym N_k|^2.
    pairs = jnp.einsum("hi,gik->hgk", b_x, A_x)
    norms = jnp.vdot(b_x @ b_x.T, jnp.einsum("hik,gik->hg", A_x, A_x)) + jnp.vdot(pairs, pairs.swapaxes(0, 1))
    trace = jnp.einsum("hhk->k", pairs)
    weighted = jnp.einsum("hi,hik->k", b_x * p[None], A_x)
    corner = b_y @ A_y
    cross = b_x.T @ A_y + jnp.einsum("h,hik->ik", b_y, A_x)

    even = jnp.sum((trace + level * corner + c) ** 2) + 2 * square * (corner @ corner)
    even += (norms + 4 * corner @ weighted + 2 * fourth * (corner @ corner)) / C
    odd = jnp.vdot(cross**2, jnp.broadcast_to((p + (p + level) / C)[:, None], cross.shape))
    return even + odd + p @ (1 - 2 * jnp.diagonal(cross))


def _standard_form(b, A, offset, task: GaussianTask, basis: np.ndarray):
    """Heads and offset in the coordinates of ``standard``; the offset becomes the error's constant part."""
    w = jnp.asarray(task.prior_mean, b.dtype)
    c = offset.at[:-1].add(-w)
    b = b.at[:, :-1].add(b[:, -1:] * w[None])
    A = A.at[:, :-1].add(A[:, -1:] * w[None, :, None])
    if task.feature_cov is None and task.prior_cov is None:
        return b, A, c
    U = np.eye(task.dim + 1)
    U[:-1, :-1] = basis
    U = jnp.asarray(U, b.dtype)
    return b @ U, jnp.einsum("mi,hmn,nk->hik", U, A, U), c @ U


def _check_params(params: LSAParams, task: GaussianTask):
    """The type of the weights, after a look at their shapes."""
    heads = np.shape(params.W_K)[0] if np.ndim(params.W_K) else 0
    for name, W in params._asdict().items():
        _validate.shape(name, W, (heads, task.dim + 1, task.dim + 1))
    return params.W_K.dtype
