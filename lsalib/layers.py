r"""Layers with a state: linear attention, the delta rule and its gated form behind one
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
    "affine": (),
    "delta": ("state", "step"),
    "gated_delta": ("state", "step", "gate"),
}


class LayerParams(NamedTuple):
    """The weights of N layers with H heads each, on tokens of length D = d + 1.

    Values have m entries. Weights that a rule does not use are None.
    """

    W_K: Float[Array, "N H D D"]
    W_Q: Float[Array, "N H D D"]
    W_V: Float[Array, "N H m D"]
    W_P: Float[Array, "N H D m"]
    guess: Float[Array, " d"]
    state: Float[Array, "N H m D"] | None = None
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
    ``affine``      the same without a state, where heads write only labels
                    and never multiply two of them: keys read features only,
                    and a head that reads labels as values reads features
                    only as queries
    ``delta``       `S_t = S_{t-1} + \eta (v_t - S_{t-1} k_t) k_t^\top`
    ``gated_delta`` `S_t = \lambda S_{t-1} (I - \eta k_t k_t^\top) + \eta v_t k_t^\top`
                    (:eq:`fast-gated` of the book)
    =============== =========================================================

    The query's token is never written. Every layer adds to all tokens what its heads
    read, `z + \sum_h W_P o_h`. A context token reads the state after itself, `S_t`;
    with the rules ``linear`` and ``affine`` it reads the last one, as in eq. 3.

    All weights are trained unless ``frozen`` names them, the initial state too, and a
    trained state acts as a guess: it adds `s_0^\top W_Q z_q` to the prediction. Only
    layers of the rule ``affine`` are among those of ``theory.depth_risk``; others can
    have less risk.

    Args:
        rule: one of the names above.
        heads: `H`.
        depth: N, the number of layers one after the other.
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

    Sources: Katharopoulos et al. (2020; linear), Schlag et al. (2021) and Yang, Wang,
    Zhang et al. (2024; delta), Yang, Kautz and Hatamizadeh (2025; gated delta).
    """

    rule: str
    heads: int = 1
    depth: int = 1
    frozen: tuple[str, ...] = ()

    def __post_init__(self):
        _check.choice("rule", self.rule, RULES)
        self.__dict__.update(
            heads=_check.count("heads", self.heads),
            depth=_check.count("depth", self.depth),
        )
        names = self._shapes(1, 1)
        # No name is a single letter, so a text is refused, too.
        if not names.keys() >= {*self.frozen}:
            raise ValueError(
                f"frozen must be a tuple with some of {', '.join(names)}, "
                f"got {self.frozen!r}"
            )
        self.__dict__["frozen"] = tuple(self.frozen)

    def _shapes(self, d: int, m: int) -> dict[str, tuple[int, ...]]:
        each, D = (self.depth, self.heads), d + 1
        square = (*each, D, D)
        shapes = {
            "W_K": square,
            "W_Q": square,
            "W_V": (*each, m, D),
            "W_P": (*each, D, m),
            "guess": (d,),
        }
        more = {"state": (*each, m, D), "step": each, "gate": each}
        return shapes | {name: more[name] for name in RULES[self.rule]}

    def init(
        self,
        key: PRNGKeyArray,
        dim: int,
        *,
        scale: float = 0.1,
        value_size: int | None = None,
    ) -> LayerParams:
        r"""Independent normal matrices, `W \sim N(0, s^2)` entrywise; initial state and
        guess are zero.

        The step `\eta` of every head is `1/(d + 2)`, the best constant step of online
        gradient descent on standard normal features. Gates are 1, which forgets
        nothing. Training does not keep a step or a gate within bounds.

        Args:
            key: a key of ``jax.random``.
            dim: d, the number of features.
            scale: s, the standard deviation of each entry.
            value_size: m; None is D.

        Example:
            >>> params = Layer("delta", heads=2).init(jax.random.key(0), dim=3)
            >>> params.W_K.shape, params.step.tolist()
            ((1, 2, 4, 4), [[0.20000000298023224, 0.20000000298023224]])
        """
        d, scale = _check.count("dim", dim), _check.number("scale", scale, above=0.0)
        m = d + 1 if value_size is None else _check.count("value_size", value_size)
        keys = iter(jax.random.split(_check.key(key), 4))
        fills = {"step": 1 / (d + 2), "gate": 1.0}
        weights = {
            name: scale * normal(next(keys), shape)
            if name.startswith("W_")
            else jnp.full(shape, fills.get(name, 0.0))
            for name, shape in self._shapes(d, m).items()
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
def _predict(layer: Layer, params, X, y, x_q):
    _check.context(X, y, x_q)
    _check_params(layer, params, len(x_q))
    still = {
        name: jax.lax.stop_gradient(getattr(params, name)) for name in layer.frozen
    }
    params = params._replace(**still)
    examples, query = tokens(X, y), jnp.append(x_q, params.guess @ x_q)[None]
    add = _add_recurrent if "delta" in layer.rule else _add_linear
    for weights in _each(params._replace(guess=None)):
        examples, query = add(weights, examples, query)
    return query[0, -1]


def _each(weights) -> list:
    """The weights of each layer, or of each head of one."""
    leaves, structure = jax.tree.flatten(weights)
    return [jax.tree.unflatten(structure, each) for each in zip(*leaves, strict=True)]


def _check_params(layer: Layer, params: LayerParams, d: int) -> None:
    if getattr(params, "_fields", None) != LayerParams._fields:
        raise ValueError(f"params must be LayerParams, got {_check.describe(params)}")
    m = _check.shape("W_V", params.W_V, ("N", "H", "m", d + 1)).shape[2]
    shapes = layer._shapes(d, m)
    for name, leaf in params._asdict().items():
        if name in shapes:
            _check.shape(name, leaf, shapes[name])
        elif leaf is not None:
            raise ValueError(
                f"{name} must be None for {layer}, got {_check.describe(leaf)}"
            )


def _add_linear(weights: LayerParams, examples, query):
    """Eq. 3, and what the tokens read of the initial state."""
    W_K, W_Q, W_V, W_P, *_ = weights
    Z, heads = jnp.concatenate([examples, query]), LSAParams(W_K, W_Q, W_P, W_V)
    if weights.state is None:
        added = add_heads(_affine(heads), Z.T).T
    else:
        added = add_heads(heads, Z.T).T + jnp.einsum(
            "hjm,hmn,hni,ti->tj", W_P, weights.state, W_Q, Z
        )
    return added[:-1], added[-1:]


def _affine(heads: LSAParams) -> LSAParams:
    """Two heads for each: one with features as values, one with labels as values and no
    labels in its query.
    """
    label = jnp.zeros(heads.W_K.shape[-1], heads.W_K.dtype).at[-1].set(1)
    of_features = lambda W: W * (1 - label)[None, None]
    W_K, W_P = of_features(heads.W_K), heads.W_P * label[None, :, None]
    W_Q = heads.W_Q, of_features(heads.W_Q)
    W_V = of_features(heads.W_V), heads.W_V * label[None, None]
    return LSAParams(*map(jnp.concatenate, ((W_K, W_K), W_Q, (W_P, W_P), W_V)))


def _add_recurrent(weights: LayerParams, examples, query):
    """One token after the other, as the papers write it, and one head after the other:
    a second batch axis would cost a CPU three times as much.
    """
    to_examples, to_query = 0.0, 0.0
    for head in _each(weights):
        keys, values, queries = (examples @ W.T for W in (head.W_K, head.W_V, head.W_Q))
        # The step goes into the key that is written: to multiply the state's change by
        # it at each token would take twice as long.
        state, reads = jax.lax.scan(
            partial(_write, head.gate),
            head.state,
            (keys, values, keys * head.step, queries),
        )
        to_examples = to_examples + reads @ head.W_P.T
        to_query = to_query + query @ head.W_Q.T @ state.T @ head.W_P.T
    return examples + to_examples, query + to_query


def _write(gate, S, token):
    """The state after a token, and what the token reads of it."""
    k, v, to, q = token
    S = S if gate is None else gate * S
    S = S + jnp.outer(v - S @ k, to)
    return S, S @ q
