r"""The state of one head, token by token or many tokens at once.

All rules are one recurrence. With `\delta = 0` a token adds its value under its key. With `\delta = 1` it first takes
away what the state answers to that key:

.. math:: S_t = \alpha_t S_{t-1} + \beta_t \big( v_t - \delta \, \alpha_t S_{t-1} k_t \big) k_t^\top
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from lsalib import _arrays, _validate

__all__ = ["chunked", "recurrence"]

State = Float[Array, "m n"]
Outputs = Float[Array, "C m"] | None
# One number for all tokens, or one for each.
Rate = float | Float[Array, ""] | Float[Array, " C"]


@partial(_arrays.promoted, skip=("delta",))
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

    Sources: Katharopoulos et al. (2020, linear attention), Schlag et al. (2021, delta rule), Yang, Wang, Shen et al.
    (2024) and Dao and Gu (2024, gates), Yang, Kautz and Hatamizadeh (2025, gated delta rule).
    """
    rows = _checked(state, keys, values, queries, step, gate)
    return _recurrence(state, rows, _validate.flag("delta", delta))


@partial(_arrays.promoted, skip=("delta", "chunk"))
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

    Source: Yang, Wang, Zhang et al. (2024), arXiv 2406.06484.
    """
    rows = _checked(state, keys, values, queries, step, gate)
    return _chunked(state, rows, _validate.flag("delta", delta), _validate.count("chunk", chunk))


class _Rows(NamedTuple):
    """What the C tokens bring, one row each."""

    keys: Float[Array, "C n"]
    values: Float[Array, "C m"]
    queries: Float[Array, "C n"] | None
    step: Float[Array, " C"]
    gate: Float[Array, " C"] | None


def _checked(state, keys, values, queries, step, gate) -> _Rows:
    """All shapes checked, and a rate for every token."""
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
    each = lambda rate: jnp.broadcast_to(jnp.asarray(rate, keys.dtype), (C,))
    return _Rows(keys, values, queries, each(step), None if gate is None else each(gate))


@partial(jax.jit, static_argnames="delta")
def _recurrence(state, rows: _Rows, delta: bool):
    def token(S, row: _Rows):
        S = S if row.gate is None else row.gate * S
        S = S + row.step * jnp.outer(row.values - S @ row.keys if delta else row.values, row.keys)
        return S, None if row.queries is None else S @ row.queries

    return lax.scan(token, state, rows)


@partial(jax.jit, static_argnames=("delta", "chunk"))
def _chunked(state, rows: _Rows, delta: bool, chunk: int):
    C = len(rows.keys)
    size = min(chunk, C)
    count = -(-C // size)
    if count == 1:
        return _one_chunk(delta, state, rows)
    # Tokens of zeros fill the last chunk up. They write nothing, and their gate is 1.
    missing = count * size - C
    fill = lambda part, value=0.0: jnp.concatenate([part, jnp.full((missing, *part.shape[1:]), value, part.dtype)])
    filled = jax.tree.map(fill, rows)
    if rows.gate is not None:
        filled = filled._replace(gate=fill(rows.gate, 1.0))
    chunks = jax.tree.map(lambda part: part.reshape(count, size, *part.shape[1:]), filled)
    last, outputs = lax.scan(partial(_one_chunk, delta), state, chunks)
    return last, None if outputs is None else outputs.reshape(-1, outputs.shape[-1])[:C]


def _one_chunk(delta: bool, state, rows: _Rows):
    """The last state and the outputs of one chunk."""
    keys, values, queries, step, gate = rows
    C = len(keys)
    # gamma_t/gamma_j where j <= t, and gamma_t. As products, not as quotients: a gate may be zero.
    decay, kept = jnp.tril(jnp.ones((C, C), keys.dtype)), jnp.ones((C, 1), keys.dtype)
    if gate is not None:
        decay = decay * jnp.cumprod(jnp.where(jnp.tril(decay, -1) > 0, gate[:, None], 1.0), axis=0)
        kept = jnp.cumprod(gate)[:, None]
    writes = step[:, None] * values
    if delta:
        earlier = step[:, None] * jnp.tril(decay * (keys @ keys.T), -1)
        writes = _substituted(earlier, writes - step[:, None] * kept * (keys @ state.T))
    last = kept[-1:] * state + (decay[-1][:, None] * writes).T @ keys
    if queries is None:
        return last, None
    return last, kept * (queries @ state.T) + (decay * (queries @ keys.T)) @ writes


def _substituted(earlier: Float[Array, "C C"], right: Float[Array, "C m"]) -> Float[Array, "C m"]:
    """The writes u with u + earlier u = right, row by row; ``earlier`` is zero on and above its diagonal.

    LAPACK's triangular solve would do it, but two of its solves in one program can block each other's threads.
    """
    last = len(right) - 1

    def forward(_, rows):
        return lax.fori_loop(0, last + 1, lambda i, u: u.at[i].add(-(earlier[i] @ u)), rows)

    def backward(_, rows):
        return lax.fori_loop(0, last + 1, lambda i, u: u.at[last - i].add(-(earlier[:, last - i] @ u)), rows)

    return lax.custom_linear_solve(lambda u: u + earlier @ u, right, forward, backward)
