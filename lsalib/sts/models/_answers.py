"""How likely a Llama model finds given answers, whose shared beginnings are read once, and what that hangs on."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lsalib import _validate
from lsalib.sts.models import _llama as llama
from lsalib.sts.models._batching import Reading


class AnswerTree(NamedTuple):
    """Answers as a tree of tokens, so that a beginning which they share is read once.

    Node 0 is the prompt's last token. Answer a is worth the sum over k of the log-probability of
    ``token[a, k]`` after node ``parent[a, k]``, as far as ``used[a, k]``. Leaves are no nodes: nothing follows them.
    """

    tokens: Int[np.ndarray, " N"]
    depth: Int[np.ndarray, " N"]
    ancestors: Bool[np.ndarray, "N N"]
    parent: Int[np.ndarray, "A K"]
    token: Int[np.ndarray, "A K"]
    used: Bool[np.ndarray, "A K"]


def answer_tree(answers: Sequence[Sequence[int]]) -> AnswerTree:
    """Merge the common beginnings of answers, at least one token each: N nodes, the root and the proper beginnings."""
    if not answers or not all(answers):
        raise ValueError(f"answers must be at least one answer of at least one token each, got {answers!r:.200}")
    beginnings = dict.fromkeys([(), *(tuple(answer[:k]) for answer in answers for k in range(1, len(answer)))])
    nodes = {beginning: node for node, beginning in enumerate(beginnings)}
    ancestors = np.array([[later[: len(one)] == one for one in nodes] for later in nodes])
    parent, token, used = np.zeros((3, len(answers), max(map(len, answers))), np.int32)
    for a, answer in enumerate(answers):
        for k in range(len(answer)):
            parent[a, k], token[a, k], used[a, k] = nodes[tuple(answer[:k])], answer[k], 1
    tokens, depths = np.array([(beginning[-1] if beginning else -1, len(beginning)) for beginning in nodes], np.int32).T
    return AnswerTree(tokens, depths, ancestors, parent, token, used.astype(bool))


def logprobs_and_attention(
    params: llama.Params,
    config: llama.Config,
    x: Float[Array, "T dim"],
    length: int | Int[Array, ""],
    tree: AnswerTree,
    value_gain: Float[Array, "L T"] | None = None,
) -> tuple[Float[Array, " A"], Float[Array, "L heads T"]]:
    """How likely each answer is after one prompt, and the attention of the prompt's last token, whose rows sum to one.

    The prompt is read once, then all beginnings of answers at once, each of which sees the prompt and its own. ``x``
    are the prompt's ``length`` input embeddings and padding; ``value_gain`` is as in ``llama.forward``.
    """
    root = jax.lax.dynamic_index_in_dim(x, length - 1, keepdims=False)
    past = llama.forward(params, config, x, value_gain=value_gain).cache
    logprobs, weights = _after(params, config, past, root, length, tree, keep_weights=True)
    # Node 0 sees the tokens before it in their slots, and itself among the nodes.
    attention = weights[:, :, 0, : len(x)].at[..., length - 1].set(weights[:, :, 0, len(x)])
    return logprobs, attention


@partial(jax.jit, static_argnums=1)
def relevance_and_attention(
    params: llama.Params,
    config: llama.Config,
    x: Float[Array, "T dim"],
    length: int | Int[Array, ""],
    tree: AnswerTree,
    values: Float[Array, " A"],
) -> tuple[Float[Array, ""], Float[Array, "L T"], Float[Array, "L heads T"]]:
    """The expected score of the answers' ``values``; its derivatives by a factor on the value vectors of each token in
    each layer, to first order what it would lose without them; and where the prompt's last token looks.

    The derivatives are zero for the last token, whose place holds the answer, and for the padding. The residual stream
    has none: its norm is divided out.
    """
    _validate.shape("values", values, (len(tree.used),))

    def expected(gain):
        logprobs, attention = logprobs_and_attention(params, config, x, length, tree, gain)
        return jax.nn.softmax(logprobs) @ values, attention

    ones = jnp.ones((config.layers, len(x)), x.dtype)
    (score, attention), relevance = jax.value_and_grad(expected, has_aux=True)(ones)
    return score, relevance, attention


def score(
    params: llama.Params,
    config: llama.Config,
    reading: Reading,
    tree: AnswerTree,
    gain: Float[np.ndarray, "L N"] | None = None,
) -> Float[np.ndarray, "n A"]:
    """Log-probabilities (n, A) of the answers after each prompt of a batch that was read with room for the longest;
    with a ``gain`` the nodes' values are multiplied as in ``llama.forward``."""
    made = _score(params, config, reading.tokens, reading.lengths, reading.cache, tree, gain)
    return np.asarray(made)[: reading.count]


@partial(jax.jit, static_argnums=1)
def _score(params, config, tokens, lengths, cache, tree, gain):
    def one(row, length, past):
        last = jax.lax.dynamic_index_in_dim(row, length - 1, keepdims=False)
        return _after(params, config, past, llama.embed(params, last), length, tree, gain=gain)[0]

    return jax.vmap(one, in_axes=(0, 0, 1))(tokens, lengths, cache)


def _after(params, config, past, root, length, tree, keep_weights=False, gain=None):
    """The answers after a prompt that was read, and the nodes' attention; its last token, ``root``, is node 0."""
    nodes = jnp.concatenate([root[None], llama.embed(params, jnp.asarray(tree.tokens[1:]))])
    slots = past.keys.shape[2]
    before = jnp.broadcast_to(jnp.arange(slots)[None] < length - 1, (len(nodes), slots))
    mask = jnp.concatenate([before, jnp.asarray(tree.ancestors)], axis=1)
    positions = length - 1 + jnp.asarray(tree.depth)
    out = llama.forward(params, config, nodes, positions, mask, past, keep_weights=keep_weights, value_gain=gain)
    logp = jax.nn.log_softmax(llama.logits(params, out.hidden), axis=-1)
    return jnp.where(tree.used, logp[tree.parent, tree.token], 0.0).sum(axis=1), out.weights
