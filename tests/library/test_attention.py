"""Linear and softmax attention: the papers' formulas against loops in NumPy, and what a
prediction reads of weights.
"""

import dense
import jax
import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refusals

from lsalib.attention import (
    LSAParams,
    effective,
    embed,
    from_effective,
    from_effective_softmax,
    from_lift,
    gram,
    init,
    lift,
    lsa,
    predict,
    reduced_softmax,
    softmax_attention,
    softmax_heads,
)

d, C, H = 3, 5, 2


def draw(*shapes, seed=0):
    """Random arrays in NumPy's float64: nothing about them is special."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


X, y, x_q, guess = draw((C, d), C, d, ())
LSA = LSAParams(*draw(*[(H, d + 1, d + 1)] * 4, seed=1))
# W_K, W_Q, W_V and W_O of a softmax layer, of two outputs
MATRICES = draw(*[(H, d + 1, d + 1)] * 3, (H, 2, d + 1), seed=2)


def softmax_layer(W_K, W_Q, W_V, W_O):
    A = np.swapaxes(W_K, 1, 2) @ W_Q / np.sqrt(d + 1)
    return from_effective_softmax(W_O @ W_V, A)


def softmax_by_loops(X, y, x_q, y_q, output=0):
    """Keys, queries and values one by one, the exponentials normalized by hand."""
    tokens, z_q = np.column_stack([X, y]), np.append(x_q, y_q)
    out = float(y_q)
    for W_K, W_Q, W_V, W_O in zip(*MATRICES, strict=True):
        scores = [np.exp((W_K @ z) @ (W_Q @ z_q) / np.sqrt(len(z_q))) for z in tokens]
        out += sum(
            score * (W_O @ (W_V @ z))[output]
            for score, z in zip(scores, tokens, strict=True)
        ) / sum(scores)
    return out


def test_lsa_to_the_letter_and_by_the_gram_matrix(x64):
    """Control for the mask: were the query a key too, one more token would agree."""
    literal = dense.predict(LSA, X, y, x_q, guess)
    for found in (
        lsa(LSA, embed(X, y, x_q, guess)),
        predict(LSA, gram(X, y), x_q, guess),
    ):
        assert_allclose(found, literal, rtol=1e-12)
    seen = dense.predict(LSA, np.vstack([X, x_q]), np.append(y, guess), x_q, guess)
    assert abs((seen - guess) * (C + 1) / C - (literal - guess)) > 1e-2


def test_lift_and_effective_weights_are_the_layer(x64):
    """Rebuilt from either, the layer predicts the same.

    Control: with A transposed it does not.
    """
    E = embed(X, y, x_q, guess)
    b, A = effective(LSA)
    M = lift(LSA)
    assert_allclose(M[1, 0], sum(b[h, 0] * A[h, :, 1] for h in range(H)), rtol=1e-12)
    for same in (from_effective(b, A), from_lift(M)):
        assert_allclose(lsa(same, E), lsa(LSA, E), rtol=1e-12)
    other = from_effective(b, jnp.swapaxes(A, 1, 2))
    assert abs(lsa(other, E) - lsa(LSA, E)) > 1e-2


def test_init_has_the_scale_that_it_is_given():
    weights = np.stack(init(jax.random.key(0), dim=19, heads=25, scale=0.3))
    # 40,000 entries: the standard deviation is known to 1 / sqrt(2 n).
    count = weights.size
    assert abs(weights.std() / 0.3 - 1) < 5 / (2 * count) ** 0.5
    assert abs(weights.mean()) < 5 * 0.3 / count**0.5
    of = lambda *scale: init(jax.random.key(0), d, H, *scale).W_K
    assert_array_equal(of(), of(0.1))


def test_softmax_attention_by_loops(x64):
    """One output, and the heads of several, whose labels are those of layers with one.

    Controls: the guess is read, and the query is not attended to.
    """
    *rest, W_O = MATRICES
    layer = softmax_layer(*rest, W_O[:, :1])
    found = float(softmax_attention(layer, X, y, x_q, guess))
    known, other = (softmax_by_loops(X, y, x_q, guess, k) for k in (0, 1))
    assert_allclose(found, known, rtol=1e-12)
    each = softmax_heads(
        softmax_layer(*MATRICES), np.column_stack([X, y]), np.append(x_q, guess)
    )
    assert_allclose(each.sum(0) + guess, [known, other])
    assert abs(each[0] - each[1]).min() > 1e-3
    assert abs(softmax_by_loops(X, y, x_q, 0.0) - found) > 1e-3
    seen = softmax_by_loops(np.vstack([X, x_q]), np.append(y, guess), x_q, guess)
    assert abs(seen - found) > 1e-3


def test_reduced_softmax_is_a_layer_of_two_numbers_a_head(x64):
    omega, mu = draw(H, H, seed=7)
    A = omega[:, None, None] * np.diag([1.0] * d + [0.0])
    b = mu[:, None, None] * np.eye(d + 1)[-1]
    softmax = from_effective_softmax(b, A)
    layer = softmax_attention(softmax, X, y, x_q)
    assert_allclose(reduced_softmax(omega, mu, X, y, x_q), layer, rtol=1e-12)


E = np.ones((d + 1, C + 1))
test_wrong_shapes_are_named = refusals(
    (
        r"b must have shape \(H, m, D\), got shape \(0, 1, 4\)",
        from_effective_softmax,
        np.ones((0, 1, 4)),
        LSA.W_K,
    ),
    (r"E must have shape \(4, C\+1\), got shape \(3, 6\)", lsa, LSA, E[1:]),
    (
        "context size, the columns of E less one, must be a whole number",
        lsa,
        LSA,
        E[:, :1],
    ),
)
