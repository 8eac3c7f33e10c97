r"""Layers with a state: linear attention, gates and the delta rule behind one
interface.

A ``Layer`` says what is computed: a rule, the number of heads, of layers one after the
other, and so on. It holds no arrays. Its weights are a ``LayerParams``, a pytree.
``layer.init(key, dim)`` draws them, and ``layer.predict(params, X, y, x_q)`` returns a
scalar for one example, so that ``jax.vmap``, ``metrics.sampled_risk`` and
``training.train`` work with any layer.

Each head keeps a matrix, its state. It starts at `S_0`, and each context token `z_t =
[x_t; y_t]` changes it by its key `k_t = W_K z_t` and its value `v_t = W_V z_t`. The
query's token `z_q = [x_q; g^\top x_q]` reads the last state:

.. math:: f = g^\top x_q + \Big[ \sum_h W_P S_C W_Q z_q \Big]_{-1}

The initial state `S_0` and the guess `g` are zero after ``init``; set others by
``params._replace(guess=...)``.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from lsalib import _check
from lsalib._arrays import Features, Labels, Scalar, Vector
from lsalib.attention.layer import LSAParams, add_heads, normal, tokens

__all__ = ["Layer", "LayerParams"]

# Each rule, and the weights that it has besides W_K, W_Q, W_V, W_P and the guess.
RULES = {
    "linear": ("state",),
    "gated": ("state", "gate"),
    "delta": ("state", "step"),
    "gated_delta": ("state", "step", "gate"),
}


class LayerParams(NamedTuple):
    """The weights of N layers with H heads each, on tokens of length D = d + 1.

    Keys have n entries and values m. Weights that a rule does not use are None.
    """

    W_K: Float[Array, "N H n D"]
    W_Q: Float[Array, "N H n D"]
    W_V: Float[Array, "N H m D"]
    W_P: Float[Array, "N H D m"]
    guess: Float[Array, " d"]
    state: Float[Array, "N H m n"] | None = None
    step: Float[Array, "N H"] | None = None
    gate: Float[Array, "N H"] | None = None


@dataclass(frozen=True)
class Layer:
    r"""What a layer computes; its weights are a ``LayerParams``.

    The rule says how a context token changes the state of a head, by its key k and its
    value v:

    =============== =========================================================
    ``linear``      `S_t = S_{t-1} + v_t k_t^\top / C`, the heads of
                    ``attention.lsa`` (eq. 3) with a state
    ``gated``       `S_t = \lambda S_{t-1} + v_t k_t^\top`
    ``delta``       `S_t = S_{t-1} + \eta (v_t - S_{t-1} k_t) k_t^\top`
    ``gated_delta`` `S_t = \lambda S_{t-1} (I - \eta k_t k_t^\top) + \eta v_t k_t^\top`
    =============== =========================================================

    The query's token is never written. Every layer adds to all tokens what its heads
    read, `z + \sum_h W_P o_h`. A context token reads the state after itself, `S_t`;
    with the rule ``linear`` it reads the last one, as in eq. 3.

    All weights are trained unless ``frozen`` names them, the initial state too, and a
    trained state acts as a guess: it adds `s_0^\top W_Q z_q` to the prediction. Such
    layers can have less risk than ``theory.depth_risk``, whose layers have no state,
    write only labels and multiply no two labels. ``labels_only`` makes the layer one of
    these.

    Args:
        rule: one of the names above.
        heads: `H`.
        depth: N, the number of layers one after the other.
        normalized: for the delta rules, whether each step is divided by `\lVert k_t
            \rVert^2`. With `\eta = 1` the layer then returns `v_t` for the last key,
            whatever its length.
        labels_only: for the rule ``linear``, whether heads write only labels and never
            multiply two of them. Keys then read features only, and a head that reads
            labels as values reads features only as queries. No state.
        value_size: m; None is D. The size n of keys is that of the weights.
        frozen: names of weights that are not trained: their gradient is zero. Weight
            decay would still change them.

    Example:
        >>> layer = Layer("delta", frozen=("guess",))
        >>> params = layer.init(jax.random.key(0), dim=2)
        >>> params = params._replace(guess=jnp.array([1.0, 2.0]))
        >>> X, y, x_q = jnp.eye(2), jnp.array([1.0, 3.0]), jnp.ones(2)
        >>> slope = jax.grad(layer.predict)(params, X, y, x_q)
        >>> slope.guess.tolist(), bool((slope.state != 0).any())
        ([0.0, 0.0], True)

    Sources: Katharopoulos et al. (2020; linear), Yang, Wang, Shen et al. (2024) and Dao
    and Gu (2024; gated), Schlag et al. (2021) and Yang, Wang, Zhang et al. (2024;
    delta), Yang, Kautz and Hatamizadeh (2025; gated delta).
    """

    rule: str
    heads: int = 1
    depth: int = 1
    normalized: bool = False
    labels_only: bool = False
    value_size: int | None = None
    frozen: tuple[str, ...] = ()

    def __post_init__(self):
        if self.rule not in RULES:
            raise ValueError(
                f"rule must be one of {', '.join(RULES)}, got {self.rule!r}"
            )
        for name in ("heads", "depth", "value_size"):
            value = getattr(self, name)
            if name != "value_size" or value is not None:
                object.__setattr__(self, name, _check.count(name, value))
        if self.normalized and "delta" not in self.rule:
            raise ValueError(f"normalized must be False for the rule {self.rule}")
        if self.labels_only and self.rule != "linear":
            raise ValueError(f"labels_only must be False for the rule {self.rule}")
        unknown = sorted({*self.frozen} - {*self._names()})
        if isinstance(self.frozen, str):  # whose letters would be names
            unknown = [self.frozen]
        if unknown:
            raise ValueError(
                f"frozen must be a tuple with some of {', '.join(self._names())}, "
                f"got {', '.join(unknown)!r}"
            )
        object.__setattr__(self, "frozen", tuple(self.frozen))

    def _names(self) -> tuple[str, ...]:
        more = () if self.labels_only else RULES[self.rule]
        return (*LayerParams._fields[:5], *more)

    def _shapes(self, d: int, n: int) -> dict[str, tuple[int, ...]]:
        each, D, m = (self.depth, self.heads), d + 1, self.value_size or d + 1
        shapes = {
            "W_K": (*each, n, D),
            "W_Q": (*each, n, D),
            "W_V": (*each, m, D),
            "W_P": (*each, D, m),
            "guess": (d,),
            "state": (*each, m, n),
            "step": each,
            "gate": each,
        }
        return {name: shapes[name] for name in self._names()}

    def init(self, key: PRNGKeyArray, dim: int, *, scale: float = 0.1) -> LayerParams:
        r"""Independent normal matrices, `W \sim N(0, s^2)` entrywise; initial state and
        guess are zero.

        The step `\eta` of every head is 1 where steps are normalized. Otherwise it is
        `1/(d + 2)`, the best constant step of online gradient descent on standard
        normal features. Gates are 1, which forgets nothing. Training does not keep a
        step or a gate within bounds.

        Args:
            key: a key of ``jax.random``.
            dim: d, the number of features.
            scale: s, the standard deviation of each entry.

        Example:
            >>> params = Layer("gated_delta", heads=2).init(jax.random.key(0), dim=3)
            >>> params.W_K.shape, params.step.tolist(), params.gate.shape
            ((1, 2, 4, 4), [[0.20000000298023224, 0.20000000298023224]], (1, 2))
        """
        d, scale = _check.count("dim", dim), _check.number("scale", scale, above=0.0)
        keys = iter(jax.random.split(_check.key(key), 4))
        rates = {"step": 1.0 if self.normalized else 1 / (d + 2), "gate": 1.0}
        weights = {
            name: scale * normal(next(keys), shape)
            if name.startswith("W_")
            else jnp.full(shape, rates.get(name, 0.0))
            for name, shape in self._shapes(d, d + 1).items()
        }
        return LayerParams(**weights)

    def predict(
        self, params: LayerParams, X: Features, y: Labels, x_q: Vector
    ) -> Scalar:
        r"""The prediction for one example: the guess, and what the heads of all layers
        have added to it.

        Args:
            params: the weights.
            X, y, x_q: context and query, (C, d), (C,), (d,).

        Example:
            >>> layer = Layer("linear")
            >>> params = layer.init(jax.random.key(0), dim=2)
            >>> guess = jnp.array([1.0, 2.0])
            >>> params = params._replace(guess=guess, W_P=0 * params.W_P)
            >>> float(layer.predict(params, jnp.eye(2), [1.0, 1.0], [1.0, 1.0]))
            3.0
        """
        return _predict(self, *_check.floats(params=params, X=X, y=y, x_q=x_q))


@partial(jax.jit, static_argnums=0)
def _predict(layer: Layer, params: LayerParams, X, y, x_q):
    _check.context(X, y, x_q)
    _check_params(layer, params, len(x_q))
    for name in layer.frozen:
        weight = jax.lax.stop_gradient(getattr(params, name))
        params = params._replace(**{name: weight})
    examples, query = tokens(X, y), jnp.append(x_q, params.guess @ x_q)[None]
    add = _add_linear if layer.rule == "linear" else _add_recurrent
    for place in range(layer.depth):
        last = place == layer.depth - 1
        weights = {
            name: leaf[place]
            for name, leaf in params._asdict().items()
            if leaf is not None and name != "guess"
        }
        examples, query = add(layer, weights, examples, query, last)
    return query[0, -1]


def _check_params(layer: Layer, params: LayerParams, d: int) -> None:
    if getattr(params, "_fields", None) != LayerParams._fields:
        raise ValueError(f"params must be LayerParams, got {_check.describe(params)}")
    _check.shape("W_K", params.W_K, ("N", "H", "n", d + 1))
    shapes = layer._shapes(d, params.W_K.shape[2])
    for name, leaf in params._asdict().items():
        if name in shapes:
            _check.shape(name, leaf, shapes[name])
        elif leaf is not None:
            raise ValueError(
                f"{name} must be None for {layer}, got {_check.describe(leaf)}"
            )


def _add_linear(layer: Layer, weights: dict, examples, query, last: bool):
    """Eq. 3, and what the tokens read of the initial state."""
    Z = jnp.concatenate([examples, query])
    heads = LSAParams(*(weights[name] for name in LSAParams._fields))
    if layer.labels_only:
        added = add_heads(_affine_in_labels(heads), Z.T).T
    else:
        added = add_heads(heads, Z.T).T + jnp.einsum(
            "hjm,hmn,hni,ti->tj", heads.W_P, weights["state"], heads.W_Q, Z
        )
    return added[:-1], added[-1:]


def _affine_in_labels(heads: LSAParams) -> LSAParams:
    """Two heads for each: one with features as values, one with labels as values and no
    labels in its query.
    """
    label = jnp.zeros(heads.W_K.shape[-1], heads.W_K.dtype).at[-1].set(1)
    W_K, W_P = heads.W_K * (1 - label)[None, None], heads.W_P * label[None, :, None]
    W_Q = heads.W_Q, heads.W_Q * (1 - label)[None, None]
    W_V = heads.W_V * (1 - label)[None, None], heads.W_V * label[None, None]
    return LSAParams(*map(jnp.concatenate, ((W_K, W_K), W_Q, (W_P, W_P), W_V)))


def _add_recurrent(layer: Layer, weights: dict, examples, query, last: bool):
    """One token after the other, as the papers write it, and one head after the other:
    a second batch axis would cost a CPU three times as much.
    """
    to_query, to_examples = 0.0, 0.0
    for h in range(layer.heads):
        head = {name: leaf[h] for name, leaf in weights.items()}
        state, reads = _state_and_reads(layer, head, examples, with_reads=not last)
        W_Q, W_P = head["W_Q"].T, head["W_P"].T
        to_query = to_query + query @ W_Q @ state.T @ W_P
        if not last:  # nobody reads what examples become in the last layer
            to_examples = to_examples + reads @ W_P
    return examples + to_examples, query + to_query


def _state_and_reads(layer: Layer, head: dict, examples, *, with_reads: bool):
    """The state after all examples and, if wanted, what each of them reads then."""
    keys, values = examples @ head["W_K"].T, examples @ head["W_V"].T
    # The step goes into the key that is written: to multiply the state's change by it
    # at each token would take twice as long.
    write_keys = keys * head["step"] if "step" in head else keys
    if layer.normalized:
        squares = (keys**2).sum(1, keepdims=True)
        # a key of length zero writes nothing
        write_keys = write_keys / jnp.where(squares > 0, squares, 1)

    def write(S, token):
        k, v, to, *queries = token
        if "gate" in head:
            S = head["gate"] * S
        S = S + jnp.outer(v - S @ k if "delta" in layer.rule else v, to)
        return S, S @ queries[0] if with_reads else None

    tokens: tuple = (keys, values, write_keys)
    if with_reads:
        tokens += (examples @ head["W_Q"].T,)
    return jax.lax.scan(write, head["state"], tokens)
