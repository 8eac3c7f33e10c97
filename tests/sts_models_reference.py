"""An independent derivation of a Llama's logits: NumPy, float64, no cache, one head at a time.

Halves are rotated as Hugging Face does: there the rows of W_q and W_k have the other order,
so a mistake in either order shows.
"""

import numpy as np
from scipy.special import log_softmax

from lsalib.sts import _llama as llama

TINY = llama.Config(heads=4, kv_heads=2, rope_base=1e4, norm_eps=1e-5, context=256)
L, DIM, HIDDEN, VOCAB, KV = 2, 16, 24, 23, 8


def tiny(seed=0):
    """Random weights, drawn without compiling: norms of one, normal matrices."""
    rng = np.random.default_rng(seed)
    shapes = {"attn_q": (DIM, DIM), "attn_k": (KV, DIM), "attn_v": (KV, DIM), "attn_output": (DIM, DIM)}
    shapes |= {"ffn_gate": (HIDDEN, DIM), "ffn_up": (HIDDEN, DIM), "ffn_down": (DIM, HIDDEN)}
    draw = lambda *shape: (0.3 * rng.standard_normal(shape)).astype(np.float32)
    layers = {name: draw(L, *shape) for name, shape in shapes.items()}
    layers |= dict.fromkeys(("attn_norm", "ffn_norm"), np.ones((L, DIM), np.float32))
    return llama.Params(draw(VOCAB, DIM), np.ones(DIM, np.float32), layers)


def halves(weight, heads):
    """Rows (2i, 2i+1) of each head to (i, i + head_dim/2)."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def logits(params, config, tokens):
    """Logits (T, vocab) of the next token after each token."""
    embedding = np.asarray(params.embedding, np.float64)
    x = embedding[np.asarray(tokens)]
    for i in range(len(params.layers["attn_q"])):
        layer = {name: np.asarray(leaf[i], np.float64) for name, leaf in params.layers.items()}
        x = x + _attend(layer, config, _norm(x, layer["attn_norm"], config.norm_eps))
        n = _norm(x, layer["ffn_norm"], config.norm_eps)
        gate = n @ layer["ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (n @ layer["ffn_up"].T)) @ layer["ffn_down"].T
    return _norm(x, np.asarray(params.norm, np.float64), config.norm_eps) @ embedding.T


def logprobs(params, config, prompt, answers):
    """log p(answer | prompt), every answer by a pass of its own."""
    rows = (logits(params, config, [*prompt, *answer])[len(prompt) - 1 : -1] for answer in answers)
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


def _attend(layer, config, n):
    d = layer["attn_q"].shape[0] // config.heads
    q = n @ halves(layer["attn_q"], config.heads).T
    k = n @ halves(layer["attn_k"], config.kv_heads).T
    v = n @ layer["attn_v"].T
    angles = np.outer(np.arange(len(n)), config.rope_base ** (-2.0 * np.arange(d // 2) / d))
    rotation = np.cos(angles) + 1j * np.sin(angles)
    mixed = []
    for head in range(config.heads):
        shared = head // (config.heads // config.kv_heads)
        query, key = (_turn(part[:, at * d : (at + 1) * d], rotation) for part, at in ((q, head), (k, shared)))
        weights = np.tril(np.exp(query @ key.T / np.sqrt(d)))
        mixed.append(weights / weights.sum(axis=1, keepdims=True) @ v[:, shared * d : (shared + 1) * d])
    return np.concatenate(mixed, axis=1) @ layer["attn_output"].T


def _turn(x, rotation):
    half = x.shape[1] // 2
    turned = (x[:, :half] + 1j * x[:, half:]) * rotation
    return np.concatenate([turned.real, turned.imag], axis=1)
