"""A layer of several heads, or several layers one after the other: what is computed, its weights, its prediction."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _arrays, _random, _validate
from lsalib.layers.states import chunked, recurrence

__all__ = ["RULES", "Layer", "LayerParams"]

# Each rule, and the weights that it has besides W_K, W_Q, W_V, W_P and the guess.
RULES = {
    "linear": ("state",),
    "normalized": ("state",),
    "gated": ("state", "gate"),
    "delta": ("state", "step"),
    "gated_delta": ("state", "step", "gate"),
    "softmax": (),
}


class LayerParams(NamedTuple):
    r"""The weights of N layers with H heads each, on tokens of length D = d + 1.

    Keys have n entries and values m. What a rule does not use is None. With the rule ``normalized``, a state has one
    more row, the start `r_0` of the normalizer.
    """

    W_K: Float[Array, "N H n D"]
    W_Q: Float[Array, "N H n D"]
    W_V: Float[Array, "N H m D"]
    W_P: Float[Array, "N H D m"]
    guess: Float[Array, " d"]
    state: Float[Array, "N H rows n"] | None = None
    step: Float[Array, "N H"] | None = None
    gate: Float[Array, "N H"] | None = None


@jax.tree_util.register_static
@dataclass(frozen=True)
class Layer:
    r"""What a layer computes; its weights are a ``LayerParams``.

    The rule says how a context token changes the state of a head, by its key k and its value v:

    =============== ============================================================================================
    ``linear``      `S_t = S_{t-1} + v_t k_t^\top / C`, as eq. 3
    ``normalized``  `S_t = S_{t-1} + v_t \varphi(k_t)^\top`, and what is read is divided by `r_t^\top \varphi(q)`
    ``gated``       `S_t = \alpha S_{t-1} + v_t k_t^\top`
    ``delta``       `S_t = S_{t-1} + \beta (v_t - S_{t-1} k_t) k_t^\top`
    ``gated_delta`` `S_t = \alpha S_{t-1} (I - \beta k_t k_t^\top) + \beta v_t k_t^\top`
    ``softmax``     no state: `\sum_t p_t v_t` with `p_t \propto \exp(q^\top k_t / \sqrt{n})`
    =============== ============================================================================================

    with `\varphi(u) = \mathrm{elu}(u) + 1` and `r_t = r_{t-1} + \varphi(k_t)`, which is the last row of the state.
    The query's token is never written. Every layer adds to all tokens what its heads read, `z + \sum_h W_P o_h`.

    Args:
        rule: one of the names above.
        heads: H, their number.
        depth: N, the number of layers one after the other.
        causal: whether a context token reads the state after itself, `S_t`; otherwise it reads the last one. With one
            layer there is no difference, since only the query is read.
        normalize: "keys" divides each key by its length. "step" divides what a token writes by `\lVert k_t \rVert^2`:
            the delta rule with `\beta = 1` then answers `v_t` to the last key, whatever its length. None does neither.
        key_size, value_size: n and m; None is D.
        chunk: how many tokens are computed at once (``chunked``); None computes them one by one (``recurrence``). The
            prediction is the same up to rounding.
        frozen: names of weights that are not trained: their gradient is zero. Weight decay would still change them.

    Raises:
        ValueError: if there is no such rule, a count is below 1, ``normalize`` is none of these or does not fit the
            rule, or ``frozen`` names a weight that the rule does not have.

    Example:
        >>> layer = Layer("delta", frozen=("guess",))
        >>> params = layer.init(jax.random.key(0), dim=2)._replace(guess=jnp.array([1.0, 2.0]))
        >>> slope = jax.grad(layer.predict)(params, jnp.eye(2), jnp.array([1.0, 3.0]), jnp.ones(2))
        >>> slope.guess.tolist(), bool((slope.state != 0).any())
        ([0.0, 0.0], True)

    Sources: Katharopoulos et al. (2020; linear, normalized), Yang, Wang, Shen et al. (2024) and Dao and Gu (2024;
    gated), Schlag et al. (2021) and Yang, Wang, Zhang et al. (2024; delta), Yang, Kautz and Hatamizadeh (2025; gated
    delta).
    """

    rule: str
    heads: int = 1
    depth: int = 1
    causal: bool = True
    normalize: str | None = None
    key_size: int | None = None
    value_size: int | None = None
    chunk: int | None = 64
    frozen: tuple[str, ...] = ()

    def __post_init__(self):
        if not isinstance(self.rule, str) or self.rule not in RULES:
            raise ValueError(f"rule must be one of {', '.join(RULES)}, got {self.rule!r}")
        for name in ("heads", "depth", "key_size", "value_size", "chunk"):
            if getattr(self, name) is not None or name in ("heads", "depth"):
                object.__setattr__(self, name, _validate.count(name, getattr(self, name)))
        object.__setattr__(self, "causal", _validate.flag("causal", self.causal))
        allowed = (None, "keys") if self.rule in ("normalized", "softmax") else (None, "keys", "step")
        if self.normalize not in allowed:
            raise ValueError(f"normalize must be one of {allowed} for the rule {self.rule}, got {self.normalize!r}")
        names = self._leaves()
        several = isinstance(self.frozen, Iterable) and not isinstance(self.frozen, str)
        frozen = tuple(self.frozen) if several else (self.frozen,)
        if unknown := [name for name in frozen if name not in names]:
            raise ValueError(f"frozen must name some of {', '.join(names)}, got {', '.join(map(repr, unknown))}")
        object.__setattr__(self, "frozen", frozen)

    def _leaves(self) -> tuple[str, ...]:
        return ("W_K", "W_Q", "W_V", "W_P", "guess", *RULES[self.rule])

    def shapes(self, dim: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights for d features.

        Example:
            >>> Layer("delta", heads=2, value_size=1).shapes(3)["state"]
            (1, 2, 1, 4)
        """
        d = _validate.count("dim", dim)
        N, H, D = self.depth, self.heads, d + 1
        n, m = self.key_size or D, self.value_size or D
        shapes: dict[str, tuple[int, ...]] = {
            "W_K": (N, H, n, D),
            "W_Q": (N, H, n, D),
            "W_V": (N, H, m, D),
            "W_P": (N, H, D, m),
            "guess": (d,),
            "state": (N, H, m + (self.rule == "normalized"), n),
            "step": (N, H),
            "gate": (N, H),
        }
        return {name: shapes[name] for name in self._leaves()}

    def init(
        self,
        key: PRNGKeyArray,
        dim: int,
        *,
        scale: float = 0.1,
        step: float | None = None,
        gate: float | None = None,
        dtype=None,
    ) -> LayerParams:
        r"""Independent normal matrices, `W \sim N(0, s^2)` entrywise; initial state and guess are zero.

        Args:
            key: a key of ``jax.random``.
            dim: d, the number of features.
            scale: s, the standard deviation of each entry.
            step: `\beta` of every head. None is 1 where keys or steps are normalized. Otherwise it is `1/(d + 2)`, the
                best constant step of online gradient descent on standard normal features.
            gate: `\alpha` of every head; None is 1, which forgets nothing.
            dtype: a float type; None means JAX's default.

        Returns:
            ``LayerParams``. Training does not keep a step or a gate within bounds.

        Raises:
            ValueError: if ``key`` is no key, ``dim < 1``, ``scale`` is not positive, ``step`` or ``gate`` is no finite
                number or is given to a rule that has none, or ``dtype`` is no float type in use.

        Example:
            >>> params = Layer("gated_delta", heads=2).init(jax.random.key(0), dim=3)
            >>> params.W_K.shape, params.step.tolist(), params.gate.shape
            ((1, 2, 4, 4), [[0.20000000298023224, 0.20000000298023224]], (1, 2))
        """
        key, shapes, scale = _validate.key(key), self.shapes(dim), _validate.number("scale", scale, above=0.0)
        filled = {"step": 1.0 if self.normalize else 1 / (dim + 2), "gate": 1.0}
        for name, rate in (("step", step), ("gate", gate)):
            if rate is not None and name not in shapes:
                raise ValueError(f"{name} must be None for the rule {self.rule}, got {_arrays.describe(rate)}")
            filled[name] = filled[name] if rate is None else _validate.number(name, rate)
        dtype = jnp.result_type(float) if dtype is None else _validate.float_type("dtype", dtype)
        keys = dict(zip(("W_K", "W_Q", "W_V", "W_P"), jax.random.split(key, 4), strict=True))

        def weight(name: str, shape: tuple[int, ...]):
            drawn = name in keys
            array = scale * _random.normal(keys[name], shape, dtype) if drawn else np.full(shape, filled.get(name, 0.0))
            return array if isinstance(array, jax.Array) else jax.device_put(array.astype(dtype))

        return LayerParams(**{name: weight(name, shape) for name, shape in shapes.items()})

    @partial(_arrays.promoted, skip=("self",))
    @partial(jax.jit, static_argnames="self")
    def predict(
        self, params: LayerParams, X: Float[Array, "C d"], y: Float[Array, " C"], x_q: Float[Array, " d"]
    ) -> Float[Array, ""]:
        r"""The prediction for one example: the guess and what the heads read.

        .. math:: f = g^\top x_q + \Big[ \sum_h W_P S_C W_Q z_q \Big]_{-1}, \qquad z_q = [x_q; g^\top x_q]

        Args:
            params: the weights.
            X, y, x_q: context and query, (C, d), (C,), (d,).

        Returns:
            The prediction, a scalar.

        Raises:
            ValueError: if a shape does not fit, or a weight is missing or is not one of the rule.

        Example:
            >>> layer = Layer("linear")
            >>> params = layer.init(jax.random.key(0), dim=2)._replace(guess=jnp.array([1.0, 2.0]))
            >>> float(layer.predict(params._replace(W_P=0 * params.W_P), jnp.eye(2), jnp.ones(2), jnp.ones(2)))
            3.0
        """
        _validate.context(X, y, x_q)
        if params.W_K.shape[-1:] == (params.guess.size + 1,):
            # Where weights agree with each other, it is the context that does not fit.
            _validate.shape("X", X, ("C", params.guess.size))
        shapes = self.shapes(X.shape[1])
        for name, leaf in params._asdict().items():
            if name in shapes:
                _validate.shape(name, leaf, shapes[name])
            elif leaf is not None:
                raise ValueError(f"{name} must be None for the rule {self.rule}, got {_arrays.describe(leaf)}")
        params = params._replace(**{name: jax.lax.stop_gradient(getattr(params, name)) for name in self.frozen})
        guess = params.guess @ x_q
        # The query stays apart from the examples: to cut them from one array costs much of a step.
        examples, query = jnp.concatenate([X, y[:, None]], axis=1), jnp.append(x_q, guess)[None]
        stacked = {name: leaf for name, leaf in params._asdict().items() if leaf is not None and name != "guess"}
        for place in range(self.depth):
            weights = {name: leaf[place] for name, leaf in stacked.items()}
            if place < self.depth - 1:
                Z = jnp.concatenate([examples, query])
                Z = Z + jax.vmap(partial(_read, self), (0, None, None))(weights, examples, Z).sum(0)
                examples, query = Z[:-1], Z[-1:]
        read = jax.vmap(partial(_read, self), (0, None, None))(_last_entry(weights), examples, query)
        return query[0, -1] + read.sum()


