"""How likely a Llama model finds given answers, whose shared beginnings are read once."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from lsalib.sts.models import _llama as llama
from lsalib.sts.models._reading import Reading


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


def score(
    params: llama.Params,
    config: llama.Config,
    reading: Reading,
    tree: AnswerTree,
    gain: Float[np.ndarray, "L N"] | None = None,
) -> Float[np.ndarray, " A"]:
    """Log-probabilities (A,) of the answers after a prompt that was read with room for the longest; with a ``gain`` the
    nodes' values are multiplied as in ``llama.forward``."""
    return np.asarray(_score(params, config, reading.tokens, reading.length, reading.cache, tree, gain))


@partial(jax.jit, static_argnums=1)
def _score(params, config, tokens, length, past, tree, gain):
    return after(params, config, tokens, length, past, tree, gain)[0]


def after(params, config, tokens, length, past, tree, gain=None):
    """The answers after a prompt that was read, and the nodes' attention; the prompt's last token is node 0."""
    last = jax.lax.dynamic_index_in_dim(tokens, length - 1)
    nodes = params.embedding[jnp.concatenate([last, jnp.asarray(tree.tokens[1:])])]
    slots = past.keys.shape[2]
    before = jnp.broadcast_to(jnp.arange(slots)[None] < length - 1, (len(nodes), slots))
    mask = jnp.concatenate([before, jnp.asarray(tree.ancestors)], axis=1)
    positions = length - 1 + jnp.asarray(tree.depth)
    out = llama.forward(params, config, nodes, positions, mask, past, value_gain=gain)
    logp = jax.nn.log_softmax(llama.logits(params, out.hidden), axis=-1)
    return jnp.where(tree.used, logp[tree.parent, tree.token], 0.0).sum(axis=1), out.weights
