"""The forward pass, its cache, its batches and its trees of answers, on a small random model, against plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sts_models_reference as reference
from refusals import refusals
from sts_models_reference import TINY, tiny

from lsalib.sts.models import answers, batching, generation, inside, llama

PARAMS = tiny()
PROMPTS = [[3], [5, 1, 7, 7, 2], np.random.default_rng(0).integers(0, 23, 40).tolist(), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]]
ANSWERS = [[4], [4, 9], [4, 9, 1], [4, 8], [2, 2, 2, 2], [4]]
TREE = answers.answer_tree(ANSWERS)

forward = jax.jit(llama.forward, static_argnums=1)
read = jax.jit(llama.read, static_argnums=1)
answer_logprobs = jax.jit(answers.answer_logprobs, static_argnums=1)


def embed(params, tokens):
    return llama.embed(params, jnp.asarray(np.asarray(tokens, np.int32)))


def run(x, positions, mask):
    return np.asarray(forward(PARAMS, TINY, x, positions, mask, llama.empty_cache(TINY)).hidden)


def generate(prompts, count, end=-1, **options):
    return generation.generate(PARAMS, TINY, prompts, end=end, max_new_tokens=count, **options)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_logits_are_those_of_plain_numpy(seed):
    params = tiny(seed)
    for prompt in PROMPTS[1:3]:
        got = inside.next_token_logits(params, TINY, embed(params, prompt))
        np.testing.assert_allclose(got, reference.logits(params, TINY, prompt), atol=2e-4)


def test_the_order_of_the_rotated_rows_matters():
    """Control: the same weights with W_q and W_k in the other order are another model."""
    layers = PARAMS.layers
    q, k = (
        np.stack([reference.halves(w, h) for w in np.asarray(stack)]) for stack, h in ((layers.q, 4), (layers.k, 2))
    )
    other = PARAMS._replace(layers=layers._replace(q=q, k=k))
    got = inside.next_token_logits(other, TINY, embed(PARAMS, PROMPTS[1]))
    assert np.abs(got - reference.logits(PARAMS, TINY, PROMPTS[1])).max() > 1e-2


def test_a_prompt_in_pieces_is_the_whole_prompt():
    """With the cache of the first part, at the right positions; one position off is another result."""
    x, cut = np.asarray(embed(PARAMS, PROMPTS[2])), 25
    whole = np.asarray(read(PARAMS, TINY, x).hidden)
    past = read(PARAMS, TINY, x[:cut]).cache
    rest = len(x) - cut
    mask = np.tri(rest, len(x), cut, dtype=bool)
    piece = lambda start, mask: forward(PARAMS, TINY, x[cut:], start + np.arange(rest), mask, past).hidden
    np.testing.assert_allclose(piece(cut, mask), whole[cut:], atol=1e-5)
    assert np.abs(piece(cut + 1, mask) - whole[cut:]).max() > 1e-3
    assert np.abs(piece(cut, mask & (np.arange(len(x)) > 0)) - whole[cut:]).max() > 1e-3


def test_only_differences_of_positions_matter():
    x = embed(PARAMS, PROMPTS[3])
    at = lambda positions: run(x, positions, llama.causal_mask(10))
    np.testing.assert_allclose(at(np.arange(10) + 100), at(np.arange(10)), atol=1e-4)
    assert np.abs(at(np.arange(10) * 2) - at(np.arange(10))).max() > 1e-3


def test_no_token_sees_a_later_one():
    """Changing a token changes nothing before it; without the causal mask it does."""
    x = np.asarray(embed(PARAMS, PROMPTS[3]))
    changed = x + np.float32(np.arange(10) == 6)[:, None]
    difference = lambda mask: np.abs(run(x, np.arange(10), mask) - run(changed, np.arange(10), mask)).max(axis=1)
    causal = difference(llama.causal_mask(10))
    assert (causal[:6] == 0).all() and (causal[6:] > 1e-3).all()
    assert (difference(np.ones((10, 10), bool))[:6] > 1e-4).all()


def test_greedy_answers_are_those_without_a_cache():
    expected = [reference.greedy(PARAMS, TINY, prompt, 19) for prompt in PROMPTS]
    assert generate(PROMPTS, 19) == expected
    assert [generate([prompt], 19)[0] for prompt in PROMPTS] == expected
    assert len({tuple(answer) for answer in expected}) > 1  # the prompts matter


def test_answers_end_where_they_should():
    full = generate(PROMPTS, 24)
    end = full[0][3]
    assert generate(PROMPTS, 24, end) == [answer[: answer.index(end)] if end in answer else answer for answer in full]
    for count in (17, 23):
        assert generate(PROMPTS, count) == [answer[:count] for answer in full]
    assert generate(PROMPTS[:1], 1) == [full[0][:1]]
    assert generate(PROMPTS, 24, finished=lambda tokens: True) == [answer[: generation.RUN] for answer in full]


def test_logprobs_of_answers_are_those_of_whole_sequences():
    """In one tree, in one batch and alone, against a pass for each answer to each prompt."""
    expected = np.array([reference.logprobs(PARAMS, TINY, prompt, ANSWERS) for prompt in PROMPTS])
    np.testing.assert_allclose(answers.score(PARAMS, TINY, PROMPTS, TREE), expected, atol=1e-4)
    for prompt, row in zip(PROMPTS, expected, strict=True):
        np.testing.assert_allclose(answers.score(PARAMS, TINY, [prompt], TREE)[0], row, atol=1e-4)
    # Controls: answers that see each other, and answers one place too late.
    everyone, later = np.tril(np.ones_like(TREE.ancestors)), TREE.depth + (TREE.depth > 0)
    for broken in (TREE._replace(ancestors=everyone), TREE._replace(depth=later)):
        assert np.abs(answers.score(PARAMS, TINY, PROMPTS, broken) - expected).max() > 1e-3


def test_padding_is_never_seen():
    """Whatever stands to the right of a prompt, its answers stay."""
    x = np.asarray(embed(PARAMS, PROMPTS[3]))
    padded = lambda filling: np.pad(x, ((0, 22), (0, 0)), constant_values=filling)
    plain = np.asarray(answer_logprobs(PARAMS, TINY, x, 10, TREE))
    for filling in (0, 5):
        np.testing.assert_allclose(answer_logprobs(PARAMS, TINY, padded(filling), 10, TREE), plain, atol=1e-5)
    assert np.abs(answer_logprobs(PARAMS, TINY, padded(0), 11, TREE) - plain).max() > 1e-3


def test_answers_of_one_token_share_out_all_probability():
    everything = answers.score(PARAMS, TINY, PROMPTS, answers.answer_tree([[token] for token in range(TINY.vocab)]))
    np.testing.assert_allclose(np.exp(everything).sum(axis=1), 1, rtol=1e-5)


def test_attention_weights():
    x = embed(PARAMS, PROMPTS[3])
    whole = np.asarray(inside.attention_weights(PARAMS, TINY, x, queries=10))
    assert whole.shape == (2, 4, 10, 10)
    np.testing.assert_allclose(whole.sum(axis=-1), 1, rtol=1e-5)
    assert (np.triu(whole, 1) == 0).all()
    np.testing.assert_allclose(inside.attention_weights(PARAMS, TINY, x), whole[:, :, -1:], atol=1e-6)


def test_gradient_of_the_expected_score(x64):
    """Against central differences, in two directions; the value against its definition."""
    params, tree, values = tiny(), answers.answer_tree([[4], [4, 9], [2]]), np.array([0.0, 2.5, 5.0])
    x, h = np.asarray(embed(params, PROMPTS[1])), 1e-4
    score = lambda x: inside.expected_score(params, TINY, x, tree, jnp.asarray(values))
    value_and_gradient = jax.jit(jax.value_and_grad(score))
    f = lambda x: np.asarray(value_and_gradient(x)[0])
    weights = np.exp(reference.logprobs(params, TINY, PROMPTS[1], [[4], [4, 9], [2]]))
    np.testing.assert_allclose(f(x), weights @ values / weights.sum(), rtol=1e-5)
    for seed in (0, 1):
        direction = np.random.default_rng(seed).standard_normal(x.shape)
        slope = (f(x + h * direction) - f(x - h * direction)) / (2 * h)
        along = (np.asarray(value_and_gradient(x)[1]) * direction).sum()
        np.testing.assert_allclose(along, slope, rtol=1e-4, atol=1e-6)
        assert abs(along + slope) > 1e-4


x_of = lambda width: jnp.ones((3, width))
test_bad_input_is_refused = refusals(
    (lambda: generate([[1], []], 1), r"prompts\[1\] must have 1 to 255 tokens .* got 0"),
    (lambda: generate([[1]], 0), "max_new_tokens must be a whole number"),
    (lambda: answers.score(PARAMS, TINY, [[1] * 253], TREE), r"prompts\[0\] must have 1 to 252 tokens .* got 253"),
    (lambda: batching.pad(TINY, [], 1), "the number of prompts must be"),
    (lambda: batching.bucket(0), "length must be a whole number"),
    (lambda: answers.answer_tree([]), "answers must be at least one answer"),
    (lambda: answers.answer_tree([[1], []]), "answers must be at least one answer of at least one token"),
    (
        lambda: inside.attention_weights(PARAMS, TINY, x_of(16), queries=4),
        "queries must be at most .* tokens, 3, got 4",
    ),
    (lambda: inside.expected_score(PARAMS, TINY, x_of(16), TREE, jnp.ones(2)), r"values must have shape \(6,\)"),
    (lambda: llama.read(PARAMS, TINY, x_of(15)), r"x must have shape \(T, 16\), got shape \(3, 15\)"),
)