def _last_entry(weights: dict) -> dict:
    """The heads of the last layer, of which only the last entry of the query's token is read.

    The rows of a state do not mix, so one combination of them, by the last row of W_P, does what all m do.
    """
    rows, m = weights["W_P"][:, -1:], weights["W_P"].shape[-1]
    combined = {"W_P": jnp.ones_like(rows[..., :1]), "W_V": rows @ weights["W_V"]}
    if "state" in weights:
        # A normalizer is no row of the values: it stays.
        combined["state"] = jnp.concatenate([rows @ weights["state"][:, :m], weights["state"][:, m:]], axis=1)
    return weights | combined


def _read(
    layer: Layer, weights: dict, examples: Float[Array, "C D"], reading: Float[Array, "T D"]
) -> Float[Array, "T columns"]:
    """What one head adds to the tokens that read the examples: all tokens, or the query's alone, the last one."""
    values, queries = examples @ weights["W_V"].T, reading @ weights["W_Q"].T
    causal = layer.causal and len(reading) > 1
    if layer.rule == "softmax":
        # Queries through W_K, in place of keys for all examples: half the work where one token reads.
        logits = queries @ weights["W_K"] @ examples.T / math.sqrt(queries.shape[1])
        if layer.normalize == "keys":
            logits = logits / jnp.sqrt(_squares(examples @ weights["W_K"].T))[None]
        if causal:
            logits = jnp.where(jnp.tril(jnp.ones(logits.shape, bool)), logits, -jnp.inf)
        outputs = jax.nn.softmax(logits, axis=1) @ values
    else:
        outputs = _stateful(layer, weights, examples @ weights["W_K"].T, values, queries, causal)
    return outputs @ weights["W_P"].T


