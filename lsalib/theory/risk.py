"""The exact ICL risk of given weights: a polynomial in them, without samples, at a cost
that does not depend on C.

LSA, yq-LSA and the linear transformer block all predict
``f = c.t + sum_h b_h^T G A_h [x_q; y_q.t]`` with ``t = [x_q; 1]``: an offset c, heads
(b_h, A_h) and a guess y_q that the heads read. In the coordinates of
``tasks.standardize`` the error is ``sum_k t_k e_k``, with

    e_k = <G, N_k> + c_k - eps_k,   N_k = sum_h b_h a_hk^T   (no eps_k for the last k).

The t_k are uncorrelated, and E[e_k^2] follows from the moments of G (Isserlis'
theorem).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from lsalib import _check
from lsalib._arrays import HeadMatrices, HeadVectors, PerToken, Rows, Scalar, Vector
from lsalib.attention import LSAParams, effective
from lsalib.attention.layer import check_params
from lsalib.tasks import GaussianTask, StandardTask, check_task, standardize
from lsalib.theory._shared import Number, full_precision


def population_risk(
    params: LSAParams, task: GaussianTask, guess: Vector = None, bias: Number = 0.0
) -> Scalar:
    r"""The ICL risk (eq. 4) of multi-head LSA with the initial guess `y_q = g^\top x_q
    + \beta`, exact.

    .. math:: E \Big[ \Big( y_q + \sum_h b_h^\top G A_h z_q - w^\top x_q \Big)^2 \Big]

    If the guess is trained, too, this is the risk of yq-LSA (eq. 11). It is computed in
    the weights' type, at least float32, with an error of a few roundings of that type
    times the labels' variance. Memory grows like `H D^2`, `D^3` for many heads.

    Args:
        params: the weights, (H, D, D) each, D = d+1.
        task: the task distribution.
        guess: `g`, the weights of the initial guess, (d,); None means zero.
        bias: `\beta`, its constant part.

    Example:
        >>> from lsalib.attention import gd_weights
        >>> task = GaussianTask([2.0, 2.0], context_size=3)
        >>> params = gd_weights([2.0, 2.0], 0.5)
        >>> round(float(population_risk(params, task, guess=[2.0, 2.0])), 4)
        1.0
    """
    standard = standardize(task)
    params, y_q = read_layer(task, params, guess, bias)
    return _population_risk(params, y_q, as_type(standard, y_q.dtype))


@full_precision
def ltb_risk(params: LSAParams, W_1: Rows, W_2: Rows, task: GaussianTask) -> Scalar:
    r"""The ICL risk of the linear transformer block with `y_q = 0` (eq. 30), exact.

    .. math:: E \big[ \big( v^\top [x_q; 0] + \textstyle\sum_h b_h^\top G A_h [x_q; 0] -
       w^\top x_q \big)^2 \big],
       \qquad b_h^\top = v^\top W_{P,h} W_{V,h}

    Only the last row `v^\top` of `W_2^\top W_1` is read. So the block is a yq-LSA that
    does not see its guess, the first d entries of `v`.

    Args:
        params: the weights of the attention, (H, D, D) each, D = d+1.
        W_1, W_2: weights of the MLP, (m, D), of any width m.
        task: the task distribution.

    Example:
        >>> from lsalib.attention import gd_weights
        >>> task = GaussianTask([0.0, 0.0], context_size=3)
        >>> params, W_1, W_2 = gd_weights(jnp.zeros(2), 0.5), jnp.eye(3), jnp.eye(3)
        >>> round(float(ltb_risk(params, W_1, W_2, task)), 4)
        1.0

    Source: the block and, for one head, its minimum risk ``yq_risk`` are those of
    Zhang, Wu and Bartlett (2024).
    """
    check_task(task)
    params, W_1, W_2 = _check.floats((), jnp.float32, params=params, W_1=W_1, W_2=W_2)
    check_params(params, task.dim)
    _check.shape("W_1", W_1, ("m", task.dim + 1))
    _check.shape("W_2", W_2, W_1.shape)
    v = W_2[:, -1] @ W_1
    W_Q = params.W_Q.at[:, :, -1].set(0)
    W_P = params.W_P.at[:, -1].set(v @ params.W_P)
    return population_risk(params._replace(W_Q=W_Q, W_P=W_P), task, v[:-1])


def read_layer(
    task: GaussianTask, params, guess, bias, prefix: str = ""
) -> tuple[LSAParams, PerToken]:
    """The weights of a layer and its guess `[g; beta]`, in one type."""
    values = {f"{prefix}params": params, f"{prefix}guess": guess}
    values[f"{prefix}bias"] = _check.number(f"{prefix}bias", bias)
    params, guess, bias = _check.floats((f"{prefix}guess",), jnp.float32, **values)
    check_params(params, task.dim, f"{prefix}params")
    guess = jnp.zeros_like(bias, shape=task.dim) if guess is None else guess
    _check.shape(f"{prefix}guess", guess, (task.dim,))
    return params, jnp.append(guess, bias)


def as_type(standard: StandardTask, dtype) -> StandardTask:
    """In the weights' type: a program is compiled for the shapes alone."""
    return jax.tree.map(lambda value: jnp.asarray(value, dtype), standard)


# One program for all weights and tasks of one shape.
@jax.jit
@full_precision
def _population_risk(params, y_q, task: StandardTask):
    b, A = effective(params)
    return standard_risk(*standard_form(b, A, y_q, y_q, task), task)


