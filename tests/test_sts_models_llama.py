"""The forward pass, its cache, its batches and its trees of answers, on a small random model, against plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sts_models_reference as reference
from sts_models_reference import TINY, tiny

from lsalib.sts.models import answers, batching, generation, inside, llama

PROMPTS = [[3], [5, 1, 7, 7, 2], np.random.default_rng(0).integers(0, 23, 40).tolist(), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]]
ANSWERS = [[4], [4, 9], [4, 9, 1], [4, 8], [2, 2, 2, 2], [4]]

forward = jax.jit(llama.forward, static_argnums=1)
read = jax.jit(llama.read, static_argnums=1)
answer_logprobs = jax.jit(answers.answer_logprobs, static_argnums=1)


def embed(params, tokens):
    return llama.embed(params, jnp.asarray(np.asarray(tokens, np.int32)))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_logits_are_those_of_plain_numpy(seed):
    params = tiny(seed)
    for prompt in PROMPTS[1:3]:
        got = inside.next_token_logits(params, TINY, embed(params, prompt))
        np.testing.assert_allclose(got, reference.logits(params, TINY, prompt), atol=2e-4)


def test_the_order_of_the_rotated_rows_matters():
    """Control: the same weights with W_q and W_k in the other order are another model."""
    params, prompt = tiny(), PROMPTS[1]
    q, k = (
        np.stack([reference.halves(w, h) for w in np.asarray(stack)])
        for stack, h in ((params.layers.q, 4), (params.layers.k, 2))
    )
    other = params._replace(layers=params.layers._replace(q=q, k=k))
    got = inside.next_token_logits(other, TINY, embed(params, prompt))
    assert np.abs(got - reference.logits(params, TINY, prompt)).max() > 1e-2


def test_a_prompt_in_pieces_is_the_whole_prompt():
    """With the cache of the first part, at the right positions; one position off is another result."""
    params, prompt = tiny(), PROMPTS[2]
    x, cut = np.asarray(embed(params, prompt)), 25
    whole = np.asarray(read(params, TINY, x).hidden)
    past = read(params, TINY, x[:cut]).cache
    rest = len(prompt) - cut
    mask = np.tri(rest, len(prompt), cut, dtype=bool)
    piece = lambda start, mask: forward(params, TINY, x[cut:], start + np.arange(rest), mask, past).hidden
    np.testing.assert_allclose(piece(cut, mask), whole[cut:], atol=1e-5)
    assert np.abs(piece(cut + 1, mask) - whole[cut:]).max() > 1e-3
    assert np.abs(piece(cut, mask & (np.arange(len(prompt)) > 0)) - whole[cut:]).max() > 1e-3


def test_only_differences_of_positions_matter():
    params, x = tiny(), embed(tiny(), PROMPTS[3])
    at = lambda positions: np.asarray(
        forward(params, TINY, x, positions, llama.causal_mask(len(x)), llama.empty_cache(TINY)).hidden
    )
    np.testing.assert_allclose(at(np.arange(10) + 100), at(np.arange(10)), atol=1e-4)
    assert np.abs(at(np.arange(10) * 2) - at(np.arange(10))).max() > 1e-3


def test_no_token_sees_a_later_one():
    """Changing a token changes nothing before it; without the causal mask it does."""
    params, x = tiny(), np.asarray(embed(tiny(), PROMPTS[3]))
    changed = x + np.float32(np.arange(10) == 6)[:, None]
    run = lambda x, mask: np.asarray(forward(params, TINY, x, np.arange(10), mask, llama.empty_cache(TINY)).hidden)
    difference = lambda mask: np.abs(run(x, mask) - run(changed, mask)).max(axis=1)
    assert (difference(llama.causal_mask(10))[:6] == 0).all()
    assert (difference(llama.causal_mask(10))[6:] > 1e-3).all()
    assert (difference(np.ones((10, 10), bool))[:6] > 1e-4).all()


def test_greedy_answers_are_those_without_a_cache():
    params = tiny()
    expected = [reference.greedy(params, TINY, prompt, 19) for prompt in PROMPTS]
    assert generation.generate(params, TINY, PROMPTS, end=-1, max_new_tokens=19) == expected
    alone = [generation.generate(params, TINY, [prompt], end=-1, max_new_tokens=19)[0] for prompt in PROMPTS]
    assert alone == expected
    assert len({tuple(answer) for answer in expected}) > 1  # the prompts matter


def test_answers_end_where_they_should():
    params = tiny()
    full = generation.generate(params, TINY, PROMPTS, end=-1, max_new_tokens=24)
    end = full[0][3]
    until = lambda answer: answer[: answer.index(end)] if end in answer else answer
    assert generation.generate(params, TINY, PROMPTS, end=end, max_new_tokens=24) == [until(answer) for answer in full]
    for count in (17, 23):
        assert generation.generate(params, TINY, PROMPTS, end=-1, max_new_tokens=count) == [
            answer[:count] for answer in full
        ]
    assert generation.generate(params, TINY, PROMPTS[:1], end=-1, max_new_tokens=1) == [full[0][:1]]
    early = generation.generate(params, TINY, PROMPTS, end=-1, max_new_tokens=24, finished=lambda tokens: True)
    assert early == [answer[: generation.RUN] for answer in full]


def test_logprobs_of_answers_are_those_of_whole_sequences():
    """In one tree and one batch, against a pass for each answer to each prompt."""
    params = tiny()
    expected = np.array([reference.logprobs(params, TINY, prompt, ANSWERS) for prompt in PROMPTS])
    tree = answers.answer_tree(ANSWERS)
    np.testing.assert_allclose(answers.score(params, TINY, PROMPTS, tree), expected, atol=1e-4)
    for prompt, row in zip(PROMPTS, expected, strict=True):
        np.testing.assert_allclose(answers.score(params, TINY, [prompt], tree)[0], row, atol=1e-4)


def test_a_tree_in_which_answers_see_each_other_is_wrong():
    """Control: with every node an ancestor of every later one the log-probabilities are others."""
    params, tree = tiny(), answers.answer_tree(ANSWERS)
    expected = answers.score(params, TINY, PROMPTS, tree)
    for broken in (
        tree._replace(ancestors=np.tril(np.ones_like(tree.ancestors))),
        tree._replace(depth=tree.depth + (tree.depth > 0)),
    ):
        assert np.abs(answers.score(params, TINY, PROMPTS, broken) - expected).max() > 1e-3


def test_padding_is_never_seen():
    """Whatever stands to the right of a prompt, its answers stay."""
    params, tree, x = tiny(), answers.answer_tree(ANSWERS), np.asarray(embed(tiny(), PROMPTS[3]))
    padded = lambda filling, length=10: answer_logprobs(
        params, TINY, np.pad(x, ((0, 22), (0, 0)), constant_values=filling), length, tree
    )
    plain = np.asarray(answer_logprobs(params, TINY, x, 10, tree))
    for filling in (0, 5):
        np.testing.assert_allclose(padded(filling), plain, atol=1e-5)
    assert np.abs(padded(0, length=11) - plain).max() > 1e-3


def test_answers_of_one_token_share_out_all_probability():
    params = tiny()
    everything = answers.score(params, TINY, PROMPTS, answers.answer_tree([[token] for token in range(TINY.vocab)]))
    np.testing.assert_allclose(np.exp(everything).sum(axis=1), 1, rtol=1e-5)


def test_attention_weights():
    params, x = tiny(), embed(tiny(), PROMPTS[3])
    whole = np.asarray(inside.attention_weights(params, TINY, x, queries=10))
    assert whole.shape == (2, 4, 10, 10)
    np.testing.assert_allclose(whole.sum(axis=-1), 1, rtol=1e-5)
    assert (np.triu(whole, 1) == 0).all()
    np.testing.assert_allclose(inside.attention_weights(params, TINY, x), whole[:, :, -1:], atol=1e-6)


def test_gradient_of_the_expected_score(x64):
    """Against central differences, in two directions; the value against its definition."""
    params, tree, values = tiny(), answers.answer_tree([[4], [4, 9], [2]]), np.array([0.0, 2.5, 5.0])
    x = np.asarray(embed(params, PROMPTS[1]))
    value_and_gradient = jax.jit(
        jax.value_and_grad(lambda x: inside.expected_score(params, TINY, x, tree, jnp.asarray(values)))
    )
    f = lambda x: np.asarray(value_and_gradient(x)[0])
    weights = np.exp(reference.logprobs(params, TINY, PROMPTS[1], [[4], [4, 9], [2]]))
    np.testing.assert_allclose(f(x), weights @ values / weights.sum(), rtol=1e-5)
    gradient = np.asarray(value_and_gradient(x)[1])
    for seed in (0, 1):
        direction = np.random.default_rng(seed).standard_normal(x.shape)
        h = 1e-4
        slope = (f(x + h * direction) - f(x - h * direction)) / (2 * h)
        np.testing.assert_allclose((gradient * direction).sum(), slope, rtol=1e-4, atol=1e-6)
        assert abs((gradient * direction).sum() + slope) > 1e-4


REFUSED = {
    "empty prompt": (
        lambda: generation.generate(tiny(), TINY, [[1], []], end=0, max_new_tokens=1),
        r"prompts\[1\] must have 1 to 255 tokens .* got 0",
    ),
    "long prompt": (
        lambda: answers.score(tiny(), TINY, [[1] * 255], answers.answer_tree([[1, 2]])),
        r"prompts\[0\] must have 1 to 254 tokens .* got 255",
    ),
    "no prompts": (lambda: batching.pad(TINY, [], 1), "the number of prompts must be"),
    "max_new_tokens": (
        lambda: generation.generate(tiny(), TINY, [[1]], end=0, max_new_tokens=0),
        "max_new_tokens must be a whole number",
    ),
    "no answers": (lambda: answers.answer_tree([]), "answers must be at least one answer"),
    "empty answer": (
        lambda: answers.answer_tree([[1], []]),
        "answers must be at least one answer of at least one token",
    ),
    "queries": (
        lambda: inside.attention_weights(tiny(), TINY, jnp.ones((3, 16)), queries=4),
        "queries must be at most the number of tokens, 3, got 4",
    ),
    "values": (
        lambda: inside.expected_score(tiny(), TINY, jnp.ones((3, 16)), answers.answer_tree([[1]]), jnp.ones(2)),
        r"values must have shape \(1,\)",
    ),
    "bucket": (lambda: batching.bucket(0), "length must be a whole number"),
    "x": (lambda: llama.read(tiny(), TINY, jnp.ones((3, 15))), r"x must have shape \(T, 16\), got shape \(3, 15\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused(case, unchecked):
    call, words = REFUSED[case]
    with pytest.raises(ValueError, match=words):
        call()