def _squares(keys):
    """The squared lengths of keys; 1 for a key of length zero, which writes nothing and needs a finite gradient."""
    squares = (keys**2).sum(1)
    return jnp.where(squares > 0, squares, 1.0)


def _stateful(layer: Layer, weights: dict, keys, values, queries, causal: bool):
    step, squares = weights.get("step", 1.0), _squares(keys)
    if layer.normalize == "keys":
        keys = keys / jnp.sqrt(squares)[:, None]
    if layer.rule == "linear":
        step = step / len(keys)
    if layer.rule == "normalized":
        keys, queries = jax.nn.elu(keys) + 1, jax.nn.elu(queries) + 1
        # The normalizer is one more row of the state, whose values are 1.
        values = jnp.concatenate([values, jnp.ones_like(values[:, :1])], axis=1)
    if layer.normalize == "step":
        step = step / squares
    rule = recurrence if layer.chunk is None else partial(chunked, chunk=layer.chunk)
    given = weights["state"], keys, values, queries[:-1] if causal else None
    state, before = rule(*given, step=step, gate=weights.get("gate"), delta="delta" in layer.rule)
    # The query reads the last state, and without causality every token does.
    outputs = queries @ state.T if before is None else jnp.concatenate([before, queries[-1:] @ state.T])
    return outputs[:, :-1] / outputs[:, -1:] if layer.rule == "normalized" else outputs