def standard_form(
    b: HeadVectors, A: HeadMatrices, y_q: PerToken, offset: PerToken, task: StandardTask
) -> tuple[Array, Array, Array]:
    r"""Heads b (H, D) and A (H, D, D) and the constant part c (D,) of the error, for
    tokens [x; r] and queries t.

    .. math:: c_0^\top t + \sum_h b_h^\top G A_h [x_q; y^\top t] - w^\top x_q, \qquad t
       = [x_q; 1]

    Given are the heads, the guess `y` (D,) in terms of t, and the ``offset`` `c_0`,
    what is predicted without heads: ``y_q`` for LSA. Tasks that differ only in their
    prior mean have the same contexts there; so training moves the heads and shares the
    data.
    """
    w, U = task.prior_mean, task.basis
    c = offset.at[:-1].add(-w)
    b = b.at[:, :-1].add(b[:, -1:] * w[None])
    A = A.at[:, :-1].add(A[:, -1:] * w[None, :, None])
    A = A.at[:, :, -1].set(0) + A[:, :, -1:] * y_q[None, None]
    if U is not None:
        # the last entry of a token stays as it is
        U = jnp.eye(len(c), dtype=c.dtype).at[:-1, :-1].set(U)
        b, A, c = b @ U, jnp.einsum("mi,hmn,nk->hik", U, A, U), c @ U
    return b, A, c


def standard_risk(
    b: HeadVectors, A: HeadMatrices, c: PerToken, task: StandardTask
) -> Scalar:
    r"""The risk of what ``standard_form`` returns.

    .. math:: \sum_k E[e_k^2], \qquad e_k = \Big\langle G, \sum_h b_h A_{h,\cdot k}^\top
       \Big\rangle + c_k
       - \varepsilon_k, \qquad \varepsilon_{d+1} = 0
    """
    square, spread, with_target = standard_parts(b, A, c, task)
    return square + spread - 2 * with_target


def standard_parts(
    b: HeadVectors, A: HeadMatrices, c: PerToken, task: StandardTask
) -> tuple:
    """The mean squares of ``<G, N_k> + c_k`` and of ``eps_k``, summed over k, and the
    mean product of the two.
    """
    d, C, noise = len(c) - 1, task.context_size, task.noise_std**2
    # Numbers where P is the identity, which cost nothing.
    prior: tuple = 1.0, 1.0, d, d
    if (R := task.prior_root) is not None:
        P = R @ R.T
        prior = P, jnp.eye(d, dtype=P.dtype), jnp.trace(P), jnp.vdot(P, P)
    P, one, spread, square = prior
    level = spread + noise
    fourth = level**2 + 2 * square
    # The lift is less work than pairs of heads unless the heads are few.
    forms = _lifted(b, A, P) if 3 * len(b) >= len(c) else _by_heads(b, A, P)
    norms, trace, weighted, corner, cross = forms
    even = jnp.sum((trace + level * corner + c) ** 2) + 2 * square * (corner @ corner)
    even += (norms + 4 * corner @ weighted + 2 * fourth * (corner @ corner)) / C
    # E[s s^T] of s, the average of r x: one factor for each entry, since training in
    # float32 ends where rounding does.
    second = P * (1 + 1 / C) + one * (level / C)
    square_of_all = even + jnp.vdot(cross, _times(second, cross))
    return square_of_all, spread, jnp.trace(_times(P, cross[:, :d]))


class _Forms(NamedTuple):
    """Of ``<G, N_k> = <S, X_k> + cross_k.s + corner_k q``: 2 sum_k |X_k|^2, tr X_k, <P,
    X_k>, corner_k, cross_k.
    """

    norms: Array
    trace: Array
    weighted: Array
    corner: Array
    cross: Array


def _by_heads(b, A, P) -> _Forms:
    """From pairs of heads, which never build X_k."""
    b_x, b_y, A_x, A_y = b[:, :-1], b[:, -1], A[:, :-1], A[:, -1]
    pairs = jnp.einsum("hi,gik->hgk", b_x, A_x)
    norms = jnp.vdot(b_x @ b_x.T, jnp.einsum("hik,gik->hg", A_x, A_x))
    norms += jnp.vdot(pairs, pairs.swapaxes(0, 1))
    weighted = jnp.einsum("hi,hik->k", _times(P, b_x.T).T, A_x)
    cross = b_x.T @ A_y + jnp.einsum("h,hik->ik", b_y, A_x)
    return _Forms(norms, jnp.einsum("hhk->k", pairs), weighted, b_y @ A_y, cross)


def _lifted(b, A, P) -> _Forms:
    """From ``N = [[X, cross/2], [cross/2, corner]]``, symmetric."""
    N = jnp.einsum("hm,hnk->mnk", b, A)
    N = (N + N.swapaxes(0, 1)) / 2
    X = N[:-1, :-1]
    trace = jnp.einsum("iik->k", X)
    weighted = trace if jnp.ndim(P) == 0 else jnp.einsum("ij,ijk->k", P, X)
    return _Forms(2 * jnp.vdot(X, X), trace, weighted, N[-1, -1], 2 * N[:-1, -1])


def _times(P, vectors):
    """``P @ vectors``; a number is a multiple of the identity."""
    return P * vectors if jnp.ndim(P) == 0 else P @ vectors
