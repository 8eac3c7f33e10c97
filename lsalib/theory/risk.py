"""The exact ICL risk of given weights: a polynomial in them, without samples, at a cost that does not depend on C.

LSA, yq-LSA and the linear transformer block all predict
``f = c.t + sum_h b_h^T G A_h [x_q; y_q.t]`` with ``t = [x_q; 1]``: an offset c, heads (b_h, A_h) and
a guess y_q that the heads read. In the coordinates of ``tasks.standardize`` the error is ``sum_k t_k e_k``, with

    e_k = <G, N_k> + c_k - eps_k,   N_k = sum_h b_h a_hk^T   (no eps_k for the last k).

The t_k are uncorrelated, and E[e_k^2] follows from the moments of G (Isserlis' theorem). A query with a covariance of
its own has coordinates of its own, in which the t_k are uncorrelated, too; its eps_k are then others than the tokens'.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsalib import _arrays, _validate
from lsalib.attention import LSAParams, effective
from lsalib.attention.layer import check_params
from lsalib.mixtures import averaged
from lsalib.tasks import GaussianTask, StandardTask, standardize
from lsalib.theory._task_arrays import Number, full_precision

__all__ = ["ltb_risk", "population_risk", "standard_form", "standard_risk"]

Scalar = Float[Array, ""]
# In half precision an exact risk would have three digits.
_promote_weights = partial(_arrays.promoted, skip=("task",), least=np.float32)


@averaged
@_promote_weights
@full_precision
def population_risk(params: LSAParams, task: GaussianTask, guess=None, bias: Number = 0.0) -> Scalar:
    r"""The ICL risk (eq. 4) of multi-head LSA with the initial guess `y_q = g^\top x_q + \beta`, exact.

    .. math:: E \Big[ \Big( y_q + \sum_h b_h^\top G A_h z_q - w^\top x_q \Big)^2 \Big]

    If the guess is trained, too, this is the risk of yq-LSA (eq. 11). Given the context and w the error is affine in
    `x_q`, so the risk reads of the query no more than its covariance. Memory grows like the weights, `H D^2`: no moment
    tensor of `D^4` numbers is built.

    Args:
        params: the weights, (H, D, D) each, D = d+1. The result has the widest float type among weights, guess and
            bias, at least float32.
        task: the task distribution, or a ``MixtureTask``.
        guess: `g`, the weights of the initial guess, (d,); None means zero.
        bias: `\beta`, its constant part.

    Returns:
        The risk against the noise-free target, a scalar.

    Raises:
        ValueError: if a shape does not fit the task's d or ``bias`` is not finite. For a trained ``Fit`` use
            ``fit.population_risk(task)``, which includes its guess and bias.

    Example:
        >>> from lsalib.attention import gd_weights
        >>> task = GaussianTask([2.0, 2.0], context_size=3)
        >>> round(float(population_risk(gd_weights(jnp.full(2, 2.0), 0.5), task, guess=[2.0, 2.0])), 4)
        1.0
    """
    check_params(params, task.dim)
    guess = np.zeros(task.dim) if guess is None else guess
    _validate.shape("guess", guess, (task.dim,))
    return _population_risk(params, guess, _validate.number("bias", bias), _constants(task, params.W_K.dtype))


@averaged
@_promote_weights
@full_precision
def ltb_risk(params: LSAParams, W_1: Float[Array, "m D"], W_2: Float[Array, "m D"], task: GaussianTask) -> Scalar:
    r"""The ICL risk of the linear transformer block with `y_q = 0` (eq. 30), exact.

    .. math:: E \big[ \big( v^\top [x_q; 0] + \textstyle\sum_h b_h^\top G A_h [x_q; 0] - w^\top x_q \big)^2 \big],
       \qquad b_h^\top = v^\top W_{P,h} W_{V,h}

    Only the last row `v^\top` of `W_2^\top W_1` is read: its first d entries are a guess.

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
    check_params(params, task.dim)
    _validate.shape("W_1", W_1, ("m", task.dim + 1))
    _validate.shape("W_2", W_2, (W_1.shape[0], task.dim + 1))
    return _ltb_risk(params, W_1, W_2, _constants(task, params.W_K.dtype))


