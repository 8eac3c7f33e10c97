r"""The state of one head, token by token or many tokens at once.

All rules are one recurrence. With `\delta = 0` a token adds its value under its key. With `\delta = 1` it first takes
away what the state answers to that key:

.. math:: S_t = \alpha_t S_{t-1} + \beta_t \big( v_t - \delta \, \alpha_t S_{t-1} k_t \big) k_t^\top
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from lsalib import _arrays, _validate

__all__ = ["chunked", "recurrence"]

State = Float[Array, "m n"]
Outputs = Float[Array, "C m"] | None
# One number for all tokens, or one for each.
Rate = float | Float[Array, ""] | Float[Array, " C"]


@partial(_arrays.promoted, skip=("delta",))
@partial(jax.jit, static_argnames=("delta",))
def recurrence(
    state: State,
    keys: Float[Array, "C n"],
    values: Float[Array, "C m"],
    queries: Float[Array, "C n"] | None = None,
    *,
    step: Rate = 1.0,
    gate: Rate | None = None,
    delta: bool = False,
) -> tuple[State, Outputs]:
    r"""The state of one head after C tokens, one token after the other.

    .. math:: S_t = \alpha_t S_{t-1} + \beta_t \big( v_t - \delta \, \alpha_t S_{t-1} k_t \big) k_t^\top,
       \qquad o_t = S_t q_t

    With `\delta = 0` this is linear attention, with a gate gated linear attention. With `\delta = 1` it is the delta
    rule, `S_t = S_{t-1} + \beta_t (v_t - S_{t-1} k_t) k_t^\top`, which is a step of gradient descent on
    `\lVert v_t - S k_t \rVert^2 / 2`, and with a gate the gated delta rule,
    `S_t = \alpha_t S_{t-1} (I - \beta_t k_t k_t^\top) + \beta_t v_t k_t^\top`.

    Args:
        state: `S_0`, (m, n).
        keys, values: of the C tokens, (C, n) and (C, m).
        queries: one a token, (C, n); None if only the last state is wanted.
        step: `\beta_t`, one number or (C,).
        gate: `\alpha_t`, one number or (C,); None is 1.
        delta: whether a token takes away what the state answers to its key.

    Returns:
        `S_C` of shape (m, n) and the outputs `o_t` of shape (C, m), or None without queries.

    Raises:
        ValueError: if a shape does not fit, or ``delta`` is neither True nor False.

    Example:
        >>> keys, values = jnp.array([[1.0, 0.0], [1.0, 0.0]]), jnp.array([[2.0], [5.0]])
        >>> recurrence(jnp.zeros((1, 2)), keys, values)[0].tolist()
        [[7.0, 0.0]]
        >>> recurrence(jnp.zeros((1, 2)), keys, values, delta=True)[0].tolist()
        [[5.0, 0.0]]

    Sources: :cite:t:`katharopoulos2020` (linear attention), :cite:t:`schlag2021` (delta rule), :cite:t:`yang2024gla`
    and :cite:t:`dao2024` (gates), :cite:t:`yang2025gated` (gated delta rule).
    """
    step, gate = _checked(state, keys, values, queries, step, gate, delta)

    def token(S, each):
        key, value, query, beta, alpha = each
        S = S if alpha is None else alpha * S
        S = S + beta * jnp.outer(value - S @ key if delta else value, key)
        return S, None if query is None else S @ query

    return jax.lax.scan(token, state, (keys, values, queries, step, gate))


@partial(_arrays.promoted, skip=("delta", "chunk"))
@partial(jax.jit, static_argnames=("delta", "chunk"))
def chunked(
    state: State,
    keys: Float[Array, "C n"],
    values: Float[Array, "C m"],
    queries: Float[Array, "C n"] | None = None,
    *,
    step: Rate = 1.0,
    gate: Rate | None = None,
    delta: bool = False,
    chunk: int = 64,
) -> tuple[State, Outputs]:
    r"""What ``recurrence`` computes, many tokens at once.

    Inside of a chunk, `S_t = \gamma_t S_0 + \sum_{j \le t} (\gamma_t / \gamma_j) u_j k_j^\top` with
    `\gamma_t = \alpha_1 \cdots \alpha_t`. So the writes `u_t` solve a triangular system (the WY form):

    .. math:: u_t + \delta \, \beta_t \sum_{j < t} \frac{\gamma_t}{\gamma_j} (k_j^\top k_t) \, u_j
       = \beta_t \big( v_t - \delta \, \gamma_t S_0 k_t \big)

    It is a few products of matrices instead of C small steps. Gates of zero are allowed: nothing is divided.

    Args:
        state, keys, values, queries, step, gate, delta: as in ``recurrence``.
        chunk: how many tokens are computed at once; the chunks follow one another.

    Returns:
        As ``recurrence``, up to rounding.

    Raises:
        ValueError: as ``recurrence``, or if ``chunk`` is below 1.

    Example:
        >>> keys, values = jnp.array([[1.0, 0.0], [1.0, 0.0]]), jnp.array([[2.0], [5.0]])
        >>> chunked(jnp.zeros((1, 2)), keys, values, delta=True)[0].tolist()
        [[5.0, 0.0]]

    Source: :cite:t:`yang2024delta`.
    """
    step, gate = _checked(state, keys, values, queries, step, gate, delta)
    C, size = len(keys), min(_validate.count("chunk", chunk), len(keys))
    count = -(-C // size)

    def cut(rows, fill=0.0):
        """In chunks; the tokens that fill the last one up write nothing."""
        if rows is None:
            return None
        filled = jnp.pad(rows, ((0, count * size - C), *[(0, 0)] * (rows.ndim - 1)), constant_values=fill)
        return filled.reshape(count, size, *rows.shape[1:])

    parts = cut(keys), cut(values), cut(queries), cut(step), cut(gate, 1.0)
    one = partial(_chunk, delta)
    if count == 1:
        last, outputs = one(state, jax.tree.map(lambda part: part[0], parts))
    else:
        last, outputs = jax.lax.scan(one, state, parts)
    return last, None if outputs is None else outputs.reshape(-1, values.shape[1])[:C]


def _chunk(delta: bool, state, each):
    """The last state and the outputs of one chunk."""
    keys, values, queries, step, gate = each
    C = len(keys)
    lower = jnp.tril(jnp.ones((C, C), keys.dtype))
    # gamma_t/gamma_j where j <= t, and gamma_t. As products, not as quotients: a gate may be zero.
    decay, kept = lower, jnp.ones((C, 1), keys.dtype)
    if gate is not None:
        decay = lower * jnp.cumprod(jnp.where(jnp.tril(lower, -1) > 0, gate[:, None], 1.0), axis=0)
        kept = jnp.cumprod(gate)[:, None]
    writes = step[:, None] * values
    if delta:
        system = jnp.eye(C, dtype=keys.dtype) + step[:, None] * jnp.tril(decay * (keys @ keys.T), -1)
        right = writes - step[:, None] * kept * (keys @ state.T)
        writes = solve_triangular(system, right, lower=True, unit_diagonal=True)
    last = kept[-1:] * state + (decay[-1][:, None] * writes).T @ keys
    if queries is None:
        return last, None
    return last, kept * (queries @ state.T) + (decay * (queries @ keys.T)) @ writes


def _checked(state, keys, values, queries, step, gate, delta):
    """The rates as one number a token, after a check of all shapes."""
    _validate.flag("delta", delta)
    _validate.shape("state", state, ("m", "n"))
    m, n = state.shape
    _validate.shape("keys", keys, ("C", n))
    C = _validate.count("the number of tokens C of keys", len(keys))
    _validate.shape("values", values, (C, m))
    if queries is not None:
        _validate.shape("queries", queries, (C, n))
    for name, rate in (("step", step), ("gate", gate)):
        if rate is not None and jnp.ndim(rate) != 0:
            _validate.shape(name, rate, (C,))
    each = lambda rate: None if rate is None else jnp.broadcast_to(jnp.asarray(rate, keys.dtype), (C,))
    return each(step), each(gate)
