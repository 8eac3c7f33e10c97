"""An independent derivation of a Llama's logits: NumPy, float64, no cache, one head at a time.

Halves are rotated as Hugging Face does: there the rows of W_q and W_k have the other order,
so a mistake in either order shows.
"""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import log_softmax

from lsalib.sts.models import _llama as llama

SHAPE = {"layers": 2, "heads": 4, "kv_heads": 2, "dim": 16, "hidden": 24, "vocab": 23}
TINY = llama.Config(**SHAPE, rope_base=1e4, norm_eps=1e-5, context=256)


def tiny(seed=0):
    """Random weights, drawn without compiling: norms of one, normal matrices."""
    rng, L, D, F, K = np.random.default_rng(seed), TINY.layers, TINY.dim, TINY.hidden, TINY.kv_heads * TINY.head_dim
    shapes = [(TINY.vocab, D), (L, D, D), (L, K, D), (L, K, D), (L, D, D), (L, F, D), (L, F, D), (L, D, F)]
    embedding, q, k, v, o, *mlp = (jnp.asarray(0.3 * rng.standard_normal(shape)) for shape in shapes)
    norm = jnp.asarray(np.ones((L, D)))
    return llama.Params(embedding, llama.Layer(norm, q, k, v, o, norm, *mlp), norm[0])


def halves(weight, heads):
    """Rows (2i, 2i+1) of each head to (i, i + head_dim/2)."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def logits(params, config, tokens, gain=None):
    """Logits (T, vocab) of the next token after each token; the first tokens' values are multiplied by the gain."""
    gains = np.ones((config.layers, len(tokens)))
    if gain is not None:
        gains[:, : gain.shape[1]] = gain
    double = lambda leaf: np.asarray(leaf, np.float64)
    embedding = double(params.embedding)
    x = embedding[np.asarray(tokens)]
    for i in range(config.layers):
        layer = jax.tree.map(lambda leaf, i=i: double(np.asarray(leaf)[i]), params.layers)
        x = x + _attend(layer, config, _norm(x, layer.attn_norm, config.norm_eps), gains[i])
        n = _norm(x, layer.mlp_norm, config.norm_eps)
        gate = n @ layer.gate.T
        x = x + (gate / (1 + np.exp(-gate)) * (n @ layer.up.T)) @ layer.down.T
    return _norm(x, double(params.norm), config.norm_eps) @ embedding.T


def logprobs(params, config, prompt, answers, gain=None):
    """log p(answer | prompt), every answer by a pass of its own."""
    rows = (logits(params, config, [*prompt, *answer], gain)[len(prompt) - 1 : -1] for answer in answers)
    pairs = zip(rows, answers, strict=True)
    return np.array([log_softmax(row, axis=1)[np.arange(len(answer)), answer].sum() for row, answer in pairs])


def greedy(params, config, prompt, count):
    """The most likely next tokens, each by a pass of its own."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(logits(params, config, tokens)[-1].argmax()))
    return tokens[len(prompt) :]


def _norm(x, weight, eps):
    return x / np.sqrt((x**2).mean(axis=1, keepdims=True) + eps) * weight


def _attend(layer, config, n, gain):
    d = config.head_dim
    q = n @ halves(layer.q, config.heads).T
    k = n @ halves(layer.k, config.kv_heads).T
    v = gain[:, None] * (n @ layer.v.T)
    angles = np.outer(np.arange(len(n)), config.rope_base ** (-2.0 * np.arange(d // 2) / d))
    rotation = np.cos(angles) + 1j * np.sin(angles)
    mixed = []
    for head in range(config.heads):
        shared = head // (config.heads // config.kv_heads)
        query, key = (_turn(part[:, at * d : (at + 1) * d], rotation) for part, at in ((q, head), (k, shared)))
        weights = np.tril(np.exp(query @ key.T / np.sqrt(d)))
        mixed.append(weights / weights.sum(axis=1, keepdims=True) @ v[:, shared * d : (shared + 1) * d])
    return np.concatenate(mixed, axis=1) @ layer.o.T


def _turn(x, rotation):
    half = x.shape[1] // 2
    turned = (x[:, :half] + 1j * x[:, half:]) * rotation
    return np.concatenate([turned.real, turned.imag], axis=1)