# One program for all weights and tasks of one shape.
@jax.jit
def _population_risk(params, guess, bias, task: StandardTask) -> Scalar:
    dtype = params.W_K.dtype
    y_q = jnp.append(jnp.asarray(guess, dtype), jnp.asarray(bias, dtype))
    b, A = effective(params)
    return standard_risk(*standard_form(b, A, y_q, y_q, task), task)


@jax.jit
def _ltb_risk(params, W_1, W_2, task: StandardTask) -> Scalar:
    v = W_2[:, -1] @ W_1
    b = jnp.einsum("m,hmi,hin->hn", v, params.W_P, params.W_V)
    return standard_risk(*standard_form(b, effective(params)[1], jnp.zeros_like(v), v.at[-1].set(0), task), task)


@_arrays.promoted
def standard_form(
    b: Float[Array, "H D"],
    A: Float[Array, "H D D"],
    y_q: Float[Array, " D"],
    offset: Float[Array, " D"],
    task: StandardTask,
) -> tuple[Float[Array, "H D"], Float[Array, "H D D"], Float[Array, " D"]]:
    r"""The error of a layer in the coordinates of ``tasks.standardize``.

    .. math:: c_0^\top t + \sum_h b_h^\top G A_h [x_q; y^\top t] - w^\top x_q, \qquad t = [x_q; 1]

    Tasks that differ only in their prior mean have the same contexts there. Training and
    ``population_risk`` both use this function to move the heads.

    Args:
        b, A: effective heads, (H, D) and (H, D, D).
        y_q: y, the initial guess in terms of t, (D,).
        offset: `c_0`, what is predicted without heads, (D,): y_q for LSA.
        task: the task as arrays.

    Returns:
        Heads b and A for tokens [x; r] and queries t, and the constant part c of the error, (D,).

    Raises:
        ValueError: if a shape does not fit.

    Example:
        >>> task = StandardTask(jnp.array([3.0]), None, None, 0.0, 5.0)
        >>> b, A, c = standard_form(jnp.ones((1, 2)), jnp.ones((1, 2, 2)), jnp.zeros(2), jnp.zeros(2), task)
        >>> b.tolist(), c.tolist()
        ([[4.0, 1.0]], [-3.0, 0.0])
    """
    _check_standard(b, A, task, y_q=y_q, offset=offset)
    w, U = task.prior_mean, task.basis
    c = offset.at[:-1].add(-w)
    b = b.at[:, :-1].add(b[:, -1:] * w[None])
    A = A.at[:, :-1].add(A[:, -1:] * w[None, :, None])
    A = A.at[:, :, -1].set(0) + A[:, :, -1:] * y_q[None, None]
    if U is not None:
        U = _on_tokens(U)
        V = U if task.query_basis is None else _on_tokens(task.query_basis)
        b, A, c = b @ U, jnp.einsum("mi,hmn,nk->hik", U, A, V), c @ V
    return b, A, c


def _on_tokens(basis: Float[np.ndarray | Array, "d d"]) -> Float[Array, "D D"]:
    """A change of coordinates of features, for tokens, whose last entry it leaves as it is."""
    return jnp.eye(len(basis) + 1, dtype=basis.dtype).at[:-1, :-1].set(basis)


