"""How likely a Llama model finds given answers, with the beginnings that they share read once."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from lsalib.sts.models import llama
from lsalib.sts.models.batching import Reading

__all__ = ["AnswerTree", "answer_tree", "logprobs_and_attention", "score"]


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
    """Merge the answers' common beginnings.

    Args:
        answers: the tokens of each answer, at least one each.

    Returns:
        The ``AnswerTree``; its N nodes are the prompt's last token and the distinct proper beginnings.

    Raises:
        ValueError: if there is no answer, or one without tokens.

    Example:
        >>> tree = answer_tree([[5, 9, 1], [5, 9, 2], [7]])
        >>> tree.tokens.tolist(), tree.depth.tolist(), tree.parent.tolist()
        ([-1, 5, 9], [0, 1, 2], [[0, 1, 2], [0, 1, 2], [0, 0, 0]])
    """
    if not answers or not all(answers):
        raise ValueError(f"answers must be at least one answer of at least one token each, got {answers!r:.200}")
    nodes: dict[tuple[int, ...], int] = {(): 0}
    for answer in answers:
        for depth in range(1, len(answer)):
            nodes.setdefault(tuple(answer[:depth]), len(nodes))
    ancestors = np.zeros((len(nodes), len(nodes)), bool)
    for beginning, node in nodes.items():
        ancestors[node, [nodes[beginning[:depth]] for depth in range(len(beginning) + 1)]] = True
    longest = max(map(len, answers))
    parent, token, used = (np.zeros((len(answers), longest), kind) for kind in (np.int32, np.int32, bool))
    for a, answer in enumerate(answers):
        for k in range(len(answer)):
            parent[a, k], token[a, k], used[a, k] = nodes[tuple(answer[:k])], answer[k], True
    tokens, depths = np.array([(beginning[-1] if beginning else -1, len(beginning)) for beginning in nodes], np.int32).T
    return AnswerTree(tokens, depths, ancestors, parent, token, used)


def logprobs_and_attention(
    params: llama.Params,
    config: llama.Config,
    x: Float[Array, "T dim"],
    length: int | Int[Array, ""],
    tree: AnswerTree,
    value_gain: Float[Array, "L T"] | None = None,
) -> tuple[Float[Array, " A"], Float[Array, "L heads T"]]:
    """How likely each answer is after one prompt, differentiable in its input embeddings, and where its end looks.

    ``log p(answer | prompt) = sum_k log p(token_k | prompt, token_1 … token_(k-1))``: the prompt is read once,
    then all beginnings of answers at once, each of which sees the prompt and its own beginning.

    Args:
        params, config: the model.
        x: input embeddings, (T, dim), of which the first ``length`` are the prompt and the others padding.
        length: the prompt's number of tokens.
        tree: the answers.
        value_gain: of the tokens that the last one sees, as in ``llama.forward``.

    Returns:
        Log-probabilities (A,), in which what ends an answer counts only where the answer says it, and the attention
        of the prompt's last token (L, heads, T), zero on the padding; each row sums to one.
    """
    root = jax.lax.dynamic_index_in_dim(x, length - 1, keepdims=False)
    past = llama.forward(params, config, x, value_gain=value_gain).cache
    logprobs, weights = _after(params, config, past, root, length, tree, keep_weights=True)
    # Node 0 sees the tokens before it in their slots, and itself among the nodes.
    attention = weights[:, :, 0, : len(x)].at[..., length - 1].set(weights[:, :, 0, len(x)])
    return logprobs, attention


@partial(jax.jit, static_argnums=1)
def _score(params, config, tokens, lengths, cache, tree):
    def one(row, length, past):
        last = jax.lax.dynamic_index_in_dim(row, length - 1, keepdims=False)
        return _after(params, config, past, llama.embed(params, last), length, tree)[0]

    return jax.vmap(one, in_axes=(0, 0, 1))(tokens, lengths, cache)


def score(params: llama.Params, config: llama.Config, reading: Reading, tree: AnswerTree) -> Float[np.ndarray, "n A"]:
    """Log-probabilities (n, A) of the answers after each prompt of a batch that was read with room for the longest."""
    return np.asarray(_score(params, config, reading.tokens, reading.lengths, reading.cache, tree))[: reading.count]


def _after(params, config, past, root, length, tree, keep_weights=False):
    """The answers after a prompt that was read, and the nodes' attention; its last token, ``root``, is node 0."""
    nodes = jnp.concatenate([root[None], llama.embed(params, jnp.asarray(tree.tokens[1:]))])
    slots = past.keys.shape[2]
    before = jnp.broadcast_to(jnp.arange(slots)[None] < length - 1, (len(nodes), slots))
    mask = jnp.concatenate([before, jnp.asarray(tree.ancestors)], axis=1)
    positions = length - 1 + jnp.asarray(tree.depth)
    out = llama.forward(params, config, nodes, positions, mask, past, keep_weights=keep_weights)
    logp = jax.nn.log_softmax(llama.logits(params, out.hidden), axis=-1)
    return jnp.where(tree.used, logp[tree.parent, tree.token], 0.0).sum(axis=1), out.weights
