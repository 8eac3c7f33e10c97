"""The forward pass, its cache, its batches and its trees of answers, on a small random model, against plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sts_models_reference as reference
from refusals import refusals
from scipy.special import softmax
from sts_models_reference import TINY, tiny

from lsalib.sts.models import _answers as answers
from lsalib.sts.models import _llama as llama
from lsalib.sts.models import _reading as reading
from studies.experiments import looking

PARAMS = tiny()
PROMPTS = [[3], [5, 1, 7, 7, 2], np.random.default_rng(0).integers(0, 23, 40).tolist(), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]]
ANSWERS = [[4], [4, 9], [4, 9, 1], [4, 8], [2, 2, 2, 2], [4]]
TREE = answers.answer_tree(ANSWERS)

forward = jax.jit(llama.forward, static_argnums=1)
ours = jax.jit(
    lambda params, tokens: llama.logits(params, llama.forward(params, TINY, params.embedding[tokens]).hidden)
)


def generate(prompts, count, end=-1, **options):
    read = lambda prompt: reading.read(PARAMS, TINY, prompt, count)
    return [reading.generate(PARAMS, TINY, read(one), end=end, max_new_tokens=count, **options) for one in prompts]


def score(prompts, tree):
    room = tree.used.shape[1]
    return np.array([answers.score(PARAMS, TINY, reading.read(PARAMS, TINY, one, room), tree) for one in prompts])


@pytest.mark.parametrize("seed", [0, 1])
def test_logits_are_those_of_plain_numpy(seed):
    params, layers = tiny(seed), tiny(seed).layers
    for prompt in map(np.array, PROMPTS[1:3]):
        expected = reference.logits(params, TINY, prompt)
        np.testing.assert_allclose(ours(params, prompt), expected, atol=2e-4)
    # Control: the same weights with W_q and W_k in the other order are another model.
    turned = lambda stack, heads: np.stack([reference.halves(leaf, heads) for leaf in np.asarray(stack)])
    other = params._replace(layers=layers._replace(q=turned(layers.q, 4), k=turned(layers.k, 2)))
    assert np.abs(ours(other, prompt) - expected).max() > 1e-2


def test_a_prompt_in_pieces_is_the_whole_prompt():
    """With the cache of the first part; one position off, or without the first token, is another result."""
    x, cut = np.asarray(PARAMS.embedding)[np.array(PROMPTS[2])], 25
    past, rest, whole = forward(PARAMS, TINY, x[:cut]).cache, len(x) - cut, np.asarray(forward(PARAMS, TINY, x).hidden)
    mask = np.tri(rest, len(x), cut, dtype=bool)
    piece = lambda start, mask: forward(PARAMS, TINY, x[cut:], start + np.arange(rest), mask, past).hidden
    for same in (piece(cut, mask), forward(PARAMS, TINY, x[cut:], past=past).hidden):
        np.testing.assert_allclose(same, whole[cut:], atol=1e-5)
    for other in (piece(cut + 1, mask), piece(cut, mask & (np.arange(len(x)) > 0))):
        assert np.abs(other - whole[cut:]).max() > 1e-3


def test_greedy_answers_are_those_without_a_cache():
    expected = [reference.greedy(PARAMS, TINY, prompt, 19) for prompt in PROMPTS]
    assert generate(PROMPTS, 19) == expected
    assert len({tuple(answer) for answer in expected}) > 1  # the prompts matter


def test_answers_end_where_they_should():
    full = generate(PROMPTS, 24)
    end = full[0][3]
    assert generate(PROMPTS, 24, end) == [answer[: answer.index(end)] if end in answer else answer for answer in full]
    assert generate(PROMPTS, 17) == [answer[:17] for answer in full]
    assert generate(PROMPTS, 24, finished=lambda tokens: True) == [answer[: reading.RUN] for answer in full]


def test_logprobs_of_answers_are_those_of_whole_sequences():
    """In one tree, against a pass for each answer."""
    expected = np.array([reference.logprobs(PARAMS, TINY, prompt, ANSWERS) for prompt in PROMPTS])
    np.testing.assert_allclose(score(PROMPTS, TREE), expected, atol=1e-4)
    # Controls: answers that see each other, and answers one place too late.
    everyone, later = np.tril(np.ones_like(TREE.ancestors)), TREE.depth + (TREE.depth > 0)
    for broken in (TREE._replace(ancestors=everyone), TREE._replace(depth=later)):
        assert np.abs(score(PROMPTS, broken) - expected).max() > 1e-3


def test_padding_is_never_seen():
    """Whatever stands to the right of a prompt, its answers stay, and its last token does not look there."""
    assert [reading.bucket(n) for n in (1, 33, 65, 700, 1025)] == [32, 64, 128, 768, 1536]
    x, values = np.asarray(PARAMS.embedding)[np.array(PROMPTS[3])], np.arange(6, dtype=np.float32)
    alone = forward(PARAMS, TINY, x).weights[:, :, -1]
    expected = softmax(reference.logprobs(PARAMS, TINY, PROMPTS[3], ANSWERS)) @ values
    for filling in (0, 5):
        padded = np.pad(np.int32(PROMPTS[3]), (0, 22), constant_values=filling)
        score, _, attention = map(np.asarray, looking._inside(PARAMS, TINY, padded, 10, TREE, values))
        np.testing.assert_allclose(score, expected, atol=1e-4)
        np.testing.assert_allclose(attention[..., :10], alone, atol=1e-6)
        np.testing.assert_allclose(attention.sum(axis=-1), 1, rtol=1e-5)
        assert (attention[..., 10:] == 0).all()
    assert abs(looking._inside(PARAMS, TINY, padded, 11, TREE, values)[0] - expected) > 1e-3


test_bad_input_is_refused = refusals(
    (lambda: generate([[1], []], 1), r"prompt must have 1 to 255 tokens .* got 0"),
    (lambda: score([[1] * 253], TREE), r"prompt must have 1 to 252 tokens .* got 253"),
    (lambda: answers.answer_tree([]), "answers must be at least one answer"),
    (lambda: answers.answer_tree([[1], []]), "answers must be at least one answer of at least one token"),
    (lambda: llama.forward(PARAMS, TINY, jnp.ones((3, 15))), r"x must have shape \(T, 16\), got shape \(3, 15\)"),
)