@_arrays.promoted
def standard_risk(
    b: Float[Array, "H D"], A: Float[Array, "H D D"], c: Float[Array, " D"], task: StandardTask
) -> Scalar:
    r"""The risk of what ``standard_form`` returns.

    .. math:: \sum_k E[e_k^2], \qquad e_k = \Big\langle G, \sum_h b_h A_{h,\cdot k}^\top \Big\rangle + c_k
       - \varepsilon_k, \qquad \varepsilon_{d+1} = 0

    Args:
        b, A, c: heads and constant part, in standard coordinates.
        task: the task as arrays.

    Returns:
        The risk, a scalar; a function of arrays alone, which ``jax.vmap`` can run over tasks.

    Raises:
        ValueError: if a shape does not fit.

    Example:
        >>> task = StandardTask(jnp.zeros(2), None, None, 0.0, 5.0)
        >>> float(standard_risk(jnp.zeros((1, 3)), jnp.zeros((1, 3, 3)), jnp.zeros(3), task))
        2.0
    """
    _check_standard(b, A, task, c=c)
    d, C, noise = len(c) - 1, task.context_size, task.noise_std**2
    P, one, spread, square = _prior_cov(task.prior_root, d)
    level = spread + noise
    fourth = level**2 + 2 * square
    # The lift is less work than pairs of heads unless the heads are few.
    norms, trace, weighted, corner, cross = (_lifted if 3 * len(b) >= len(c) else _by_heads)(b, A, P)
    even = jnp.sum((trace + level * corner + c) ** 2) + 2 * square * (corner @ corner)
    even += (norms + 4 * corner @ weighted + 2 * fourth * (corner @ corner)) / C
    # E[s s^T] of s, the average of r x: one factor for each entry, since training in float32 ends where rounding does.
    second = P * (1 + 1 / C) + one * (level / C)
    odd = jnp.vdot(cross, _times(second, cross))
    if task.query_root is None:
        return even + odd + spread - 2 * jnp.trace(_times(P, cross[:, :d]))
    T_q = task.query_root
    mixed = T_q if task.prior_root is None else T_q @ task.prior_root.T  # E of the query's eps times the tokens'
    return even + odd + jnp.vdot(T_q, T_q) - 2 * jnp.vdot(mixed, cross[:, :d].T)


def _check_standard(b, A, task: StandardTask, **vectors) -> None:
    _validate.shape("b", b, ("H", "D"))
    H, D = b.shape
    _validate.shape("A", A, (H, D, D))
    for name, vector in vectors.items():
        _validate.shape(name, vector, (D,))
    shapes: dict[str, tuple] = dict.fromkeys(("basis", "prior_root", "query_basis", "query_root"), (D - 1, D - 1))
    shapes |= {"prior_mean": (D - 1,), "noise_std": (), "context_size": ()}
    for name, value in task._asdict().items():
        if value is not None:
            _validate.shape(name, value, shapes[name])


def _by_heads(b, A, P):
    """Of ``<G, N_k> = <S, X_k> + cross_k.s + corner_k q``: 2 sum_k |X_k|^2, tr X_k, <P, X_k>, corner_k, cross_k."""
    b_x, b_y, A_x, A_y = b[:, :-1], b[:, -1], A[:, :-1], A[:, -1]
    # Over pairs of heads, |X_k|^2 needs no X_k.
    pairs = jnp.einsum("hi,gik->hgk", b_x, A_x)
    norms = jnp.vdot(b_x @ b_x.T, jnp.einsum("hik,gik->hg", A_x, A_x)) + jnp.vdot(pairs, pairs.swapaxes(0, 1))
    weighted = jnp.einsum("hi,hik->k", _times(P, b_x.T).T, A_x)
    return norms, jnp.einsum("hhk->k", pairs), weighted, b_y @ A_y, b_x.T @ A_y + jnp.einsum("h,hik->ik", b_y, A_x)


def _lifted(b, A, P):
    """The same from ``N = [[X, cross/2], [cross/2, corner]]``, symmetric."""
    N = jnp.einsum("hm,hnk->mnk", b, A)
    N = (N + N.swapaxes(0, 1)) / 2
    X = N[:-1, :-1]
    trace = jnp.einsum("iik->k", X)
    weighted = trace if jnp.ndim(P) == 0 else jnp.einsum("ij,ijk->k", P, X)
    return 2 * jnp.vdot(X, X), trace, weighted, N[-1, -1], 2 * N[:-1, -1]


def _prior_cov(root, d: int):
    """The covariance of eps, the identity beside it, tr P and tr P^2; numbers where P is one, which cost nothing."""
    if root is None:
        return 1.0, 1.0, d, d
    P = root @ root.T
    return P, jnp.eye(d, dtype=P.dtype), jnp.trace(P), jnp.vdot(P, P)


def _times(P, vectors):
    """``P @ vectors``; a number is a multiple of the identity."""
    return P * vectors if jnp.ndim(P) == 0 else P @ vectors


def _constants(task: GaussianTask, dtype) -> StandardTask:
    """The standard task in the weights' type: a program is compiled for the shapes alone."""
    as_type = lambda value: value.astype(dtype) if _arrays.traced(value) else np.asarray(value, dtype)
    return jax.tree.map(as_type, standardize(task))
